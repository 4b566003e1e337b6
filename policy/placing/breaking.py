"""Breaking of rules that may degrade: the places of a newcomer where the fewest of them break."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec import Struct

from ...topology.model.machine import Level
from ...topology.sets.cpuset import iter_bits
from ..model.grant import Dropped
from ..pools.domains import Domains
from .judging.restriction import Restriction
from .openings import Openings, OpeningSearch

_ATOMS_MAX: Final = 64
_CLOSURES_MAX: Final = 16
"""Of a pool with more parts than these, single ones and the first few together are tried."""
_RULE: Final = 1 << 16
"""The cost of a broken rule; of two places that break as many, one breaks fewer of residents."""


class _Part(Struct, dict=True):
    """Cpus of one region on which the same rules break."""

    region: int
    """The number of the region."""
    cpus: int
    broken: int
    """The places of the rules that break on each of them in their list, as a mask."""
    cost: int
    """What it costs to be on all of them."""
    rank: tuple[int, int, int, int] | None = None
    """Its rank among those that cost as much, where somebody asked for it."""

    @cached_property
    def order(self) -> tuple[int, int]:
        """Its place among those that are tried together: first where few rules break."""
        return self.broken.bit_count(), self.cpus & -self.cpus


def degraded(search: OpeningSearch) -> Openings | None:
    """The places where no rule breaks that must not, and as few as possible of the others.

    None where all of them insist.
    """
    rules = search.judgement.restrictions()
    firm = [one for one in rules if not one.can_break]
    weak = _distinct([one for one in rules if one.can_break])
    if not weak:
        return None
    costs = _Costs(weak, search.judgement.domains)
    everything = search.tree.root.cpus.mask
    for one in firm:
        everything &= ~one.forbidden
    closed = frozenset[int]().union(*(one.closed_pools for one in firm))
    regions = search.regions(everything, [one for one in firm if one.is_own])
    breaking = _Breaking(search, costs)
    best = [0] * len(search.tree.pools)
    unmet = [0] * len(best)
    dropped: dict[int, Dropped] = {}
    for pool_id, parts in breaking.parts_of_pools(regions):
        found = None if pool_id in closed else breaking.least_broken(pool_id, parts)
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
        dropped=dict(sorted(dropped.items())),
        preferred=search.preferences(best),
        unmet=[cost // _RULE for cost in unmet],
        unmet_of_others=[cost % _RULE for cost in unmet],
    )


class _Weak(NamedTuple):
    """A rule that may break, and what that costs; equal ones of several owners are one."""

    rule: Restriction
    cost: int


def _distinct(rules: Sequence[Restriction]) -> list[_Weak]:
    found: dict[int, _Weak] = {}
    for number, one in enumerate(rules):
        # No mask is negative.
        key = ~number if one.is_own else one.forbidden
        cost = _RULE + (not one.is_own)
        before = found.get(key)
        found[key] = _Weak(one, cost + (before.cost if before else 0))
    return list(found.values())


def _objects(rule: Restriction, search: OpeningSearch, pool_id: int) -> bool:
    return (
        pool_id in rule.closed_pools or not search.tree.pools[pool_id].cpus.mask & ~rule.forbidden
    )


class _Breaking:
    """The parts of pools that break the fewest rules.

    Where rules are about domains of a few cpus, the parts are thousands: each is priced once for
    all pools that have the whole of it, and whether a request fits is asked of the best alone.
    """

    def __init__(self, search: OpeningSearch, costs: "_Costs") -> None:
        self._search = search
        self._costs = costs
        # Which cpus of a region are left does not depend on the pool, but where isolated ones may
        # serve in some pools, and not in others.
        request, isolated = search.request, search.ledger.free_isolated[-1]
        self._keeps_ranks = not (
            request.wants_isolated and isolated.bit_count() >= request.exclusive
        )

    def parts_of_pools(self, regions: Sequence[int]) -> Iterator[tuple[int, Sequence[_Part]]]:
        """The parts of regions in each pool; a pool comes after the one around it."""
        tree = self._search.tree
        found: list[list[_Part]] = [[] for _ in tree.pools]
        for number, region in enumerate(regions):
            for cpus, broken in self._costs.atoms(region):
                part = self._part(number, cpus, broken)
                # Most are in one pool, and in all around it: the others need not be asked.
                holding = tree.holding(cpus)
                for pool_id in (holding, *tree.ancestors[holding]):
                    found[pool_id].append(part)
                self._cut(part, holding, found)
        for pool in reversed(tree.pools):
            yield pool.id, found[pool.id]

    def _cut(self, part: _Part, pool_id: int, found: Sequence[list[_Part]]) -> None:
        """Divide a part of a pool among the pools inside."""
        tree = self._search.tree
        for child in tree.pools[pool_id].children:
            here = part.cpus & tree.masks[child]
            if here:
                is_whole = here == part.cpus
                inside = part if is_whole else self._part(part.region, here, part.broken)
                found[child].append(inside)
                self._cut(inside, child, found)

    def _part(self, region: int, cpus: int, broken: int) -> _Part:
        return _Part(region, cpus, broken, self._costs.cost(cpus, broken))

    def least_broken(self, pool_id: int, parts: Sequence[_Part]) -> _Part | None:
        """Of the parts of a pool, or some together, what breaks least and fits.

        What is liked best of those that break as little.
        """
        if len(parts) == 1:
            # Most pools have one: nothing is to be chosen.
            return parts[0] if self._search.fits(pool_id, parts[0].cpus) else None
        everywhere = 0
        for one in parts:
            everywhere |= one.cpus
        if not self._search.may_fit(pool_id, everywhere):
            return None
        by_region = [list(some) for _, some in groupby(parts, attrgetter("region"))]
        single: list[_Part] = []
        for some in by_region:
            single += self._closures(some) if 1 < len(some) <= _CLOSURES_MAX else some
        found = self._first_that_fits(pool_id, single)
        joint: list[_Part] = []
        for some in by_region:
            joint += self._unions(some, None if found is None else found.cost)
        if not joint:
            return found
        return self._first_that_fits(pool_id, joint if found is None else [found, *joint])

    def _first_that_fits(self, pool_id: int, parts: Iterable[_Part]) -> _Part | None:
        """The first part by cost and rank that fits."""
        by_cost: dict[int, list[_Part]] = {}
        for one in parts:
            by_cost.setdefault(one.cost, []).append(one)
        for cost in sorted(by_cost):
            alike = by_cost[cost]
            if len(alike) > 1:
                # How much it is liked takes long to tell.
                alike.sort(key=partial(self._rank, pool_id))
            for one in alike:
                if self._search.fits(pool_id, one.cpus):
                    return one
        return None

    def _rank(self, pool_id: int, part: _Part) -> tuple[int, int, int, int]:
        found = part.rank if self._keeps_ranks else None
        if found is None:
            search, cpus = self._search, part.cpus
            liking, free = search.liking(pool_id, cpus), search.free(pool_id, cpus)
            found = part.rank = -liking, -free, cpus & -cpus, cpus
        return found

    def _unions(self, parts: Sequence[_Part], most: int | None) -> Iterator[_Part]:
        """The first two parts of a region together, the first three, and so on, up to a cost."""
        ordered = sorted(parts, key=attrgetter("order"))
        cpus, broken = ordered[0].cpus, ordered[0].broken
        for one in ordered[1:]:
            cpus, broken = cpus | one.cpus, broken | one.broken
            union = self._part(one.region, cpus, broken)
            # Nothing that is added makes it cheaper.
            if most is not None and union.cost > most:
                break
            yield union

    def _closures(self, parts: Sequence[_Part]) -> Iterator[_Part]:
        """Each part with all others on which nothing more breaks."""
        everywhere = 0
        for one in parts:
            everywhere |= one.cpus
        for one in parts:
            within = self._costs.within(one)
            if not everywhere & ~one.cpus & within:
                yield one
                continue
            found = 0
            for other in parts:
                if not other.broken & ~one.broken and not other.cpus & ~within:
                    found |= other.cpus
            yield one if found == one.cpus else self._part(one.region, found, one.broken)


class _Costs:
    """The costs of breaking rules; of rules that many parts of pools break, added up once."""

    def __init__(self, weak: Sequence[_Weak], domains: Domains) -> None:
        self._weak = weak
        self._domains = domains
        self._of_broken: dict[int, int] = {0: 0}
        self._of_pools = [one for one in weak if one.rule.closed_pools]
        # Rules that ask for one domain, by level: their places, and those of one level together.
        self._choosing: dict[Level, list[tuple[int, _Weak]]] = {}
        self._of_level: dict[Level, int] = {}
        for number, one in enumerate(weak):
            if one.rule.choices:
                level, place = one.rule.level, 1 << number
                self._choosing.setdefault(level, []).append((place, one))
                self._of_level[level] = self._of_level.get(level, 0) | place

    def of_pool(self, pool_id: int) -> int:
        """What is broken by any place in a pool."""
        return sum([cost for rule, cost in self._of_pools if pool_id in rule.closed_pools])

    def cost(self, cpus: int, broken: int) -> int:
        """What a part of a region breaks: these rules, and those for one domain where it spans."""
        cost = self._of_broken.get(broken)
        if cost is None:
            cost = sum([self._weak[bit].cost for bit in iter_bits(broken)])
            self._of_broken[broken] = cost
        for level, rules in self._choosing.items():
            if not self._of_level[level] & ~broken:
                continue
            spans = cpus & ~self._domain(level, cpus)
            for place, one in rules:
                if not broken & place and (spans or cpus & one.rule.forbidden):
                    cost += one.cost
        return cost

    def _domain(self, level: Level, cpus: int) -> int:
        """The domain of the lowest of some cpus."""
        return self._domains.holders(level).get((cpus & -cpus).bit_length() - 1, 0)

    def within(self, part: _Part) -> int:
        """A mask of the cpus in the domains that rules ask for which a part does not break."""
        mask = -1
        for level, places in self._of_level.items():
            if places & ~part.broken:
                domain = self._domain(level, part.cpus)
                mask &= domain if domain and not part.cpus & ~domain else -1
        return mask

    def atoms(self, region: int) -> list[tuple[int, int]]:
        """Disjoint parts of a region, each with the rules that break there."""
        atoms = [(region, 0)]
        for number, (rule, _) in enumerate(self._weak):
            if len(atoms) > _ATOMS_MAX:
                break
            found: list[tuple[int, int]] = []
            for cpus, broken in atoms:
                inside = cpus & rule.forbidden
                if inside:
                    found.append((inside, broken | 1 << number))
                    cpus &= ~inside
                if cpus and rule.choices:
                    found += [(one, broken) for one in self._domains.parts(rule.level, cpus)]
                elif cpus:
                    found.append((cpus, broken))
            atoms = found
        return atoms
