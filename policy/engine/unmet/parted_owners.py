"""Parted owners: those whom others have left with whom they must be, and the cpus kept for them."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from msgspec.structs import replace

from ....topology.sets.cpuset import NO_CPUS, CpuSet
from ...books.books import Books
from ...books.company import Company, beside, wanted_company
from ...books.whereabouts import Whereabouts
from ...model.container import Container, ContainerId
from ...model.grant import Grant, Refusal
from ...placing.judging.rule_look import EFFORT_OF_ONE
from ...placing.openings.regrowth import REGROWTH_EFFORT_MAX
from ...pools.domains import Domains
from ...rules.podaffinity.rule_set import RequiredTerm
from ..roster import Roster

_EFFORT_OF_RULE: Final = 4
"""Beside that of one container: of each rule nothing but the company is read."""
_SETS_OF_ONE: Final = 8
"""And one for so many sets of cpus that are kept shared for a container."""


class PartedOwners:
    """The owners of required affinity whom somebody has left with whom they must be.

    Of the cpus of others that are kept shared for them others serve by that, or none do.
    """

    def __init__(self, books: Books, roster: Roster) -> None:
        """Changes grants in the books, and nothing else."""
        self._books = books
        self._roster = roster
        self._due: dict[ContainerId, bool] = {}
        """Owners to be looked at, in this order, and whether more cpus may be kept for them."""
        self._left_by_ended: dict[ContainerId, None] = {}
        """Owners of rules that want one with them that is about to be forgotten."""

    def note(self, owner_id: ContainerId) -> None:
        """Look soon whether all that is kept shared for one is still needed."""
        self._due[owner_id] = False

    def expect_end(self, gone: Container) -> None:
        """A container is about to be forgotten, see `part_ended`."""
        self._left_by_ended = self._with_it(gone)

    def part(self, container_id: ContainerId, had: Grant | Refusal) -> None:
        """Keep cpus shared for those who want one with them that has left all its own cpus.

        And none any more for the sake of one that shares none by now.
        """
        if not isinstance(had, Grant):
            return
        now = self._books.ledger.grants[container_id]
        own = had.exclusive if now.exclusive.isdisjoint(had.exclusive) else NO_CPUS
        if own or (had.has_shared_part and not now.has_shared_part):
            container = self._roster.containers[container_id]
            self._due |= dict.fromkeys(self._with_it(container, own.mask), True)
            # What is kept for itself was just worked out.
            self._due.pop(container_id, None)
            self.look()

    def part_ended(self) -> None:
        """Keep no more cpus shared than needed for those who wanted one that is forgotten.

        Once others have cpus that it leaves: they may be with these by that.
        """
        for one in self._left_by_ended:
            self._due.setdefault(one, False)
        self._left_by_ended = {}
        self.look()

    def part_all(self) -> None:
        """Keep cpus shared anew for all who want others with them, as many have other cpus."""
        self._due |= dict.fromkeys(self._books.standing.wants_others, True)
        self.look()

    def _with_it(self, gone: Container, own: int = 0) -> dict[ContainerId, None]:
        """The owners of rules that want a container with them, for whom cpus are kept shared.

        It may be for its sake, wherever they are. And those near the cpus that it had for `own`.
        """
        books, found = self._books, dict[ContainerId, None]()
        ledger = books.ledger
        for one in books.standing.matching(gone):
            if isinstance(one.rule, RequiredTerm) and not one.rule.is_anti:
                owners = [owner for owner in one.owners if owner in ledger.grants]
                if here := books.domains.covering(one.rule.term.level, own) if own else 0:
                    places = zip(owners, books.reaches(owners), strict=True)
                    found |= dict.fromkeys(owner for owner, cpus in places if cpus & here)
                found |= dict.fromkeys(some for some in owners if ledger.counted(some).beside)
        return found

    def look(self, effort_max: int = REGROWTH_EFFORT_MAX) -> int:
        """Look at as many as an event may, and first at the oldest; returns the effort."""
        ledger, effort = self._books.ledger, 0
        known: dict[ContainerId | None, Whereabouts] = {}
        while self._due and effort < effort_max:
            owner_id = next(iter(self._due))
            gains = self._due.pop(owner_id)
            held = ledger.counted(owner_id) if owner_id in ledger.grants else None
            if held is None or not (gains or held.beside):
                continue
            members = ledger.occupants(held.container_id)
            company = self._company(members, known)
            cpus = reduce(int.__or__, map(self._books.reach, members))
            found = _still_beside(held, cpus, company, self._books.domains, gains=gains)
            effort += EFFORT_OF_ONE * len(members) + _EFFORT_OF_RULE * len(company)
            effort += len(found) // _SETS_OF_ONE
            if found != held.beside:
                ledger.repool(replace(held, beside=found))
        return effort

    def _company(
        self, members: Sequence[ContainerId], known: dict[ContainerId | None, Whereabouts]
    ) -> Sequence[Company]:
        """The company of a container, or of all in a pen: of others' rules nothing is read.

        `known`: where others are, by the pen of those that ask.
        """
        books, found = self._books, list[Company]()
        pen_id = books.pen_around(members[0])
        if pen_id not in known:
            known[pen_id] = Whereabouts(books, pen_id)
        for one in members:
            container, rules = self._roster.containers[one], self._roster.classified[one].placement
            found += wanted_company(container, rules, books, known[pen_id])
        return found


def _still_beside(
    held: Grant, cpus: int, company: Sequence[Company], domains: Domains, *, gains: bool
) -> tuple[CpuSet, ...]:
    """Shared cpus of company without which a container, or a pen, would be alone by now.

    `gains`: also such as were not kept so far.
    """
    needed = beside(company, domains, cpus, held.exclusive.mask) if gains else ()
    again = reduce(int.__or__, [one.mask for one in needed], 0)
    # Beside one with cpus of its own, too: that one may leave before them.
    shared = reduce(int.__or__, [one.shared for one in company], 0)
    # There may be one for each domain of a large machine.
    kept = [one for one in held.beside if one.mask & shared and not one.mask & again]
    return (*kept, *needed)
