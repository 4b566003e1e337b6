"""Breaking of rules that may degrade: the places of a newcomer where the fewest of them break."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...topology.sets.cpuset import iter_bits
from ..model.grant import Dropped
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


_Priced = tuple[int, int]
"""What a part of a pool breaks, and a mask of its cpus."""


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
    for pool_id, mask in enumerate(search.tree.masks):
        found = [
            candidate
            for atoms in (pieces if pool_id not in closed else ())
            if (candidate := _least_broken(search, pool_id, mask, atoms, costs))
        ]
        if found:
            unmet[pool_id], best[pool_id] = _best(search, pool_id, found)
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


def _least_broken(
    search: OpeningSearch,
    pool_id: int,
    inside: int,
    everywhere: Sequence[_Atom],
    costs_of: "_Costs",
) -> _Priced | None:
    """The part of a pool, whose cpus are `inside`, that breaks least and fits."""
    parts = [(cpus, broken) for one, broken in everywhere if (cpus := one & inside)]
    if len(parts) == 1:
        # Most pools have one: nothing is to be chosen.
        cpus, broken = parts[0]
        if not search.fits(pool_id, cpus):
            return None
        return costs_of.cost(cpus, broken, pool_id), cpus
    atoms = [_Atom(cpus, broken) for cpus, broken in parts]
    candidates = {
        _closure(one, atoms, costs_of.within(one)) if len(atoms) <= _CLOSURES_MAX else one
        for one in atoms
    }
    union = _Atom(0, 0)
    for atom in sorted(atoms, key=lambda one: (one.broken.bit_count(), one.cpus & -one.cpus)):
        union = _Atom(union.cpus | atom.cpus, union.broken | atom.broken)
        candidates.add(union)
    costs = {one.cpus: costs_of.cost(one.cpus, one.broken, pool_id) for one in candidates}
    found: list[_Priced] = []
    for cpus in sorted(costs, key=lambda one: (costs[one], one & -one, one)):
        if found and costs[cpus] > found[0][0]:
            break
        if search.fits(pool_id, cpus):
            found.append((costs[cpus], cpus))
    return _best(search, pool_id, found) if found else None


def _best(search: OpeningSearch, pool_id: int, parts: Sequence[_Priced]) -> _Priced:
    """The part of a pool that breaks least, and is liked best of those."""
    if len(parts) == 1:
        # How much it is liked takes long to tell.
        return parts[0]

    def rank(part: _Priced) -> tuple[int, int, int, int, int]:
        cost, cpus = part
        preference, free = search.preference(pool_id, cpus), search.free(pool_id, cpus)
        return cost, -preference, -free, cpus & -cpus, cpus

    return min(parts, key=rank)


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

    def cost(self, cpus: int, broken: int, pool_id: int) -> int:
        """What a part of a pool breaks: these rules wherever it is, and others where they do."""
        cost = self._of_broken.get(broken)
        if cost is None:
            cost = sum([self.weak[bit].cost for bit in iter_bits(broken)])
            self._of_broken[broken] = cost
        for bit, one, kind in self._special:
            if broken & bit:
                continue
            key = kind, cpus, pool_id
            is_broken = self._breaks.get(key)
            if is_broken is None:
                is_broken = self._breaks[key] = one.rule.is_broken_by(cpus, pool_id)
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
