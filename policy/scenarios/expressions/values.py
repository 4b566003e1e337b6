"""Values of the evaluator's language: sets of names, numbers, texts, and collections of these.

A function here may raise `TypeError`; the evaluator adds the position.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

_Many: TypeAlias = "list[Value] | tuple[Value, ...] | frozenset[Value] | Mapping[Any, Value]"
Value: TypeAlias = "str | int | _Many | Record | None"
Function: TypeAlias = Callable[..., Value]


class Record(Struct, frozen=True):
    """A value with named attributes, such as `best_pool.name`."""

    fields: "Mapping[str, Value]"


class Keys(frozenset[Any]):
    """The keys of a mapping: a set, but listed in the order of the mapping, as its values are."""

    in_order: "tuple[Value, ...]"

    @classmethod
    def of(cls, mapping: "Mapping[Any, Value]") -> "Keys":
        """The keys of a mapping."""
        keys = cls(mapping)
        keys.in_order = tuple(mapping)
        return keys


def kind_of(value: Value) -> str:
    """The kind of a value, in the words of errors and tables."""
    match value:
        case None:
            return "nothing"
        case int():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case tuple():
            return "tuple"
        case frozenset():
            return "set"
        case Record():
            return "record"
        case _:
            return "mapping"


def brief(value: Value) -> str:
    """The value as errors show it: collections only by their kind and size."""
    match value:
        case None | int() | str():
            text = repr(value)
            return text if len(text) <= 60 else f"{text[:60]}…"
        case Record():
            return "a record"
        case _:
            return f"a {kind_of(value)} of {len(value)}"


def describe(value: Value) -> str:
    """The value as text, sets in a fixed order; as long as all that is inside it."""
    match value:
        case frozenset():
            inner = ", ".join(sorted(map(describe, value)))
            return "{" + inner + "}" if inner else "set()"
        case list():
            return "[" + ", ".join(map(describe, value)) + "]"
        case tuple():
            return "(" + "".join(f"{describe(one)}, " for one in value).rstrip() + ")"
        case None | int() | str():
            return repr(value)
        case _:
            return brief(value)


def elements(value: Value) -> list[Value]:
    """The elements of a collection, those of sets sorted. Raises `TypeError` for other values."""
    match value:
        case Keys():
            return [*value.in_order]
        case frozenset():
            return sorted(value, key=value_order)
        case list() | tuple():
            return [*value]
        case Mapping():
            return [*value]
        case _:
            raise TypeError(f"{brief(value)} is not a collection")


def part_of(value: Value, bounds: Sequence[Value]) -> Value:
    """The part of a list, tuple or text from one bound to another. Raises `TypeError` otherwise."""
    numbers = [one for one in bounds if one is None or isinstance(one, int)]
    if len(numbers) == len(bounds) and isinstance(value, list | tuple | str):
        first, end, step = numbers
        return value[first:end:step]
    raise TypeError(f"{brief(value)} has no part from {' to '.join(map(brief, bounds[:2]))}")


def value_order(value: Value) -> tuple[str, int, str]:
    """The place of a value among others: by kind first, since 2 and "2" have no order."""
    number = value if isinstance(value, int) else 0
    return type(value).__name__, number, describe(value)


def collect(values: Iterable[Value]) -> frozenset[Value]:
    """The set of some values. Raises `TypeError` for one that a set cannot hold."""
    gathered = [*values]
    for value in gathered:
        if not _is_hashable(value):
            raise TypeError(f"{brief(value)} cannot be in a set or be a key")
    return frozenset(gathered)


def _is_hashable(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_hashable, value))
    return value is None or isinstance(value, str | int | frozenset)
