"""Narrowing: shared residents that spread over a pool make way for a newcomer, inside their pool.

The one case in which a resident's grant changes for somebody's rule: only of residents that no
required rule holds where they are, and only as far as their request still fits. Those of a pod with
a pen make way together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...topology.model.machine import Level
from ...topology.sets.cpuset import CpuSet
from ..books.books import Books
from ..books.cpu_ledger import Ledger
from ..books.narrowed_shares import NarrowedShares
from ..model.container import ContainerId
from ..model.grant import Grant, PoolId
from ..model.request import CpuType
from ..pools.domains import Domains
from .judging.judgement import Barrier
from .judging.restriction import Restriction
from .openings import Openings, OpeningSearch

# A member of an enum is looked up by a call of Python.
_NORMAL: Final = CpuType.NORMAL

_RESIDENTS_MAX: Final = 256
"""Where more are in the way, nobody makes way: the search would take too long."""
_TRIES_MAX: Final = 2048
"""So often at most residents that are alike are held against a domain."""

_Movable = Mapping[ContainerId, frozenset[Level]]


class Narrowing(Struct, frozen=True, kw_only=True):
    """Places where all rules hold once some residents have made way."""

    openings: Openings
    movable: _Movable
    """Residents in the way, or their pens, and the levels at which rules say so."""
    ledger: Ledger
    domains: Domains

    def grants(self, cpus: int) -> tuple[Grant, ...] | None:
        """The residents' grants once a newcomer has these cpus; None where one does not fit."""
        trial: NarrowedShares | None = None
        found: list[Grant] = []
        pens = self.ledger.pens
        for container_id, levels in self.movable.items():
            grant = pens.get(container_id) or self.ledger.grants[container_id]
            cover = _cover(levels, cpus, self.domains)
            if not standing_cpus(grant, self.ledger) & cover:
                continue
            # Its share stays in its pool: only who has how much of the pool is another.
            trial = trial or self.ledger.narrowed.copy()
            rest = standing_cpus(grant, self.ledger) & ~cover
            if not _has_room(grant, rest, self.ledger, trial):
                return None
            narrowed = replace(grant, within=CpuSet(rest))
            trial.add(narrowed)
            found.append(narrowed)
        return tuple(found)


def find_narrowings(search: OpeningSearch, books: Books) -> Iterator[Narrowing]:
    """The ways to make room for a newcomer, those that concern the fewest residents first."""
    domains, ledger = search.judgement.domains, search.ledger
    judgement = search.judgement
    if len(judgement.kept_apart()) > _RESIDENTS_MAX:
        return
    crowds = _Crowds(books)
    own = [_without_movable(one, crowds) for one in judgement.own]
    blocked = 0
    for barrier in judgement.barriers:
        blocked |= crowds.kept_by(barrier)
    movable = crowds.movable
    if not movable:
        return
    everything = search.tree.root.cpus.mask & ~blocked
    for one in own:
        everything &= ~one.forbidden
    levels = frozenset[Level]().union(*set(movable.values()))
    widest = next(level for level in Level if level in levels)
    standing = _in_the_way(movable, ledger)
    kinds = sum([len(some) for some in standing.values()])
    by_count: dict[int, list[tuple[int, list[_Leave]]]] = {}
    tries = 0
    for region in search.regions(everything, own):
        for domain in domains.masks(widest):
            if not region & domain or tries > _TRIES_MAX:
                continue
            tries += kinds
            leaving = _leaving(standing, region & domain, domains)
            count = sum([one.count for one, _ in leaving])
            by_count.setdefault(count, []).append((region & domain, leaving))
    for count in sorted(by_count):
        # Whether they can leave is dear to know.
        regions = [
            part
            for part, leaving in by_count[count]
            if all(one.can_leave(cover) for one, cover in leaving)
        ]
        if not regions:
            continue
        openings = search.openings(regions, search.judgement.closed(), own)
        counts = [count] * len(openings.regions)
        yield Narrowing(
            openings=replace(openings, narrowed=counts),
            movable=movable,
            ledger=ledger,
            domains=domains,
        )


def standing_cpus(grant: Grant, ledger: Ledger) -> int:
    """A mask of the sharable cpus that a grant has, or has again once others give them back."""
    sharable = ledger.tree.pools[grant.pool_id].sharable.mask
    return sharable if grant.within is None else sharable & grant.within.mask


def _without_movable(rule: Restriction, crowds: "_Crowds") -> Restriction:
    """A restriction by those residents alone that cannot make way."""
    forbidden = crowds.kept_from(rule)
    return rule if forbidden == rule.forbidden else replace(rule, forbidden=forbidden)


class _Crowds:
    """Residents that are in the way of rules, the same ones often of many, and who may make way."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._levels: dict[ContainerId, tuple[Level, ...]] = {}
        """Of those that can make way, the levels at which rules say so."""
        self._can: dict[ContainerId, bool] = {}
        self._is_elsewhere: dict[tuple[PoolId, CpuSet | None, int], bool] = {}
        self._kept: dict[tuple[Level, int], int | None] = {}
        """By level, and the object that holds the residents."""

    @property
    def movable(self) -> _Movable:
        """Those that can make way, or their pens, and the levels at which rules say so."""
        # Most have the same ones.
        sets = {some: frozenset(some) for some in set(self._levels.values())}
        return {one: sets[some] for one, some in self._levels.items()}

    def kept_by(self, barrier: Barrier) -> int:
        """The cpus that a rule's owners keep that cannot make way."""
        owners = barrier.insisting
        key = barrier.level, id(owners)
        if key not in self._kept:
            self._kept[key] = self._look_at(barrier.level, owners.presence)
        staying = self._kept[key]
        return barrier.forbidden if staying is None else staying

    def kept_from(self, rule: Restriction) -> int:
        """The cpus that are kept from a newcomer by those in the way that cannot leave it."""
        key = rule.level, id(rule.blockers)
        if key not in self._kept:
            self._kept[key] = self._look_at(rule.level, [one.id for one in rule.blockers])
        staying = self._kept[key]
        return rule.forbidden if staying is None else staying

    def _look_at(self, level: Level, residents: Iterable[ContainerId]) -> int | None:
        """None where nobody can make way."""
        books, can_by = self._books, self._can
        moving, staying = list[ContainerId](), list[ContainerId]()
        for container_id in residents:
            can = can_by.get(container_id)
            if can is None:
                can = can_by[container_id] = self._can_make_way(container_id)
            (moving if can else staying).append(container_id)
        if not moving:
            return None
        for container_id in moving:
            # Who is in a pen takes the others with it.
            held_as = books.ledger.grants[container_id].pen or container_id
            levels = self._levels.get(held_as, ())
            if level not in levels:
                self._levels[held_as] = (*levels, level)
        kept = 0
        for mask in books.reaches(staying):
            kept |= mask
        return books.domains.covering(level, kept)

    def _can_make_way(self, container_id: ContainerId) -> bool:
        ledger = self._books.ledger
        grant = ledger.grants[container_id]
        if grant.pen is None:
            return self._can_leave(grant, (container_id,))
        can = self._can.get(grant.pen)
        if can is None:
            members = ledger.members(grant.pen)
            can = self._can[grant.pen] = self._can_leave(ledger.pens[grant.pen], members)
        return can

    def _can_leave(self, grant: Grant, members: Iterable[ContainerId]) -> bool:
        """Whether no rule holds those of a grant, and it says where they are."""
        books, standing = self._books, self._books.standing
        if grant.cpu_type is not _NORMAL or grant.exclusive or grant.is_strict:
            return False
        for one in members:
            if standing.of(one).hold_it:
                return False
            presence = books.presence(one)
            place = grant.pool_id, grant.within, presence
            is_elsewhere = self._is_elsewhere.get(place)
            if is_elsewhere is None:
                is_elsewhere = self._is_elsewhere[place] = _is_elsewhere(grant, presence, books)
            if is_elsewhere:
                return False
            if standing.has_required_affinity:
                resident = books.affinity.residents.container(one)
                if standing.is_required(resident):
                    return False
        return True


def _is_elsewhere(grant: Grant, presence: int, books: Books) -> bool:
    """Whether a shared container is not on the cpus of its pool, which are to become fewer."""
    if grant.within is not None and grant.within & books.tree.root.reserved:
        # It waits on the reserved cpus, and has no others to make way to.
        return True
    # Its pool has no cpu left: it is where others lend it some, whatever its share comes to.
    return bool(presence & ~standing_cpus(grant, books.ledger))


class _InTheWay:
    """Residents that are alike and may have to leave a region, and what is left without one."""

    __slots__ = (
        "_enough_milli",
        "_free",
        "_grant",
        "_is_kept",
        "_ledger",
        "count",
        "cpus",
        "levels",
    )

    def __init__(self, grant: Grant, levels: frozenset[Level], ledger: Ledger) -> None:
        self._grant = grant
        self._ledger = ledger
        self.count = 0
        self.cpus = standing_cpus(grant, ledger)
        self.levels = levels
        self._free = self.cpus & ledger.free_sharable[grant.pool_id]
        self._is_kept = ledger.room.grantable_milli[grant.pool_id] >= 0
        # With so much left of its pool it does not matter which cpus that is.
        self._enough_milli = ledger.promised_inside(grant.pool_id) + grant.shared_milli

    def can_leave(self, cover: int) -> bool:
        """Whether the request of each still fits on what it has elsewhere."""
        left = self._free & ~cover
        if self._is_kept and left and 1000 * left.bit_count() >= self._enough_milli:
            return True
        return _has_room(self._grant, self.cpus & ~cover, self._ledger)


_ByLevels = Mapping[frozenset[Level], Sequence[_InTheWay]]


def _in_the_way(movable: _Movable, ledger: Ledger) -> _ByLevels:
    """The residents by their levels, those together that differ in nothing that counts here."""
    found: dict[tuple[object, ...], _InTheWay] = {}
    for container_id, levels in movable.items():
        grant = ledger.pens.get(container_id) or ledger.grants[container_id]
        key = grant.pool_id, grant.within, grant.shared_milli, levels
        if key not in found:
            found[key] = _InTheWay(grant, levels, ledger)
        found[key].count += 1
    by_levels: dict[frozenset[Level], list[_InTheWay]] = {}
    for one in found.values():
        by_levels.setdefault(one.levels, []).append(one)
    return by_levels


_Leave = tuple[_InTheWay, int]
"""Residents, and the cpus that they have to leave."""


def _leaving(standing: _ByLevels, region: int, domains: Domains) -> list[_Leave]:
    """The residents that have to leave a region."""
    found: list[_Leave] = []
    for levels, some in standing.items():
        cover = _cover(levels, region, domains)
        found += [(one, cover) for one in some if one.cpus & cover]
    return found


def _cover(levels: frozenset[Level], cpus: int, domains: Domains) -> int:
    cover = 0
    for level in levels:
        cover |= domains.covering(level, cpus)
    return cover


def _has_room(
    grant: Grant, cpus: int, ledger: Ledger, narrowed: NarrowedShares | None = None
) -> bool:
    """Whether the share of a grant fits on these of its pool's cpus.

    `narrowed`: those of a trial, see `Ledger.room_within`.
    """
    if not ledger.free_sharable[grant.pool_id] & cpus:
        return False
    # Who asks for nothing is never short of it.
    wanted = grant.shared_milli
    return not wanted or ledger.room_within(grant.pool_id, cpus, grant, narrowed) >= wanted
