"""Blockers near a container: of those whom a rule keeps away, the ones that share its domains."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import filterfalse
from operator import attrgetter
from typing import Final

from ...books.books import Books
from ...model.container import Container, ContainerId
from .restriction import Restriction, told_once

_ID: Final[Callable[[Container], ContainerId]] = attrgetter("id")
_AT_ONCE: Final = 32
"""Of so many blockers it is found out together where they are."""


class NearBlockers:
    """The blockers of rules that are near containers, while nobody changes places."""

    def __init__(self, books: Books) -> None:
        """Reads the books, never changes them."""
        self._books = books
        self._reaches: dict[ContainerId, int] = {}
        self._near: dict[tuple[int, int], tuple[Sequence[Container], Sequence[Container]]] = {}
        """Blockers, and the near ones of them, by the id of their sequence and the domains asked
        about: several rules have the same, and the same rules are told more than once."""

    def named(self, rules: Iterable[Restriction], cpus: int) -> Iterator[Restriction]:
        """Rules broken on some cpus, with those blockers alone beside whom they are broken.

        All of their blockers where none is near any more. O(blockers) once for the same ones.
        """
        for rule in rules:
            if len(rule.blockers) < 2:
                yield rule
            elif self._is_inside_pen(rule):
                yield rule.beside(self._near_part(rule))
            else:
                # More are named by their number: so that is that of those who are near.
                yield rule.beside(self.of(rule, cpus))

    def texts(self, rules: Iterable[Restriction], cpus: int) -> tuple[str, ...]:
        """Rules broken on some cpus, for people, each once; see `named`."""
        return told_once(self.named(rules, cpus))

    def _is_inside_pen(self, rule: Restriction) -> bool:
        """Whether a rule of a container is about others in its pen."""
        pen_id = self._books.pen_around(rule.owner_id) if rule.is_own else None
        return pen_id is not None and pen_id == self._books.pen_around(rule.blockers[0].id)

    def _near_part(self, rule: Restriction) -> Sequence[Container]:
        """The blockers whose parts of a pen share domains with the owner's."""
        books = self._books
        here = books.domains.covering(rule.level, books.presence(rule.owner_id))
        return [one for one in rule.blockers if books.presence(one.id) & here]

    def of(self, rule: Restriction, cpus: int) -> Sequence[Container]:
        """The blockers in a domain of somebody on these cpus, a single one anyway. O(them) once."""
        blockers = rule.blockers
        if len(blockers) < 2:
            return blockers
        here = self._books.domains.covering(rule.level, cpus)
        key = id(blockers), here
        if key not in self._near:
            # Both are kept: so no others have the same id.
            self._near[key] = blockers, self._among(blockers, here)
        return self._near[key][1]

    def each(self, rule: Restriction, cpus: int) -> Iterator[Container]:
        """The blockers there, one after another: most may be elsewhere, and those cost no call."""
        here = self._books.domains.covering(rule.level, cpus)
        for begin in range(0, len(rule.blockers), _AT_ONCE):
            yield from self._among(rule.blockers[begin : begin + _AT_ONCE], here)

    def _among(self, blockers: Sequence[Container], here: int) -> Sequence[Container]:
        known = self._reaches
        new = [*filterfalse(known.__contains__, map(_ID, blockers))]
        known.update(zip(new, self._books.reaches(new), strict=True))
        return [one for one in blockers if known[one.id] & here]
