"""Columns of figures of all pools, packed: most decisions are kept and never looked at.

They say the same as what they were made of, position by position.
"""

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from operator import sub
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


def beside(column: Column, base: Column, packed_base: Column) -> Column:
    """A column packed as what it differs in from another one, which is packed already."""
    differences = list(map(sub, column, base))
    first = differences[0]
    is_same = differences.count(first) == len(differences)
    return _Differences(packed_base, first if is_same else packed(differences))


def _in_array(column: Column) -> Column:
    for size in _LARGER:
        try:
            return array(size, column)
        except OverflowError:
            continue
    return tuple(column)


class _Packed(Sequence[int]):
    """A sequence of integers whose equals say the same."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and list(self) == list(other)

    @abstractmethod
    def at(self, index: int) -> int:
        """The figure of one pool."""

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Column: ...

    def __getitem__(self, index: int | slice) -> int | Column:
        if isinstance(index, slice):
            return [self.at(one) for one in range(*index.indices(len(self)))]
        return self.at(index)


class _Numbered(_Packed):
    """Few different values, by their numbers: most pools are as empty, or as full, as others."""

    __slots__ = ("_numbers", "_values")

    def __init__(self, values: Column, numbers: bytes) -> None:
        self._values = values
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return map(self._values.__getitem__, self._numbers)

    def at(self, index: int) -> int:
        """The figure of one pool."""
        return self._values[self._numbers[index]]


class _Differences(_Packed):
    """A column as what it differs in from another one: as a rule the same number everywhere."""

    __slots__ = ("_base", "_differences")

    def __init__(self, base: Column, differences: Column | int) -> None:
        self._base = base
        self._differences = differences

    def __len__(self) -> int:
        return len(self._base)

    def at(self, index: int) -> int:
        """The figure of one pool."""
        more = self._differences
        return self._base[index] + (more if isinstance(more, int) else more[index])
