"""Breaking of rules that may degrade: the places of a newcomer where the fewest of them break."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Final

from msgspec import Struct, field

from ....topology.sets.cpuset import lowest_cpu
from ...model.grant import Dropped
from ..judging.restriction import Restriction
from .breaking_costs import CPU_BITS, RULE, BreakingCosts, BrokenPart, distinct
from .broken_run import BrokenRun
from .openings import Openings, OpeningSearch
from .part_ranks import RANK, PartRanks

_CLOSURES_MAX: Final = 16
"""Of a pool with more parts than these, single ones and the first few together are tried."""

_FEWEST: Final = 2
"""Parts that are together."""

_CPUS: Final = attrgetter("cpus")
_BROKEN: Final = attrgetter("broken")
_ORDER: Final = attrgetter("order")
_REGION: Final = attrgetter("region")


def degraded(search: OpeningSearch) -> Openings | None:
    """The places where no rule breaks that must not, and as few as possible of the others.

    None where all of them insist.
    """
    rules = search.judgement.restrictions()
    firm = [one for one in rules if not one.can_break]
    weak = distinct([one for one in rules if one.can_break])
    if not weak:
        return None
    costs = BreakingCosts(weak, search.judgement.domains)
    everything = search.tree.root.cpus.mask
    for one in firm:
        everything &= ~one.forbidden
    closed = frozenset[int]().union(*(one.closed_pools for one in firm))
    regions = search.regions(everything, [one for one in firm if one.is_own])
    breaking = _Breaking(search, costs, regions)
    best = [0] * len(search.tree.pools)
    unmet = [0] * len(best)
    dropped: dict[int, Dropped] = {}
    # A pool comes before the one around it.
    for pool_id in range(len(best)):
        found = None if pool_id in closed else breaking.least_broken(pool_id)
        if found is not None:
            unmet[pool_id] = found.cost + costs.of_pool(pool_id)
            best[pool_id] = found.cpus
        else:
            objecting = next((one for one in firm if _objects(one, search, pool_id)), None)
            dropped[pool_id] = (
                objecting.dropped()
                if objecting
                else Dropped("cpus where rules hold", search.request.describe(), "too few")
            )
    return Openings(
        regions=best,
        dropped=dropped,
        preferred=search.preferences(best),
        unmet=[cost // RULE for cost in unmet],
        unmet_of_others=[cost % RULE for cost in unmet],
    )


def _objects(rule: Restriction, search: OpeningSearch, pool_id: int) -> bool:
    return (
        pool_id in rule.closed_pools or not search.tree.pools[pool_id].cpus.mask & ~rule.forbidden
    )


class _Nest(Struct):
    """The parts of regions in a pool."""

    held: list[BrokenPart] = field(default_factory=list[BrokenPart])
    """Those that no pool inside holds the whole of."""
    pieces: list[BrokenPart] = field(default_factory=list[BrokenPart])
    """What it has of parts that are not wholly in it."""
    count: int = 0
    """How many it has, those held in pools inside as well, but no pieces."""
    cpus: int = 0
    """Their cpus."""
    broken: int = 0
    """The rules that break on some of those."""
    best: BrokenPart | None = None
    """The first of them by cost and rank that may fit, where ranks are the same everywhere."""
    ends: Sequence[BrokenPart] = ()
    """The two of them that are tried together first, and the one that is added last."""


class _Breaking:
    """The parts of pools that break the fewest rules.

    Where rules are about domains of a few cpus, the parts are thousands: each is priced once for
    all pools that have the whole of it, and whether a request fits is asked of the best alone.
    """

    def __init__(self, search: OpeningSearch, costs: BreakingCosts, regions: Sequence[int]) -> None:
        self._search = search
        self._costs = costs
        request = search.request
        self._ranks = PartRanks(search)
        self._has_only_own = not (request.needs_shared_cpu or request.wants_isolated)
        self._is_one_region = len(regions) < 2
        self._has_unions = self._ranks_all = False
        """Whether a pool has several parts of one region, and whether each gets a rank at once."""
        self._nests = [_Nest() for _ in search.tree.pools]
        self._fill(regions)

    def _fill(self, regions: Sequence[int]) -> None:
        """Find the parts of regions in each pool."""
        tree, nests, costs = self._search.tree, self._nests, self._costs
        pools, deepest, masks = tree.pools, tree.deepest, tree.masks
        atoms_of = [costs.atoms(region) for region in regions]
        self._has_unions = any(len(atoms) > 1 for atoms in atoms_of)
        are_many = sum(map(len, atoms_of)) > _CLOSURES_MAX
        self._ranks_all = self._ranks.are_kept and (are_many or self._ranks.left is not None)
        for number, atoms in enumerate(atoms_of):
            for cpus, broken in atoms:
                part = self._part(number, cpus, broken)
                # Most are in one pool, and in all around it: the others need not be asked.
                holding = deepest[part.lowest]
                if cpus & ~masks[holding]:
                    holding = tree.holding(cpus)
                nests[holding].held.append(part)
                if pools[holding].children:
                    self._cut(part, holding)
        for pool, nest in zip(pools, nests, strict=True):
            inner = [nests[child] for child in pool.children if nests[child].count]
            nest.count = len(nest.held) + sum([one.count for one in inner])
            nest.cpus = reduce(int.__or__, map(_CPUS, [*nest.held, *inner]), 0)
            nest.broken = reduce(int.__or__, map(_BROKEN, [*nest.held, *inner]), 0)
            if self._ranks_all:
                # Of hundreds of parts those pools that are around few pools look at none.
                some = [one for one in nest.held if one.may_fit]
                some += [one.best for one in inner if one.best is not None]
                nest.best = self._ranks.best(some)
            if self._has_unions and self._is_one_region:
                some = [*nest.held, *(part for one in inner for part in one.ends)]
                some.sort(key=_ORDER)
                nest.ends = [*some[:2], some[-1]] if len(some) > 2 else some

    def _cut(self, part: BrokenPart, pool_id: int) -> None:
        """Divide a part of a pool among the pools inside."""
        tree = self._search.tree
        for child in tree.pools[pool_id].children:
            here = part.cpus & tree.masks[child]
            if here:
                is_whole = here == part.cpus
                inside = part if is_whole else self._part(part.region, here, part.broken)
                self._nests[child].pieces.append(inside)
                self._cut(inside, child)

    def _part(self, region: int, cpus: int, broken: int) -> BrokenPart:
        bit = cpus & -cpus
        lowest = bit.bit_length() - 1
        cost = self._costs.cost(cpus, broken, lowest)
        order, rank = broken.bit_count() << CPU_BITS | lowest, None
        may_fit = self._search.bounds.may_fit(cpus)
        if may_fit and self._ranks.left is not None:
            rank = 0, -(self._ranks.left & cpus).bit_count(), bit, cpus
        return BrokenPart(region, cpus, broken, cost, lowest, order, rank, may_fit)

    def _parts(self, pool_id: int) -> list[BrokenPart]:
        """All parts in a pool, those of a region together."""
        nest, found = self._nests[pool_id], list[BrokenPart]()
        if nest.count > len(nest.held):
            for inner in self._nests[self._search.tree.pools[pool_id].first : pool_id]:
                found += inner.held
        found += nest.held
        found += nest.pieces
        if not self._is_one_region:
            found.sort(key=_REGION)
        return found

    def least_broken(self, pool_id: int) -> BrokenPart | None:
        """Of the parts of a pool, or some together, what breaks least and fits.

        What is liked best of those that break as little.
        """
        nest = self._nests[pool_id]
        count = nest.count + len(nest.pieces)
        if count == 1:
            # Most pools have one: nothing is to be chosen.
            (one,) = self._parts(pool_id)
            return one if self._fits(pool_id, one) else None
        cpus = reduce(int.__or__, map(_CPUS, nest.pieces), nest.cpus)
        if not self._search.may_fit(pool_id, cpus):
            return None
        if self._ranks_all and (
            not self._has_unions or (self._is_one_region and count > _CLOSURES_MAX)
        ):
            return self._least_of_many(pool_id, nest, cpus)
        parts = self._parts(pool_id)
        by_region = [parts]
        if not self._is_one_region:
            by_region = [list(some) for _, some in groupby(parts, _REGION)]
        single: list[BrokenPart] = []
        for some in by_region:
            single += self._closures(some) if 1 < len(some) <= _CLOSURES_MAX else some
        found = self._first_that_fits(pool_id, single)
        is_known, union = self._union_at_once(pool_id, nest, cpus, found)
        if is_known:
            return union
        runs = (run for some in by_region for run in self._runs(some, found))
        return self._least_union(pool_id, runs, found)

    def _least_of_many(self, pool_id: int, nest: _Nest, cpus: int) -> BrokenPart | None:
        """The same where parts that are together on no more rules are not looked for."""
        some = [one for one in nest.pieces if one.may_fit]
        if nest.best is not None:
            some.append(nest.best)
        found = self._ranks.best(some)
        parts: list[BrokenPart] | None = None
        if found is not None and not self._fits(pool_id, found):
            parts = self._parts(pool_id)
            found = self._first_that_fits(pool_id, parts)
        if not self._has_unions:
            return found
        is_known, union = self._union_at_once(pool_id, nest, cpus, found)
        if is_known:
            return union
        runs = self._runs(parts or self._parts(pool_id), found)
        return self._least_union(pool_id, runs, found)

    def _cost(self, cpus: int, broken: int) -> int:
        return self._costs.cost(cpus, broken, lowest_cpu(cpus))

    def _fits(self, pool_id: int, part: BrokenPart) -> bool:
        if not part.may_fit:
            return False
        if self._search.fits(pool_id, part.cpus):
            return True
        # A pool around gives away no more of it than a narrower one.
        part.may_fit = not self._has_only_own
        return False

    def _first_that_fits(self, pool_id: int, parts: Iterable[BrokenPart]) -> BrokenPart | None:
        """The first part by cost and rank that fits."""
        by_cost: dict[int, list[BrokenPart]] = {}
        for one in parts:
            if one.may_fit:
                by_cost.setdefault(one.cost, []).append(one)
        for cost in sorted(by_cost):
            found = self._first_of_equals(pool_id, by_cost[cost])
            if found is not None:
                return found
        return None

    def _first_of_equals(self, pool_id: int, parts: list[BrokenPart]) -> BrokenPart | None:
        """The first part by rank that fits, of some that cost as much."""
        if len(parts) > 1:
            # The first fits as a rule.
            first = self._ranks.best_of_equals(pool_id, parts)
            if self._fits(pool_id, first):
                return first
            parts = sorted(parts, key=RANK)[1:]
        return next((one for one in parts if self._fits(pool_id, one)), None)

    def _least_union(
        self, pool_id: int, runs: Iterable[BrokenRun], found: BrokenPart | None
    ) -> BrokenPart | None:
        """What costs least and fits of some parts of regions together, and of one that fits."""
        by_cost: dict[int, list[BrokenRun]] = {}
        for run in runs:
            by_cost.setdefault(run.cost, []).append(run)
        for cost in sorted(by_cost):
            known = [found] if found is not None and cost == found.cost else []
            best = self._best_of_runs(pool_id, by_cost[cost], known)
            if best is not None:
                return best
        return found

    def _union_at_once(
        self, pool_id: int, nest: _Nest, cpus: int, known: BrokenPart | None
    ) -> tuple[bool, BrokenPart | None]:
        """Whether the same is told by what is known of a pool's parts as a whole, and it.

        `cpus`: all of theirs.
        """
        search, ranks = self._search, self._ranks
        if not (self._is_one_region and ranks.are_kept):
            return False, None
        ends = sorted([*nest.ends, *nest.pieces], key=_ORDER)
        if len(ends) < _FEWEST:
            return True, known
        one, other = ends[:2]
        least = self._cost(one.cpus | other.cpus, one.broken | other.broken)
        if (known is not None and least > known.cost) or not search.bounds.may_ever_fit(cpus):
            # Nothing that is added makes it cheaper.
            return True, known
        broken = reduce(int.__or__, map(_BROKEN, nest.pieces), nest.broken)
        needed = cpus & ranks.free | cpus & -cpus
        if not ends[-1].cpus & needed or self._cost(cpus, broken) != least:
            return False, None
        # All unions cost the same, and the last alone has all that is left.
        last = BrokenPart(one.region, cpus, broken, least, lowest_cpu(cpus))
        if ranks.left is None or (known is not None and least == known.cost):
            last.rank = ranks.rank(pool_id, cpus)
            if ranks.left is None and -last.rank[0] < ranks.highest(cpus):
                return False, None
            if known is not None and least == known.cost:
                last = ranks.best_of_equals(pool_id, [last, known])
            if last is known:
                return True, known
        if search.fits(pool_id, cpus):
            return True, last
        return search.grows_by_more, known

    def _runs(self, parts: Sequence[BrokenPart], known: BrokenPart | None) -> Iterator[BrokenRun]:
        """The first two parts of a region together, the first three, and so on, up to a cost.

        Those that may fit; nothing that is added makes one cheaper, or takes cpus from it. `known`:
        what fits, and must cost no less.
        """
        if len(parts) < _FEWEST:
            return
        most = None if known is None else known.cost
        ordered = sorted(parts, key=_ORDER)
        one, other = ordered[:2]
        least = self._cost(one.cpus | other.cpus, one.broken | other.broken)
        if most is not None and least > most:
            return
        cpus = list(accumulate(map(_CPUS, ordered), int.__or__))
        broken = list(accumulate(map(_BROKEN, ordered), int.__or__))
        may_ever_fit, count = self._search.bounds.may_ever_fit, len(ordered)
        if not may_ever_fit(cpus[-1]):
            return
        begin = bisect_left(range(count), True, lo=1, key=lambda at: may_ever_fit(cpus[at]))

        def cost(at: int) -> int:
            return self._cost(cpus[at], broken[at])

        highest = cost(count - 1)
        while begin < count:
            here = cost(begin)
            if most is not None and here > most:
                return
            end = count
            if here != highest:
                end = bisect_right(range(count), here, lo=begin + 1, key=cost)
            yield BrokenRun(one.region, here, cpus[begin:end], broken[begin:end])
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
            if best is None or grows_by_more or best in known or self._fits(pool_id, best):
                return best
        every = [one for run in runs for one in self._most_liked(pool_id, run)]
        return self._first_of_equals(pool_id, [*every, *known])

    def _most_liked(self, pool_id: int, run: BrokenRun) -> Iterable[BrokenPart]:
        """The parts of a run that may be the first of it by rank and fit."""
        if not self._search.grows_by_more:
            return run.parts()
        # As much is left of it as of any, so it is liked as much as the last.
        head = run.head(self._ranks.free)
        head.rank = self._ranks.rank(pool_id, head.cpus)
        return (head,) if -head.rank[0] >= self._ranks.highest(run.cpus[-1]) else run.parts()

    def _closures(self, parts: Sequence[BrokenPart]) -> Iterator[BrokenPart]:
        """Each part with all others on which nothing more breaks."""
        everywhere = reduce(int.__or__, map(_CPUS, parts))
        for one in parts:
            rest = self._costs.rest_around(one, everywhere)
            if not rest:
                yield one
                continue
            within, found = rest | one.cpus, 0
            for other in parts:
                if not other.broken & ~one.broken and not other.cpus & ~within:
                    found |= other.cpus
            yield one if found == one.cpus else self._part(one.region, found, one.broken)
