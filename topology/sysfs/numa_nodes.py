"""NUMA nodes, their memory and their distances.

Nodes are listed by their folders: ids may be sparse, nodes may have no cpus, no memory, or neither,
and may overlap. Source: Documentation/ABI/stable/sysfs-devices-node.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ..model.machine import NumaNode, NumaNodeId
from ..sets.cpuset import CpuSet, IdListError, NodeSet
from .attributes import Attributes
from .available_memory import parse_meminfo
from .cpus import CPU
from .memory_kind import MemoryNode, memory_kinds

NODE: Final = "sys/devices/system/node"

_HUGEPAGES: Final = re.compile(r"hugepages-([1-9][0-9]{0,11})kB")
_LOCAL: Final = 10
_REMOTE: Final = 20
"""The kernel's own LOCAL_DISTANCE and REMOTE_DISTANCE, used where firmware gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numa:
    """All NUMA nodes by id, and their distances in the same order."""

    nodes: tuple[NumaNode, ...]
    distances: tuple[tuple[int, ...], ...]


def read_numa(attributes: Attributes, online: CpuSet, present: CpuSet) -> Numa:
    """The NUMA nodes; where the kernel has none, one node 0 with all cpus and memory."""
    ids = attributes.numbered(NODE, "node")
    if not ids:
        attributes.warn(NODE, "no NUMA nodes: one node 0 with all cpus and memory assumed")
        return Numa(nodes=(_whole_machine(attributes, online),), distances=())
    distances = _read_distances(attributes, ids)
    links = _CpuLinks(attributes, online)
    cpus = {node: _read_cpus(attributes, node, online, present, links) for node in ids}
    homeless = online
    for own in cpus.values():
        homeless -= own
    if homeless:
        attributes.warn(NODE, f"cpus {homeless} are in no NUMA node")
    memory = {node: _read_memory(attributes, f"{NODE}/node{node}/meminfo") for node in ids}
    unknown = NodeSet.collect(node for node, (total, _) in memory.items() if total is None)
    if unknown:
        attributes.warn(f"{NODE}/node*/meminfo", f"no MemTotal of nodes {unknown}")
    with_memory, normal = _read_states(attributes, memory)
    initiators = {node: _read_initiators(attributes, node) for node in ids}
    kinds = memory_kinds(
        attributes,
        [
            MemoryNode(
                id=NumaNodeId(node),
                has_cpus=bool(cpus[node]),
                has_memory=node in with_memory,
                memory_bytes=memory[node][0] or 0,
                distances=dict(zip(ids, distances[index], strict=True)) if distances else {},
            )
            for index, node in enumerate(ids)
        ],
    )
    return Numa(
        nodes=tuple(
            NumaNode(
                id=NumaNodeId(node),
                cpus=cpus[node],
                memory_bytes=memory[node][0],
                free_bytes=memory[node][1],
                kind=kinds[NumaNodeId(node)],
                is_normal=node in normal or node not in with_memory,
                initiators=initiators[node],
                hugepages=_read_hugepages(attributes, node),
            )
            for node in ids
        ),
        distances=distances,
    )


def _whole_machine(attributes: Attributes, online: CpuSet) -> NumaNode:
    total, free = _read_memory(attributes, "proc/meminfo")
    if total is None:
        attributes.warn("proc/meminfo", "no MemTotal: the amount of memory is not known")
    return NumaNode(id=NumaNodeId(0), cpus=online, memory_bytes=total, free_bytes=free)


def _read_cpus(
    attributes: Attributes, node: int, online: CpuSet, present: CpuSet, links: "_CpuLinks"
) -> CpuSet:
    listed = attributes.first_cpus(f"{NODE}/node{node}", ("cpulist", "cpumap"))
    if listed is None:
        listed = links.of(node)
        how = f"cpus {listed} told by links" if listed else "taken as without cpus"
        attributes.warn(f"{NODE}/node{node}", f"no cpulist or cpumap: {how}")
    if listed - present:
        attributes.warn(f"{NODE}/node{node}/cpulist", f"names absent cpus {listed - present}")
    elif listed - online:
        attributes.warn(f"{NODE}/node{node}/cpulist", f"names offline cpus {listed - online}")
    return listed & online


class _CpuLinks:
    """The links between NUMA nodes and cpus; those of the cpus are read once for all nodes."""

    def __init__(self, attributes: Attributes, online: CpuSet) -> None:
        self._attributes = attributes
        self._online = online

    def of(self, node: int) -> CpuSet:
        """The cpus that the folder of a node links to, or whose own folders link to the node."""
        inside = self._attributes.numbered(f"{NODE}/node{node}", "cpu")
        return CpuSet.collect(inside or self._by_node.get(node, ()))

    @cached_property
    def _by_node(self) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = {}
        for cpu in self._online:
            for node in self._attributes.numbered(f"{CPU}/cpu{cpu}", "node"):
                found.setdefault(node, []).append(cpu)
        return found


def _read_memory(attributes: Attributes, path: str) -> tuple[int | None, int | None]:
    """MemTotal and MemFree in bytes."""
    found = parse_meminfo(attributes.tree.read(path) or "")
    return found.get("MemTotal"), found.get("MemFree")


def _read_states(
    attributes: Attributes, memory: Mapping[int, tuple[int | None, int | None]]
) -> tuple[NodeSet, NodeSet]:
    """The nodes that have memory, and those whose memory the kernel itself can use."""
    # Before has_memory (Linux 3.8) there was no movable-only memory to tell apart.
    with_memory = _nodes(attributes, f"{NODE}/has_memory")
    normal = _nodes(attributes, f"{NODE}/has_normal_memory")
    if with_memory is None:
        with_memory = NodeSet.collect(node for node, (total, _) in memory.items() if total)
    return with_memory, with_memory if normal is None else normal


def _nodes(attributes: Attributes, path: str) -> NodeSet | None:
    content = attributes.text(path)
    if content is None:
        return None
    try:
        return NodeSet.parse(content)
    except IdListError as error:
        attributes.warn(path, str(error))
        return None


def _read_initiators(attributes: Attributes, node: int) -> NodeSet:
    """The nodes with the best access: class 0, else class 1 (that of cpus alone)."""
    for access in ("access0", "access1"):
        found = attributes.numbered(f"{NODE}/node{node}/{access}/initiators", "node")
        if found:
            return NodeSet.collect(found)
    return NodeSet()


def _read_hugepages(attributes: Attributes, node: int) -> Mapping[int, int]:
    found: dict[int, int] = {}
    directory = f"{NODE}/node{node}/hugepages"
    for name in attributes.tree.names(directory):
        if match := _HUGEPAGES.fullmatch(name):
            count = attributes.number(f"{directory}/{name}/nr_hugepages")
            if count is not None and count >= 0:
                found[int(match[1]) * 1024] = count
    return dict(sorted(found.items()))


def _read_distances(attributes: Attributes, ids: list[int]) -> tuple[tuple[int, ...], ...]:
    """Rows and columns in ascending node id; none where the kernel shows none."""
    rows: dict[int, dict[int, int]] = {}
    for node in ids:
        path = f"{NODE}/node{node}/distance"
        words = (attributes.text(path) or "").split()
        if not words:
            continue
        if not all(word.isascii() and word.isdigit() and len(word) < 5 for word in words):
            attributes.warn(path, f"{' '.join(words)[:60]!r} are not distances")
            continue
        order = _distance_columns(attributes, node, ids, len(words))
        rows[node] = dict(zip(order, map(int, words), strict=False))
    if not rows:
        attributes.warn(f"{NODE}/node*/distance", "missing: distances are not known")
        return ()
    gaps = [node for node in ids if any(other not in rows.get(node, {}) for other in ids)]
    if gaps:
        attributes.warn(f"{NODE}/node*/distance", f"incomplete for nodes {NodeSet.collect(gaps)}")

    def distance(one: int, other: int) -> int:
        default = _LOCAL if one == other else _REMOTE
        return rows.get(one, {}).get(other, rows.get(other, {}).get(one, default))

    matrix = tuple(tuple(distance(one, other) for other in ids) for one in ids)
    if any(matrix[i][j] != matrix[j][i] for i in range(len(ids)) for j in range(i)):
        attributes.warn(f"{NODE}/node*/distance", "not symmetric")
    return matrix


def _distance_columns(
    attributes: Attributes, node: int, ids: list[int], count: int
) -> Sequence[int]:
    """The nodes the columns of a row stand for: those online, in ascending order."""
    online = _nodes(attributes, f"{NODE}/online") or ()
    # Dumps have lost folders or hold an edited list, so that columns and nodes do not match.
    for order in (list(online), ids, range(count)):
        if len(order) == count and node in order:
            return order
    attributes.warn(f"{NODE}/node{node}/distance", f"{count} columns for {len(ids)} NUMA nodes")
    return ids
