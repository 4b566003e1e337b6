"""Breaking of rules that may degrade: the parts of each pool where the fewest of them break."""

from collections.abc import Sequence
from functools import partial, reduce
from itertools import accumulate, groupby, islice
from operator import attrgetter
from typing import Final

from .breaking_costs import (
    CPU_BITS,
    BreakingCosts,
    BrokenPart,
    Family,
    Nest,
)
from .narrow_parts import NarrowParts, are_narrow
from .openings import OpeningSearch
from .part_ranks import PartRanks

_CLOSURES_MAX: Final = 16
"""Of a pool with more parts than these, single ones and the first few together are tried."""

_CPUS: Final = attrgetter("cpus")
_BROKEN: Final = attrgetter("broken")
_COST: Final = attrgetter("cost")
_REGION: Final = attrgetter("region")


class Breaking:
    """The parts of pools that break the fewest rules.

    Where rules are about domains of a few cpus, the parts are thousands: each is priced once for
    all pools that have the whole of it, and whether a request fits is asked of the best alone.
    """

    def __init__(
        self,
        search: OpeningSearch,
        costs: BreakingCosts,
        regions: Sequence[int],
        tried_together: int,
    ) -> None:
        self._search = search
        self._left_to_try = tried_together
        self._costs = costs
        self._ranks = PartRanks(search)
        self._is_one_region = len(regions) < 2
        self._everything = reduce(int.__or__, regions, 0)
        self._has_unions = False
        """Whether a pool has several parts of one region."""
        self._nests = [Nest() for _ in search.tree.pools]
        # Which cpus are left is to be the same for all pools, and for each part at least one.
        self._may_be_narrow = (
            self._is_one_region
            and self._ranks.are_kept
            and not search.may_be_isolated
            and search.bounds.is_some
        )
        families = [costs.families(region) for region in regions]
        self._narrow = self._filled(families)

    def _filled(self, families_of: Sequence[Sequence[Family]]) -> NarrowParts:
        """Find the parts of regions in each pool; those that are kept as masks."""
        nests, costs = self._nests, self._costs
        narrow: list[Family] = []
        for number, families in enumerate(families_of):
            here = 0
            for family in families:
                if self._may_be_narrow and are_narrow(family, costs, self._search, self._ranks):
                    narrow.append(family)
                    here += costs.count(family)
                    continue
                parts = costs.parts(family)
                here += len(parts)
                for cpus in parts:
                    self._file(self._part(number, cpus, family.broken))
            self._has_unions = self._has_unions or here > 1
        for pool, nest in zip(self._search.tree.pools, nests, strict=True):
            inner = [nests[child] for child in pool.children if nests[child].count]
            if not (nest.held or inner):
                continue
            nest.count = len(nest.held) + sum([one.count for one in inner])
            least = [one.cost for one in nest.held if one.may_fit or self._has_unions]
            least += [one.least for one in inner if one.least is not None]
            nest.least = min(least, default=None)
            nest.broken = reduce(int.__or__, map(_BROKEN, [*nest.held, *inner]), 0)
        return NarrowParts(narrow, costs, self._search, self._ranks, self._part)

    def _file(self, part: BrokenPart) -> None:
        """Note a part where pools have it."""
        tree = self._search.tree
        # Most are in one pool, and in all around it: the others need not be asked.
        holding = tree.deepest[part.lowest]
        if part.cpus & tree.masks[holding] != part.cpus:
            holding = tree.holding(part.cpus)
        self._nests[holding].held.append(part)
        if tree.pools[holding].children:
            self._cut(part, holding)

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
        lowest = (cpus & -cpus).bit_length() - 1
        cost = self._costs.cost(cpus, broken)
        order = broken.bit_count() << CPU_BITS | lowest
        return BrokenPart(
            region, cpus, broken, cost, lowest, order, self._search.bounds.may_fit(cpus)
        )

    def _wide_parts(self, pool_id: int) -> list[BrokenPart]:
        """The parts in a pool that are not kept as masks, those of a region together."""
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
        nest, mask = self._nests[pool_id], self._search.tree.masks[pool_id]
        count = nest.count + len(nest.pieces) + self._narrow.count(mask)
        if count == 1:
            # Most pools have one: nothing is to be chosen.
            one = next(iter(self._wide_parts(pool_id)), None) or self._narrow.only(mask)
            return one if self._ranks.fits(pool_id, one) else None
        cpus = self._everything & mask
        if not self._search.may_fit(pool_id, cpus):
            return None
        if self._has_unions and count > self._left_to_try:
            found = self._roughly_least(pool_id, nest, count)
            if found is not None:
                return found
        found = self._least_single(pool_id, count, _CLOSURES_MAX)
        if not self._has_unions:
            return found
        self._left_to_try -= count
        if found is None and self._search.own_cpus.are_too_few(pool_id):
            # No parts together are enough where all are too few.
            return None
        return self._least_union(pool_id, found)

    def least_cost(self, pool_id: int) -> int:
        """The cost of a place in a pool at least, if there is one."""
        nest, has_unions = self._nests[pool_id], self._has_unions
        found = [one.cost for one in nest.pieces if one.may_fit or has_unions]
        found += [] if nest.least is None else [nest.least]
        found += self._narrow.least_costs(self._search.tree.masks[pool_id], has_unions)
        # Nothing that is added to a part makes it cheaper.
        return min(found, default=0)

    def pass_over(self, pool_id: int, *, is_full: bool = False) -> None:
        """Look at no part of a pool; those of later ones are tried together, or not, as after it.

        Whatever is found there: nothing, where it `is_full`, or else some part.
        """
        nest, mask = self._nests[pool_id], self._search.tree.masks[pool_id]
        if self._has_unions and self._search.may_fit(pool_id, self._everything & mask):
            count = nest.count + len(nest.pieces) + self._narrow.count(mask)
            # Where a single part serves, as more than are left to try, none are tried together.
            if count > 1 and (is_full or count <= self._left_to_try):
                self._left_to_try -= count

    def _roughly_least(self, pool_id: int, nest: Nest, count: int) -> BrokenPart | None:
        """A single part of a pool that fits, the best of them, or else all of its only region.

        All of it also where that costs no more, unless likings tell them apart: these are dear.
        """
        found = self._least_single(pool_id, count, 0)
        if not self._is_one_region or (found is not None and self._ranks.left is None):
            return found
        cpus = self._everything & self._search.tree.masks[pool_id]
        whole = self._part(0, cpus, self._broken_on_some(pool_id))
        if found is not None and (
            whole.cost > found.cost or self._ranks.best_of_equals(pool_id, [found, whole]) is found
        ):
            return found
        return whole if self._ranks.fits(pool_id, whole) else found

    def _broken_on_some(self, pool_id: int) -> int:
        """The rules that break on some parts of a pool."""
        nest, mask = self._nests[pool_id], self._search.tree.masks[pool_id]
        broken = reduce(int.__or__, map(_BROKEN, nest.pieces), nest.broken)
        return broken | self._narrow.broken(mask)

    def _by_region(self, parts: list[BrokenPart]) -> list[list[BrokenPart]]:
        if self._is_one_region:
            return [parts]
        return [list(some) for _, some in groupby(parts, _REGION)]

    def _least_single(self, pool_id: int, count: int, closures: int) -> BrokenPart | None:
        """The best part where parts are together only if no more rules break by that.

        `closures`: in a pool with more parts none are together.
        """
        mask = self._search.tree.masks[pool_id]
        narrow = self._narrow.first_that_fits(mask, partial(self._ranks.fits, pool_id))
        most = None if narrow is None else narrow.cost
        wide = self._first_closed(pool_id, count, most, closures)
        if narrow is None or wide is None or wide.cost != narrow.cost:
            return min(filter(None, (narrow, wide)), key=_COST, default=None)
        return self._ranks.best_of_equals(pool_id, [narrow, wide])

    def _first_closed(
        self, pool_id: int, count: int, most: int | None, closures: int
    ) -> BrokenPart | None:
        """The first part by cost and rank that fits, with all others on which no more breaks.

        `count`: that of all parts, also those that are kept as masks. `most`: the highest cost.
        `closures`: as above.
        """
        mask = self._search.tree.masks[pool_id]
        by_cost: dict[int, list[tuple[BrokenPart, list[BrokenPart]]]] = {}
        for some in self._by_region(self._wide_parts(pool_id)):
            number = count if self._is_one_region else len(some)
            others = some if 1 < number <= closures else []
            for one in some:
                by_cost.setdefault(one.cost, []).append((one, others))
        while by_cost:
            cost = min(by_cost)
            if most is not None and cost > most:
                break
            equals: list[BrokenPart] = []
            for one, others in by_cost.pop(cost):
                closed = self._closed(one, others, mask) if others else one
                if closed.cost > cost:
                    by_cost.setdefault(closed.cost, []).append((closed, []))
                elif closed.may_fit:
                    equals.append(closed)
            found = self._ranks.first_of_equals(pool_id, equals)
            if found is not None:
                return found
        return None

    def _closed(self, one: BrokenPart, parts: Sequence[BrokenPart], pool: int) -> BrokenPart:
        """A part of a pool with all others of its region on which nothing more breaks."""
        broken = one.broken
        others = [other.cpus for other in parts if other.broken | broken == broken]
        if len(others) == 1 and self._narrow.are_none:
            # Itself.
            return one
        everywhere = self._everything & pool
        if not self._is_one_region:
            everywhere = reduce(int.__or__, map(_CPUS, parts), 0)
        rest = self._costs.rest_around(one, everywhere)
        if not rest:
            return one
        found = one.cpus | self._narrow.within(rest | one.cpus, broken)
        for cpus in others:
            if cpus & rest == cpus:
                found |= cpus
        return one if found == one.cpus else self._part(one.region, found, one.broken)

    def _least_union(self, pool_id: int, known: BrokenPart | None) -> BrokenPart | None:
        """The parts of a region together that break least and fit, or else what fits already."""
        unions: dict[int, list[BrokenPart]] = {}
        for some in self._by_region(self._wide_parts(pool_id)):
            for one in self._unions(pool_id, some, None if known is None else known.cost):
                unions.setdefault(one.cost, []).append(one)
        for cost in sorted(unions):
            equals = unions[cost]
            if known is not None and cost >= known.cost:
                if cost > known.cost:
                    break
                equals.append(known)
            found = self._ranks.first_of_equals(pool_id, equals)
            if found is not None:
                return found
        return known

    def _unions(
        self, pool_id: int, parts: Sequence[BrokenPart], most: int | None
    ) -> Sequence[BrokenPart]:
        """The first two parts of a region together, the first three, and so on, up to a cost.

        Nothing that is added makes one cheaper. `parts`: all of the pool but those that are kept as
        masks. `most`: the highest cost.
        """
        ordered = [(one.order, one.cpus, one.broken) for one in parts]
        ordered += self._narrow.ordered(self._search.tree.masks[pool_id])
        ordered.sort()
        region, cost = parts[0].region if parts else 0, self._costs.cost
        all_cpus = accumulate([one for _, one, _ in ordered], int.__or__)
        all_broken = accumulate([one for _, _, one in ordered], int.__or__)
        together = islice(zip(all_cpus, all_broken, strict=True), 1, None)
        found: list[BrokenPart] = []
        for cpus, broken in together:
            price = cost(cpus, broken)
            if most is not None and price > most:
                break
            found.append(BrokenPart(region, cpus, broken, price, (cpus & -cpus).bit_length() - 1))
        return found
