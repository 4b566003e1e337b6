"""Unions: parts of regions together, where on no single one fits what a newcomer asks for.

A run is the first parts of a region together, and one more of them each time.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from ....topology.sets.cpuset import lowest_cpu
from .breaking_costs import BreakingCosts, BrokenPart
from .narrow_parts import NarrowParts
from .openings import OpeningSearch
from .part_ranks import RANK, PartRanks

_FEWEST: Final = 2
"""Parts that are together."""


class BrokenRun(Struct):
    """The first parts of a region together, each time one more of them: they cost the same."""

    region: int
    cost: int
    cpus: Sequence[int]
    broken: Sequence[int]

    def head(self, left: int) -> BrokenPart:
        """The first by rank, as `left` is: the smallest with as many of these cpus as the last."""
        last = self.cpus[-1]
        key = (last & left).bit_count(), -lowest_cpu(last)
        return self._part(
            bisect_left(
                range(len(self.cpus) - 1),
                key,
                key=lambda at: ((self.cpus[at] & left).bit_count(), -lowest_cpu(self.cpus[at])),
            )
        )

    def parts(self) -> Iterator[BrokenPart]:
        """Every one of them, the smallest first."""
        return map(self._part, range(len(self.cpus)))

    def _part(self, at: int) -> BrokenPart:
        cpus = self.cpus[at]
        return BrokenPart(self.region, cpus, self.broken[at], self.cost, lowest_cpu(cpus))


class UnionSearch:
    """The search for what breaks least of some parts of a pool together."""

    def __init__(
        self,
        search: OpeningSearch,
        costs: BreakingCosts,
        ranks: PartRanks,
        narrow: NarrowParts,
    ) -> None:
        self._search = search
        self._costs = costs
        self._ranks = ranks
        self._narrow = narrow

    def least(
        self, pool_id: int, by_region: Sequence[Sequence[BrokenPart]], found: BrokenPart | None
    ) -> BrokenPart | None:
        """The parts of regions together that cost least and fit, or one that is known to fit.

        `by_region`: all of the pool but those that are kept as masks.
        """
        pool, is_one_region = self._search.tree.masks[pool_id], len(by_region) == 1
        runs = (run for some in by_region for run in self._runs(some, pool, found))
        by_cost: dict[int, list[BrokenRun]] = {}
        for run in () if is_one_region else runs:
            by_cost.setdefault(run.cost, []).append(run)
        ascending = map(by_cost.__getitem__, sorted(by_cost))
        # Those of one region come by their costs, and the first fits as a rule.
        for some in ([run] for run in runs) if is_one_region else ascending:
            known = [found] if found is not None and some[0].cost == found.cost else []
            best = self._best_of_runs(pool_id, some, known)
            if best is not None:
                return best
        return found

    def _runs(
        self, parts: Sequence[BrokenPart], pool: int, known: BrokenPart | None
    ) -> Iterator[BrokenRun]:
        """The first two parts of a region together, the first three, and so on, up to a cost.

        Those that may fit; nothing that is added makes one cheaper, or takes cpus from it. `known`:
        what fits, and must cost no less.
        """
        ordered = [(one.order, one.cpus, one.broken) for one in parts]
        ordered += self._narrow.ordered(pool)
        if len(ordered) < _FEWEST:
            return
        most = None if known is None else known.cost
        ordered.sort()
        cpus = list(accumulate([one for _, one, _ in ordered], int.__or__))
        broken = list(accumulate([one for _, _, one in ordered], int.__or__))
        if most is not None and self._cost(cpus[1], broken[1]) > most:
            return
        may_ever_fit, count = self._search.bounds.may_ever_fit, len(ordered)
        if not may_ever_fit(cpus[-1]):
            return
        begin = bisect_left(range(count), True, lo=1, key=lambda at: may_ever_fit(cpus[at]))

        def cost(at: int) -> int:
            return self._cost(cpus[at], broken[at])

        region = parts[0].region if parts else 0
        highest = cost(count - 1)
        while begin < count:
            here = cost(begin)
            if most is not None and here > most:
                return
            end = count
            if here != highest:
                end = bisect_right(range(count), here, lo=begin + 1, key=cost)
            yield BrokenRun(region, here, cpus[begin:end], broken[begin:end])
            begin = end

    def _best_of_runs(
        self, pool_id: int, runs: Sequence[BrokenRun], known: list[BrokenPart]
    ) -> BrokenPart | None:
        """The best of unions that cost as much, and of another part that fits."""
        grows_by_more = self._search.grows_by_more
        if grows_by_more:
            runs = [one for one in runs if self._search.fits(pool_id, one.cpus[-1])]
        if self._ranks.left is not None:
            heads = [*(one.head(self._ranks.left) for one in runs), *known]
            for one in heads if len(heads) > 1 else ():
                cpus = one.cpus
                one.rank = 0, -(self._ranks.left & cpus).bit_count(), cpus & -cpus, cpus
            best = min(heads, key=RANK, default=None)
            # Of those that have as much left one fits as well as another.
            if best is None or grows_by_more or best in known or self._ranks.fits(pool_id, best):
                return best
        return self._ranks.first_of_equals(
            pool_id, [*(one for run in runs for one in run.parts()), *known]
        )

    def _cost(self, cpus: int, broken: int) -> int:
        return self._costs.cost(cpus, broken)
