"""Topology hints: where a container's devices and volumes are."""

from dataclasses import dataclass

from ..topology.cpuset import NO_CPUS, NO_NODES, CpuSet, NodeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One provider's idea of the right place; a set that is empty says nothing."""

    provider: str
    """A sysfs path, or `podresourceapi:<resource>`."""
    cpus: CpuSet = NO_CPUS
    numa_nodes: NodeSet = NO_NODES
    sockets: tuple[int, ...] = ()
