"""Departures: residents whose leaving would make room for a container that its rules refuse."""

import enum
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from copy import copy
from functools import reduce
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ..books.books import Books
from ..books.cpu_ledger import Ledger
from ..model.container import Container, ContainerId
from .judging.barrier import Barrier, BarrierOwners
from .judging.judge import Judge
from .judging.judgement import OWNERS_MAX, Judgement
from .judging.restriction import Restriction, names_text
from .judging.spread_counts import SpreadCounts

_SINGLES_MAX: Final = 4
"""So many residents are tried for each alone: of those in the way, of those with the fewest cpus
where rules let the container be, and of those with the most."""
_ALTERNATIVES_MAX: Final = 4
"""So many of these are told, each of whom is enough."""
_FILLERS_MAX: Final = 8
"""So many residents that fill cpus leave together."""
_CROWDING_MAX: Final = 16
"""So many residents that spread rules count are among those in the way."""
_EFFORT_MAX: Final = 64
"""Of more rules only all residents in the way are tried, together."""
_TRIES_MAX: Final = 12
"""Trials of one refusal where each costs little; see `_LOOKS_MAX`."""
_LOOKS_MAX: Final = 1200
"""So many pools, or domains where these are more, are looked at in all trials."""
_FEW_TRIES: Final = 4
"""Where there are no more, no resident makes way in one: that would cost more than all the rest."""


class Needed(enum.Enum):
    """The part of some residents that has to leave."""

    ONE = "one of "
    """Any of them."""
    ALL = "all of "
    SOME = "some of "
    """At most all of them: whether fewer are enough was not tried."""

    def text(self, containers: Sequence[Container]) -> str:
        """Part of these residents, for people."""
        return f"{self.value if len(containers) > 1 else ''}{names_text(containers)}"


class Departure(Struct, frozen=True):
    """Residents without whom a container has a place: tried, on a copy of the ledger."""

    containers: Sequence[Container]
    scope: Needed

    @property
    def text(self) -> str:
        """The advice for people."""
        return f"to make room, stop or move {self.scope.text(self.containers)}"


class _Filler(NamedTuple):
    """A resident with cpus where a container would have to be."""

    own_cpus: int
    shared_milli: int
    path: str
    container: Container


class _Trial(enum.Enum):
    """End of a trial."""

    ROOM = "room"
    NONE = "none"
    SURELY_NONE = "surely none"
    """The node itself would find none, either."""


class _Freed(NamedTuple):
    """What is left to others once residents have left."""

    shared: int
    """A mask of all cpus that are nobody's own then."""
    is_anybodys: bool
    """Whether nobody kept away from them, by their rules or its own, and comes to have more."""


_NOTHING: Final = _Freed(shared=0, is_anybodys=True)


HasRoom = Callable[[Books, Judgement, bool], bool]
"""Whether a container has a place by other books and rules; the last says whether residents may
make way for it."""


class DepartureSearch:
    """A refused container that is tried again without some of the residents; it changes nothing.

    Memory that residents would give back does not count.
    """

    def __init__(
        self,
        container_id: ContainerId,
        exclusive: int,
        judgement: Judgement,
        books: Books,
        judge: Judge,
        has_room: HasRoom,
    ) -> None:
        """Reads the books. `exclusive`: the cpus of its own that it would get.

        `judgement`: by which it was refused.
        """
        self._container_id = container_id
        self._exclusive = exclusive
        self._judgement = judgement
        self._insisting = judgement.insisting()
        self._books = books
        self._judge = judge
        self._has_room = has_room
        self._is_much = judgement.effort > _EFFORT_MAX
        self._tries = max(2, min(_TRIES_MAX, _LOOKS_MAX // self._looks()))
        self._is_few = self._tries <= _FEW_TRIES
        self._trials = {frozenset[ContainerId](): _Trial.SURELY_NONE}
        """Ends of trials, by the residents that left."""
        self._fillers_on: dict[int, Sequence[_Filler]] = {}

    def _looks(self) -> int:
        """How many pools, or domains of the narrowest level of a rule, one trial looks at."""
        books, rules = self._books, self._judgement
        levels = {one.level for one in rules.own} | {one.level for one in rules.barriers}
        sizes = [len(books.domains.masks(level)) for level in levels]
        return max([len(books.tree.pools), *sizes])

    def found(self) -> Departure | None:
        """The departure that disturbs the fewest; None where the container lacks more."""
        blockers = self._spared((*self._judgement.blockers(), *self._crowding()))
        if self._is_much or len(blockers) > OWNERS_MAX:
            is_enough = blockers and self._is_room_without(blockers)
            return Departure(blockers, Needed.SOME) if is_enough else None
        together = self._together(blockers)
        if not together:
            return None
        found: list[Container] = []
        for one in self._singles(blockers):
            if len(found) < _ALTERNATIVES_MAX and self._is_room_without((one,)):
                found.append(one)
        if found:
            return Departure(found, Needed.ONE)
        needed = self._needed(together)
        return Departure(needed, Needed.ALL if self._is_each_needed(needed) else Needed.SOME)

    def _crowding(self) -> Sequence[Container]:
        """The first residents too many, for a spread rule, in domains that all other rules leave.

        Those of the domains with the fewest: there one less is enough, as a rule.
        """
        found: dict[ContainerId, Container] = {}
        residents = self._books.affinity.residents
        for rule in self._insisting.own:
            if rule.spread is None:
                continue
            cpus = self._least_crowded(rule, rule.spread)
            for one in residents.ids(rule.spread.counted) if cpus else ():
                if len(found) < _CROWDING_MAX and self._books.reach(one) & cpus:
                    found[one] = residents.container(one)
        return tuple(found.values())

    def _least_crowded(self, rule: Restriction, spread: SpreadCounts) -> int:
        """A mask of the full domains with the fewest that all rules but this one leave."""
        domains, level, rules = self._books.domains, spread.rule.level, self._insisting
        others = replace(rules, own=tuple([one for one in rules.own if one is not rule]))
        full = spread.full & domains.indexes(level, self._place(others))
        here = [(count, bits & full) for count, bits in spread.by_count.items() if bits & full]
        return domains.members(level, min(here)[1]) if here else 0

    def _spared(self, containers: Iterable[Container]) -> Sequence[Container]:
        """The containers that may leave: the refused one does not have to be with them."""
        needed = {one.id for some in self._judgement.companions for one in some.containers}
        return [one for one in containers if one.id not in needed]

    def _together(self, blockers: Sequence[Container]) -> Sequence[Container]:
        """Residents whose leaving makes room; none where that of many does not either."""
        if blockers and self._is_room_without(blockers):
            return blockers
        known = {one.id for one in blockers}
        rules = self._without(self._insisting, known, _NOTHING) if blockers else self._insisting
        most = self._fillers(rules)[::-1]
        fillers = [one.container for one in most if one.container.id not in known]
        together = [*blockers, *fillers[:_FILLERS_MAX]]
        return together if fillers and self._is_room_without(together) else ()

    def _singles(self, blockers: Sequence[Container]) -> Iterable[Container]:
        """Residents of whom each may be enough; the likeliest alone where few are tried."""
        rules, free = self._insisting, self._books.ledger.free_sharable[-1]
        missing = self._exclusive - (free & self._place(rules)).bit_count()
        fillers = [one.container for one in self._fillers(rules) if one.own_cpus >= missing]
        if self._is_few:
            chosen = (*fillers[-1:], *blockers[:1])
        else:
            chosen = (*blockers[:_SINGLES_MAX], *fillers[:_SINGLES_MAX], *fillers[-_SINGLES_MAX:])
        return {one.id: one for one in chosen}.values()

    def _place(self, rules: Judgement) -> int:
        """A mask of the cpus at which rules let the newcomer be."""
        pools, closed = self._books.tree.pools, rules.closed()
        cpus = reduce(int.__or__, [one.cpus.mask for one in pools if one.id not in closed], 0)
        for one in rules.own:
            cpus &= reduce(int.__or__, one.choices) if one.choices else -1
        return cpus & ~rules.blocked

    def _fillers(self, rules: Judgement) -> Sequence[_Filler]:
        """Residents with cpus where rules let the newcomer be, the fewest first."""
        cpus = self._place(rules)
        found = self._fillers_on.get(cpus)
        if found is None:
            found = self._fillers_on[cpus] = self._sorted_fillers(cpus)
        return found

    def _sorted_fillers(self, cpus: int) -> Sequence[_Filler]:
        """The same of those with some of these cpus. O(containers)."""
        books, ledger, found = self._books, self._books.ledger, list[_Filler]()
        for container_id, grant in ledger.grants.items():
            if grant.pen is not None:
                if len(ledger.members(grant.pen)) > 1:
                    # The others keep what it has.
                    continue
                grant = ledger.pens[grant.pen]
            own = (grant.exclusive.mask & cpus).bit_count()
            shared = grant.shared_milli if books.tree.masks[grant.pool_id] & cpus else 0
            if own or shared:
                container = books.affinity.residents.container(container_id)
                found.append(_Filler(own, shared, container.path, container))
        spared = {one.id for one in self._spared([one.container for one in found])}
        spared.discard(self._container_id)
        return sorted([one for one in found if one.container.id in spared], key=lambda one: one[:3])

    def _needed(self, together: Sequence[Container]) -> Sequence[Container]:
        """The part of some residents of which nobody can stay, as far as that is tried.

        Those of one domain as a rule stay, or leave, together: so halves come before single ones.
        """
        places = self._books.reaches([one.id for one in together])
        pairs = sorted(zip(places, together, strict=True), key=lambda one: one[0] & -one[0])
        needed = [one for _, one in pairs]
        size = len(needed) // 2
        while size and self._tries:
            start, count = 0, len(needed)
            while start < len(needed) and self._tries:
                others = [*needed[:start], *needed[start + size :]]
                if others and self._is_room_without(others):
                    needed = others
                else:
                    start += size
            if size > 1 or len(needed) == count:
                size //= 2
        return needed

    def _is_each_needed(self, needed: Sequence[Container]) -> bool:
        """Whether without any one of these the others were tried, and are surely not enough."""
        ids = frozenset([one.id for one in needed])
        return all(self._trials.get(ids - {one}) is _Trial.SURELY_NONE for one in ids)

    def _is_room_without(self, leaving: Sequence[Container]) -> bool:
        """Whether the container has a place once these have left; not after the last trial."""
        ids = frozenset([one.id for one in leaving])
        found = self._trials.get(ids)
        if found is None:
            if not self._tries or (self._judgement.spreads and self._may_make_uneven(ids)):
                return False
            self._tries -= 1
            found = self._trials[ids] = self._trial(leaving, ids)
        return found is _Trial.ROOM

    def _trial(self, leaving: Sequence[Container], ids: Set[ContainerId]) -> _Trial:
        books, everybody = self._books, self._judgement
        after = copy(books)
        if len(leaving) <= OWNERS_MAX:
            # The cpus that containers were told remain those of before: see `_gained`.
            after.ledger = _ledger_without(books.ledger, ids)
        freed = _Freed(
            shared=after.ledger.free_sharable[-1],
            is_anybodys=not any(self._judge.is_bound(one) for one in ids),
        )
        rules = self._without(everybody, ids, freed)
        # Else it depends on what others do first.
        is_quiet = not any(self._gained(one, freed) for one in rules.kept_apart())
        if self._has_room(after, rules, is_quiet and not (self._is_much or self._is_few)):
            return _Trial.ROOM
        # Whom somebody must be near may make way once that one is gone.
        rules_gone = [rule for one in ids for rule in books.standing.of(one).required]
        is_sure = is_quiet and not self._is_few and all(one.is_anti for one in rules_gone)
        # Whoever was narrowed has more, or is narrowed otherwise, once others have left.
        is_sure &= not books.ledger.narrowed.ids
        return _Trial.SURELY_NONE if is_sure else _Trial.NONE

    def _without(
        self, rules: Judgement, leaving: Collection[ContainerId], freed: _Freed
    ) -> Judgement:
        """Rules without what some residents keep from the newcomer."""
        own = [self._own_without(one, leaving, freed) for one in rules.own]
        barriers = [self._barrier_without(one, leaving, freed) for one in rules.barriers]
        return replace(
            rules,
            own=tuple([one for one in own if one is not None]),
            barriers=tuple([one for one in barriers if one is not None]),
        )

    def _own_without(
        self, rule: Restriction, leaving: Collection[ContainerId], freed: _Freed
    ) -> Restriction | None:
        if rule.spread is not None:
            return self._spread_without(rule, rule.spread, leaving)
        if not rule.blockers:
            return rule
        rest = [one for one in rule.blockers if one.id not in leaving]
        cpus = 0
        for one, reach in zip(rest, self._books.reaches([one.id for one in rest]), strict=True):
            cpus |= reach | self._gained(one.id, freed)
        forbidden = self._books.domains.covering(rule.level, cpus)
        return replace(rule, forbidden=forbidden, blockers=tuple(rest)) if rest else None

    def _spread_without(
        self, rule: Restriction, spread: SpreadCounts, leaving: Collection[ContainerId]
    ) -> Restriction | None:
        left = self._counts_without(spread, leaving)
        forbidden = self._books.domains.members(spread.rule.level, left.full)
        return replace(rule, forbidden=forbidden, spread=left) if forbidden else None

    def _counts_without(
        self, spread: SpreadCounts, leaving: Collection[ContainerId]
    ) -> SpreadCounts:
        books, residents = self._books, self._books.affinity.residents
        gone = [one for one in leaving if residents.place(one) & spread.counted]
        reaches = books.reaches(gone)
        return spread.without([books.domains.indexes(spread.rule.level, one) for one in reaches])

    def _barrier_without(
        self, barrier: Barrier, leaving: Collection[ContainerId], freed: _Freed
    ) -> Barrier | None:
        rest = {
            one: (container, cpus | self._gained(one, freed))
            for one, (container, cpus) in barrier.owners.items()
            if one not in leaving
        }
        of = barrier.insisting
        owners = BarrierOwners.of(rest, of.can_break, of.are_systems)
        forbidden = self._books.domains.covering(barrier.level, owners.cpus)
        return replace(barrier, forbidden=forbidden, insisting=owners) if rest else None

    def _gained(self, container_id: ContainerId, freed: _Freed) -> int:
        """The cpus that a resident shares once others have left, and may not have now."""
        ledger = self._books.ledger
        if container_id not in ledger.grants:
            return 0
        grant = ledger.counted(container_id)
        if not grant.has_shared_part:
            return 0
        cpus = self._books.tree.masks[grant.pool_id] & freed.shared
        if grant.within is not None and freed.is_anybodys:
            cpus &= grant.within.mask
        # Else it may have been narrowed for somebody who leaves.
        return cpus & ~self._books.reach(container_id)

    def _may_make_uneven(self, leaving: Collection[ContainerId]) -> bool:
        """Whether the newcomer's spread rules may allow less without some residents.

        Where a rule that leaves it all domains would not, and where those that are counted come to
        share cpus that are given back.
        """
        residents, ledger = self._books.affinity.residents, self._books.ledger
        counted = 0
        for one in self._judgement.spreads:
            if not one.full and self._counts_without(one, leaving).full:
                return True
            counted |= one.counted
        if not any(ledger.counted(one).exclusive for one in leaving):
            return False
        held = [one for one in residents.ids(counted) if one in ledger.grants]
        return any(ledger.counted(one).has_shared_part for one in held if one not in leaving)


def _ledger_without(ledger: Ledger, leaving: Iterable[ContainerId]) -> Ledger:
    """A copy of a ledger once some containers, and pens in which nobody is left, are gone."""
    left = ledger.copy()
    for one in leaving:
        held = left.drop(one)
        if held is not None and held.pen is not None and not left.members(held.pen):
            left.drop(held.pen)
    return left
