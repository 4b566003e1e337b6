"""Values of a gauge of which many in a row are the same."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, compress, pairwise, repeat
from typing import TypeVar, overload

_Value = TypeVar("_Value")


class ValueRuns(Sequence[float]):
    """A sequence of values, each run of which is kept as one: cpus of one pool have the same ones.

    >>> list(ValueRuns([0.5, 2], [3, 1]))
    [0.5, 0.5, 0.5, 2]
    """

    __slots__ = ("lengths", "values")

    def __init__(self, values: Sequence[float], lengths: Sequence[int]) -> None:
        """`values`: one for each run; `lengths`: how often each of them comes."""
        self.values = values
        self.lengths = lengths

    @classmethod
    def of_steps(cls, steps: Sequence[int]) -> "ValueRuns":
        """The sums of all steps up to each but the last one, which only ends the last run.

        >>> list(ValueRuns.of_steps([0, 2, 0, 3, -5]))
        [0, 2, 2, 5]
        """
        length = len(steps) - 1
        starts = [*range(min(length, 1)), *compress(range(1, length), steps[1:length])]
        sums = accumulate([steps[one] for one in starts])
        lengths = [end - start for start, end in pairwise((*starts, length))]
        return cls(list(sums), lengths)

    def spread(self, one_each: Iterable[_Value]) -> Iterator[_Value]:
        """Items of runs, given one for each, as often as the run is long."""
        return chain.from_iterable(map(repeat, one_each, self.lengths))

    def __iter__(self) -> Iterator[float]:
        return self.spread(self.values)

    def __len__(self) -> int:
        return sum(self.lengths)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValueRuns):
            return NotImplemented
        return self.values == other.values and self.lengths == other.lengths

    @overload
    def __getitem__(self, index: int) -> float: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...

    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        # For the few who ask: whoever needs all of them goes through them.
        return list(self)[index]
