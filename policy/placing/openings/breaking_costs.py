"""Costs of breaking rules that may degrade, and parts of regions on which the same ones break."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct, field

from ....topology.model.machine import Level
from ....topology.sets.cpuset import iter_bits
from ...pools.domains import Domains
from ..judging.restriction import Restriction

RULE: Final = 1 << 16
"""The cost of a broken rule; of two places that break as many, one breaks fewer of residents."""
CPU_BITS: Final = 16
"""More than any number of a cpu has."""
_ATOMS_MAX: Final = 64


class BrokenPart(Struct):
    """Cpus of one region on which the same rules break."""

    region: int
    """The number of the region."""
    cpus: int
    broken: int
    """The places of the rules that break on each of them in their list, as a mask."""
    cost: int
    """What it costs to be on all of them."""
    lowest: int
    """The lowest of the cpus."""
    order: int = 0
    """Its place among those that are tried together: first where few rules break."""
    may_fit: bool = True
    """Whether the newcomer may have it in some pool."""
    rank: tuple[int, int, int, int] | None = None
    """Its rank among those that cost as much, where somebody asked for it."""


Ordered = tuple[int, int, int]
"""The place of a part among those that are tried together, its cpus, and the rules that break."""


class Nest(Struct):
    """The parts of regions in a pool."""

    held: list[BrokenPart] = field(default_factory=list[BrokenPart])
    """Parts that no pool inside holds the whole of."""
    pieces: list[BrokenPart] = field(default_factory=list[BrokenPart])
    """What it has of parts that are not wholly in it."""
    count: int = 0
    """How many it has, those held in pools inside as well, but no pieces."""
    broken: int = 0
    """The rules that break on some of those."""
    least: int | None = None
    """The cost of the cheapest of them that may fit."""


class Family(NamedTuple):
    """Parts of a region on which the same rules break: what it has of each domain of a level."""

    cpus: int
    """Cpus of all parts."""
    broken: int
    level: Level
    """Of the whole system: they are one part."""


class WeakRule(NamedTuple):
    """A rule that may break, and what that costs; equal ones of several owners are one."""

    rule: Restriction
    cost: int


def distinct(rules: Sequence[Restriction]) -> list[WeakRule]:
    """Rules that may break, equal ones of residents together."""
    found: dict[int, WeakRule] = {}
    for number, one in enumerate(rules):
        # No mask is negative.
        key = ~number if one.is_own else one.forbidden
        cost = RULE + (not one.is_own)
        before = found.get(key)
        found[key] = WeakRule(one, cost + (before.cost if before else 0))
    return list(found.values())


_Choosing = tuple[Mapping[int, int], Sequence[WeakRule], int, int]
"""Rules that ask for one domain of a level: the domains by cpu, the rules, the cpus that break some
of them, and what all of them cost."""


class _Price(NamedTuple):
    """The cost of broken rules, and of the others that ask for one domain."""

    cost: int
    choosing: Sequence[_Choosing]
    """The others, which a wide place breaks, the narrowest level first."""
    forbidden: int
    """Cpus that break some of the others."""
    narrowest: Mapping[int, int]
    """By cpu the domain outside which no other is left; none where levels do not nest."""


class BreakingCosts:
    """The costs of breaking rules; of rules that many parts of pools break, added up once."""

    def __init__(self, weak: Sequence[WeakRule], domains: Domains) -> None:
        self._weak = weak
        self._domains = domains
        self._of_broken: dict[int, _Price] = {}
        self._of_pools = [one for one in weak if one.rule.closed_pools]
        # Rules that ask for one domain, by level, with their places.
        choosing: dict[Level, list[tuple[int, WeakRule]]] = {}
        for number, one in enumerate(weak):
            if one.rule.choices:
                choosing.setdefault(one.rule.level, []).append((1 << number, one))
        self._choosing = [(one, choosing[one]) for one in reversed(Level) if one in choosing]

    @property
    def rule_count(self) -> int:
        """The number of different rules."""
        return len(self._weak)

    @cached_property
    def everything(self) -> int:
        """The cost of all rules together."""
        return sum([one.cost for one in self._weak])

    def of_pool(self, pool_id: int) -> int:
        """The cost of the rules that break at any place in a pool."""
        if not self._of_pools:
            return 0
        return sum([cost for rule, cost in self._of_pools if pool_id in rule.closed_pools])

    def cost(self, cpus: int, broken: int) -> int:
        """The cost of a part of a region: of these rules, and those for one domain if it spans."""
        cost, choosing, all_forbidden, narrowest = self._of_broken.get(broken) or self._price(
            broken
        )
        if not choosing:
            return cost
        lowest = (cpus & -cpus).bit_length() - 1
        if not cpus & all_forbidden and cpus & narrowest.get(lowest, 0) == cpus:
            # Most parts are in one domain of each level.
            return cost
        for holders, rules, forbidden, all_of_them in choosing:
            if cpus & holders.get(lowest, 0) != cpus:
                cost += all_of_them
            elif cpus & forbidden:
                cost += sum([one.cost for one in rules if cpus & one.rule.forbidden])
        return cost

    def least(self, broken: int) -> int:
        """The least cost of any part on which these rules break."""
        return (self._of_broken.get(broken) or self._price(broken)).cost

    def _price(self, broken: int) -> _Price:
        cost = sum([self._weak[bit].cost for bit in iter_bits(broken)])
        if not self._choosing:
            known = self._of_broken[broken] = _Price(cost, (), 0, {})
            return known
        found: list[_Choosing] = []
        for level, some in self._choosing:
            rules = [one for place, one in some if not broken & place]
            if rules:
                forbidden = reduce(int.__or__, [one.rule.forbidden for one in rules])
                together = sum([one.cost for one in rules])
                found.append((self._domains.holders(level), rules, forbidden, together))
        everywhere = reduce(int.__or__, [forbidden for _, _, forbidden, _ in found], 0)
        narrowest: Mapping[int, int] = {}
        levels = self.levels_chosen(broken)
        if found and all(self._domains.nest(*pair) for pair in pairwise(levels)):
            narrowest = found[0][0]
        known = self._of_broken[broken] = _Price(cost, found, everywhere, narrowest)
        return known

    def rest_around(self, part: BrokenPart, cpus: int) -> int:
        """The rest of some cpus in all domains that rules ask for which a part does not break."""
        own, lowest = part.cpus, part.lowest
        rest = cpus ^ cpus & own
        for holders, _, _, _ in (
            self._of_broken.get(part.broken) or self._price(part.broken)
        ).choosing:
            domain = holders.get(lowest, 0)
            if own & domain == own:
                rest &= domain
                if not rest:
                    break
        return rest

    def by_cost(self, family: Family, indexes: int) -> Mapping[int, int]:
        """The domains of a family's parts by what it costs to be on these.

        Of parts that are whole, each in one domain of every level that a rule asks for.
        """
        price = self._of_broken.get(family.broken) or self._price(family.broken)
        found = {price.cost: indexes}
        for _, rules, _, _ in price.choosing:
            for one in rules:
                breaking = self._domains.indexes(family.level, family.cpus & one.rule.forbidden)
                if not breaking:
                    continue
                divided: dict[int, int] = {}
                for cost, some in found.items():
                    for more, here in (cost + one.cost, some & breaking), (cost, some & ~breaking):
                        if here:
                            divided[more] = divided.get(more, 0) | here
                found = divided
        return found

    def levels_chosen(self, broken: int) -> Iterable[Level]:
        """The levels of which rules ask for one domain where these are broken already."""
        return [level for level, some in self._choosing if any(not broken & at for at, _ in some)]

    def families(self, region: int) -> list[Family]:
        """Disjoint parts of a region, each with the rules that break there."""
        found, count = [Family(region, 0, Level.SYSTEM)], 1
        are_many = region.bit_count() > _ATOMS_MAX
        for number, (rule, _) in enumerate(self._weak):
            if count > _ATOMS_MAX:
                break
            if not rule.choices and not rule.forbidden & region:
                continue
            divided: list[Family] = []
            for cpus, broken, level in found:
                inside = cpus & rule.forbidden
                if inside:
                    divided.append(Family(inside, broken | 1 << number, level))
                    cpus &= ~inside
                if cpus:
                    divided += self._chosen(Family(cpus, broken, level), rule)
            found = divided
            if are_many:
                count = sum([self.count(one) for one in found])
        return found

    def _chosen(self, family: Family, rule: Restriction) -> list[Family]:
        """The parts of a family divided among the domains for one of which a rule asks."""
        cpus, broken, level = family
        if not rule.choices or self._domains.nest(level, rule.level):
            return [family]
        if self._domains.nest(rule.level, level):
            return [Family(cpus, broken, rule.level)]
        return [Family(one, broken, rule.level) for one in self.parts(family)]

    def parts(self, family: Family) -> list[int]:
        """The parts of a family."""
        if family.level is Level.SYSTEM:
            return [family.cpus]
        return self._domains.parts(family.level, family.cpus)

    def count(self, family: Family) -> int:
        """The number of a family's parts."""
        if family.level is Level.SYSTEM:
            return 1
        return self._domains.indexes(family.level, family.cpus).bit_count()
