"""The containers that are there, by each of their facts.

Sets of containers are integers, a bit for the place of each: set algebra over a thousand of them
costs next to nothing.
"""

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, Final

from ...topology.sets.bits import selectors
from ..model.container import Container, ContainerId
from .container_facts import FIXED_SUBKEYS, ContainerFacts, Key, Subkey, facts
from .key_column import KeyColumn

JOINT_KEYS_MAX: Final = 16
"""Joint keys whose values are kept up; those of further ones are made when needed."""
JOINT_CHARACTERS_MAX: Final = 1 << 20
"""Characters of the values that are kept up."""
_FEW_BITS: Final = 8


class Residents:
    """Containers, each in a place of its own, and the values of their keys."""

    def __init__(self) -> None:
        self._containers: dict[ContainerId, Container] = {}
        self._places: dict[ContainerId, int] = {}
        self._ids: list[ContainerId] = []
        self._free: list[int] = []
        self._columns: dict[Subkey, KeyColumn] = {}
        """Of those that every container has, the ones that somebody asked for."""
        self._joint: dict[str, tuple[Key, KeyColumn]] = {}
        self.everyone = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, container_id: ContainerId) -> bool:
        return container_id in self._places

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is kept, not even of what has been removed."""
        return not (self._places or self._columns or self.everyone or self._containers)

    def container(self, container_id: ContainerId) -> Container:
        """The container of an id that is there."""
        return self._containers[container_id]

    def place(self, container_id: ContainerId) -> int:
        """The place of a container that is there, as a set."""
        return 1 << self._places[container_id]

    def add(self, container: Container, known: dict[Subkey, str] | None = None) -> None:
        """Give a container a place; nobody of its id is there. `known`: its facts."""
        known = facts(container) if known is None else known
        if self._free:
            place = self._free.pop()
            self._ids[place] = container.id
        else:
            place = len(self._ids)
            self._ids.append(container.id)
        self._places[container.id] = place
        self._containers[container.id] = container
        bit = 1 << place
        self.everyone |= bit
        columns = self._columns
        for subkey, value in known.items():
            column = columns.get(subkey)
            if column is None:
                if subkey in FIXED_SUBKEYS:
                    continue
                column = columns[subkey] = KeyColumn()
            column.add(value, bit)
        for key, column in self._joint.values():
            joined = key.value_of(known)
            if joined is not None:
                column.add(joined, bit)

    def remove(self, container_id: ContainerId) -> bool:
        """Free a place; False where nobody has that id."""
        place = self._places.pop(container_id, None)
        if place is None:
            return False
        known = facts(self._containers.pop(container_id))
        self._free.append(place)
        bit = 1 << place
        self.everyone &= ~bit
        for subkey, value in known.items():
            column = self._columns.get(subkey)
            if column is not None:
                column.discard(value, bit)
                if not column.places:
                    del self._columns[subkey]
        for key, column in self._joint.values():
            joined = key.value_of(known)
            if joined is not None:
                column.discard(joined, bit)
        if not self._places:
            self._columns.clear()
        return True

    def ids(self, places: int) -> Iterator[ContainerId]:
        """The containers of a set."""
        if places.bit_count() > _FEW_BITS:
            # No generator: it would be gone through in Python, id by id.
            return compress(self._ids, selectors(places))
        found: list[ContainerId] = []
        while places:
            bit = places & -places
            found.append(self._ids[bit.bit_length() - 1])
            places ^= bit
        return iter(found)

    @property
    def ids_by_place(self) -> Sequence[ContainerId]:
        """The id of each place; of places that nobody has some that may not be there any more."""
        return self._ids

    def containers(self, places: int) -> list[Container]:
        """The containers of a set, themselves."""
        known = self._containers
        return [known[one] for one in self.ids(places)]

    def listing_steps(self, places: int) -> int:
        """Steps to go through the containers of a set."""
        count = places.bit_count()
        return 12 * count if count <= _FEW_BITS else 2 * count + len(self._places) // 2

    def facts_in(self, places: int) -> Iterator[tuple[int, ContainerFacts]]:
        """The place, as a set, and the facts of each container of a small set."""
        while places:
            bit = places & -places
            yield bit, ContainerFacts(self._containers[self._ids[bit.bit_length() - 1]])
            places ^= bit

    def column(self, subkey: Subkey) -> KeyColumn:
        """The values of a key that is not joint.

        O(containers) where every container has such a fact and nobody has asked for it yet.
        """
        found = self._columns.get(subkey)
        if found is None:
            found = KeyColumn()
            if subkey in FIXED_SUBKEYS:
                # Of all the facts of a container, which may be hundreds, only the one is read.
                for container_id, place in self._places.items():
                    value = subkey.value(self._containers[container_id])
                    if value is not None:
                        found.add(value, 1 << place)
                # Also where nobody has it, as the uid of pods of runtimes that tell none.
                if self._places:
                    self._columns[subkey] = found
        return found

    def label_column(self, key: str) -> KeyColumn | None:
        """The values of a label of pods; None where nobody has it."""
        # Equal to the `Subkey`, which takes a call of Python.
        subkey: Any = "pod/labels", key
        return self._columns.get(subkey)

    def joint_column(self, key: Key, characters_max: int) -> KeyColumn | None:
        """The values of a joint key; None where they have more characters together than that.

        O(containers), but for the keys asked for of late.
        """
        kept = self._joint.pop(key.text, None)
        if kept is None:
            column = KeyColumn()
            for container_id, place in self._places.items():
                joined = key.value_of(ContainerFacts(self._containers[container_id]))
                if joined is not None:
                    column.add(joined, 1 << place)
                    if column.characters > characters_max:
                        return None
            kept = key, column
        self._joint[key.text] = kept
        # The one used last is the last one.
        while len(self._joint) > JOINT_KEYS_MAX or self._joint_characters > JOINT_CHARACTERS_MAX:
            del self._joint[next(iter(self._joint))]
        return kept[1] if kept[1].characters <= characters_max else None

    @property
    def _joint_characters(self) -> int:
        return sum(column.characters for _, column in self._joint.values())
