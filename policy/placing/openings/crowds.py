"""Crowds: the residents in the way of rules, and who of them may make way inside their pools."""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final

from ....topology.model.machine import Level
from ...books.books import Books
from ...books.cpu_ledger import Ledger
from ...books.required_residents import RequiredResidents
from ...books.ties import followers_of, is_needed_whole, needs_all, spans
from ...model.container import ContainerId
from ...model.grant import Grant, PoolId
from ...model.request import CpuType
from ...rules.podaffinity.rule_set import PlacementRules
from ...rules.podaffinity.standing_rules import StandingRules
from ..judging.barrier import Barrier, BarrierOwners
from ..judging.judgement import Judgement
from ..judging.restriction import Restriction

# A member of an enum is looked up by a call of Python.
_NORMAL: Final = CpuType.NORMAL
_OWNERS_TRIED: Final = 4
"""Rules of so many different owners are looked at for who never makes way."""


def standing_cpus(grant: Grant, ledger: Ledger) -> int:
    """A mask of the sharable cpus that a grant has, or has again once others give them back."""
    sharable = ledger.tree.pools[grant.pool_id].sharable.mask
    return sharable if grant.within is None else sharable & grant.within.mask


def never_left(judgement: Judgement, books: Books) -> int:
    """A mask of cpus of which no part is a newcomer's whoever makes way.

    Rules keep it from them that are about nobody who could, or somebody shares a pool inside one of
    the domains: who does never leaves it. That need not be asked of everybody: of each pool
    somebody does. O(pools) for some rules of others, O(whom they are about) for its own.
    """
    kept = 0
    for one in judgement.own:
        if not one.blockers:
            kept |= one.forbidden
        elif one.forbidden & ~kept:
            kept |= _held_by(one, books)
    alike = dict.fromkeys([(one.level, one.insisting) for one in judgement.barriers])
    for level, owners in islice(alike, _OWNERS_TRIED):
        if not books.domains.everything & ~kept:
            break
        kept |= _held_by_owners(level, owners, books, kept)
    return kept


def _held_by(rule: Restriction, books: Books) -> int:
    """The domains inside which those whom a newcomer's rule is about share pools."""
    domains, masks, grants = books.domains, books.tree.masks, books.ledger.grants
    if masks[0] & ~domains.covering(rule.level, masks[0] & -masks[0]):
        return 0
    # Who is gone is so in a trial, and who is in a pen is where its pen is.
    some = [grants.get(one.id) for one in rule.blockers]
    first = {one.pool_id: one.container_id for one in some if one is not None and one.pen is None}
    held = 0
    for pool_id, reach in zip(first, books.reaches(first.values()), strict=True):
        mask = masks[pool_id]
        domain = domains.covering(rule.level, mask & -mask)
        if not mask & ~domain and reach & domain:
            held |= domain
    return held


def _held_by_owners(level: Level, owners: BarrierOwners, books: Books, kept: int) -> int:
    """The domains inside which the owners of others' rules share pools, if they are many."""
    ledger, domains, masks = books.ledger, books.domains, books.tree.masks
    presence, narrow, held = owners.presence, masks[0], kept
    if len(presence) < len(masks) or narrow & ~domains.covering(level, narrow & -narrow):
        return 0
    for number, mask in enumerate(masks):
        sharing = ledger.sharing(PoolId(number))
        if not sharing or not mask & ~held or presence.keys().isdisjoint(sharing):
            continue
        domain = domains.covering(level, mask & -mask)
        one = next((one for one in sharing if one in presence), None)
        if not mask & ~domain and one is not None and presence[one][1] & domain:
            held |= domain
    return held


class Crowds:
    """Residents that are in the way of rules, the same ones often of many, and who may make way."""

    def __init__(
        self,
        books: Books,
        judgement: Judgement | None = None,
        *,
        with_held: bool = False,
        with_companions: bool = False,
    ) -> None:
        """`judgement`: about a newcomer, for which some make way that would for nobody else.

        Of the newcomer's own rules those alone count that it has. `with_held`: those count, too,
        that required rules hold where they are. `with_companions`: so do those in several
        domains whom the newcomer must be with in one, for rules at a narrower level: whether they
        are still beside it is for the caller to find out.
        """
        standing = books.standing
        newcomer = None if judgement is None else judgement.newcomer
        has_companions = newcomer is not None and standing.of(newcomer).near_levels
        self._books = books
        self._twins = () if judgement is None else _twins_of(judgement, standing)
        self._companions = () if judgement is None else judgement.companions
        self._with_companions = with_companions
        self._owner = newcomer if has_companions else None
        """The newcomer where it must be with somebody: the rules of all are known, and those of its
        own that it gives up hold nobody."""
        self._with_held = with_held
        self._required: RequiredResidents | None = None
        """None: nobody was asked about yet."""
        self.movable: dict[ContainerId, frozenset[Level]] = {}
        """Containers that can make way, or their pens, with the levels at which rules say so."""
        self._can: dict[ContainerId, bool] = {}
        self._of_pens: dict[ContainerId, bool] = {}
        self._kept: dict[tuple[Level, int], int | None] = {}
        """By level, and the object that holds the residents."""

    def kept_by(self, barrier: Barrier) -> int:
        """The cpus that a rule's owners keep that cannot make way."""
        owners = barrier.insisting
        key = barrier.level, id(owners)
        if key not in self._kept:
            reaches = [cpus for _, cpus in owners.presence.values()]
            self._kept[key] = self._look_at(barrier.level, owners.presence, reaches)
        staying = self._kept[key]
        return barrier.forbidden if staying is None else staying

    def kept_from(self, rule: Restriction) -> int:
        """The cpus that are kept from a newcomer by those in the way that cannot leave it."""
        key = rule.level, id(rule.blockers)
        if key not in self._kept:
            ids = [one.id for one in rule.blockers]
            self._kept[key] = self._look_at(rule.level, ids, self._books.reaches(ids))
        staying = self._kept[key]
        return rule.forbidden if staying is None else staying

    def _look_at(
        self, level: Level, residents: Iterable[ContainerId], reaches: Sequence[int]
    ) -> int | None:
        """None where nobody can make way. `reaches`: as of `Books.reach`, in the same order."""
        self._find_out(residents, reaches)
        can, kept = self._can, 0
        moving = [one for one in residents if can[one]]
        if moving and self._with_companions and self._companions:
            staying = self._needed_beside(moving, level)
            moving = [one for one in moving if one not in staying]
        if not moving:
            return None
        making_way = frozenset(moving)
        for container_id, cpus in zip(residents, reaches, strict=True):
            if container_id not in making_way:
                kept |= cpus
        movable, grants, here = self.movable, self._books.ledger.grants, frozenset((level,))
        for container_id in moving:
            # Who is in a pen takes the others with it.
            grant = grants[container_id]
            # Where it has cpus of its own it stays.
            kept |= grant.exclusive.mask
            held_as = grant.pen or container_id
            before = movable.get(held_as)
            movable[held_as] = here if before is None else before | here
        return self._books.domains.covering(level, kept)

    def _find_out(self, residents: Iterable[ContainerId], reaches: Sequence[int]) -> None:
        """Whether each of some residents can make way."""
        can, books, found = self._can, self._books, list[ContainerId]()
        grants, rules, pools = books.ledger.grants, books.standing.rules, books.tree.pools
        reserved = books.tree.root.reserved.mask
        # They may be many: a call for each would be most of the work.
        for container_id, reach in zip(residents, reaches, strict=True):
            if container_id in can:
                continue
            found.append(container_id)
            grant = grants[container_id]
            if grant.pen is not None:
                can[container_id] = self._can_pen_leave(grant.pen)
                continue
            own_cpus = grant.exclusive.mask
            is_fixed = (
                grant.cpu_type is not _NORMAL
                or grant.is_strict
                or (own_cpus and not grant.shared_milli)
            )
            own = None if is_fixed else rules.get(container_id)
            if own is not None and (own.tie_it or (own.spread and own.spread_levels)):
                is_fixed = self._needs_all(container_id, own, grant)
            if is_fixed:
                can[container_id] = False
                continue
            standing = pools[grant.pool_id].sharable.mask
            if grant.within is not None:
                # Who waits on the reserved cpus has no others to make way to.
                standing &= 0 if grant.within.mask & reserved else grant.within.mask
            # Or its pool has no cpu left, and it is where others lend it some, whatever its share
            # comes to.
            can[container_id] = not reach & ~(standing | own_cpus)
        may_be_required = books.standing.has_required_affinity and not self._with_held
        # Those that are in the way of several rules were asked about with the first of them.
        moving = may_be_required and [one for one in found if can[one]]
        if moving:
            can.update(dict.fromkeys(self._needed_whole(moving), False))

    def _needs_all(self, resident: ContainerId, rules: PlacementRules, grant: Grant) -> bool:
        """Whether a resident's rules need all cpus of its grant, or of its pen's."""
        if self._with_held:
            return False
        books, is_twin = self._books, resident in self._twins
        cpus = standing_cpus(grant, books.ledger)
        return needs_all(rules, cpus, books.domains, is_twin=is_twin)

    def _needed_whole(
        self, container_ids: Sequence[ContainerId], pen: Grant | None = None
    ) -> Collection[ContainerId]:
        """The residents, all in a pen if so, that others need on all cpus that they have.

        Those who must be with them; the newcomer and replicas need them in one domain alone.
        """
        books, ledger, grants = self._books, self._books.ledger, self._books.ledger.grants
        standing, domains, residents = books.standing, books.domains, books.affinity.residents
        found: set[ContainerId] = set()
        if self._required is None:
            self._required = RequiredResidents(standing, residents, self._owner)
        for one in self._required.among(container_ids):
            cpus, container = standing_cpus(pen or grants[one], ledger), residents.container(one)
            is_twin = one in self._twins
            if not is_twin or is_needed_whole(container, cpus, standing, domains, self._owner):
                found.add(one)
        if pen is not None or not self._with_companions:
            found |= self._needed_beside(container_ids, pen=pen)
        return found

    def _needed_beside(
        self,
        container_ids: Sequence[ContainerId],
        at: Level | None = None,
        pen: Grant | None = None,
    ) -> set[ContainerId]:
        """The residents, all in a pen if so, in several domains of which one is the newcomer's.

        `at`: a level; who leaves some of its domains does not leave those wider ones.
        """
        books, residents = self._books, self._books.affinity.residents
        found: set[ContainerId] = set()
        for some in self._companions:
            if at is not None and at is not some.level and books.domains.nest(at, some.level):
                continue
            for one in container_ids:
                if residents.place(one) & some.places:
                    cpus = standing_cpus(pen or books.ledger.grants[one], books.ledger)
                    if spans(cpus, (some.level,), books.domains):
                        found.add(one)
        return found

    def _can_pen_leave(self, pen_id: ContainerId) -> bool:
        """Whether no rule holds those in a pen, and its grant says where they are."""
        can = self._of_pens.get(pen_id)
        if can is None:
            ledger = self._books.ledger
            can = all(self._can_leave(ledger.pens[pen_id], one) for one in ledger.members(pen_id))
            self._of_pens[pen_id] = can
        return can

    def _can_leave(self, pen: Grant, member: ContainerId) -> bool:
        books, standing = self._books, self._books.standing
        if pen.cpu_type is not _NORMAL or pen.exclusive or pen.is_strict:
            return False
        if self._needs_all(member, standing.of(member), pen):
            return False
        if pen.within is not None and pen.within & books.tree.root.reserved:
            return False
        if books.presence(member) & ~standing_cpus(pen, books.ledger):
            return False
        if self._with_held or not standing.has_required_affinity:
            return True
        return not self._needed_whole([member], pen)


def _twins_of(judgement: Judgement, standing: StandingRules) -> Collection[ContainerId]:
    """Residents that a newcomer must not be with, and that must not be with it: as a rule replicas.

    Or under the same rules otherwise, as all containers of a pod are; and those that must be with
    it, at another level.
    """
    avoided = {one.id for rule in judgement.own for one in rule.blockers}
    followers = followers_of(judgement.about_it, standing)
    if not avoided:
        return followers
    barriers = (*judgement.barriers, *judgement.given_up)
    found = set[ContainerId]().union(*[one.insisting.presence for one in barriers])
    newcomer = judgement.newcomer
    rules = () if newcomer is None else standing.of(newcomer).required
    if rules:
        found.update([one for one in avoided if standing.of(one).required == rules])
    return (avoided & found).union(followers)
