"""Memory that is really free, as the kernel tells it, beside what is accounted."""

from collections.abc import Mapping
from typing import Final, Self

from msgspec import Struct

from ...topology.sets.cpuset import iter_bits
from ..model.container import ContainerId
from .memory_nodes import UNLIMITED_BYTES
from .memory_zones import Zone

_LOW_SHARE: Final = 32
"""A zone is short when less than this part of it would stay free: the kernel reclaims by then."""

_CALM_SHARE: Final = 4
"""A container returns to a zone only where this part would stay free.

Far more than where a zone is short, so that nobody swings: what a container without a limit uses
shows only after it has returned, and to return moves its memory.
"""


class MemoryLook(Struct, frozen=True, kw_only=True):
    """One look at the free memory of each node, by node id, and what was granted since."""

    free_bytes: Mapping[int, int]
    granted: Mapping[ContainerId, tuple[int, int]]
    """The mask of the zone and the bytes of each container."""


class ObservedMemory:
    """One look at the free memory of each node, and what was granted since.

    Accounting counts what was asked for; containers without a request, or above it, use more. And
    a container granted a moment ago has not filled its memory, so the look is too good by that.
    """

    def __init__(self, free_bytes: Mapping[int, int]) -> None:
        """`free_bytes` by node id; nodes that are not in it count as free without limit."""
        self._free = dict(free_bytes)
        self._since: dict[ContainerId, tuple[int, int]] = {}
        self._room: dict[int, int] = {}
        """What is free in each set of nodes that was asked for, by its mask."""
        self._sure: tuple[tuple[Zone, ...], int] = ((), 0)
        """The zones of `have_room` that were looked at last, and bytes that each has at least."""

    @classmethod
    def of(cls, look: MemoryLook) -> Self:
        """The look from which it goes on."""
        observed = cls(look.free_bytes)
        observed._since.update(look.granted)
        return observed

    def look(self) -> MemoryLook:
        """The look, and what was granted until now. O(containers granted since)."""
        return MemoryLook(free_bytes=self._free, granted=dict(self._since))

    def copy(self) -> "ObservedMemory":
        """A copy with the same look and the same grants."""
        return ObservedMemory.of(self.look())

    def grant(self, container_id: ContainerId, zone: Zone, size: int) -> None:
        """Count what a container was granted after the look (0: it only moved)."""
        size += self.release(container_id)
        if size > 0:
            self._since[container_id] = (zone.mask, size)
            self._take(zone.mask, size)

    def begin(self, container_id: ContainerId, zone: Zone, size: int) -> None:
        """Count what a newcomer was granted, whatever was counted of an older one of its id."""
        if container_id in self._since:
            self.release(container_id)
        if size > 0:
            self._since[container_id] = (zone.mask, size)
            self._take(zone.mask, size)

    def room(self, mask: int) -> int:
        """Bytes free in a set of nodes, less what was granted of it since the look.

        O(nodes + grants since) for a set asked for the first time, else O(1).
        """
        room = self._room.get(mask)
        if room is None:
            room = sum(self._free.get(node, UNLIMITED_BYTES) for node in iter_bits(mask))
            room -= sum(size for zone, size in self._since.values() if not zone & ~mask)
            self._room[mask] = room
        return room

    def is_short(self, zone: Zone, size: int) -> bool:
        """Whether `size` more bytes would leave the zone with hardly any free memory."""
        room = self.room(zone.mask)
        return room < UNLIMITED_BYTES and room - size <= _part(zone, _LOW_SHARE)

    def have_room(self, zones: tuple[Zone, ...], size: int) -> bool:
        """Whether surely none of some zones is short after `size` more bytes; False says nothing.

        Only of zones that were asked for before it can be sure. O(zones) once in a while: most
        requests are small beside what was left of each at the last look.
        """
        looked_at, least = self._sure
        if looked_at is not zones or size >= least:
            room = self._room
            least = min([room.get(one.mask, 0) - one.capacity // _LOW_SHARE for one in zones])
            self._sure = zones, least
        return size < least

    def is_calm(self, zone: Zone, size: int) -> bool:
        """Whether `size` more bytes would leave the zone with plenty of free memory."""
        room = self.room(zone.mask)
        return room >= UNLIMITED_BYTES or room - size >= _part(zone, _CALM_SHARE)

    def release(self, container_id: ContainerId) -> int:
        """Give back what a container was granted since the look; how much that was.

        What it had used shows in the next look only.
        """
        mask, size = self._since.pop(container_id, (0, 0))
        if size:
            self._take(mask, -size)
        return size

    def _take(self, zone: int, size: int) -> None:
        """Keep the sums of all sets that hold a zone. O(sets asked for)."""
        if size > 0:
            # What is given back may be another zone's.
            looked_at, least = self._sure
            self._sure = looked_at, least - size
        for mask in self._room:
            if not zone & ~mask:
                self._room[mask] -= size


def _part(zone: Zone, share: int) -> int:
    return 0 if zone.capacity >= UNLIMITED_BYTES else zone.capacity // share
