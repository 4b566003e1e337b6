"""Narrow parts: whole domains on which rules break, kept as masks of their lowest cpus.

Where rules are about domains of a few cpus the parts are thousands. What all of them cost, and how
much of each is left, is found for a whole level at once; a part itself is made when a pool may
get it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from typing import Final

from ....topology.sets.cpuset import iter_bits, lowest_cpu
from .breaking_costs import CPU_BITS, BreakingCosts, BrokenPart, Family, Ordered
from .openings import OpeningSearch
from .part_ranks import PartRanks

_FEW: Final = 8
"""Not more parts than these are looked at one by one."""
_MANY: Final = 512
"""Of more parts than these how much they are liked is told roughly."""


class NarrowParts:
    """The parts of one region that are whole domains inside the narrowest pools.

    A part is named by its lowest cpu, and sets of parts are masks of those.
    """

    def __init__(
        self,
        families: Sequence[Family],
        costs: BreakingCosts,
        search: OpeningSearch,
        ranks: PartRanks,
        make: Callable[[int, int, int], BrokenPart],
    ) -> None:
        """`families`: those of which `are_narrow` says so."""
        self._domains = domains = search.judgement.domains
        self._search = search
        self._costs = costs
        self._ranks = ranks
        self._make = make
        self._families = [(domains.indexes(one.level, one.cpus), one) for one in families]
        self._made: dict[int, BrokenPart] = {}
        self._every = reduce(int.__or__, [some for some, _ in self._families], 0)
        self._may_fit = 0
        self._by_rule: dict[int, int] = {}
        """By rule, as a mask, those on which it breaks."""
        # The same parts by two questions: what they cost, and how many of their cpus are left.
        by_cost: dict[int, int] = {}
        by_left: dict[int, int] = {}
        for some, family in self._families:
            roomy = some & search.bounds.may_fit_domains(family.level)
            self._may_fit |= roomy
            for cost, here in costs.by_cost(family, roomy).items() if roomy else ():
                by_cost[cost] = by_cost.get(cost, 0) | here
            for left, here in enumerate(domains.by_count(family.level, ranks.free)):
                if here & roomy:
                    by_left[left] = by_left.get(left, 0) | here & roomy
            for number in iter_bits(family.broken):
                self._by_rule[1 << number] = self._by_rule.get(1 << number, 0) | some
        self._by_cost = sorted(by_cost.items())
        self._by_left = sorted(by_left.items(), reverse=True)

    @cached_property
    def _family_of(self) -> Mapping[int, Family]:
        """By its lowest cpu the family of each part."""
        found: dict[int, Family] = {}
        for some, family in self._families:
            found.update(dict.fromkeys(iter_bits(some), family))
        return found

    def count(self, pool: int) -> int:
        """The number of parts that a pool has. `pool`: its cpus as a mask."""
        return (self._every & pool).bit_count()

    def broken(self, pool: int) -> int:
        """The rules that break on some of those in a pool."""
        return sum([rule for rule, some in self._by_rule.items() if some & pool])

    def ordered(self, pool: int) -> list[Ordered]:
        """The parts that a pool has, in any order."""
        found: list[Ordered] = []
        for some, (_, broken, level) in self._families:
            holders, first = self._domains.holders(level), broken.bit_count() << CPU_BITS
            found += [(first | one, holders[one], broken) for one in iter_bits(some & pool)]
        return found

    def _ordered(self, lowest: int) -> Ordered:
        family = self._family_of[lowest]
        cpus = self._domains.holders(family.level)[lowest]
        return family.broken.bit_count() << CPU_BITS | lowest, cpus, family.broken

    def only(self, pool: int) -> BrokenPart:
        """The only one of a pool."""
        return self._part(lowest_cpu(self._every & pool))

    def first_that_fits(self, pool: int, fits: Callable[[BrokenPart], bool]) -> BrokenPart | None:
        """The first part in a pool by cost and rank that fits there."""
        for _, some in self._by_cost:
            here = some & pool & self._may_fit
            while here:
                best = self._best_of_equals(here)
                part = self._part(lowest_cpu(best))
                if fits(part):
                    return part
                here ^= best
        return None

    def least_costs(self, pool: int, has_unions: bool) -> Iterable[int]:
        """At least what parts in a pool cost that may fit, or parts of any kind with unions."""
        if has_unions:
            families = [family for some, family in self._families if some & pool]
            return [self._costs.least(family.broken) for family in families]
        here = pool & self._may_fit
        return [cost for cost, some in self._by_cost if some & here][:1]

    def _best_of_equals(self, some: int) -> int:
        """The first by rank of some that cost as much."""
        if self._ranks.left is None:
            # They are liked as much as one of their cpus.
            some = self._search.judgement.pulls.best(some, 1)
        for _, alike in self._by_left:
            if here := some & alike:
                return here & -here
        return some & -some

    @property
    def are_none(self) -> bool:
        """Whether no part is kept as a mask."""
        return not self._families

    def within(self, cpus: int, broken: int) -> int:
        """The cpus of all that have no others than these, and on which no more rules break."""
        domains, found = self._domains, 0
        for _, family in self._families:
            here = family.cpus & cpus
            if here and not family.broken & ~broken:
                found |= domains.members(family.level, domains.whole(family.level, here))
        return found

    def _part(self, lowest: int) -> BrokenPart:
        part = self._made.get(lowest)
        if part is None:
            _, cpus, broken = self._ordered(lowest)
            part = self._made[lowest] = self._make(0, cpus, broken)
        return part


def are_narrow(
    family: Family, costs: BreakingCosts, search: OpeningSearch, ranks: PartRanks
) -> bool:
    """Whether the parts of a family are many, and may be kept as masks."""
    cpus, broken, level = family
    domains, pulls = search.judgement.domains, search.judgement.pulls
    count = costs.count(family)
    if count <= _FEW or domains.covering(level, cpus) != cpus:
        return False
    if not all(domains.nest(level, one) for one in costs.levels_chosen(broken)):
        return False
    if not domains.are_inside(level, _leaves(search)):
        return False
    return ranks.left is not None or pulls.rank_by_cpu(level, is_rough=count > _MANY)


def _leaves(search: OpeningSearch) -> tuple[int, ...]:
    """The narrowest pools."""
    pools, masks = search.tree.pools, search.tree.masks
    return tuple([mask for mask, pool in zip(masks, pools, strict=True) if not pool.children])
