"""Scalars of YAML as the values they stand for: YAML 1.1, as Kubernetes reads it."""

from typing import Any, Final

import yaml

from .yaml_nodes import TextScalar

Value = str | int | float | bool | None

STRING: Final = "str"
MERGE: Final = "merge"

# Typed loosely: its stub has no annotations.
_RESOLVER: Final[Any] = yaml.resolver.Resolver()
_CONSTRUCTOR: Final = yaml.constructor.SafeConstructor()
_TAG: Final = "tag:yaml.org,2002:"


class ScalarError(ValueError):
    """A scalar is not what its own text or tag says."""


def kind_of(scalar: TextScalar) -> str:
    """The tag of a scalar, without the prefix of YAML's own: `int`, `null`, `str`, `!mine`.

    That of plain text is found by its form.
    """
    if scalar.tag is not None and scalar.tag != "!":
        return scalar.tag.removeprefix(_TAG)
    if not scalar.is_plain:
        return STRING
    return str(_RESOLVER.resolve(yaml.ScalarNode, scalar.value, (True, False))).removeprefix(_TAG)


def scalar_value(scalar: TextScalar) -> Value:
    """The value a scalar stands for; dates stay text. Raises `ScalarError`."""
    kind = kind_of(scalar)
    node = yaml.ScalarNode(_TAG + kind, scalar.value)
    try:
        match kind:
            case "null":
                return None
            case "bool":
                return bool(_CONSTRUCTOR.construct_yaml_bool(node))
            case "int":
                return int(_CONSTRUCTOR.construct_yaml_int(node))
            case "float":
                return float(_CONSTRUCTOR.construct_yaml_float(node))
            case "str" | "timestamp" | "value" | "merge":
                return scalar.value
            case _:
                raise ScalarError(f"tag {scalar.tag!r} is not accepted — leave it out")
    except (ValueError, KeyError, IndexError) as error:
        if isinstance(error, ScalarError):
            raise
        # "0x" followed by "_" alone, and digits beyond what int() takes.
        text = f"{scalar.value[:40]!r} cannot be read — put it in quotes"
        raise ScalarError(text) from error
