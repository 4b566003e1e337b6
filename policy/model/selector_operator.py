"""Operators of selectors over labels of containers and of pools, and the values they take."""

import enum
import re
from collections.abc import Sequence
from typing import Final

from ...topology.sets.base_errors import quoted

PSEUDO_LABEL_NAMES: Final = ("container.name", "pod.name", "pod.qos", "pod.uid")
"""What selectors may ask of a container beside the labels of its pod."""


class LabelOperator(enum.Enum):
    """Operators of label selectors; `Gt` and `Lt` are for pools alone."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


class PoolOperator(enum.Enum):
    """Operators of terms over the labels of pools."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,19}", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)


def parse_int64(text: str) -> int | None:
    """The base 10 integer of 64 bits that a text is; None for any other text.

    >>> parse_int64("-12"), parse_int64("1.5"), parse_int64("9223372036854775808")
    (-12, None, None)
    """
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def values_fault(
    operator: LabelOperator | PoolOperator, values: Sequence[str]
) -> tuple[str, str] | None:
    """The fault of an operator's values, and how to fix it; None where they are right.

    >>> values_fault(LabelOperator.EXISTS, ["web"])
    ('Exists takes no values, not 1', "leave 'values' out")
    """
    name, count = operator.value, len(values)
    match operator.value:
        case "In" | "NotIn" if not count:
            return f"{name} without values", "write values: [a, b]"
        case "Exists" | "DoesNotExist" if count:
            return f"{name} takes no values, not {count}", "leave 'values' out"
        case "Gt" | "Lt" if count != 1:
            first = [one for one in values if parse_int64(one) is not None] or ["32"]
            return f"{name} takes one value, not {count}", f'write values: ["{first[0]}"]'
        case "Gt" | "Lt" if parse_int64(values[0]) is None:
            return f"{quoted(values[0])} is no whole number", 'write one, as in values: ["32"]'
        case _:
            return None
