"""A machine some of whose cpus are offline, as discovery would find it."""

from pinfold.topology.made.online_cpus import with_online
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet


def without(full: Machine, offline: CpuSet) -> Machine:
    """The machine with some cpus offline."""
    return with_online(full, full.online - offline)
