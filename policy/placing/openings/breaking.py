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
from .breaking_costs import RULE, BreakingCosts, BrokenPart, distinct
from .broken_run import BrokenRun
from .openings import Openings, OpeningSearch

_CLOSURES_MAX: Final = 16
"""Of a pool with more parts than these, single ones and the first few together are tried."""

_CPUS: Final = attrgetter("cpus")
_BROKEN: Final = attrgetter("broken")
_ORDER: Final = attrgetter("order")
_RANK: Final = attrgetter("rank")
_COST_AND_RANK: Final = attrgetter("cost", "rank")
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
    best: BrokenPart | None = None
    """The first of them by cost and rank that may fit, where ranks are the same everywhere."""
    first: Sequence[BrokenPart] = ()
    """The two of them that are tried together first."""


class _Breaking:
    """The parts of pools that break the fewest rules.

    Where rules are about domains of a few cpus, the parts are thousands: each is priced once for
    all pools that have the whole of it, and whether a request fits is asked of the best alone.
    """

    def __init__(self, search: OpeningSearch, costs: BreakingCosts, regions: Sequence[int]) -> None:
        self._search = search
        self._costs = costs
        request, ledger = search.request, search.ledger
        # Which cpus of a region are left does not depend on the pool, but where isolated ones may
        # serve in some pools, and not in others.
        isolated = ledger.free_isolated[-1].bit_count()
        self._keeps_ranks = not (request.wants_isolated and isolated >= request.exclusive)
        self._free = ledger.free_sharable[-1]
        """All cpus that are left, where pools do not matter for that."""
        is_drawn = bool(search.judgement.pulls) or not self._keeps_ranks
        self._left = None if is_drawn else self._free
        """The same where nothing draws to some of them."""
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
        self._ranks_all = self._keeps_ranks and (are_many or self._left is not None)
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
            nest.cpus = reduce(int.__or__, map(_CPUS, nest.held), 0)
            for one in inner:
                nest.cpus |= one.cpus
            if self._ranks_all:
                # Of hundreds of parts those pools that are around few pools look at none.
                some = [one for one in nest.held if one.may_fit]
                some += [one.best for one in inner if one.best is not None]
                nest.best = self._best(some)
                some = [*nest.held, *(part for one in inner for part in one.first)]
                nest.first = sorted(some, key=_ORDER)[:2] if len(some) > 1 else some

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
        order, rank = (broken.bit_count(), lowest), None
        if self._left is not None:
            rank = 0, -(self._left & cpus).bit_count(), bit, cpus
        may_fit = self._search.may_fit_anywhere(cpus)
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
            return self._least_of_many(pool_id, nest)
        parts = self._parts(pool_id)
        by_region = [parts]
        if not self._is_one_region:
            by_region = [list(some) for _, some in groupby(parts, _REGION)]
        single: list[BrokenPart] = []
        for some in by_region:
            single += self._closures(some) if 1 < len(some) <= _CLOSURES_MAX else some
        return self._least_union(pool_id, by_region, self._first_that_fits(pool_id, single))

    def _least_of_many(self, pool_id: int, nest: _Nest) -> BrokenPart | None:
        """The same where parts that are together on no more rules are not looked for."""
        some = [one for one in nest.pieces if one.may_fit]
        if nest.best is not None:
            some.append(nest.best)
        found = self._best(some)
        parts: list[BrokenPart] | None = None
        if found is not None and not self._fits(pool_id, found):
            parts = self._parts(pool_id)
            found = self._first_that_fits(pool_id, parts)
        if not self._has_unions:
            return found
        if found is not None:
            one, other = sorted([*nest.first, *nest.pieces], key=_ORDER)[:2]
            if self._cost(one.cpus | other.cpus, one.broken | other.broken) > found.cost:
                # Nothing that is added makes it cheaper.
                return found
        return self._least_union(pool_id, [parts or self._parts(pool_id)], found)

    def _best(self, parts: Sequence[BrokenPart]) -> BrokenPart | None:
        """The first part by cost and rank, where ranks are the same everywhere."""
        if self._left is None and len(parts) > 1:
            # How much it is liked takes long to tell: of the cheapest alone it matters.
            least = min([one.cost for one in parts])
            some = [one for one in parts if one.cost == least]
            return self._best_of_equals(self._search.tree.root.id, some)
        return min(parts, key=_COST_AND_RANK, default=None)

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
            first = self._best_of_equals(pool_id, parts)
            if self._fits(pool_id, first):
                return first
            parts = sorted(parts, key=_RANK)[1:]
        return next((one for one in parts if self._fits(pool_id, one)), None)

    def _best_of_equals(self, pool_id: int, parts: Sequence[BrokenPart]) -> BrokenPart:
        """The first part by rank, of some that cost as much."""
        for one in parts:
            if one.rank is None or not self._keeps_ranks:
                # How much it is liked takes long to tell.
                one.rank = self._rank(pool_id, one.cpus)
        return min(parts, key=_RANK)

    def _rank(self, pool_id: int, cpus: int) -> tuple[int, int, int, int]:
        search = self._search
        if not self._keeps_ranks:
            liking, free = search.liking(pool_id, cpus), search.free(pool_id, cpus)
            return -liking, -free, cpus & -cpus, cpus
        # There may be thousands.
        left, pulls, count = cpus & self._free, search.judgement.pulls, search.request.exclusive
        liking = pulls.score(pulls.best(left, count) if count else left) if pulls else 0
        return -liking, -left.bit_count(), cpus & -cpus, cpus

    def _least_union(
        self, pool_id: int, by_region: Sequence[Sequence[BrokenPart]], found: BrokenPart | None
    ) -> BrokenPart | None:
        """What costs least and fits of some parts of regions together, and of one that fits."""
        most = None if found is None else found.cost
        by_cost: dict[int, list[BrokenRun]] = {}
        for parts in by_region:
            for run in self._runs(parts, most) if len(parts) > 1 else ():
                by_cost.setdefault(run.cost, []).append(run)
        for cost in sorted(by_cost):
            known = [found] if found is not None and cost == most else []
            best = self._best_of_runs(pool_id, by_cost[cost], known)
            if best is not None:
                return best
        return found

    def _runs(self, parts: Sequence[BrokenPart], most: int | None) -> Iterator[BrokenRun]:
        """The first two parts of a region together, the first three, and so on, up to a cost.

        Those that may fit; nothing that is added makes one cheaper, or takes cpus from it.
        """
        ordered = sorted(parts, key=_ORDER)
        one, other = ordered[:2]
        least = self._cost(one.cpus | other.cpus, one.broken | other.broken)
        if most is not None and least > most:
            return
        cpus = list(accumulate(map(_CPUS, ordered), int.__or__))
        broken = list(accumulate(map(_BROKEN, ordered), int.__or__))
        may_ever_fit, count = self._search.may_ever_fit, len(ordered)
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
        if self._left is not None:
            heads = [*(one.head(self._left) for one in runs), *known]
            for one in heads:
                cpus = one.cpus
                one.rank = 0, -(self._left & cpus).bit_count(), cpus & -cpus, cpus
            best = min(heads, key=_RANK, default=None)
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
        head = run.head(self._free)
        head.rank = self._rank(pool_id, head.cpus)
        highest = self._search.judgement.pulls.highest(run.cpus[-1] & self._free)
        return (head,) if -head.rank[0] >= highest else run.parts()

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
