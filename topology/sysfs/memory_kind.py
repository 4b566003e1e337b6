"""Kinds of memory of the NUMA nodes, by the best evidence the kernel has.

In this order: the device the memory comes from (dax, nvdimm, CXL region), the kernel's memory
tiers, access classes (HMAT), distances like those between cpus' own nodes, and at last its size.
Sources: Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers,
Documentation/admin-guide/mm/numaperf.rst, drivers/dax, drivers/cxl.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..model.machine import MemoryKind, NumaNodeId
from ..sets.cpuset import IdListError, NodeSet
from .attributes import Attributes

_NODE: Final = "sys/devices/system/node"
_TIERS: Final = "sys/devices/virtual/memory_tiering"
_DAX: Final = "sys/bus/dax/devices"
_NVDIMM: Final = "sys/bus/nd/devices"
_CXL: Final = "sys/bus/cxl/devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNode:
    """A NUMA node as the choice of its kind of memory looks at it, beside files of its own."""

    id: NumaNodeId
    has_cpus: bool
    has_memory: bool
    memory_bytes: int
    distances: Mapping[int, int]
    """To every NUMA node; empty where the kernel shows none."""


def memory_kinds(
    attributes: Attributes, nodes: Sequence[MemoryNode]
) -> Mapping[NumaNodeId, MemoryKind]:
    """The kind of every node. Nodes with cpus, and those without memory, count as DRAM."""
    kinds = {node.id: MemoryKind.DRAM for node in nodes}
    unknown = [node for node in nodes if node.has_memory and not node.has_cpus]
    if not unknown:
        return kinds
    near = [node for node in nodes if node.has_cpus]
    devices = _by_device(attributes)
    tiers = _read_tiers(attributes)
    for node in unknown:
        kind = (
            devices.get(node.id)
            or _by_tier(attributes, tiers, node, near)
            or _by_access(attributes, node, near)
            or _by_distance(attributes, node, near)
            or _by_size(attributes, node, near)
        )
        kinds[node.id] = kind
    return kinds


def _by_device(attributes: Attributes) -> Mapping[int, MemoryKind]:
    """Kinds by target node of the devices that memory comes from."""
    found: dict[int, MemoryKind] = {}
    for name in attributes.tree.names(_DAX):
        place = f"/{attributes.tree.resolve(f'{_DAX}/{name}') or ''}"
        target = attributes.number(f"{_DAX}/{name}/target_node")
        # A dax device lies below the device it was made from; hmem ones say nothing of their kind.
        if target is not None and "/ndbus" in place:
            found[target] = MemoryKind.PMEM
        elif target is not None and ("/dax_region" in place or "/decoder" in place):
            found[target] = MemoryKind.CXL
    for name in attributes.tree.names(_NVDIMM):
        if name.startswith(("region", "namespace", "dax", "pfn")):
            target = attributes.number(f"{_NVDIMM}/{name}/target_node")
            if target is not None:
                found.setdefault(target, MemoryKind.PMEM)
    return found


def _slow_kind(attributes: Attributes) -> MemoryKind:
    """What memory known to be slower than DRAM is: PMEM comes by an nvdimm bus only."""
    has_nvdimm = any(name.startswith("region") for name in attributes.tree.names(_NVDIMM))
    has_cxl = any(name.startswith("mem") for name in attributes.tree.names(_CXL))
    return MemoryKind.PMEM if has_nvdimm and not has_cxl else MemoryKind.CXL


def _read_tiers(attributes: Attributes) -> Mapping[int, int]:
    """The memory tier of each node; a lower tier is faster."""
    found: dict[int, int] = {}
    for tier in attributes.numbered(_TIERS, "memory_tier"):
        path = f"{_TIERS}/memory_tier{tier}/nodelist"
        try:
            found.update(dict.fromkeys(NodeSet.parse(attributes.text(path) or ""), tier))
        except IdListError as error:
            attributes.warn(path, str(error))
    return found


def _by_tier(
    attributes: Attributes,
    tiers: Mapping[int, int],
    node: MemoryNode,
    near: Sequence[MemoryNode],
) -> MemoryKind | None:
    own = tiers.get(node.id)
    dram = [tiers[one.id] for one in near if one.id in tiers]
    # Linux 6.1 puts all memory it has no driver for into one tier: sharing DRAM's says nothing.
    if own is None or not dram or min(dram) <= own <= max(dram):
        return None
    return MemoryKind.HBM if own < min(dram) else _slow_kind(attributes)


def _read_access(attributes: Attributes, node: int) -> tuple[int, int] | None:
    """Latency (ns) and bandwidth (MB/s) of reads and writes together, from the best initiators."""
    for access in ("access0", "access1"):
        directory = f"{_NODE}/node{node}/{access}/initiators"
        latency, bandwidth = (
            [attributes.number(f"{directory}/{way}_{what}") or 0 for way in ("read", "write")]
            for what in ("latency", "bandwidth")
        )
        # Zero stands for "not reported".
        if all(latency) and all(bandwidth):
            return sum(latency), sum(bandwidth)
    return None


def _by_access(
    attributes: Attributes, node: MemoryNode, near: Sequence[MemoryNode]
) -> MemoryKind | None:
    own = _read_access(attributes, node.id)
    cpus = [found for one in near if (found := _read_access(attributes, one.id))]
    if own is None or not cpus:
        return None
    latency, bandwidth = min(cpus)
    # The kernel's abstract distance (mt_perf_to_adistance), in hundredths of DRAM's.
    distance = 100 * own[0] * bandwidth // (latency * own[1])
    if distance <= 75:
        return MemoryKind.HBM
    return _slow_kind(attributes) if distance >= 150 else MemoryKind.DRAM


def _by_distance(
    attributes: Attributes, node: MemoryNode, near: Sequence[MemoryNode]
) -> MemoryKind | None:
    """DRAM where it is exactly as far as another socket's memory: a socket without cpus online."""
    between = {one.distances.get(two.id) for one in near for two in near if one.id != two.id}
    own = {node.distances.get(one.id) for one in near} | {
        one.distances.get(node.id) for one in near
    }
    if not between or None in own or not own <= between:
        return None
    attributes.warn(
        f"{_NODE}/node{node.id}", "no cpus, as far as other sockets' memory: taken as dram"
    )
    return MemoryKind.DRAM


def _by_size(attributes: Attributes, node: MemoryNode, near: Sequence[MemoryNode]) -> MemoryKind:
    dram = [one.memory_bytes for one in near if one.memory_bytes]
    if not dram:
        # Partitions of POWER can have all memory in nodes without cpus; a kernel runs in some.
        what = "no cpus, and no node with cpus shows memory to compare with: taken as dram"
        attributes.warn(f"{_NODE}/node{node.id}", what)
        return MemoryKind.DRAM
    is_small = node.memory_bytes * len(dram) < sum(dram)
    kind = MemoryKind.HBM if is_small else MemoryKind.PMEM
    attributes.warn(
        f"{_NODE}/node{node.id}",
        f"no cpus, and the kernel does not tell the kind of memory: "
        f"taken as {kind.value} by its size",
    )
    return kind
