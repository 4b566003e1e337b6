"""Gauges of a machine's cpus and NUMA nodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from msgspec import Struct

from ....topology.model.machine import Machine
from ....topology.sets.cpuset import NodeSet
from .gauge import Gauge, Labels, system_gauge
from .kept_loads import KeptLoads
from .value_runs import ValueRuns


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


class CpuLabels(Sequence[Mapping[str, str]]):
    """The labels of cpus, made as they are asked for: of thousands, they take a megabyte."""

    __slots__ = ("_cpus",)

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus

    def __len__(self) -> int:
        return len(self._cpus)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CpuLabels) and self._cpus == other._cpus

    @overload
    def __getitem__(self, index: int) -> Mapping[str, str]: ...

    @overload
    def __getitem__(self, index: slice) -> Labels: ...

    def __getitem__(self, index: int | slice) -> Mapping[str, str] | Labels:
        if isinstance(index, slice):
            return CpuLabels(self._cpus[index])
        return {"cpu.id": str(self._cpus[index])}


def cpu_gauges(loads: KeptLoads, cpus: Sequence[int], labels: Labels) -> Iterator[Gauge]:
    """Every instrument of cpus. `cpus`: the online ones, ascending; `labels`: theirs. O(cpus)."""
    yield system_gauge(
        "cpu.allocation",
        "milli-cores",
        "What containers ask for, divided evenly among the CPUs they run on.",
        labels,
        _selected(loads.allocated_milli(), cpus),
    )
    yield system_gauge(
        "cpu.container.count",
        "",
        "Containers that may run on the CPU.",
        labels,
        _selected(loads.container_counts(), cpus),
    )


def _selected(values: ValueRuns, cpus: Sequence[int]) -> Sequence[float]:
    """The values of some cpus, of those of all of them in their order."""
    if len(cpus) == len(values):
        return values
    by_cpu = list(values)
    return [by_cpu[cpu] for cpu in cpus]
