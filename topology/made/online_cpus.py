"""Machines with some of their cpus offline, as discovery finds them then."""

from collections.abc import Iterable
from dataclasses import replace

from ..model.machine import Domain, Machine
from ..sets.cpuset import CpuSet
from ..sysfs.speed_select_source import on_cpus


def with_online(machine: Machine, cpus: CpuSet) -> Machine:
    """The machine when only these of its online cpus are; groups without any are left out.

    NUMA nodes stay, with their memory. Several threads of a core go offline one by one.
    """
    online = machine.online & cpus
    return replace(
        machine,
        online=online,
        isolated=machine.isolated & online,
        cpus={cpu: one for cpu, one in machine.cpus.items() if cpu in online},
        sockets=_domains(machine.sockets, online),
        dies=_domains(machine.dies, online),
        clusters=_domains(machine.clusters, online),
        cores=_groups(machine.cores, online),
        caches=tuple(
            replace(one, cpus=one.cpus & online) for one in machine.caches if one.cpus & online
        ),
        l2_groups=_groups(machine.l2_groups, online),
        l3_groups=_groups(machine.l3_groups, online),
        numa_nodes=tuple(replace(one, cpus=one.cpus & online) for one in machine.numa_nodes),
        devices=tuple(replace(one, cpus=one.cpus & online) for one in machine.devices),
        speed_select=on_cpus(machine.speed_select, online),
    )


def _domains(domains: Iterable[Domain], online: CpuSet) -> tuple[Domain, ...]:
    """Domains in the order of their lowest cpu."""
    left = [replace(one, cpus=one.cpus & online) for one in domains if one.cpus & online]
    return tuple(sorted(left, key=lambda one: min(one.cpus)))


def _groups(groups: Iterable[CpuSet], online: CpuSet) -> tuple[CpuSet, ...]:
    return tuple(sorted((one & online for one in groups if one & online), key=min))
