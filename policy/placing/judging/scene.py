"""Scenes: the containers around a newcomer, and the owners of rules about it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from ...books.books import Books
from ...books.whereabouts import Whereabouts
from ...configuration.config import OnUnsatisfiable
from ...model.container import Container, ContainerId
from ...model.request import CpuType
from ...rules.podaffinity.standing_rules import StandingRule
from ..wishes.cpu_demand import SYSTEM_NAMESPACE
from .barrier import BarrierOwners, Worded

# Members of an enum are looked up by a call of Python.
_DEGRADE: Final = OnUnsatisfiable.DEGRADE
_RESERVED: Final = CpuType.RESERVED

_Stance = tuple[bool, bool]
"""Whether an owner gives way, and whether nobody limits what it blocks."""


class Scene:
    """The scene of a newcomer: containers, and owners of rules about it; nobody changes places."""

    def __init__(
        self,
        books: Books,
        pen: ContainerId | None = None,
        residents: Collection[ContainerId] = (),
    ) -> None:
        """Reads the books, never changes them. `pen`, `residents`: see `Whereabouts`."""
        self.whereabouts = Whereabouts(books, pen, residents)
        self._books = books
        self._crowds: dict[int | frozenset[ContainerId], Sequence[BarrierOwners]] = {}
        self._sizes: dict[int | frozenset[ContainerId], dict[int, int]] = {}
        self._taken_up: dict[ContainerId, None] = {}
        self._present: dict[_Stance, dict[ContainerId, tuple[Container, int]]] = {}
        """Containers that hold something, with the cpus on which they are."""
        self._worded = Worded()

    def expect(self, rules: Iterable[StandingRule]) -> None:
        """Look at once where the owners of several rules are. Those of equal owners count once."""
        some: dict[ContainerId, Container] = {}
        for owners in {one.crowd: one.owners for one in rules}.values():
            some.update(owners)
        self.whereabouts.know(some)

    def owners(self, one: StandingRule) -> Sequence[BarrierOwners]:
        """The owners that hold something: who insists on it, who does not, and the system's.

        Of several rules with the same owners worked out once.
        """
        crowd = one.crowd or frozenset(one.owners)
        found = self._crowds.get(crowd)
        if found is None:
            found = self._crowds[crowd] = self._parts(one.owners)
        return found

    def sizes(self, one: StandingRule) -> Mapping[int, int]:
        """The numbers of owners that run on the same cpus, by these; once for the same owners."""
        crowd = one.crowd or frozenset(one.owners)
        found = self._sizes.get(crowd)
        if found is None:
            found = self._sizes[crowd] = {}
            presence = self.whereabouts.know(one.owners)
            for cpus in map(presence.__getitem__, one.owners):
                if cpus:
                    found[cpus] = found.get(cpus, 0) + 1
        return found

    def _parts(self, owners: Mapping[ContainerId, Container]) -> Sequence[BarrierOwners]:
        present, taken_up = self._present, self._taken_up
        is_first = not taken_up
        grants, rules = self._books.ledger.grants, self._books.standing.rules
        presence = self.whereabouts.know(owners)
        # They may be many: a call for each would be most of the work.
        for owner_id, owner in owners.items():
            if owner_id in taken_up:
                continue
            taken_up[owner_id] = None
            cpus = presence[owner_id]
            if not cpus:
                continue
            can_break = rules[owner_id].on_unsatisfiable is _DEGRADE
            is_reserved = grants[owner_id].cpu_type is _RESERVED
            stance = can_break, is_reserved or owner.pod.namespace == SYSTEM_NAMESPACE
            if stance not in present:
                present[stance] = {}
            present[stance][owner_id] = owner, cpus
        parts: dict[_Stance, Mapping[ContainerId, tuple[Container, int]]] = {}
        for stance, some in present.items():
            # Most are owners of many rules: nothing is read or made anew for another crowd.
            part = dict(some) if is_first else {one: some[one] for one in owners if one in some}
            if part:
                parts[stance] = part
        if len(parts) > 1:
            # They come in the order of the owners, whichever crowd was first.
            first = {next(iter(part)): stance for stance, part in parts.items()}
            ordered = [first[one] for one in owners if one in first]
            parts = {stance: parts[stance] for stance in ordered}
        worded = self._worded
        return [BarrierOwners.of(some, *stance, worded) for stance, some in parts.items()]


def is_exempt(container: Container, cpu_type: CpuType) -> bool:
    """Whether others' anti-affinity does not block a container, and no guard counts its own."""
    return cpu_type is _RESERVED or container.pod.namespace == SYSTEM_NAMESPACE
