"""Columns of figures of all pools, packed: most decisions are kept and never looked at.

They say the same as what they were made of, position by position.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, overload

from .rank import Column

_SMALLEST: Final = "b"
_LARGER: Final = "hiq"
"""Type codes of arrays, the smallest first. Source: Python's `array`."""
_NUMBERED_MAX: Final = 256
"""As many values as a byte can number."""
_ONE_IN: Final = 3
"""Where there are more different values than one in so many, to number them saves nothing."""


def packed(column: Column) -> Column:
    """A column in a fraction of the memory. O(pools)."""
    if not column:
        return ()
    try:
        return array(_SMALLEST, column)
    except OverflowError:
        values = dict.fromkeys(column)
    if len(values) > min(_NUMBERED_MAX, len(column) // _ONE_IN):
        return _in_array(column)
    numbers = dict(zip(values, range(len(values)), strict=True))
    return _Numbered(_in_array(tuple(values)), bytes(map(numbers.__getitem__, column)))


def _in_array(column: Column) -> Column:
    for size in _LARGER:
        try:
            return array(size, column)
        except OverflowError:
            continue
    return tuple(column)


class _Numbered(Sequence[int]):
    """Few different values, by their numbers: most pools are as empty, or as full, as others.

    Its equals say the same.
    """

    __slots__ = ("_numbers", "_values")

    def __init__(self, values: Column, numbers: bytes) -> None:
        self._values = values
        self._numbers = numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Numbered) and list(self) == list(other)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return map(self._values.__getitem__, self._numbers)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Column: ...

    def __getitem__(self, index: int | slice) -> int | Column:
        if isinstance(index, slice):
            return [self._values[one] for one in self._numbers[index]]
        return self._values[self._numbers[index]]
