"""Memory that is held at one moment: a picture that stays while its ledger goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...topology.sets.cpuset import NodeSet
from .memory_nodes import MemoryNodes
from .memory_zones import Holding, ZoneSum


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMemory:
    """Memory held by all containers at one moment, by container and by zone."""

    nodes: MemoryNodes = field(compare=False, repr=False)
    holders: tuple[Holding, ...]
    zones: tuple[int, ...]
    """Masks of their zones, in the same order."""
    sequence: int
    sums: Mapping[int, ZoneSum] = field(compare=False, repr=False)
    """Of each zone of which something is held, by its mask. They follow from the holdings."""
    wide: tuple[ZoneSum, ...] = field(compare=False, repr=False)
    """Sums of zones of several nodes: no other zone can lie around one."""

    @property
    def holdings(self) -> tuple[tuple[Holding, int], ...]:
        """Each holder with the mask of its zone. O(containers)."""
        return tuple(zip(self.holders, self.zones, strict=True))

    def capacity(self, zone: NodeSet) -> int | None:
        """Bytes of memory of a zone, without huge pages; None where a node's size is not known."""
        return self.nodes.size_bytes(zone)

    def usage(self, zone: NodeSet) -> int:
        """Bytes held of the zone and of all zones within it.

        O(1) where something is held of exactly this zone, else O(zones).
        """
        found = self.sums.get(zone.mask)
        if found is not None:
            return found.used_bytes
        outside = ~zone.mask
        return sum([one.held_bytes for one in self.sums.values() if not one.mask & outside])

    def available(self, zone: NodeSet) -> int | None:
        """Bytes that can be had without moving anybody; None where the size is not known.

        Zones around may allow less than is free in the zone itself. O(wide zones), and as `usage`.
        """
        capacity = self.capacity(zone)
        if capacity is None:
            return None
        mask = zone.mask
        around = [one.left_bytes for one in self.wide if one.mask & mask == mask]
        return max(0, min([capacity - self.usage(zone), *around]))
