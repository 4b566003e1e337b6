"""Rules of many residents that one container breaks: the first are told at once, others later."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from ...books.books import Books
from ...model.container import Container, ContainerId
from .near_blockers import NearBlockers
from .restriction import TOLD_MAX, Restriction

_OWNERS_LOOKED_AT: Final = 128
"""So many owners are looked at in one turn, to be told: each that is told costs some 5 us."""


class RulesOfMany:
    """The rules that containers break, where these are more than a decision tells.

    A rule of very many owners comes as one, and is told as the rule of each of them.
    """

    def __init__(self, books: Books) -> None:
        """Changes nothing in the books."""
        self._books = books
        self._broken: dict[ContainerId, tuple[Restriction, ...]] = {}
        """All that a container broke, where its decision tells the first of them alone."""
        self._untold: dict[ContainerId, tuple[Sequence[Restriction], int]] = {}
        """Rules of many of whose owners so many were looked at, by the container they are about."""

    def first(
        self, container_id: ContainerId, broken: Sequence[Restriction]
    ) -> Sequence[Restriction]:
        """The rules that a decision tells, each of one owner; the others are remembered."""
        found = list(islice(self._of_each(container_id, broken), TOLD_MAX + 1))
        self._broken.pop(container_id, None)
        if len(found) > TOLD_MAX:
            self._broken[container_id] = tuple(broken)
        return found[:TOLD_MAX]

    def has_more(self, container_id: ContainerId) -> bool:
        """Whether a container broke more rules than its decision tells."""
        return container_id in self._broken

    def more(self, container_id: ContainerId, told: Collection[str]) -> Sequence[Restriction]:
        """Rules of others that were broken and are still, in place of what holds by now.

        `told`: the names of those that a decision goes on telling. O(owners), where more were
        broken than are told.
        """
        broken = self._broken.get(container_id, ())
        if not broken or len(told) >= TOLD_MAX:
            return ()
        cpus = self._books.reach(container_id)
        others = (
            one
            for one in self._of_each(container_id, [one for one in broken if not one.is_own])
            if one.name not in told and self._is_near(one, one.blockers[0], cpus)
        )
        found = list(islice(others, TOLD_MAX - len(told)))
        if len(found) + len(told) < TOLD_MAX:
            del self._broken[container_id]
        return found

    def to_tell(
        self, container_id: ContainerId, broken: Sequence[Restriction]
    ) -> Iterator[Restriction]:
        """The rules whose owners are to be told at once; of very many the first, see `next`."""
        self._untold.pop(container_id, None)
        yield from (one for one in broken if not _is_of_many(one))
        if of_many := [one for one in broken if _is_of_many(one)]:
            yield from self._next_owners(container_id, of_many, 0, TOLD_MAX)

    def next(self) -> tuple[ContainerId, Sequence[Restriction]] | None:
        """A container and rules of further owners who are to be told of it; None once all are."""
        while self._untold:
            container_id = next(iter(self._untold))
            rules, number = self._untold.pop(container_id)
            if container_id in self._books.ledger.grants:
                found = self._next_owners(container_id, rules, number, _OWNERS_LOOKED_AT)
                return container_id, found
        return None

    def forget(self, container_id: ContainerId) -> None:
        """Forget what a container broke that is gone."""
        self._broken.pop(container_id, None)
        self._untold.pop(container_id, None)

    def _next_owners(
        self, container_id: ContainerId, rules: Sequence[Restriction], number: int, count: int
    ) -> Sequence[Restriction]:
        """The rules of so many owners who are near, after as many as were looked at before."""
        cpus = self._books.reach(container_id)
        found: list[Restriction] = []
        owners = ((rule, owner) for rule in rules for owner in rule.blockers)
        for looked_at, (rule, owner) in enumerate(islice(owners, number, None)):
            if looked_at == _OWNERS_LOOKED_AT or len(found) == count:
                self._untold[container_id] = rules, number + looked_at
                break
            if self._is_near(rule, owner, cpus):
                found.append(rule.of(owner))
        return found

    def _of_each(
        self, container_id: ContainerId, rules: Sequence[Restriction]
    ) -> Iterator[Restriction]:
        """The rules, those of very many as of each owner who is near, and as one where none is."""
        cpus = self._books.reach(container_id)
        for rule in rules:
            near = NearBlockers(self._books).each(rule, cpus) if _is_of_many(rule) else iter(())
            first = next(near, None)
            if first is None:
                yield rule
            else:
                yield rule.of(first)
                yield from map(rule.of, near)

    def _is_near(self, rule: Restriction, owner: Container, cpus: int) -> bool:
        """Whether the owner of a rule is in a domain of somebody who runs on these cpus."""
        here = self._books.domains.covering(rule.level, cpus)
        return bool(self._books.reach(owner.id) & here)


def _is_of_many(rule: Restriction) -> bool:
    return not rule.is_own and len(rule.blockers) > 1
