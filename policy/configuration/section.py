"""Sections of the configuration: mappings of fields whose names are strict."""

from typing import Final

import msgspec

_ACRONYMS: Final = {"cpu": "CPU", "cpus": "CPUs", "api": "API", "qos": "QoS", "id": "ID"}


def yaml_name(attribute: str) -> str:
    """The name in YAML of an attribute.

    >>> yaml_name("prefer_isolated_cpus")
    'preferIsolatedCPUs'
    """
    first, *rest = attribute.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


class Section(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=yaml_name
):
    """A mapping of the configuration; unknown fields are errors."""
