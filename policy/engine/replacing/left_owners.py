"""Left owners: residents whose required affinity holds by containers that are to go elsewhere."""

from collections.abc import Collection, Iterator, Mapping
from functools import reduce

from ...books.books import Books
from ...books.company import affinity_of
from ...books.whereabouts import Whereabouts
from ...model.container import Container, ContainerId
from ...rules.podaffinity.rule_set import RequiredTerm


class LeftOwners:
    """The owners whose rules would not hold without containers that go, wherever those are then.

    Whoever has another container that will do beside it is left by nobody.
    """

    def __init__(self, books: Books, going: Collection[ContainerId]) -> None:
        """`going`: all who go; nobody among them is left by the others."""
        self._books = books
        self._going = going
        residents = books.affinity.residents
        self._gone = reduce(int.__or__, map(residents.place, going), 0)
        self._around: dict[ContainerId | None, Whereabouts] = {}
        """By the pen of the owner that is looked at."""
        self._affinity: dict[ContainerId, list[tuple[RequiredTerm, int]]] = {}

    def of(
        self, party: Mapping[ContainerId, Container], after: int = 0
    ) -> Iterator[tuple[RequiredTerm, Container]]:
        """The rules about some of those who go that hold, and would not any more, with the owners.

        `after`: the cpus on which those are then; none where they are to be anywhere else.
        """
        books, covering = self._books, self._books.domains.covering
        here = reduce(int.__or__, map(books.reach, party), 0)
        for container in party.values():
            for one in books.standing.matching(container):
                if not isinstance(rule := one.rule, RequiredTerm) or rule.is_anti:
                    continue
                level = rule.term.level
                for owner_id, owner in one.owners.items():
                    around = covering(level, books.reach(owner_id))
                    if owner_id in self._going or not around & here:
                        continue
                    if around & ~covering(level, after) and self._is_left(owner, rule, after):
                        yield rule, owner

    def _is_left(self, owner: Container, rule: RequiredTerm, after: int) -> bool:
        """Whether all domains of an owner have such a container now, and one would have none.

        Where some have none already the rule does not hold; but it is left by the last of them.
        """
        books, covering = self._books, self._books.domains.covering
        pen_id, level = books.pen_around(owner.id), rule.term.level
        around = self._around.get(pen_id)
        if around is None:
            around = self._around[pen_id] = Whereabouts(books, pen_id)
        places = self._about(owner, rule)
        # Between two of one pen a rule speaks of their own parts of it.
        own = books.presence if places & around.mates else books.reach
        here = covering(level, own(owner.id))
        before = here & covering(level, around.cpus(places))
        stay = around.cpus(places & ~self._gone) | (after if places & self._gone else 0)
        left = here & covering(level, stay)
        return left != here if before == here else bool(before and not left)

    def _about(self, owner: Container, rule: RequiredTerm) -> int:
        """The residents that a rule of an owner is about."""
        if owner.id not in self._affinity:
            rules = self._books.standing.of(owner.id)
            self._affinity[owner.id] = affinity_of(owner, rules, self._books)
        return next((places for one, places in self._affinity[owner.id] if one == rule), 0)
