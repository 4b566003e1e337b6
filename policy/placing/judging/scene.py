"""Scenes: the containers around a newcomer, and the owners of rules about it."""

from collections.abc import Sequence
from typing import Final

from ...books.books import Books
from ...books.whereabouts import Whereabouts
from ...configuration.config import OnUnsatisfiable
from ...model.container import Container, ContainerId
from ...model.request import CpuType
from ...rules.podaffinity.standing_rules import StandingRule
from ..classifier import SYSTEM_NAMESPACE
from .judgement import BarrierOwners

# Members of an enum are looked up by a call of Python.
_DEGRADE: Final = OnUnsatisfiable.DEGRADE
_RESERVED: Final = CpuType.RESERVED

_Stance = tuple[bool, bool]
"""Whether an owner gives way, and whether nobody limits what it blocks."""


class Scene:
    """The scene of a newcomer: containers, and owners of rules about it; nobody changes places."""

    def __init__(self, books: Books, pen: ContainerId | None = None) -> None:
        """Reads the books, never changes them. `pen`: the one whose containers ask."""
        self.whereabouts = Whereabouts(books, pen)
        self._books = books
        self._crowds: dict[int | frozenset[ContainerId], Sequence[BarrierOwners]] = {}
        self._known: dict[ContainerId, tuple[_Stance, tuple[Container, int]]] = {}

    def owners(self, one: StandingRule) -> Sequence[BarrierOwners]:
        """The owners that hold something: who insists on it, who does not, and the system's.

        Of several rules with the same owners worked out once.
        """
        crowd = one.crowd or frozenset(one.owners)
        found = self._crowds.get(crowd)
        if found is None:
            parts: dict[_Stance, dict[ContainerId, tuple[Container, int]]] = {}
            known, presence = self._known, self.whereabouts.know(one.owners)
            for owner_id, owner in one.owners.items():
                found_before = known.get(owner_id)
                stance, present = found_before or self._look_at(owner, presence[owner_id])
                if present[1]:
                    parts.setdefault(stance, {})[owner_id] = present
            found = self._crowds[crowd] = [
                BarrierOwners.of(some, *stance) for stance, some in parts.items()
            ]
        return found

    def _look_at(self, owner: Container, presence: int) -> tuple[_Stance, tuple[Container, int]]:
        stance = False, False
        if presence:
            grant, rules = self._books.ledger.grants[owner.id], self._books.standing.of(owner.id)
            can_break = rules.on_unsatisfiable is _DEGRADE
            stance = can_break, is_exempt(owner, grant.cpu_type)
        self._known[owner.id] = found = stance, (owner, presence)
        return found


def is_exempt(container: Container, cpu_type: CpuType) -> bool:
    """Whether others' anti-affinity does not block a container, and no guard counts its own."""
    return cpu_type is _RESERVED or container.pod.namespace == SYSTEM_NAMESPACE
