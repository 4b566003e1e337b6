"""Clusters of cores (sharing an L2 cache or a bus port) and taking whole idle ones of them."""

from collections.abc import Sequence

from msgspec import Struct

from ...topology.model.machine import CoreKind, Machine
from ..model.cpu_preference import CpuPriority
from .cpu_blocks import CpuBlocks, lowest_bits
from .cpu_priority import PriorityClasses


class CpuCluster(Struct, frozen=True):
    """The cpus of one cluster; all its cores are of one kind."""

    cpus: int
    kind: CoreKind = CoreKind.PERFORMANCE
    is_merged: bool = False
    """Of cores that share nothing narrower than their die."""


def logical_clusters(machine: Machine) -> tuple[CpuCluster, ...]:
    """The clusters of a machine, with those of one core each merged into one per die.

    The kernel also calls a core with an L2 cache of its own a cluster: as units to take whole
    those say nothing, all together they are the die's performance cores.
    """
    cores = {core.mask for core in machine.cores}
    clusters: list[CpuCluster] = []
    for die in machine.dies:
        lone = 0
        for cluster in machine.clusters:
            mask = cluster.cpus.mask & die.cpus.mask
            if mask in cores:
                lone |= mask
            elif mask:
                clusters.append(CpuCluster(mask, _kind(machine, mask)))
        if lone:
            clusters.append(CpuCluster(lone, _kind(machine, lone), is_merged=True))
    return tuple(sorted(clusters, key=lambda cluster: cluster.cpus & -cluster.cpus))


def _kind(machine: Machine, mask: int) -> CoreKind:
    return machine.cpus[(mask & -mask).bit_length() - 1].kind


class ClusterStage:
    """Takes whole idle clusters, close together, where they are units of what is asked for."""

    def __init__(
        self, clusters: Sequence[CpuCluster], regions: Sequence[Sequence[int]], is_hybrid: bool
    ) -> None:
        """`regions`: families of wider masks (L3 groups, dies, sockets), narrowest first.

        The last family are the sockets; one that holds a single cluster is left out, because
        there a cluster says no more than the socket.
        """
        divided: list[CpuCluster] = []
        for socket in regions[-1]:
            inside = [cluster for cluster in clusters if cluster.cpus & socket]
            divided.extend(inside if len(inside) > 1 else ())
        self._regions = regions
        self._blocks = CpuBlocks(cluster.cpus for cluster in divided)
        self._is_hybrid = is_hybrid or len({cluster.kind for cluster in divided}) > 1
        self._efficient = sum(c.cpus for c in divided if c.kind is CoreKind.EFFICIENT)
        self.size_min = self._blocks.size_min
        """The fewest cpus of a cluster; 0 where there are no clusters."""
        self.shared = tuple(one.cpus for one in divided if not one.is_merged)
        """The clusters whose cores share something: a part of one is better than of two."""

    def take(self, free: int, count: int, priority: CpuPriority, classes: PriorityClasses) -> int:
        """Whole idle clusters of together at most `count` cpus; 0 where none fits well.

        A cluster that could serve `count` alone and is larger is left to finer stages, which take
        a part of it.
        """
        if not self.size_min or count < self.size_min:
            return 0
        idle = self._blocks.idle(self._of_kind(free, priority, classes))
        if not idle:
            return 0
        for size, firsts in self._blocks.firsts_by_size:
            if size >= count and idle & firsts:
                best = idle & firsts
                return self._blocks.members(best & -best) if size == count else 0
        return self._take_near(idle, count)

    def _of_kind(self, free: int, priority: CpuPriority, classes: PriorityClasses) -> int:
        if self._is_hybrid:
            efficient = free & self._efficient
            performance = free & ~self._efficient
            wanted, other = (
                (efficient, performance)
                if priority is CpuPriority.LOW
                else (performance, efficient)
            )
            free = wanted or other
        preferred = free & classes.of(priority)
        return preferred or free

    def _take_near(self, idle: int, count: int) -> int:
        cpus = self._blocks.members(idle)
        for family in self._regions:
            enough = [
                (available, region & -region, region)
                for region in family
                if (available := (cpus & region).bit_count()) >= count
            ]
            if enough:
                return self._take_fitting(idle & min(enough)[2], count)
        return self._take_fitting(idle, count)

    def _take_fitting(self, idle: int, count: int) -> int:
        if len(self._blocks.firsts_by_size) == 1:
            return self._blocks.members(lowest_bits(idle, count // self.size_min))
        taken = 0
        while idle and count >= self.size_min:
            first = idle & -idle
            idle ^= first
            cluster = self._blocks.members(first)
            if (size := cluster.bit_count()) <= count:
                taken |= cluster
                count -= size
        return taken
