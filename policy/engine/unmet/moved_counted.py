"""Moved counted containers: those with other cpus that spread rules count, and their owners."""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from ....topology.model.machine import Level
from ...books.books import Books
from ...model.container import ContainerId
from ...model.pinning import MovedTogether
from ...placing.classifier import Classified
from ...placing.judging.evenness import uneven_by
from ...rules.podaffinity.term_selection import select_counted


class MovedCounted:
    """The owners of required spread rules that stop holding by others' cpus, or their own.

    Those who begin or end are none of these others: such a rule is for the arrival of its owner.
    """

    def __init__(self, books: Books, classified: Mapping[ContainerId, Classified]) -> None:
        """Reads the books, never changes them. `classified`: what residents ask for."""
        self._books = books
        self._classified = classified
        self._moving: Mapping[ContainerId, int] = {}
        """Containers about which somebody decides, and the cpus on which they count so far."""
        self._moved: dict[Level, dict[ContainerId, int]] = {}
        """Containers that have moved to other domains of a level, and the cpus these had."""
        self.moved: Collection[Level] = self._moved.keys()
        """The levels at which rules are to be looked at, as some have moved."""
        self._uneven: dict[ContainerId, set[str]] = {}
        self.uneven: Collection[ContainerId] = self._uneven.keys()
        """Owners to be looked at, as a rule of theirs held before."""

    def expect(self, container_id: ContainerId) -> None:
        """A container, and whoever is in a pen with it, may get other cpus by a decision."""
        self._moving = {}
        if self._books.standing.spreads.levels:
            pen_id = self._books.pen_around(container_id)
            ids = (container_id,) if pen_id is None else self._books.ledger.members(pen_id)
            self._moving = dict(zip(ids, self._books.reaches(ids), strict=True))

    def note_moves(self, moves: Sequence[MovedTogether]) -> None:
        """Containers have other cpus than before, and those that were expected to may have."""
        moving, self._moving = self._moving, {}
        if not (moves or moving):
            return
        grants, pens, reach = self._books.ledger.grants, self._books.ledger.pens, self._books.reach
        moved = self._moved
        for id_, before in moving.items():
            for level in self._others_at(before, reach(id_)) if id_ in grants else ():
                moved.setdefault(level, {}).setdefault(id_, before)
        for one in moves:
            before = one.before.mask
            for level in self._others_at(before, one.after.mask):
                # Whoever may use idle cpus counts without them, on what decisions give it.
                known = moved.setdefault(level, {})
                for id_ in one.ids:
                    if id_ in known or id_ in moving or id_ not in grants:
                        continue
                    if grants[id_].idle_level is None and not (pens and self._pen(id_)):
                        known[id_] = before
        for pen_id, before in self._moved_pens(moves).items() if pens else ():
            members = [one for one in self._books.ledger.members(pen_id) if one not in moving]
            for level in self._others_at(before, reach(members[0])) if members else ():
                moved[level] = {**dict.fromkeys(members, before), **moved.get(level, {})}

    def _others_at(self, before: int, after: int) -> Sequence[Level]:
        """The levels that count at which these cpus are in different domains."""
        indexes, levels = self._books.domains.indexes, self._books.standing.spreads.levels
        return [one for one in levels if indexes(one, before) != indexes(one, after)]

    def _pen(self, container_id: ContainerId) -> ContainerId | None:
        """The pen in all of which a container is to others; None where it holds nothing."""
        is_placed = container_id in self._books.ledger.grants
        return self._books.pen_around(container_id) if is_placed else None

    def _moved_pens(self, moves: Sequence[MovedTogether]) -> Mapping[ContainerId, int]:
        """The cpus that pens had of which some have others now: those of all in them."""
        found: dict[ContainerId, int] = {}
        left = dict[ContainerId, int]()
        for one in moves:
            left |= dict.fromkeys(one.ids, one.before.mask)
        for pen_id in filter(None, map(self._pen, left)):
            members = self._books.ledger.members(pen_id)
            if pen_id not in found:
                had = [left.get(id_) or self._books.presence(id_) for id_ in members]
                found[pen_id] = reduce(int.__or__, had, 0)
        return found

    def look_at_level(self) -> int:
        """Find the owners for whom a rule held, and does not any more. Returns how many there are.

        Of one level: as a rule all who moved are of one.
        """
        level = next(iter(self._moved))
        books, before = self._books, self._moved.pop(level)
        ids = [one for one in before if one in books.ledger.grants]
        moved = {
            one: (before[one], after) for one, after in zip(ids, books.reaches(ids), strict=True)
        }
        residents, count = books.affinity.residents, 0
        asked = reduce(int.__or__, map(residents.place, ids), 0)
        for namespace, rule, owners in books.standing.spreads.at(level):
            is_about = asked & select_counted(residents, namespace, rule)
            if is_about or not owners.keys().isdisjoint(moved):
                count += len(owners)
                rules = {(namespace, rule): owners}
                for owner in uneven_by(moved, books, rules, self._classified):
                    self._uneven.setdefault(owner.id, set()).add(rule.text)
        return count

    def pop_uneven(self) -> tuple[ContainerId, Collection[str]]:
        """An owner whose rules have stopped holding as others moved, and the texts of these."""
        return self._uneven.popitem()
