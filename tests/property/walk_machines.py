"""Eight machines for long walks, each with something that others lack."""

import dataclasses

from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import (
    CoreKind,
    Domain,
    Machine,
    MemoryKind,
    NumaNode,
    NumaNodeId,
)
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.topology.model.offline import without

GIB = 2**30


def hybrid() -> Machine:
    """Eight performance cores, and two clusters of four efficient ones."""
    plain = machine_from_spec("socket:1 core:16 mem:32G")
    clusters = {cpu: 100 + cpu // 4 if cpu >= 8 else cpu for cpu in plain.cpus}
    return dataclasses.replace(
        plain,
        cpus={
            key: dataclasses.replace(
                cpu,
                kind=CoreKind.EFFICIENT if key >= 8 else CoreKind.PERFORMANCE,
                cluster=clusters[key],
            )
            for key, cpu in plain.cpus.items()
        },
        clusters=tuple(
            Domain(
                label=f"0/0/{number}",
                cpus=CpuSet.collect(cpu for cpu, one in clusters.items() if one == number),
            )
            for number in sorted(set(clusters.values()))
        ),
    )


def sub_numa_clusters() -> Machine:
    """Two sockets of two NUMA nodes; an L3 cache is that of a whole socket."""
    plain = machine_from_spec("socket:2 numa:2 core:3 thread:2 mem:6G")
    return dataclasses.replace(plain, l3_groups=tuple(one.cpus for one in plain.sockets))


def with_memory_alone() -> Machine:
    """Two sockets of DRAM; each has a node of HBM, and four more are memory behind CXL."""
    plain = machine_from_spec("socket:2 core:6 thread:2 mem:8G")
    kinds = ((MemoryKind.HBM, 2),) * 2 + ((MemoryKind.CXL, 16),) * 4
    extra = tuple(
        NumaNode(id=NumaNodeId(2 + number), memory_bytes=size * GIB, kind=kind)
        for number, (kind, size) in enumerate(kinds)
    )
    sockets = (0, 1, 0, 1, 0, 0, 1, 1)
    own = (0, 0, 3, 3, 14, 14, 14, 14)
    distances = tuple(
        tuple(
            10
            if one == other
            else 10 + own[one] + own[other] + 11 * (sockets[one] != sockets[other])
            for other in range(8)
        )
        for one in range(8)
    )
    return dataclasses.replace(plain, numa_nodes=(*plain.numa_nodes, *extra), distances=distances)


MACHINES = {
    "two cpus": machine_from_spec("socket:1 core:2 mem:2G"),
    "three sockets of five cores": machine_from_spec("socket:3 core:5 thread:2 mem:5G"),
    "performance and efficient cores": hybrid(),
    "sub-NUMA clusters under one L3 cache": sub_numa_clusters(),
    "cpus that are offline": without(
        machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:8G"), CpuSet.parse("1,5,8-15,20-22")
    ),
    "memory without cpus": with_memory_alone(),
    "no threads, isolated cpus": machine_from_spec("socket:2 die:2 core:6 mem:8G isolated:4-5,22"),
    "256 cpus": machine_from_spec("socket:2 numa:4 l3:2 core:8 thread:2 mem:32G"),
}
