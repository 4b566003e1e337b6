"""Costs of breaking rules that may degrade, and parts of regions on which the same ones break."""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct

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
    rank: tuple[int, int, int, int] | None = None
    """Its rank among those that cost as much, where somebody asked for it."""
    may_fit: bool = True
    """Whether the newcomer may have it in the pools that are not asked yet."""


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

    def of_pool(self, pool_id: int) -> int:
        """The cost of the rules that break at any place in a pool."""
        return sum([cost for rule, cost in self._of_pools if pool_id in rule.closed_pools])

    def cost(self, cpus: int, broken: int, lowest: int) -> int:
        """The cost of a part of a region: of these rules, and those for one domain where it spans.

        `lowest`: the number of the lowest of its cpus.
        """
        cost, choosing, all_forbidden, narrowest = self._of_broken.get(broken) or self._price(
            broken
        )
        if not cpus & all_forbidden and not cpus & ~narrowest.get(lowest, 0):
            # Most parts are in one domain of each level.
            return cost
        for holders, rules, forbidden, all_of_them in choosing:
            if cpus & ~holders.get(lowest, 0):
                cost += all_of_them
            elif cpus & forbidden:
                cost += sum([one.cost for one in rules if cpus & one.rule.forbidden])
        return cost

    def _price(self, broken: int) -> _Price:
        cost = sum([self._weak[bit].cost for bit in iter_bits(broken)])
        found: list[_Choosing] = []
        for level, some in self._choosing:
            rules = [one for place, one in some if not broken & place]
            if rules:
                forbidden = reduce(int.__or__, [one.rule.forbidden for one in rules])
                together = sum([one.cost for one in rules])
                found.append((self._domains.holders(level), rules, forbidden, together))
        levels = [level for level, some in self._choosing if any(not broken & at for at, _ in some)]
        everywhere = reduce(int.__or__, [forbidden for _, _, forbidden, _ in found], 0)
        narrowest: Mapping[int, int] = {}
        if found and all(self._domains.nest(*pair) for pair in pairwise(levels)):
            narrowest = found[0][0]
        known = self._of_broken[broken] = _Price(cost, found, everywhere, narrowest)
        return known

    def rest_around(self, part: BrokenPart, cpus: int) -> int:
        """The rest of some cpus in all domains that rules ask for which a part does not break."""
        rest, own, lowest = cpus & ~part.cpus, part.cpus, part.lowest
        for holders, _, _, _ in (
            self._of_broken.get(part.broken) or self._price(part.broken)
        ).choosing:
            domain = holders.get(lowest, 0)
            if not own & ~domain:
                rest &= domain
                if not rest:
                    break
        return rest

    def atoms(self, region: int) -> list[tuple[int, int]]:
        """Disjoint parts of a region, each with the rules that break there."""
        atoms = [(region, 0)]
        for number, (rule, _) in enumerate(self._weak):
            if len(atoms) > _ATOMS_MAX:
                break
            if not rule.choices and not rule.forbidden & region:
                continue
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
