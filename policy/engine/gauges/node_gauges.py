"""Gauges of NUMA nodes."""

from collections.abc import Iterator, Mapping

from ....topology.model.machine import Machine
from ....topology.sets.cpuset import NodeSet
from .gauge import Gauge, system_gauge


def node_gauges(
    machine: Machine, users: Mapping[int, int], used_bytes: Mapping[int, int]
) -> Iterator[Gauge]:
    """Every instrument of NUMA nodes. O(nodes + different sets of them).

    `users`: by mask of nodes the number of containers that may use exactly these; `used_bytes`: by
    node id, as far as known.
    """
    nodes = machine.numa_nodes
    counts = dict.fromkeys((int(node.id) for node in nodes), 0)
    for mask, count in users.items():
        for node_id in NodeSet(mask):
            counts[node_id] += count
    sized = [node for node in nodes if node.memory_bytes is not None]
    yield system_gauge(
        "mem.node.capacity",
        "bytes",
        "Memory of the NUMA node.",
        [{"node.id": str(node.id), "node.type": node.kind.name} for node in sized],
        [node.memory_bytes or 0 for node in sized],
    )
    used = [int(node.id) for node in nodes if node.id in used_bytes]
    yield system_gauge(
        "mem.node.usage",
        "bytes",
        "Memory of the NUMA node that is in use, by whatever.",
        [{"node.id": str(one)} for one in used],
        [used_bytes[one] for one in used],
    )
    yield system_gauge(
        "mem.node.container.count",
        "",
        "Containers that may use memory of the NUMA node.",
        [{"node.id": str(one)} for one in counts],
        list(counts.values()),
    )
