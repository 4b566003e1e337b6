"""Log lines as `key=value` pairs, safe against whatever strangers call their pods."""

import json
import re
from typing import Final

from ...policy.model.container import Container
from ...policy.model.decision import Pinning

_PLAIN: Final = re.compile(r"[\w./:#,+@%*-]+", re.ASCII)
_VALUE_MAX: Final = 1000
"""Characters of a value; of what strangers wrote no more than that gets into a line."""


def fields(**values: object) -> str:
    """`key=value` pairs; values with other than plain characters are quoted as in JSON.

    >>> fields(pool="NUMA node #0", cpus="0-3")
    'pool="NUMA node #0" cpus=0-3'
    """
    return " ".join(f"{key}={_quoted(_cut(str(value)))}" for key, value in values.items())


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return _escaped(json.dumps(text, ensure_ascii=False))


def line(text: str) -> str:
    """A text as part of one line, cut where it is long."""
    return _escaped(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_MAX else text[: _VALUE_MAX - 1] + "…"


def _escaped(text: str) -> str:
    """What could end a line, or steer the terminal of who reads it, as JSON would write it."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def name_fields(container: Container) -> dict[str, str]:
    """Pod, name and id of a container."""
    return {
        "pod": f"{container.pod.namespace}/{container.pod.name}",
        "container": container.name,
        "id": container.id,
    }


def pin_fields(pinning: Pinning) -> dict[str, str]:
    """Cpus and memory nodes of a pinning, "-" for what is left alone."""
    return {
        "cpus": "-" if pinning.cpus is None else str(pinning.cpus),
        "mems": "-" if pinning.mems is None else str(pinning.mems),
    }
