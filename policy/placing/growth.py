"""Growth of shared residents: none into cpus where a rule that holds now would break.

What somebody gives back is for everybody who shares a pool; a container that must not be there, and
is not there only because others have those cpus for themselves, must not follow.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import NamedTuple

from msgspec.structs import replace

from ...topology.model.machine import Level
from ...topology.sets.cpuset import CpuSet
from ..books.books import Books
from ..model.container import Container, ContainerId
from ..model.grant import Grant, PoolId
from .judging.judgement import Judgement
from .judging.restriction import Restriction, wants_text
from .openings.crowds import standing_cpus


def held_back(
    judgement: Judgement, newcomer: Grant, cpus: int, books: Books, changed: Sequence[Grant]
) -> tuple[Grant, ...]:
    """Grants of residents that may not grow to the newcomer; those of `changed` are settled.

    Nobody's cpus are others by it now.
    """
    standing = cpus | (standing_cpus(newcomer, books.ledger) if newcomer.has_shared_part else 0)
    settled = {one.container_id for one in changed}
    found: dict[ContainerId, Grant] = {}
    ledger, shared = books.ledger, ~newcomer.exclusive.mask
    grants = ledger.grants
    for level, residents in _kept_apart(judgement).items():
        covered = books.domains.covering(level, standing)
        may_gain: dict[PoolId | tuple[PoolId, int], int] = {}
        # They may be many, most of them elsewhere: those cost no call.
        for container_id, seen in residents.items():
            if container_id in settled:
                continue
            grant = grants.get(container_id)
            is_penned = grant is None or grant.pen is not None
            if grant is None or is_penned:
                grant = ledger.counted(container_id)
            if found:
                grant = found.get(grant.container_id, grant)
            # Most share a pool.
            within = grant.within
            place = grant.pool_id if within is None else (grant.pool_id, within.mask)
            forbidden = may_gain.get(place)
            if forbidden is None:
                forbidden = may_gain[place] = standing_cpus(grant, ledger) & covered
            if not forbidden or grant.container_id in settled:
                continue
            here = books.presence(container_id) if is_penned or seen is None else seen[1]
            if not forbidden & here & shared and grant.has_shared_part:
                may_have = standing_cpus(grant, ledger)
                left = may_have & ~forbidden | here & books.tree.root.reserved.mask
                found[grant.container_id] = replace(grant, within=CpuSet(left))
    return tuple(found.values())


def kept_in(judgement: Judgement, grant: Grant, cpus: int, books: Books) -> Grant:
    """The grant of a resident on these cpus, which may grow where no rule breaks by it.

    Where a rule is broken already, it holds it back from nothing.
    """
    before = standing_cpus(grant, books.ledger)
    if not (before & ~cpus or judgement.inside):
        # It has them all: what holds where it runs keeps it from none of them.
        return grant
    may_have = before & allowed_cpus(judgement, grant, cpus)
    if may_have == before:
        return grant
    return replace(grant, within=CpuSet(may_have | cpus & books.tree.root.reserved.mask))


def kept_off(
    judgement: Judgement,
    grant: Grant,
    cpus: int,
    books: Books,
    grown: Mapping[ContainerId, Grant],
) -> Grant:
    """The grant of a resident on these cpus, off what others got back that it must not be with.

    `grown`: the grants of these, or of their pens.
    """
    before = may_have = standing_cpus(grant, books.ledger)
    for level, residents in _kept_apart(judgement).items() if grown else ():
        for other in filter(residents.__contains__, grown):
            standing = standing_cpus(grown[other], books.ledger)
            may_have &= ~books.domains.covering(level, standing) | cpus
    if may_have == before:
        return grant
    return replace(grant, within=CpuSet(may_have | cpus & books.tree.root.reserved.mask))


def kept_where_lent(judgement: Judgement, grant: Grant, cpus: int, books: Books) -> Grant:
    """The grant of a resident to which reserved cpus may be lent, because its pool is full.

    What it is lent next is a wider pool's: it shares the nearest one in which rules leave it cpus,
    and keeps the reserved ones as long as they leave it none.
    """
    ledger, reserved = books.ledger, books.tree.root.reserved.mask
    free, shared = ledger.free_sharable, cpus & ~grant.exclusive.mask
    named = 0 if grant.within is None else grant.within.mask
    if free[grant.pool_id] or not shared & ~named or shared & ~reserved:
        return kept_in(judgement, grant, cpus, books)
    closed, found = closed_pools((judgement,), grant.pool_id, firmly=False), grant
    for pool_id in (grant.pool_id, *ledger.tree.ancestors[grant.pool_id]):
        if pool_id in closed:
            # It would be lent cpus outside of the pools that a rule leaves it.
            return replace(found, within=CpuSet(standing_cpus(found, ledger) | shared))
        found = kept_in(judgement, replace(grant, pool_id=pool_id), cpus, books)
        if free[pool_id] & standing_cpus(found, ledger):
            break
    return found


def allowed_cpus(judgement: Judgement, grant: Grant, cpus: int) -> int:
    """A mask of all cpus that a resident may have without breaking a rule that holds now.

    Where it is in a pen: that its pen may have, as any of them may come to be for any in it.
    """
    allowed = judgement.domains.everything
    inside = [one for one in judgement.inside if one.blockers or one.choices]
    for some, here in ((judgement.restrictions, cpus), (inside, judgement.part)):
        for one in some:
            if one.blockers:
                # Beside one of these already, it comes beside no other.
                allowed &= ~one.forbidden | judgement.domains.covering(one.level, here)
            elif not one.is_broken_by(here, grant.pool_id):
                allowed &= ~one.forbidden
                for domain in one.choices:
                    allowed &= domain if not here & ~domain else -1
            elif one.choices and not here & one.forbidden:
                # It fits one domain by now, and may stay in those in which it is.
                allowed &= ~one.forbidden
    return allowed


def breaks_a_rule(judgement: Judgement, found: Grant, books: Books) -> bool:
    """Whether a rule that holds where a resident is would not on the cpus of another grant.

    One that may break counts for nothing where one that must not would hold again.
    """
    here, pool_id = books.reach(found.container_id), books.pool_around(found.container_id)
    within, free = found.within, books.ledger.free_sharable[found.pool_id]
    there = free if within is None else within.mask & free or within.mask
    rules = judgement.restrictions
    lost = [
        one
        for one in rules
        if one.is_broken_by(there, found.pool_id) and not one.is_broken_by(here, pool_id)
    ]
    if not all(one.can_break for one in lost):
        return True
    return bool(lost) and not any(
        one.is_broken_by(here, pool_id) and not one.is_broken_by(there, found.pool_id)
        for one in rules
        if not one.can_break
    )


def rules_text(judgements: Iterable[Judgement], cpus: int, pool_id: PoolId, books: Books) -> str:
    """The rules that hold on these cpus and keep residents from others, for people; or empty."""
    free = books.ledger.free_sharable[-1]
    rules = (one for judgement in judgements for one in judgement.restrictions)
    return wants_text(
        [
            one
            for one in rules
            if not one.is_broken_by(cpus, pool_id)
            and (one.closed_pools or one.choices or one.forbidden & free)
        ]
    )


def closed_pools(
    judgements: Iterable[Judgement], pool_id: PoolId, *, firmly: bool
) -> Mapping[int, str]:
    """The pools that rules about pools, which hold where residents are, keep them from.

    Each with the name of such a rule. `firmly`: by those rules alone that never break.
    """
    rules = (one for judgement in judgements for one in judgement.own)
    return {
        closed: one.name
        for one in rules
        if pool_id not in one.closed_pools and not (firmly and one.can_break)
        for closed in one.closed_pools
    }


def is_outside(rule: Restriction, cpus: int, books: Books) -> bool:
    """Whether a rule names a pool, and some of these cpus are none of its."""
    if not rule.names_pool:
        return False
    pools = books.tree.pools
    return all(cpus & ~one.cpus.mask for one in pools if one.id not in rule.closed_pools)


def homeless(books: Books) -> tuple[Grant, ...]:
    """Shared grants, pens too, of which exclusive ones have taken all cpus.

    But for those that have reserved cpus meanwhile. O(pools + grants concerned).
    """
    ledger = books.ledger
    # Of a pool that has cpus left, the grants that have not all of them.
    free = ledger.free_sharable
    pools = set(map(PoolId, compress(range(len(free)), map(not_, free))))
    pools.update(ledger.counted(one).pool_id for one in ledger.narrowed.ids)
    # Most share a pool with one that is narrowed, and have all of it.
    return tuple(
        [
            grant
            for pool_id in sorted(pools)
            for grant in ledger.sharing(pool_id).values()
            if (grant.within is not None or not free[pool_id]) and is_homeless(grant, books)
        ]
    )


def is_homeless(grant: Grant, books: Books) -> bool:
    """Whether exclusive grants have taken all cpus of a shared one, and it has no reserved ones."""
    free = books.ledger.free_sharable[grant.pool_id]
    if grant.within is None:
        return not free
    return not (free | books.tree.root.reserved.mask) & grant.within.mask


def wider_place(judgement: Judgement, grant: Grant, books: Books) -> Grant | None:
    """The grant in the nearest wider pool with cpus where the container's rules hold.

    Where they hold nowhere, as few as can be break of those that may, and of those that must not at
    last all but the ones that keep containers apart: others are for who arrives. Who asks for
    nothing has the reserved cpus before those break, too, and keeps at least away from others where
    it cannot be in the pool that it wants. Who asks for something has them where one must break
    everywhere else.
    """
    rules = judgement.restrictions
    open_rules = tuple(one for one in rules if not one.closed_pools)
    apart = tuple(one for one in rules if one.blockers)
    for some in (rules, open_rules, apart):
        firm = [one for one in some if not one.can_break]
        found = (
            _wider_place(some, grant, books)
            or _reserved_place(some, grant, books)
            or _reserved_place(firm, grant, books)
        )
        if found is not None:
            return found
    firm = [one for one in apart if not one.can_break]
    return _reserved_place(firm, grant, books, asks=True) if firm else None


def reserved_region(rules: Sequence[Restriction], books: Books) -> int:
    """A mask of cpus for a container on the reserved ones: those, and where it may go from there.

    Rules that do not hold there keep it from nothing.
    """
    root = books.tree.root
    region = root.cpus.mask
    for one in rules:
        if not one.is_broken_by(root.reserved.mask, root.id):
            region &= ~one.forbidden
            for domain in one.choices:
                region &= -1 if root.reserved.mask & ~domain else domain
    return region & (root.sharable | root.reserved).mask


def _reserved_place(
    rules: Sequence[Restriction], grant: Grant, books: Books, *, asks: bool = False
) -> Grant | None:
    root = books.tree.root
    if (grant.shared_milli and not asks) or not root.reserved:
        return None
    if any(one.is_broken_by(root.reserved.mask, root.id) for one in rules):
        return None
    return replace(grant, pool_id=root.id, within=CpuSet(reserved_region(rules, books)))


def _wider_place(rules: Sequence[Restriction], grant: Grant, books: Books) -> Grant | None:
    """The nearest pool with cpus where all of some rules hold that must not break.

    And as few of the others break as can be seen one by one: of two that hold nowhere together the
    first one counts. Rules of others come before its own, and those that want a domain last.
    """
    found: tuple[int, Grant] | None = None
    firm = [one for one in rules if not one.can_break]
    weak = sorted([one for one in rules if one.can_break], key=_turn)
    ledger = books.ledger
    for pool_id in (grant.pool_id, *ledger.tree.ancestors[grant.pool_id]):
        sharable = ledger.tree.pools[pool_id].sharable.mask
        place = _Place(ledger.free_sharable[pool_id], sharable, pool_id)
        for one in firm:
            place = place.under(one)
        broken = 0
        for one in weak if place.left else ():
            inside = place.under(one)
            place, broken = (inside, broken) if inside.left else (place, broken + 1)
        if place.left and (found is None or broken < found[0]):
            within = None if place.allowed == sharable else CpuSet(place.allowed)
            found = broken, replace(grant, pool_id=pool_id, within=within)
            if not broken:
                break
    return None if found is None else found[1]


def _turn(rule: Restriction) -> tuple[bool, bool]:
    return rule.is_own, bool(rule.choices)


class _Place(NamedTuple):
    """The cpus of a pool under some rules."""

    left: int
    """A mask of those that nobody has for itself."""
    allowed: int
    pool_id: PoolId

    def under(self, rule: Restriction) -> "_Place":
        """The place that one more rule leaves: the first domain of several."""
        forbidden = -1 if self.pool_id in rule.closed_pools else rule.forbidden
        left, allowed = self.left & ~forbidden, self.allowed & ~forbidden
        if rule.choices:
            domain = next((domain for domain in rule.choices if domain & left), 0)
            left, allowed = left & domain, allowed & domain
        return _Place(left, allowed, self.pool_id)


_Residents = dict[ContainerId, tuple[Container, int] | None]
"""Residents; where that is known, with the cpus that count as the place of each."""


def _kept_apart(judgement: Judgement) -> Mapping[Level, _Residents]:
    """The residents that must not share a domain with the newcomer, by level."""
    by_level: dict[Level, _Residents] = {}
    # Many rules are about the same containers.
    rules = [one for one in judgement.own if one.blockers]
    in_the_way = {(one.level, id(one.blockers)): one.blockers for one in rules}
    for (level, _), some in in_the_way.items():
        by_level.setdefault(level, {}).update(dict.fromkeys([one.id for one in some]))
    for level, owners in dict.fromkeys((one.level, one.insisting) for one in judgement.barriers):
        by_level.setdefault(level, {}).update(owners.presence)
    return by_level
