"""The memory nodes of a machine as bit masks: kinds, sizes, and which nodes are near which."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

from ...topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from ...topology.model.numa_distances import NumaDistances
from ...topology.sets.cpuset import NodeSet, iter_bits
from ..pools.memory_supply import ALL_MEMORY, MemorySupply

KINDS: Final = (MemoryKind.DRAM, MemoryKind.CXL, MemoryKind.PMEM, MemoryKind.HBM)
"""In the order in which a zone is widened; bit i of a mask of kinds is `KINDS[i]`.

High-bandwidth memory comes last: it is scarce, and meant for those who ask for it.
"""

_BIT_OF: Final = {kind: 1 << position for position, kind in enumerate(KINDS)}
KIND_BITS: Final = len(KINDS)
ALL_KINDS: Final = (1 << KIND_BITS) - 1

UNLIMITED_BYTES: Final = 1 << 62
"""Stands for the size of a node of unknown size."""

_CAPACITIES_MAX: Final = 1024
"""Zones whose capacity is kept: more than a machine has pools."""


def _capacity(node: NumaNode) -> int:
    if node.memory_bytes is None:
        return UNLIMITED_BYTES
    # MemTotal counts the pages set aside as huge pages, which ordinary memory cannot use.
    set_aside = sum(size * count for size, count in node.hugepages.items())
    return max(0, node.memory_bytes - set_aside)


class MemoryNodes:
    """All memory nodes. Immutable, but for caches of answers; sets are masks of node ids.

    A node of unknown size has memory without limit, a node of 0 bytes has none. Where no node has
    memory, nothing was known: then all of them have memory without limit.
    """

    def __init__(
        self,
        numa_nodes: Sequence[NumaNode],
        distances: Sequence[Sequence[int]] = (),
        *,
        only: int = -1,
        reserved: int = 0,
    ) -> None:
        """`distances`: a row and a column per node, or nothing where the kernel has none.

        Nodes that are not in `only` count as nodes without memory.
        """
        nodes = tuple(numa_nodes) or (NumaNode(id=NumaNodeId(0)),)
        having = tuple(node for node in nodes if node.memory_bytes != 0)
        self._size: dict[int, int] = {node.id: _capacity(node) for node in having}
        if not having:
            having = nodes
            self._size = {node.id: UNLIMITED_BYTES for node in nodes}
        having = tuple(node for node in having if only >> node.id & 1)
        self._pages: dict[int, Mapping[int, int]] = {node.id: node.hugepages for node in having}
        self.known: Final = _mask(node.id for node in nodes)
        self.with_memory: Final = _mask(node.id for node in having)
        self.normal: Final = _mask(node.id for node in having if node.is_normal)
        """Nodes where the kernel can put its own pages; the others are movable-only."""
        self._of_kind = tuple(_mask(n.id for n in having if n.kind is kind) for kind in KINDS)
        self.kinds_present: Final = self.kinds(self.with_memory)
        self._distances = NumaDistances([node.id for node in nodes], distances)
        self._expansions: dict[int, int] = {}
        self._capacities: dict[int, int] = {}
        """By zone: placements and pages of metrics ask for those of pools again and again."""
        self.ordinary: Final[MemoryNodes] = (
            MemoryNodes(nodes, distances, only=self.with_memory & ~reserved) if reserved else self
        )
        """The nodes as they are for containers that may have nothing of the `reserved` ones."""

    @classmethod
    def of(cls, machine: Machine, supply: MemorySupply = ALL_MEMORY) -> Self:
        """The memory nodes of a machine, of which only some may be used."""
        reserved, ordinary = supply.reserved.mask, supply.ordinary
        only = -1 if ordinary is None else ordinary.mask | reserved
        return cls(machine.numa_nodes, machine.distances, only=only, reserved=reserved)

    def size_bytes(self, zone: NodeSet) -> int | None:
        """Bytes of memory of some nodes, without huge pages; None where a size is not known."""
        capacity = self.capacity(zone.mask)
        return capacity if capacity < UNLIMITED_BYTES else None

    def open_to(self, may_use_reserved: bool) -> "MemoryNodes":
        """The nodes as they are for one container."""
        return self if may_use_reserved else self.ordinary

    def kinds_mask(self, types: Iterable[MemoryKind]) -> int:
        """Kinds of memory as a mask.

        PMEM means CXL memory where there is CXL and no PMEM: programs that guess the kind by size
        took any large node without cpus for PMEM, and pods are annotated after them.
        """
        mask = 0
        for kind in types:
            mask |= _BIT_OF[kind]
            if kind is MemoryKind.PMEM and not self._of_kind[KINDS.index(kind)]:
                mask |= _BIT_OF[MemoryKind.CXL]
        return mask

    def kinds(self, zone: int) -> int:
        """The kinds of the nodes of `zone`, as a mask."""
        mask = 0
        for position, nodes in enumerate(self._of_kind):
            if nodes & zone:
                mask |= 1 << position
        return mask

    def of_kinds(self, kinds: int) -> int:
        """All nodes with memory of one of `kinds`."""
        return sum(nodes for position, nodes in enumerate(self._of_kind) if kinds >> position & 1)

    def capacity(self, zone: int) -> int:
        """Bytes of ordinary memory of `zone`; `UNLIMITED_BYTES` or more where not known."""
        found = self._capacities.get(zone)
        if found is None:
            found = sum([self._size[node] for node in iter_bits(zone & self.with_memory)])
            if len(self._capacities) == _CAPACITIES_MAX:
                self._capacities.clear()
            self._capacities[zone] = found
        return found

    def page_count(self, zone: int, page_bytes: int) -> int:
        """Number of huge pages of one size in `zone`."""
        nodes = iter_bits(zone & self.with_memory)
        return sum(self._pages[node].get(page_bytes, 0) for node in nodes)

    def pages_by_node(self, page_bytes: int) -> Mapping[int, int]:
        """Number of huge pages of one size by node, of nodes that have some."""
        counts = ((node, sizes.get(page_bytes, 0)) for node, sizes in self._pages.items())
        return {node: count for node, count in counts if count}

    def expansion(self, zone: int, kinds: int) -> int:
        """For each of `kinds`, the nodes outside `zone` that are nearest to any node in it.

        Only the nearest: all nodes at the smallest distance there is, none that is farther.
        """
        key = zone << KIND_BITS | kinds
        found = self._expansions.get(key)
        if found is None:
            found = 0
            for position in range(KIND_BITS):
                if kinds >> position & 1:
                    outside = NodeSet(self._of_kind[position] & ~zone)
                    found |= self._distances.nearest(NodeSet(zone), outside).mask
            self._expansions[key] = found
        return found

    def initial_zone(self, affinity: int, kinds: int, is_strict: bool = False) -> int:
        """The zone of a request while memory is plenty; 0 where there is none.

        There is none for an empty affinity, for unknown nodes, and for strict requests of kinds
        (or of kernel-usable memory of such kinds) that the machine lacks.
        """
        if not affinity or affinity & ~self.known:
            return 0
        wanted = kinds & self.kinds_present
        if is_strict and wanted != kinds:
            return 0
        zone = affinity & self.with_memory
        if not zone:
            # A node with cpus only: the nearest memory stands in for it.
            zone = self.expansion(affinity, wanted or self.kinds_present)
        wanted = wanted or self.kinds(zone)
        zone |= self.expansion(zone, wanted & ~self.kinds(zone))
        return self._with_normal(zone & self.of_kinds(wanted), wanted, is_strict)

    def ladder(self, zone: int, kinds: int) -> Iterator[int]:
        """`zone`, then wider and wider: by its own kinds first, then by `kinds` too."""
        yield zone
        own = self.kinds(zone)
        for step in (own, own | kinds):
            while more := self.expansion(zone, step):
                zone |= more
                yield zone

    def _with_normal(self, zone: int, wanted: int, is_strict: bool) -> int:
        if zone & self.normal or not self.normal:
            return zone
        useful = self.kinds(self.normal)
        if wanted & useful:
            useful &= wanted
        elif is_strict:
            return 0
        else:
            useful &= -useful
        while not zone & self.normal:
            zone |= self.expansion(zone, useful)
        return zone


def _mask(ids: Iterable[int]) -> int:
    mask = 0
    for one in ids:
        mask |= 1 << one
    return mask
