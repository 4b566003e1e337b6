"""Gauges of NUMA nodes."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ....topology.model.machine import Machine
from ....topology.sets.cpuset import NodeSet
from .gauge import Gauge, Labels, system_gauge


class NodeLabels(Struct, frozen=True, kw_only=True):
    """Labels of the NUMA nodes of a machine, and the sizes of those that have one."""

    sized: Labels
    sizes: Sequence[int]
    """In bytes, in the order of the labels."""
    ids: Sequence[int]
    """Of all nodes."""
    all: Labels
    """In the order of the ids."""

    @classmethod
    def of(cls, machine: Machine) -> "NodeLabels":
        """The labels of a machine. O(nodes)."""
        ids = [int(node.id) for node in machine.numa_nodes]
        sized = [node for node in machine.numa_nodes if node.memory_bytes is not None]
        return cls(
            sized=[{"node.id": str(node.id), "node.type": node.kind.name} for node in sized],
            sizes=[node.memory_bytes or 0 for node in sized],
            ids=ids,
            all=[{"node.id": str(one)} for one in ids],
        )


def node_gauges(
    labels: NodeLabels, users: Mapping[int, int], used_bytes: Mapping[int, int]
) -> Iterator[Gauge]:
    """Every instrument of NUMA nodes. O(nodes + different sets of them).

    `users`: by mask of nodes the number of containers that may use exactly these; `used_bytes`: by
    node id, as far as known.
    """
    counts = dict.fromkeys(labels.ids, 0)
    for mask, count in users.items():
        for node_id in NodeSet(mask):
            counts[node_id] += count
    yield system_gauge(
        "mem.node.capacity", "bytes", "Memory of the NUMA node.", labels.sized, labels.sizes
    )
    used = [one for one in labels.ids if one in used_bytes]
    is_known = len(used) == len(labels.ids)
    yield system_gauge(
        "mem.node.usage",
        "bytes",
        "Memory of the NUMA node that is in use, by whatever.",
        labels.all if is_known else [{"node.id": str(one)} for one in used],
        [used_bytes[one] for one in used],
    )
    yield system_gauge(
        "mem.node.container.count",
        "",
        "Containers that may use memory of the NUMA node.",
        labels.all,
        list(counts.values()),
    )
