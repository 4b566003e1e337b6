"""Zones of memory nodes and what is accounted to them, kept up to date by difference."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from ...topology.sets.cpuset import NodeSet
from ..model.container import ContainerId
from .huge_pages import pages_short
from .memory_nodes import MemoryNodes
from .offers import MemoryRequest


# In no cycle: the garbage collector need not go through it.
class Holding(Struct, frozen=True, kw_only=True, gc=False):
    """A container that holds memory, without its zone: zones change, this does not."""

    request: MemoryRequest
    kinds: int
    """The kinds it asked for, as a mask."""
    initial: int
    """The zone it would have with plenty of memory."""
    sequence: int
    """The larger, the younger."""

    @property
    def id(self) -> ContainerId:
        """The container."""
        return self.request.container_id

    @property
    def size(self) -> int:
        """Bytes accounted."""
        return self.request.size_bytes

    @property
    def most(self) -> int:
        """Bytes it may come to use, as far as it says."""
        return max(self.request.size_bytes, self.request.limit_bytes)

    def pages(self) -> dict[int, int]:
        """The number of huge pages wanted, by page size in bytes."""
        wanted = self.request.hugepage_bytes.items()
        return {size: -(-total // size) for size, total in wanted if total > 0}


class Zone(Struct, eq=False, kw_only=True):
    """A set of nodes somebody uses or asked about.

    A zone constrains others only while somebody holds bytes of exactly this zone.
    """

    mask: int
    nodes: NodeSet
    """The mask as a value, one for all containers that get this zone."""
    kinds: int
    capacity: int
    usage: int = 0
    """Bytes held of this zone and of all zones within it."""
    direct: int = 0
    """Bytes held of exactly this zone."""
    users: dict[ContainerId, Holding] = field(default_factory=dict[ContainerId, Holding])
    """Holders of exactly this zone."""
    pages: dict[int, int] = field(default_factory=dict[int, int])
    """Number of huge pages promised to holders of exactly this zone, by page size."""
    containing: list["Zone"] = field(default_factory=list["Zone"])
    """All known zones this one lies in, itself included."""

    def fits(self, size: int) -> bool:
        """Whether `size` more bytes fit, here and in every zone in use around. Cost O(those)."""
        if size:
            for zone in self.containing:
                if zone.usage + size > zone.capacity and (zone.direct or zone is self):
                    return False
        return True


class ZoneSum(NamedTuple):
    """Bytes held of one zone, and bytes left in it."""

    mask: int
    held_bytes: int
    """Held of exactly this zone."""
    used_bytes: int
    """Held of it and of all zones within it."""
    left_bytes: int
    """Negative where overcommitted."""


class Zones:
    """All zones that are known, each with its sums. Cost of a new one: O(known zones)."""

    def __init__(self, nodes: MemoryNodes) -> None:
        self._nodes = nodes
        self._known: dict[int, Zone] = {}
        self._least_left: int | None = None
        """Bytes left in the fullest known zone; None: to be looked up."""

    def zone(self, mask: int) -> Zone:
        """The one object for this set of nodes."""
        known = self._known.get(mask)
        return known if known is not None else self._add_zone(mask)

    def have_room(self, size: int) -> bool:
        """Whether `size` more bytes fit into every known zone, of which there is one at least.

        O(1), but for O(known zones) where the fullest one of them has been left since.
        """
        if self._least_left is None:
            self._least_left = min([zone.capacity - zone.usage for zone in self._known.values()])
        return size <= self._least_left

    def used(self) -> list[Zone]:
        """Zones with at least one user, by mask."""
        return sorted((z for z in self._known.values() if z.users), key=lambda zone: zone.mask)

    def usage(self, mask: int) -> int:
        """Bytes held of `mask` and of all zones within it. Adds no zone."""
        known = self._known.get(mask)
        if known is not None:
            return known.usage
        return sum(zone.direct for zone in self._known.values() if not zone.mask & ~mask)

    def sums(self) -> Mapping[int, ZoneSum]:
        """Bytes held of each zone of which any are, by its mask. O(known zones)."""
        return {
            mask: ZoneSum(mask, zone.direct, zone.usage, zone.capacity - zone.usage)
            for mask, zone in self._known.items()
            if zone.direct
        }

    def has_pages(
        self,
        mask: int,
        wanted: Mapping[int, int],
        given_back: tuple[int, Mapping[int, int]] | None = None,
    ) -> bool:
        """Whether `mask` can have so many huge pages (by size) and nobody gets fewer for it.

        `given_back`: a zone and the pages of it that count as free. O(known zones) and more.
        """
        for size, count in wanted.items():
            promised = {
                zone.mask: zone.pages[size] for zone in self._known.values() if zone.pages.get(size)
            }
            if given_back is not None:
                where, back = given_back
                promised[where] = promised.get(where, 0) - back.get(size, 0)
            pages = self._nodes.pages_by_node(size)
            short = pages_short(promised, pages)
            promised[mask] = promised.get(mask, 0) + count
            if pages_short(promised, pages) > short:
                return False
        return True

    def promised_pages(self, mask: int, page_bytes: int) -> int:
        """Huge pages of one size promised to holders of `mask` and of zones within it."""
        inside = (zone for zone in self._known.values() if not zone.mask & ~mask)
        return sum(zone.pages.get(page_bytes, 0) for zone in inside)

    def put(self, holding: Holding, zone: Zone) -> None:
        """Account a container to a zone."""
        zone.users[holding.request.container_id] = holding
        self._count(holding, zone, 1)

    def take(self, holding: Holding, zone: Zone) -> None:
        """Undo `put`."""
        del zone.users[holding.id]
        self._count(holding, zone, -1)

    def check(self) -> None:
        """Assert that every sum is what a fresh count says."""
        for mask, zone in self._known.items():
            inside = [z for z in self._known.values() if not z.mask & ~mask]
            around = {z.mask for z in self._known.values() if not mask & ~z.mask}
            assert zone.mask == mask, f"zone {mask:#x}: filed under a wrong mask"
            assert mask, "zone: a zone without nodes"
            assert not mask & ~self._nodes.with_memory, f"zone {mask:#x}: nodes without memory"
            assert zone.direct == sum(user.size for user in zone.users.values())
            assert zone.usage == sum(other.direct for other in inside)
            assert sorted(z.mask for z in zone.containing) == sorted(around)
            assert _page_sums(zone) == {size: n for size, n in zone.pages.items() if n}
        if self._least_left is not None:
            left = [zone.capacity - zone.usage for zone in self._known.values()]
            assert self._least_left == min(left), "the fullest zone"

    def _add_zone(self, mask: int) -> Zone:
        kinds, capacity = self._nodes.kinds(mask), self._nodes.capacity(mask)
        zone = Zone(mask=mask, nodes=NodeSet(mask), kinds=kinds, capacity=capacity)
        inside: list[Zone] = []
        for other in self._known.values():
            if not mask & ~other.mask:
                zone.containing.append(other)
            elif not other.mask & ~mask:
                other.containing.append(zone)
                inside.append(other)
        zone.containing.append(zone)
        zone.usage = sum(other.direct for other in inside)
        self._known[mask] = zone
        self._least_left = None
        return zone

    def _count(self, holding: Holding, zone: Zone, sign: int) -> None:
        size = sign * holding.request.size_bytes
        zone.direct += size
        least = self._least_left
        for around in zone.containing:
            left = around.capacity - around.usage
            around.usage += size
            if least is not None and (left - size < least or left == least):
                # The fullest one by now; or it was, and another one may be.
                least = left - size if size >= 0 else None
        self._least_left = least
        if holding.request.hugepage_bytes:
            for page_bytes, count in holding.pages().items():
                zone.pages[page_bytes] = zone.pages.get(page_bytes, 0) + sign * count


def _page_sums(zone: Zone) -> dict[int, int]:
    sums: dict[int, int] = {}
    for user in zone.users.values():
        for size, count in user.pages().items():
            sums[size] = sums.get(size, 0) + count
    return sums
