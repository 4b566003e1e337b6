"""Looks at the rules about containers that are there already."""

from collections.abc import Mapping, Sequence
from typing import Final

from ...books.books import Books
from ...model.container import Container, ContainerId
from ...model.last_place import Breach
from ..classifier import Classified
from .judge import Judge
from .judgement import Judgement
from .near_blockers import NearBlockers
from .restriction import Restriction
from .scene import Scene

EFFORT_OF_ONE: Final = 8
"""The effort of a look at one container, beside one for each rule that is read, and is told."""

_EFFORT_OF_SPREAD: Final = 4
"""And that for each rule for which all containers that it counts are counted in all domains."""

_CROWD: Final = 96
"""Where rules keep more than these away, or are of more, it is one more for each so many."""


class RuleLook:
    """A look at containers one after another, while nobody changes places."""

    def __init__(
        self,
        books: Books,
        containers: Mapping[ContainerId, Container],
        classified: Mapping[ContainerId, Classified],
        judge: Judge,
    ) -> None:
        """`containers`: all that are there, and what they are classified as."""
        self._books = books
        self._containers = containers
        self._classified = classified
        self._judge = judge
        self._scenes: dict[ContainerId | None, Scene] = {}
        """By the pen of those that are looked at."""
        self.near = NearBlockers(books)
        """The blockers of rules near those."""
        self.effort = 0

    def broken(self, container_id: ContainerId) -> tuple[Restriction, ...]:
        """The rules about a container's place that do not hold at present."""
        judgement = self.judgement(container_id)
        if judgement is None:
            return ()
        cpus = self._books.reach(container_id)
        return judgement.told_at(cpus, self._books.pool_around(container_id))

    def breaches(self, container_id: ContainerId) -> frozenset[Breach]:
        """The rules that do not hold between a container and others near it."""
        cpus, found = self._books.reach(container_id), set[Breach]()
        for one in self.broken(container_id):
            found |= one.beside(self.near.of(one, cpus)).breaches
        return frozenset(found)

    def still_broken(
        self, container_id: ContainerId, texts: Sequence[str], *, or_lasting: bool = False
    ) -> tuple[Restriction, ...]:
        """The rules among those that are told by texts that do not hold at present.

        `or_lasting`: and those that are required during execution.
        """
        judgement = self.judgement(container_id) if texts or or_lasting else None
        if judgement is None:
            return ()
        cpus, around = self._books.reach(container_id), self._books.pool_around(container_id)
        return judgement.still_told(texts, cpus, around, or_lasting=or_lasting)

    def judgement(self, container_id: ContainerId) -> Judgement | None:
        """The judgement about a container's place, without what is only preferred."""
        classified = self._classified.get(container_id)
        if classified is None:
            return None
        container, scene = self._containers[container_id], self.scene(container_id)
        judgement = self._judge.judge(
            container, classified.placement, classified.request, scene, has_pulls=False
        )
        self.effort += EFFORT_OF_ONE
        if judgement is not None:
            self.effort += judgement.effort + judgement.crowd // _CROWD
        self.effort += _EFFORT_OF_SPREAD * len(classified.placement.spread)
        return judgement

    def scene(self, container_id: ContainerId) -> Scene:
        """The scene of a container, for other judgements as well."""
        pen_id = self._books.pen_around(container_id)
        if pen_id not in self._scenes:
            self._scenes[pen_id] = Scene(self._books, pen_id)
        return self._scenes[pen_id]
