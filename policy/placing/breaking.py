"""Breaking of rules that may degrade: the places of a newcomer where the fewest of them break."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...topology.sets.cpuset import iter_bits
from ..model.grant import Dropped
from ..pools.pool_tree import Pool
from .judging.restriction import Restriction
from .openings import Openings, OpeningSearch

_ATOMS_MAX: Final = 64
_CLOSURES_MAX: Final = 16
"""Of a pool with more parts than these, single ones and the first few together are tried."""
_RULE: Final = 1 << 16
"""The cost of a broken rule; of two places that break as many, one breaks fewer of residents."""


class _Atom(NamedTuple):
    """Cpus on which the same rules break."""

    cpus: int
    broken: int
    """The places of those rules in their list, as a mask."""


def degraded(search: OpeningSearch) -> Openings | None:
    """The places where no rule breaks that must not, and as few as possible of the others.

    None where all of them insist.
    """
    rules = search.judgement.restrictions()
    firm = [one for one in rules if not one.can_break]
    weak = _distinct([one for one in rules if one.can_break])
    if not weak:
        return None
    costs = _Costs(weak)
    everything = search.tree.root.cpus.mask
    for one in firm:
        everything &= ~one.forbidden
    closed = frozenset[int]().union(*(one.closed_pools for one in firm))
    regions = search.regions(everything, [one for one in firm if one.is_own])
    pieces = [_atoms(region, weak) for region in regions]
    best = [0] * len(search.tree.pools)
    unmet = [0] * len(best)
    dropped: dict[int, Dropped] = {}
    for pool in search.tree.pools:
        found = [
            candidate
            for atoms in (pieces if pool.id not in closed else ())
            if (candidate := _least_broken(search, pool, atoms, costs))
        ]
        if found:
            cost, _, _, _, best[pool.id] = min(found)
            unmet[pool.id] = cost
        else:
            objecting = next((one for one in firm if _objects(one, search, pool.id)), None)
            dropped[pool.id] = (
                objecting.dropped()
                if objecting
                else Dropped("cpus where rules hold", search.request.describe(), "too few")
            )
    return Openings(
        regions=best,
        dropped=dropped,
        preferred=search.preferences(best),
        unmet=[cost // _RULE for cost in unmet],
        unmet_of_others=[cost % _RULE for cost in unmet],
    )


class _Weak(NamedTuple):
    """A rule that may break, and what that costs; equal ones of several owners are one."""

    rule: Restriction
    cost: int


def _distinct(rules: Sequence[Restriction]) -> list[_Weak]:
    found: dict[object, _Weak] = {}
    for number, one in enumerate(rules):
        key: object = number if one.is_own else one.forbidden
        cost = _RULE + (not one.is_own)
        before = found.get(key)
        found[key] = _Weak(one, cost + (before.cost if before else 0))
    return list(found.values())


def _objects(rule: Restriction, search: OpeningSearch, pool_id: int) -> bool:
    return (
        pool_id in rule.closed_pools or not search.tree.pools[pool_id].cpus.mask & ~rule.forbidden
    )


def _least_broken(
    search: OpeningSearch, pool: Pool, everywhere: Sequence[_Atom], costs_of: "_Costs"
) -> tuple[int, int, int, int, int] | None:
    """The part of a pool that breaks least and fits, after what to compare it by."""
    pool_id, inside = pool.id, pool.cpus.mask
    atoms = [_Atom(one.cpus & inside, one.broken) for one in everywhere if one.cpus & inside]
    if len(atoms) == 1:
        # Most pools have one: nothing is to be chosen.
        atom = atoms[0]
        if not search.fits(pool_id, atom.cpus):
            return None
        return _comparable(search, pool_id, atom.cpus, costs_of.cost(atom, pool_id))
    candidates = {
        _closure(one, atoms, costs_of.within(one)) if len(atoms) <= _CLOSURES_MAX else one
        for one in atoms
    }
    union = _Atom(0, 0)
    for atom in sorted(atoms, key=lambda one: (one.broken.bit_count(), one.cpus & -one.cpus)):
        union = _Atom(union.cpus | atom.cpus, union.broken | atom.broken)
        candidates.add(union)
    costs = {one.cpus: costs_of.cost(one, pool_id) for one in candidates}
    found: list[tuple[int, int, int, int, int]] = []
    for cpus in sorted(costs, key=lambda one: (costs[one], one & -one, one)):
        if found and costs[cpus] > found[0][0]:
            break
        if search.fits(pool_id, cpus):
            found.append(_comparable(search, pool_id, cpus, costs[cpus]))
    return min(found, default=None)


def _comparable(
    search: OpeningSearch, pool_id: int, cpus: int, cost: int
) -> tuple[int, int, int, int, int]:
    preference, free = search.preference(pool_id, cpus), search.free(pool_id, cpus)
    return cost, -preference, -free, cpus & -cpus, cpus


class _Costs:
    """The costs of breaking rules; of rules that many parts of pools break, added up once."""

    def __init__(self, weak: Sequence[_Weak]) -> None:
        self.weak = weak
        self._of_broken: dict[int, int] = {0: 0}
        # Rules that ask for one domain, or for pools. Those for the same domains break together.
        self._special: list[tuple[int, _Weak, int]] = []
        self._breaks: dict[tuple[int, int, int], bool] = {}
        kinds: dict[object, int] = {}
        choices: dict[tuple[int, ...], int] = {}
        for number, one in enumerate(weak):
            rule = one.rule
            if rule.choices or rule.closed_pools:
                kind = rule.choices, rule.forbidden, rule.closed_pools
                self._special.append((1 << number, one, kinds.setdefault(kind, len(kinds))))
            if rule.choices:
                choices[rule.choices] = choices.get(rule.choices, 0) | 1 << number
        # Which rules ask for the same domains, and the domain of each cpu.
        self._domains = [
            (numbers, {cpu: domain for domain in some for cpu in iter_bits(domain)})
            for some, numbers in choices.items()
        ]

    def cost(self, part: _Atom, pool_id: int) -> int:
        """What a part of a pool breaks."""
        cost = self._of_broken.get(part.broken)
        if cost is None:
            cost = sum([self.weak[bit].cost for bit in iter_bits(part.broken)])
            self._of_broken[part.broken] = cost
        for bit, one, kind in self._special:
            if part.broken & bit:
                continue
            key = kind, part.cpus, pool_id
            is_broken = self._breaks.get(key)
            if is_broken is None:
                is_broken = self._breaks[key] = one.rule.is_broken_by(part.cpus, pool_id)
            if is_broken:
                cost += one.cost
        return cost

    def within(self, atom: _Atom) -> int:
        """A mask of the cpus in the domains that rules ask for which an atom does not break."""
        mask, lowest = -1, (atom.cpus & -atom.cpus).bit_length() - 1
        for numbers, domain_of in self._domains:
            domain = domain_of.get(lowest, 0) if numbers & ~atom.broken else 0
            if domain and not atom.cpus & ~domain:
                mask &= domain
        return mask


def _atoms(region: int, weak: Sequence[_Weak]) -> list[_Atom]:
    """Disjoint parts of a region, by what breaks there."""
    atoms = [_Atom(region, 0)]
    for number, one in enumerate(weak):
        if len(atoms) > _ATOMS_MAX:
            break
        parts: list[_Atom] = []
        for cpus, broken in atoms:
            for domain in one.rule.choices:
                if inside := cpus & domain:
                    parts.append(_Atom(inside, broken))
                    cpus &= ~domain
            if inside := cpus & one.rule.forbidden:
                parts.append(_Atom(inside, broken | 1 << number))
            if outside := cpus & ~one.rule.forbidden:
                parts.append(_Atom(outside, broken))
        atoms = parts
    return atoms


def _closure(atom: _Atom, atoms: Sequence[_Atom], within: int) -> _Atom:
    """An atom with all others within some cpus on which nothing more breaks."""
    found = 0
    for other in atoms:
        if not other.broken & ~atom.broken and not other.cpus & ~within:
            found |= other.cpus
    return _Atom(found, atom.broken)
