"""Runs: the first parts of a region together, and one more of them each time."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from ....topology.sets.cpuset import lowest_cpu
from .breaking_costs import BrokenPart


class BrokenRun(Struct):
    """The first parts of a region together, each time one more of them: they cost the same."""

    region: int
    cost: int
    cpus: Sequence[int]
    broken: Sequence[int]

    def head(self, left: int) -> BrokenPart:
        """The first by rank: the smallest with as many cpus left as the last."""
        return self._part(self._head(left, 0, len(self.cpus)))

    def heads(self, left: int, liked: Callable[[int], tuple[int, int]]) -> Iterator[BrokenPart]:
        """The first by rank of those that are liked alike, as they have the same cpus that decide.

        `liked`: see `PartRanks.liked`.
        """
        begin, count = 0, len(self.cpus)
        while begin < count:
            liking, telling = liked(self.cpus[begin])
            telling &= left
            here = self.cpus[begin] & telling
            end = bisect_right(
                range(count), False, lo=begin + 1, key=lambda at: self.cpus[at] & telling != here
            )
            head = self._part(self._head(left, begin, end))
            cpus = head.cpus
            head.rank = -liking, -(cpus & left).bit_count(), cpus & -cpus, cpus
            yield head
            begin = end

    def _head(self, left: int, begin: int, end: int) -> int:
        last = self.cpus[end - 1]
        key = (last & left).bit_count(), -lowest_cpu(last)
        return bisect_left(
            range(end - 1),
            key,
            lo=begin,
            key=lambda at: ((self.cpus[at] & left).bit_count(), -lowest_cpu(self.cpus[at])),
        )

    def parts(self) -> Iterator[BrokenPart]:
        """Every one of them, the smallest first."""
        return map(self._part, range(len(self.cpus)))

    def _part(self, at: int) -> BrokenPart:
        cpus = self.cpus[at]
        return BrokenPart(self.region, cpus, self.broken[at], self.cost, lowest_cpu(cpus))
