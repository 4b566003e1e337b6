"""A machine some of whose cpus are offline, as discovery would find it."""

import dataclasses

from pinfold.topology.model.machine import Domain, Machine
from pinfold.topology.sets.cpuset import CpuSet


def without(full: Machine, offline: CpuSet) -> Machine:
    """The machine with some cpus offline."""
    online = full.online - offline

    def domains(given: tuple[Domain, ...]) -> tuple[Domain, ...]:
        kept = (dataclasses.replace(one, cpus=one.cpus & online) for one in given)
        return tuple(one for one in kept if one.cpus)

    def groups(given: tuple[CpuSet, ...]) -> tuple[CpuSet, ...]:
        return tuple(one & online for one in given if one & online)

    return dataclasses.replace(
        full,
        online=online,
        isolated=full.isolated & online,
        cpus={key: cpu for key, cpu in full.cpus.items() if key in online},
        sockets=domains(full.sockets),
        dies=domains(full.dies),
        clusters=domains(full.clusters),
        cores=groups(full.cores),
        l2_groups=groups(full.l2_groups),
        l3_groups=groups(full.l3_groups),
        caches=tuple(
            dataclasses.replace(one, cpus=one.cpus & online)
            for one in full.caches
            if one.cpus & online
        ),
        numa_nodes=tuple(
            dataclasses.replace(one, cpus=one.cpus & online) for one in full.numa_nodes
        ),
    )
