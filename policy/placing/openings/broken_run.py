"""Runs: the first parts of a region together, and one more of them each time."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

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
        last = self.cpus[-1]
        key = (last & left).bit_count(), -lowest_cpu(last)
        at = bisect_left(
            range(len(self.cpus) - 1),
            key,
            key=lambda at: ((self.cpus[at] & left).bit_count(), -lowest_cpu(self.cpus[at])),
        )
        return self._part(at)

    def parts(self) -> Iterator[BrokenPart]:
        """Every one of them, the smallest first."""
        return map(self._part, range(len(self.cpus)))

    def _part(self, at: int) -> BrokenPart:
        cpus = self.cpus[at]
        return BrokenPart(self.region, cpus, self.broken[at], self.cost, lowest_cpu(cpus))
