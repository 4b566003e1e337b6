"""Departures: residents whose leaving would make room for a container that its rules refuse."""

import enum
from collections.abc import Callable, Iterable, Sequence, Set
from copy import copy
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..books.books import Books
from ..books.cpu_ledger import Ledger
from ..model.container import Container, ContainerId
from .judging.departure_candidates import DepartureCandidates
from .judging.judge import Judge
from .judging.judgement import OWNERS_MAX, Judgement
from .judging.remaining_rules import NOTHING_FREED, Freed, RemainingRules
from .judging.restriction import NAMES_SHOWN, names_text
from .openings.regrowth import REGROWTH_EFFORT_MAX, NarrowedResidents, Regrowth

_ALTERNATIVES_MAX: Final = 4
"""So many of these are told, each of whom is enough."""
_FILLERS_MAX: Final = 8
"""So many residents that fill cpus leave together."""
_EFFORT_MAX: Final = 64
"""Of more rules only all residents in the way are tried, together."""
_TRIES_MAX: Final = 12
"""Trials of one refusal where each costs little; see `_LOOKS_MAX`."""
_GLANCES_MAX: Final = 4
"""For each trial so many residents are thought of; most would surely leave too few cpus."""
_LOOKS_MAX: Final = 1200
"""So many pools are looked at in all trials, or domains, or containers in the way of a rule, where
these are more."""
_CLEARINGS_MAX: Final = 240_000
"""So many pools are looked at in all trials in which residents make way: where many go up from one
into another, each of these is measured anew for each."""
_REGROWTHS_MAX: Final = REGROWTH_EFFORT_MAX
"""After so much effort for what residents would get back fewer of those who leave are not tried: as
much as for what they do get back in one event. After twice as much no alternatives are, either."""
_FEW_TRIES: Final = 4
"""Where there are no more, no resident makes way in one: that would cost more than all the rest."""


_TO_MAKE_ROOM: Final = "to make room, stop or move"
_WHOLE_MAX: Final = 64
"""So many names at most are in a note, which every record of such a refusal has in the history."""


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

    def whole_text(self, containers: Sequence[Container]) -> str:
        """Part of more residents than are named elsewhere, with all their names."""
        return f"{self.value}{names_text(containers, _WHOLE_MAX)}"


class Departure(Struct, frozen=True):
    """Residents without whom a container has a place: tried, on a copy of the ledger."""

    containers: Sequence[Container]
    scope: Needed

    @property
    def text(self) -> str:
        """The advice for people."""
        return f"{_TO_MAKE_ROOM} {self.scope.text(self.containers)}"

    @property
    def whole_text(self) -> str:
        """Advice with all names, where the text has only the first of them; empty otherwise."""
        if len(self.containers) <= NAMES_SHOWN:
            return ""
        return f"{_TO_MAKE_ROOM} {self.scope.whole_text(self.containers)}"


class _Trial(enum.Enum):
    """End of a trial."""

    ROOM = "room"
    NONE = "none"
    SURELY_NONE = "surely none"
    """The node itself would find none, either."""


HasRoom = Callable[[Books, Judgement, bool], bool | None]
"""Whether a container has a place by other books and rules; None where none is known, and too much
would have to be looked at. The last says whether residents may make way for it."""


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
        regrowth: Regrowth | None,
    ) -> None:
        """Reads the books. `exclusive`: the cpus of its own that it would get.

        `judgement`: by which it was refused. `regrowth`: of residents, where anybody gets back
        what others kept from it.
        """
        self._exclusive = exclusive
        self._judgement = judgement
        self._candidates = DepartureCandidates(container_id, exclusive, judgement, books)
        self._books = books
        self._judge = judge
        self._has_room = has_room
        self._regrowth = regrowth
        self._remaining = RemainingRules(books)
        self._is_much = judgement.effort > _EFFORT_MAX
        self._tries = max(2, min(_TRIES_MAX, _LOOKS_MAX // self._looks()))
        self._is_few = self._tries <= _FEW_TRIES
        self._glances = _GLANCES_MAX * self._tries
        self._regrowths = _REGROWTHS_MAX
        is_cheap = not (self._is_few or self._is_much)
        self._clearings = is_cheap * (_CLEARINGS_MAX // len(books.tree.pools) ** 3)
        self._trials = {frozenset[ContainerId](): _Trial.SURELY_NONE}
        """Ends of trials, by the residents that left."""

    def _looks(self) -> int:
        """How many pools, or domains of a rule, or containers in its way, one trial looks at."""
        books, rules = self._books, self._judgement
        levels = {one.level for one in rules.own} | {one.level for one in rules.barriers}
        sizes = [len(books.domains.masks(level)) for level in levels]
        return max([len(books.tree.pools), rules.crowd, *sizes])

    def found(self) -> Departure | None:
        """The departure that disturbs the fewest; None where the container lacks more."""
        candidates = self._candidates
        blockers = candidates.blockers()
        if self._is_much or len(blockers) > OWNERS_MAX:
            is_enough = blockers and self._is_room_without(blockers)
            return Departure(blockers, Needed.SOME) if is_enough else None
        together = self._together(blockers)
        alone: Sequence[Container] = ()
        if together or self._judgement.spreads:
            # One may be enough where many are not: what is spread may be uneven without these.
            alone = self._alone(candidates.singles(blockers, are_few=self._is_few))
        if not (alone or together):
            alone = self._alone(candidates.neighbours())
        alone = alone or self._alone(candidates.partners())
        if alone:
            return Departure(alone, Needed.ONE)
        if not together:
            return None
        needed = self._needed(together)
        return Departure(needed, Needed.ALL if self._is_each_needed(needed) else Needed.SOME)

    def _alone(self, candidates: Iterable[Container]) -> Sequence[Container]:
        """The first residents of whom each is enough."""
        found: list[Container] = []
        for one in candidates:
            # Of others that would be enough, too, it is no loss not to know.
            is_much = self._regrowths <= -_REGROWTHS_MAX
            if found and (is_much or len(found) == _ALTERNATIVES_MAX):
                break
            if self._is_room_without((one,)):
                found.append(one)
        return found

    def _together(self, blockers: Sequence[Container]) -> Sequence[Container]:
        """Residents whose leaving makes room; none where that of many does not either."""
        if blockers and self._is_room_without(blockers):
            return blockers
        known, rules = {one.id for one in blockers}, self._judgement.insisting()
        if blockers:
            rules = self._remaining.without(rules, known, NOTHING_FREED)
        most = self._candidates.spared_fillers(self._candidates.place(rules))[::-1]
        fillers = [one.container for one in most if one.container.id not in known]
        together = [*blockers, *fillers[:_FILLERS_MAX]]
        return together if fillers and self._is_room_without(together) else ()

    def _needed(self, together: Sequence[Container]) -> Sequence[Container]:
        """The part of some residents of which nobody can stay, as far as that is tried.

        Those of one domain as a rule stay, or leave, together: so halves come before single ones.
        """
        places = self._books.reaches([one.id for one in together])
        pairs = sorted(zip(places, together, strict=True), key=lambda one: one[0] & -one[0])
        needed = [one for _, one in pairs]
        size = len(needed) // 2
        while size and self._may_try:
            start, count = 0, len(needed)
            while start < len(needed) and self._may_try:
                others = [*needed[:start], *needed[start + size :]]
                if others and self._is_room_without(others):
                    needed = others
                else:
                    start += size
            if size > 1 or len(needed) == count:
                size //= 2
        return needed

    @property
    def _may_try(self) -> bool:
        """Whether it may be tried who of those that leave can stay."""
        return self._tries > 0 and self._regrowths > 0

    def _is_each_needed(self, needed: Sequence[Container]) -> bool:
        """Whether without any one of these the others were tried, and are surely not enough."""
        ids = frozenset([one.id for one in needed])
        return all(self._trials.get(ids - {one}) is _Trial.SURELY_NONE for one in ids)

    def _is_room_without(self, leaving: Sequence[Container]) -> bool:
        """Whether the container has a place once these have left; not after the last trial."""
        ids = frozenset([one.id for one in leaving])
        found = self._trials.get(ids)
        if found is None:
            if not (self._tries and self._glances):
                return False
            self._glances -= 1
            found = self._trials[ids] = self._trial(leaving, ids)
        return found is _Trial.ROOM

    def _trial(self, leaving: Sequence[Container], ids: Set[ContainerId]) -> _Trial:
        books, everybody = self._books, self._judgement
        after = copy(books)
        if len(leaving) <= OWNERS_MAX:
            # The cpus that containers were told remain those of before.
            after.ledger = _ledger_without(books.ledger, [one.id for one in leaving])
        freed = Freed(
            shared=after.ledger.free_sharable[-1],
            is_anybodys=not any(self._judge.is_bound(one) for one in ids),
        )
        if everybody.spreads and self._remaining.may_make_uneven(everybody, ids, freed):
            return _Trial.NONE
        rules = self._remaining.without(everybody, ids, freed, after)
        # Else it depends on what others do first.
        may_clear = self._clearings > 0
        may_clear = may_clear and not any(self._remaining.gained(rules.kept_apart(), freed))
        is_known = may_clear
        if self._may_hold(rules, after.ledger):
            self._tries -= 1
            self._clearings -= may_clear
            found = self._has_room(after, rules, may_clear)
            if found:
                stays = self._is_left_room(leaving, freed, after, may_clear)
                return _Trial.ROOM if stays else _Trial.NONE
            is_known &= found is not None
        # Whom somebody must be near may make way once that one is gone.
        rules_gone = [rule for one in ids for rule in books.standing.of(one).required]
        is_sure = is_known and all([one.is_anti for one in rules_gone])
        # Whoever was narrowed has more, or is narrowed otherwise, once others have left.
        is_sure &= not books.ledger.narrowed.ids
        # Of very many it is not asked whether they share more cpus then.
        is_sure &= len(self._candidates.companion_ids) <= OWNERS_MAX
        return _Trial.SURELY_NONE if is_sure else _Trial.NONE

    def _is_left_room(
        self, leaving: Sequence[Container], freed: Freed, after: Books, may_clear: bool
    ) -> bool:
        """Whether there is room still once others have got back what those kept from them."""
        if self._regrowth is None or len(leaving) > OWNERS_MAX:
            return True
        # Who shares other cpus then counts only for one that must be with somebody.
        among = None if self._judgement.companions else self._growing
        regrown = self._regrowth.after(leaving, after, among)
        if regrown is None:
            return True
        self._regrowths -= regrown.effort
        if self._remaining.makes_uneven(self._judgement, regrown.gained):
            return False
        ids, books = frozenset([one.id for one in leaving]), regrown.books
        rules = self._remaining.without(self._judgement, ids, freed, books, regrown.gained)
        return bool(self._has_room(books, rules, may_clear))

    @cached_property
    def _growing(self) -> NarrowedResidents | None:
        """The residents that may get back anything: all are tried in the same event."""
        return None if self._regrowth is None else self._regrowth.growing()

    def _may_hold(self, rules: Judgement, ledger: Ledger) -> bool:
        """Whether enough cpus are left where rules that never break let the newcomer be."""
        place, root = (
            self._candidates.place(self._firm(rules.insisting())),
            self._books.tree.root.id,
        )
        if not self._exclusive:
            return bool(place)
        left = ledger.free_sharable[root] | ledger.free_isolated[root]
        return (left & place).bit_count() >= self._exclusive

    def _firm(self, rules: Judgement) -> Judgement:
        """The rules but for those of which somebody in the way shares cpus, and may make way."""
        own = [one for one in rules.own if not self._may_yield(one.blockers)]
        barriers = [one for one in rules.barriers if not self._may_yield(one.insisting.containers)]
        return replace(rules, own=tuple(own), barriers=tuple(barriers))

    def _may_yield(self, in_the_way: Sequence[Container]) -> bool:
        ledger = self._books.ledger
        if len(in_the_way) > OWNERS_MAX:
            return True
        held = [one.id for one in in_the_way if one.id in ledger.grants]
        return any([ledger.counted(one).has_shared_part for one in held])


def _ledger_without(ledger: Ledger, leaving: Iterable[ContainerId]) -> Ledger:
    """A copy of a ledger once some containers, and pens in which nobody is left, are gone."""
    left = ledger.copy()
    for one in leaving:
        held = left.drop(one)
        if held is not None and held.pen is not None and not left.members(held.pen):
            left.drop(held.pen)
    return left
