"""Narrowing: shared residents that spread over a pool make way for a newcomer, inside their pool.

The one case in which a resident's grant changes for somebody's rule: only as far as its request
still fits, and the required rules hold that it is about; see `Crowds` for who makes way. Those of a
pod with a pen make way together.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, starmap
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ....topology.model.machine import Level
from ....topology.sets.cpuset import CpuSet
from ...books.books import Books
from ...books.cpu_ledger import Ledger
from ...books.narrowed_shares import NarrowedShares
from ...books.required_residents import RequiredResidents
from ...books.ties import needs_all
from ...model.container import ContainerId
from ...model.grant import Grant, PoolId
from ...pools.domains import Domains
from ..judging.judgement import Judgement, bits
from ..judging.restriction import Restriction
from .crowds import Crowds, never_left, standing_cpus
from .openings import Openings, OpeningSearch

RESIDENTS_MAX: Final = 256
"""Where more are in the way, nobody makes way: the search would take too long."""
_TRIES_MAX: Final = 2048
"""So often at most residents that are alike are held against a domain."""

# To go through the members of an enum is a call of Python for each.
_LEVELS: Final = tuple(Level)

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
        return _narrowed(self.movable, cpus, self.ledger, self.domains)


def find_narrowings(search: OpeningSearch, books: Books) -> Iterator[Narrowing]:
    """The ways to make room for a newcomer, those that concern the fewest residents first."""
    domains, ledger = search.judgement.domains, search.ledger
    judgement = search.judgement
    if len(judgement.kept_apart()) > RESIDENTS_MAX:
        return
    # To know who never leaves takes less time than to tell who can leave.
    if not search.bounds.may_ever_fit(search.tree.root.cpus.mask & ~never_left(judgement, books)):
        return
    crowds = Crowds(books, judgement, with_companions=True)
    own = [without_movable(one, crowds) for one in judgement.own]
    everything = search.tree.root.cpus.mask
    for one in own:
        everything &= ~one.forbidden
    for barrier in judgement.barriers:
        if not search.bounds.may_ever_fit(everything):
            # Whoever else could make way.
            return
        everything &= ~crowds.kept_by(barrier)
    movable = dict(sorted(crowds.movable.items()))
    if not movable or not search.bounds.may_ever_fit(everything):
        return
    # Wherever the newcomer is they leave, and what they were promised goes along.
    search = dataclasses.replace(search, narrowed=without_leaving(movable, ledger.narrowed))
    standing = standing_residents(movable, ledger)
    everything &= ~_never_left(standing, domains)
    regions = search.regions(everything, own)
    looks = _TRIES_MAX // sum([len(some) for some in standing.values()]) + 1
    has_left = len(_levels(standing)) > 1
    for find_parts in (_in_one_domain, _in_several_domains):
        by_count: dict[int, list[_Part]] = {}
        for part in find_parts(search, regions, standing, looks):
            by_count.setdefault(number_of(part[1]), []).append(part)
        for count in sorted(by_count):
            # Whether they can leave is dear to know.
            left = [cpus for cpus, leaving in by_count[count] if can_leave(leaving)]
            if not left:
                continue
            has_left = True
            openings = search.openings(left, search.judgement.closed(), own)
            counts = [count] * len(openings.regions)
            openings = replace(openings, narrowed=counts)
            yield Narrowing(openings=openings, movable=movable, ledger=ledger, domains=domains)
        if not has_left:
            # Who can leave no domain of the only level leaves no two of them.
            return


def without_leaving(movable: _Movable, narrowed: NarrowedShares) -> NarrowedShares:
    """The narrowed shares of others."""
    ids = narrowed.ids
    leaving = [one for one in movable if one in ids]
    if not leaving:
        return narrowed
    others = narrowed.copy()
    for one in leaving:
        others.drop(one)
    return others


def make_way(
    judgement: Judgement,
    cpus: int,
    books: Books,
    *,
    firmly: bool = False,
    anyway: bool = False,
    staying: Collection[ContainerId] = (),
) -> tuple[Grant, ...]:
    """The grants of residents that make way for a container on these cpus, and on no others.

    No grants where one of them does not fit any more. Others may stay in its way. `firmly`: only
    for rules that never break. `anyway`: whether their shares fit is for the caller to find out.
    `staying`: containers, or their pens, that are left where they are.
    """
    if len(judgement.kept_apart()) > RESIDENTS_MAX:
        return ()
    crowds = Crowds(books, judgement)
    for one in judgement.own:
        if one.blockers and cpus & one.forbidden and not (firmly and one.can_break):
            crowds.kept_from(one)
    for barrier in judgement.barriers:
        if cpus & barrier.forbidden and not (firmly and barrier.can_break):
            crowds.kept_by(barrier)
    movable = {key: crowds.movable[key] for key in sorted(crowds.movable) if key not in staying}
    return _narrowed(movable, cpus, books.ledger, judgement.domains, anyway=anyway) or ()


def _narrowed(
    movable: _Movable, cpus: int, ledger: Ledger, domains: Domains, *, anyway: bool = False
) -> tuple[Grant, ...] | None:
    trial: NarrowedShares | None = None
    found: list[Grant] = []
    for container_id, levels in movable.items():
        grant = ledger.pens.get(container_id) or ledger.grants[container_id]
        cover = _cover(levels, cpus, domains)
        if not standing_cpus(grant, ledger) & cover:
            continue
        # Its share stays in its pool: only who has how much of the pool is another.
        trial = trial or ledger.narrowed.copy()
        rest = standing_cpus(grant, ledger) & ~cover
        if not (anyway or has_room(grant, rest, ledger, trial)):
            return None
        narrowed = replace(grant, within=CpuSet(rest))
        trial.add(narrowed)
        found.append(narrowed)
    return tuple(found)


def _in_one_domain(
    search: OpeningSearch, regions: Iterable[int], standing: "_ByLevels", looks: int
) -> "Iterator[_Part]":
    """The parts of regions in one domain of the widest level of which a rule speaks."""
    domains, widest = search.judgement.domains, _levels(standing)[0]
    found = chain.from_iterable(map(partial(domains.parts, widest), regions))
    for part in islice(found, looks):
        yield part, leaving_part(standing, part, domains)


def _in_several_domains(
    search: OpeningSearch, regions: Iterable[int], standing: "_ByLevels", looks: int
) -> "Iterator[_Part]":
    """The parts of regions in as many domains of the narrowest level as the request needs.

    In each pool those come first in which nobody is in the way, then those of the lowest cpus.
    """
    domains, narrowest, near = search.judgement.domains, _levels(standing)[-1], 0
    for levels, some in standing.items():
        for one in some:
            near |= _cover(levels, one.cpus, domains)
    for region, pool_id in search.tree.meetings(filter(search.bounds.may_fit, regions)):
        here = region & search.tree.masks[pool_id]
        if not (looks and here & near and search.fits(pool_id, here)):
            continue
        part, serving = here & ~near, here & near & search.serving(pool_id)
        for index in islice(bits(domains.indexes(narrowest, serving)), looks):
            looks -= 1
            wider = part | here & domains.members(narrowest, index)
            leaving = leaving_part(standing, wider, domains)
            if can_leave(leaving):
                part = wider
                if search.fits(pool_id, part):
                    yield part, leaving
                    break


def without_movable(rule: Restriction, crowds: "Crowds") -> Restriction:
    """A restriction by those residents alone that cannot make way."""
    forbidden = crowds.kept_from(rule)
    return rule if forbidden == rule.forbidden else replace(rule, forbidden=forbidden)


class _InTheWay:
    """Residents that are alike and may have to leave a region, and what is left without one."""

    __slots__ = (
        "_enough",
        "_free",
        "_grant",
        "_ledger",
        "_promised",
        "count",
        "cpus",
        "levels",
    )

    def __init__(
        self, grant: Grant, levels: frozenset[Level], ledger: Ledger, promised: dict[PoolId, int]
    ) -> None:
        """`promised`: milli-cpus at most inside pools, as far as somebody had to know."""
        self._grant = grant
        self._ledger = ledger
        self._promised = promised
        self.count = 0
        self.cpus = standing_cpus(grant, ledger)
        self.levels = levels
        self._free = self.cpus & ledger.free_sharable[grant.pool_id]
        self._enough: int | None = None

    def can_leave(self, cover: int) -> bool:
        """Whether the request of each still fits on what it has elsewhere."""
        if self._enough is None:
            self._enough = self._number_enough()
        # With so much left of its pool it does not matter which cpus that is.
        if (self._free & ~cover).bit_count() >= self._enough:
            return True
        return has_room(self._grant, self.cpus & ~cover, self._ledger)

    def never_left(self, domains: Domains, largest: Mapping[Level, int]) -> int:
        """The cpus of domains without which they have too few, whatever is promised elsewhere.

        `largest`: how many cpus a domain of each level has at most.
        """
        found, spare = 0, self._free.bit_count() - max(1, -(-self._grant.shared_milli // 1000))
        for level in self.levels:
            # With so much left elsewhere there is no need to look at each: most have that.
            for here in domains.parts(level, self._free) if spare < largest[level] else ():
                if here.bit_count() > spare:
                    found |= domains.covering(level, here)
        return found

    def _number_enough(self) -> int:
        """How many free cpus do, whichever they are: more than there are where none surely do."""
        ledger, pool_id = self._ledger, self._grant.pool_id
        if ledger.room.grantable_milli[pool_id] < 0:
            return self._free.bit_count() + 1
        promised = self._promised.get(pool_id)
        if promised is None:
            promised = self._promised[pool_id] = ledger.promised_inside(pool_id)
        return max(1, -(-(promised + self._grant.shared_milli) // 1000))


_ByLevels = Mapping[frozenset[Level], Sequence[_InTheWay]]


def standing_residents(movable: _Movable, ledger: Ledger) -> _ByLevels:
    """The residents by their levels, those together that differ in nothing that counts here."""
    found: dict[tuple[int, int, int, frozenset[Level]], _InTheWay] = {}
    promised: dict[PoolId, int] = {}
    pens = ledger.pens
    for container_id, levels in movable.items():
        grant = pens.get(container_id) or ledger.grants[container_id]
        within = -1 if grant.within is None else grant.within.mask
        key = grant.pool_id, within, grant.shared_milli, levels
        alike = found.get(key)
        if alike is None:
            alike = found[key] = _InTheWay(grant, levels, ledger, promised)
        alike.count += 1
    by_levels: dict[frozenset[Level], list[_InTheWay]] = {}
    for one in found.values():
        by_levels.setdefault(one.levels, []).append(one)
    return by_levels


_Leave = tuple[_InTheWay, int]
"""Residents, and the cpus that they have to leave."""
_Part = tuple[int, list[_Leave]]
"""A mask of cpus for a newcomer, and who has to leave it."""


def _levels(standing: _ByLevels) -> list[Level]:
    """The levels of which rules speak, the widest first."""
    said = frozenset[Level]().union(*standing)
    return [level for level in _LEVELS if level in said]


def can_leave(leaving: Iterable[_Leave]) -> bool:
    """Whether some residents all have room elsewhere in their pools."""
    # Asked of each domain: a generator would be as dear as most answers.
    return all(starmap(_InTheWay.can_leave, leaving))


def number_of(leaving: Iterable[_Leave]) -> int:
    """The number of residents that have to leave."""
    found = 0
    for one, _ in leaving:
        found += one.count
    return found


def leaving_part(standing: _ByLevels, region: int, domains: Domains) -> list[_Leave]:
    """The residents that have to leave a region."""
    found: list[_Leave] = []
    for levels, some in standing.items():
        cover = _cover(levels, region, domains)
        found += [(one, cover) for one in some if one.cpus & cover]
    return found


def _never_left(standing: _ByLevels, domains: Domains) -> int:
    """The cpus of domains that some residents cannot leave: there is no need to look there."""
    found, largest = 0, {level: domains.largest(level) for level in _levels(standing)}
    for one in chain.from_iterable(standing.values()):
        found |= one.never_left(domains, largest)
    return found


def _cover(levels: frozenset[Level], cpus: int, domains: Domains) -> int:
    cover = 0
    for level in levels:
        cover |= domains.covering(level, cpus)
    return cover


def may_make_way(held: Iterable[ContainerId], books: Books) -> Sequence[ContainerId]:
    """The containers and pens that rules let be narrowed, of some; see `find_narrowings`.

    And that still fit on what they have: where too much is promised nobody is narrowed.
    """
    standing, ledger = books.standing, books.ledger
    members: dict[ContainerId, Sequence[ContainerId]] = {}
    for held_as in held:
        grant = ledger.counted(held_as)
        cpus = standing_cpus(grant, ledger)
        if has_room(grant, cpus, ledger):
            inside = ledger.occupants(held_as)
            if not any(needs_all(standing.of(one), cpus, books.domains) for one in inside):
                members[held_as] = inside
    if not members or not standing.has_required_affinity:
        return list(members)
    # Of all together: the same rules may require many of them.
    everyone = [one for some in members.values() for one in some]
    required = {*RequiredResidents(standing, books.affinity.residents).among(everyone)}
    return [one for one, inside in members.items() if required.isdisjoint(inside)]


def has_room(
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
