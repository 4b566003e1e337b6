"""Tables of the evaluator's language: its operators, functions and methods.

A function here may raise `TypeError`, `ValueError`, `LookupError` or `ArithmeticError`; the
evaluator adds the position.
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from .values import Function, Keys, Value, brief, collect, elements, value_order

MAX_SIZE: Final = 10_000
"""The longest text, list or range."""
MAX_BITS: Final = 256
"""Integers stay below 2 ** 256."""


def _sets(values: Iterable[Value]) -> list[frozenset[Value]]:
    found: list[frozenset[Value]] = []
    for value in values:
        if not isinstance(value, frozenset):
            raise TypeError(f"{brief(value)} is not a set")
        found.append(value)
    return found


def _integers(values: Iterable[Value]) -> list[int]:
    found: list[int] = []
    for value in values:
        if not isinstance(value, int):
            raise TypeError(f"{brief(value)} is not a number")
        found.append(value)
    return found


def _len(value: Value) -> int:
    return len(value) if isinstance(value, str) else len(elements(value))


def _set(value: Value = ()) -> frozenset[Value]:
    return collect(value if isinstance(value, str) else elements(value))


def _list(value: Value = ()) -> list[Value]:
    return [*value] if isinstance(value, str) else elements(value)


def _sorted(value: Value) -> list[Value]:
    values = _list(value)
    if all(isinstance(one, str) for one in values) or all(isinstance(one, int) for one in values):
        return sorted(values)  # type: ignore[type-var]  # all of one kind with an order
    return sorted(values, key=value_order)


def _range(*bounds: Value) -> list[Value]:
    numbers = _integers(bounds)
    if not 1 <= len(numbers) <= 3:
        raise TypeError(f"range takes 1 to 3 numbers, not {len(numbers)}")
    found = range(*numbers)
    # len() itself overflows for ranges beyond the machine's word.
    if found and (abs(found[-1] - found[0]) // abs(found.step)) >= MAX_SIZE:
        raise ValueError(f"a range of more than {MAX_SIZE} numbers")
    return [*found]


def _of_several(choose: Callable[[Iterable[Any]], Any]) -> Function:
    def function(*values: Value) -> Value:
        given = elements(values[0]) if len(values) == 1 else [*values]
        if not all(isinstance(one, str) for one in given):
            _integers(given)
        result: Value = choose(given)
        return result

    return function


def _int(value: Value) -> int:
    if isinstance(value, str | int):
        return int(value)
    raise TypeError(f"{brief(value)} is not a number")


def _str(value: Value) -> str:
    if isinstance(value, str | int):
        return str(value)
    raise TypeError(f"{brief(value)} is neither text nor a number")


def disjoint_sets(*sets: Value) -> bool:
    """Whether no two of the sets have an element in common; so of one set and of none."""
    given = _sets(sets)
    return sum(map(len, given)) == len(frozenset[Value]().union(*given))


def _union(first: Value, *others: Value) -> frozenset[Value]:
    return frozenset[Value]().union(*_sets((first, *others)))


def _intersection(first: Value, *others: Value) -> frozenset[Value]:
    one, *rest = _sets((first, *others))
    return one.intersection(*rest)


def _difference(first: Value, *others: Value) -> frozenset[Value]:
    one, *rest = _sets((first, *others))
    return one.difference(*rest)


def _of_two_sets(function: Callable[[frozenset[Value], frozenset[Value]], Value]) -> Function:
    def method(one: Value, other: Value) -> Value:
        left, right = _sets((one, other))
        return function(left, right)

    return method


def _of_text(function: Callable[..., Any]) -> Function:
    def method(text: Value, *arguments: Value) -> Value:
        if not all(isinstance(one, str) for one in arguments):
            raise TypeError("expected text")
        result: Value = function(text, *arguments)
        return result

    return method


def _index(values: Value, wanted: Value) -> int:
    return elements(values).index(wanted)


def _get(mapping: Mapping[Any, Value], key: Value, default: Value = None) -> Value:
    collect((key,))
    return mapping.get(key, default)


def _items(mapping: Mapping[Any, Value]) -> list[Value]:
    return [(key, value) for key, value in mapping.items()]


def _values(mapping: Mapping[Any, Value]) -> list[Value]:
    return [*mapping.values()]


def _abs(value: Value) -> int:
    return abs(*_integers((value,)))


def _all(values: Value) -> bool:
    return all(elements(values))


def _any(values: Value) -> bool:
    return any(elements(values))


def _bool(value: Value) -> bool:
    return bool(value)


def _sum(values: Value) -> int:
    return sum(_integers(elements(values)))


def _tuple(value: Value = ()) -> tuple[Value, ...]:
    return (*_list(value),)


def _reversed(value: Value) -> list[Value]:
    return _list(value)[::-1]


def _zip(*many: Value) -> list[Value]:
    return [*zip(*map(_list, many), strict=False)]


def _enumerate(value: Value, start: Value = 0) -> list[Value]:
    (first,) = _integers((start,))
    return [*enumerate(_list(value), first)]


def _join(text: str, values: Value) -> str:
    words = _list(values)
    if not all(isinstance(one, str) for one in words):
        raise TypeError("expected texts")
    # Before it is made: two long ones would be megabytes.
    if sum(map(_len, words)) + len(text) * max(len(words) - 1, 0) > MAX_SIZE:
        raise ValueError(f"a text of more than {MAX_SIZE} characters")
    return text.join(map(_str, words))


def _count(values: Value, wanted: Value) -> int:
    return elements(values).count(wanted)


def _is(one: Value, other: Value) -> bool:
    for value in (one, other):
        if value is None or isinstance(value, bool):
            return one is other
    # Whether two equal texts are one object is nobody's business.
    raise TypeError(
        "operator Is is not part of the language but for None, True and False — write '=='"
    )


FUNCTIONS: Final[Mapping[str, Function]] = {
    "abs": _abs,
    "all": _all,
    "any": _any,
    "bool": _bool,
    "disjoint_sets": disjoint_sets,
    "enumerate": _enumerate,
    "frozenset": _set,
    "int": _int,
    "len": _len,
    "list": _list,
    "max": _of_several(max),
    "min": _of_several(min),
    "range": _range,
    "reversed": _reversed,
    "set": _set,
    "sorted": _sorted,
    "str": _str,
    "sum": _sum,
    "tuple": _tuple,
    "zip": _zip,
}

SET_METHODS: Final[Mapping[str, Function]] = {
    "difference": _difference,
    "intersection": _intersection,
    "isdisjoint": _of_two_sets(lambda one, other: not one & other),
    "issubset": _of_two_sets(lambda one, other: one <= other),
    "issuperset": _of_two_sets(lambda one, other: one >= other),
    "symmetric_difference": _of_two_sets(lambda one, other: one ^ other),
    "union": _union,
}
METHODS: Final[Mapping[str, Mapping[str, Function]]] = {
    "set": SET_METHODS,
    "text": {
        "count": _of_text(str.count),
        "endswith": _of_text(str.endswith),
        "isdigit": _of_text(str.isdigit),
        "join": _join,
        "lower": _of_text(str.lower),
        "removeprefix": _of_text(str.removeprefix),
        "removesuffix": _of_text(str.removesuffix),
        "split": _of_text(str.split),
        "startswith": _of_text(str.startswith),
        "strip": _of_text(str.strip),
        "upper": _of_text(str.upper),
    },
    "list": {"count": _count, "index": _index},
    "tuple": {"count": _count, "index": _index},
    "mapping": {"get": _get, "items": _items, "keys": Keys.of, "values": _values},
}

COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: lambda one, other: bool(one == other),
    ast.NotEq: lambda one, other: bool(one != other),
    ast.Lt: lambda one, other: bool(one < other),
    ast.LtE: lambda one, other: bool(one <= other),
    ast.Gt: lambda one, other: bool(one > other),
    ast.GtE: lambda one, other: bool(one >= other),
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
    ast.Is: _is,
    ast.IsNot: lambda one, other: not _is(one, other),
}

# What an operator takes on both sides, by `kind_of`.
OPERATORS: Final[
    Mapping[type[ast.operator], tuple[Callable[[Any, Any], Value], tuple[str, ...]]]
] = {
    ast.Add: (lambda one, other: one + other, ("number", "text", "list", "tuple")),
    ast.Sub: (lambda one, other: one - other, ("number", "set")),
    ast.Mult: (lambda one, other: one * other, ("number",)),
    ast.FloorDiv: (lambda one, other: one // other, ("number",)),
    ast.Mod: (lambda one, other: one % other, ("number",)),
    ast.BitOr: (lambda one, other: one | other, ("number", "set")),
    ast.BitAnd: (lambda one, other: one & other, ("number", "set")),
    ast.BitXor: (lambda one, other: one ^ other, ("number", "set")),
}
