"""Lost rules: required rules that stop holding at containers about which nobody decides."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from ...books.books import Books
from ...model.container import ContainerId
from ...model.pinning import MovedTogether
from ...placing.judging.restriction import Restriction
from ...placing.judging.rule_look import RuleLook
from ..decision import with_unmet
from ..roster import Roster
from .concerns import Concerns, others_of
from .moved_residents import MovedCompanions, MovedCounted

_OWNERS_AT_ONE_EFFORT: Final = 4
"""So many owners of a spread rule that is counted anew cost as much as one rule to be read."""

UnmetNames = Callable[[ContainerId], Collection[str]]
"""The rules that do not hold at a container, with their owners."""


class LostRules:
    """The rules that stop holding as others, or the cpus there are, change; told of their owners.

    A rule that did not hold before, and was told of nobody, goes on untold: it is for those who
    come.
    """

    def __init__(self, books: Books, roster: Roster, concerns: Concerns) -> None:
        """Changes decisions of the roster, and concerns."""
        self._books = books
        self._roster = roster
        self._concerns = concerns
        self._companions = MovedCompanions(books)
        self._counted = MovedCounted(books, roster.classified)
        self._told: dict[ContainerId, None] = {}

    @property
    def are_due(self) -> bool:
        """Whether there are owners to be looked at."""
        counted, companions = self._counted, self._companions
        return bool(companions.left or companions.grown or counted.moved or counted.uneven)

    def expect_move(self, container_id: ContainerId) -> int:
        """A container may get other cpus by a decision; returns a mask of those it runs on."""
        self._counted.expect(container_id)
        return self._books.presence(container_id)

    def note_moves(self, moves: Sequence[MovedTogether]) -> None:
        """Containers have other cpus than before, as may one that was expected to move."""
        if moves:
            self._concerns.note_left()
            self._companions.note_moves(moves)
        if self._books.standing.spreads.levels:
            self._counted.note_moves(moves)

    def note(self, container_id: ContainerId, before: int) -> None:
        """A container that ran on these cpus has others by a decision, and is told what it lost."""
        self._concerns.note_left()
        self._companions.note(container_id, before)

    def take_met(self) -> Collection[ContainerId]:
        """Owners at which a rule does not hold, and to whom others have come since."""
        return [*filter(self._concerns.ids.__contains__, self._companions.take_met())]

    def take_told(self) -> Collection[ContainerId]:
        """Containers of which lost rules were told since this was asked last."""
        told, self._told = self._told, {}
        return told

    def look(self, effort_max: int, look: RuleLook, *, is_awaited: bool = False) -> None:
        """Look at owners that others have left, or that grew, until that is so much effort.

        And at those of spread rules that were even, unless somebody waits who did not ask for it.
        """
        enough = look.effort + effort_max
        while self._counted.moved and not is_awaited and look.effort < enough:
            look.effort += self._counted.look_at_level() // _OWNERS_AT_ONE_EFFORT
        parted, uneven = self._companions, self._counted.uneven
        while (parted.left or parted.grown or uneven) and look.effort < enough:
            if parted.left or parted.grown:
                container_id, texts, before = self._companions.pop_parted()
            else:
                (container_id, texts), before = self._counted.pop_uneven(), None
            if container_id not in self._books.ledger.grants:
                continue
            broken, pool_id = look.broken(container_id), self._books.pool_around(container_id)
            lost = [one for one in broken if one.is_own and one.text in texts]
            if before is not None:
                lost += [one for one in broken if not one.is_broken_by(before, pool_id)]
            self._tell(container_id, lost, look)

    def look_at_all(self, before: UnmetNames, look: RuleLook) -> None:
        """Look at all owners of rules, whatever changed. O(those).

        `before`: of then; asked of few.
        """
        for container_id in self._books.standing.rules:
            if container_id not in self._books.ledger.grants:
                continue
            unmet = self._roster.decisions[container_id].unmet
            if lost := [one for one in look.broken(container_id) if not one.is_told(unmet)]:
                known = before(container_id)
                self._tell(container_id, [one for one in lost if one.name not in known], look)

    def _tell(self, container_id: ContainerId, lost: Sequence[Restriction], look: RuleLook) -> None:
        """Tell, besides what is told of a container, that these rules do not hold there."""
        decision = self._roster.decisions[container_id]
        if lost := [one for one in lost if not one.is_told(decision.unmet)]:
            self._told[container_id] = None
            self._concerns.add(container_id, others_of(lost, self._books))
            texts = look.near.texts(lost, self._books.reach(container_id))
            told = with_unmet(decision, tuple(dict.fromkeys((*decision.unmet, *texts))))
            self._roster.decisions[container_id] = told
