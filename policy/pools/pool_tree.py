"""The pool tree: nested groups of cpus with their memory, in which containers are placed.

Pool ids are given in post-order (children in creation order, then their parent), so the pools of a
subtree are the ids `first..id` and the root has the highest id.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ...topology.model.machine import MemoryKind
from ...topology.sets.cpuset import CpuSet, NodeSet
from ..model.grant import PoolId


class PoolKind(enum.Enum):
    """The kind of a pool; the values are what users of the Go policy know."""

    VIRTUAL = "virtual node"
    SOCKET = "socket"
    DIE = "die"
    NUMA = "numa node"
    L3 = "L3 cache"

    @property
    def level(self) -> int:
        """1 for the whole system, growing inward; comparable with `BurstLevel`'s order."""
        return _LEVELS[self]


_LEVELS = {kind: number for number, kind in enumerate(PoolKind, start=1)}


class Pool(Struct, frozen=True, kw_only=True):
    """One pool and what it has when nothing is granted."""

    id: PoolId
    name: str
    kind: PoolKind
    depth: int
    """Links from the root."""
    height: int
    """Links to its farthest leaf."""
    first: PoolId
    """The lowest id in its subtree."""
    parent: PoolId | None
    children: tuple[PoolId, ...]
    cpus: CpuSet
    """All its online cpus, usable or not."""
    isolated: CpuSet
    reserved: CpuSet
    sharable: CpuSet
    memory: Mapping[MemoryKind, NodeSet]
    """The nodes of ordinary containers' memory by kind; kinds it has none of are absent."""

    @property
    def memory_nodes(self) -> NodeSet:
        """All its memory nodes."""
        mask = 0
        for nodes in self.memory.values():
            mask |= nodes.mask
        return NodeSet(mask)


class PoolTree(Struct, frozen=True, kw_only=True):
    """All pools in id order."""

    pools: tuple[Pool, ...]
    ancestors: tuple[tuple[PoolId, ...], ...]
    """For each pool its ancestors, the parent first, the root last."""
    masks: tuple[int, ...]
    """The cpus of each pool."""
    deepest: Sequence[int]
    """By cpu id the narrowest pool that has it; the root for those that none has."""
    ids: Mapping[str, PoolId]
    """By name the first pool that has it."""
    has_repeated_pools: bool
    """Whether the only pool inside some pool has all of its cpus."""
    root: Pool
    """The pool of everything."""

    def subtree(self, pool_id: PoolId) -> range:
        """The ids of a pool and all below it, ascending."""
        return range(self.pools[pool_id].first, pool_id + 1)

    def has_pools_of(self, other: "PoolTree") -> bool:
        """Whether another tree has the same pools by the same ids, whatever cpus they have."""
        return [one.name for one in self.pools] == [one.name for one in other.pools]

    def around(self, pool_id: PoolId, cpus: int) -> PoolId:
        """The nearest pool with all of these cpus, from a pool upwards; the root if none has."""
        for one in (pool_id, *self.ancestors[pool_id]):
            if not cpus & ~self.pools[one].cpus.mask:
                return one
        return self.root.id

    def holding(self, cpus: int) -> PoolId:
        """The narrowest pool with all of some cpus; the root if none has. O(depth)."""
        lowest = (cpus & -cpus).bit_length() - 1
        pool_id = PoolId(self.deepest[lowest]) if lowest < len(self.deepest) else self.root.id
        if cpus & self.masks[pool_id] == cpus:
            return pool_id
        for one in self.ancestors[pool_id]:
            if cpus & self.masks[one] == cpus:
                return one
        return self.root.id

    def meetings(self, regions: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Pairs of some sets of cpus and the pools that may have some of each, ascending."""
        for cpus in regions:
            holding = self.holding(cpus)
            yield from ((cpus, one) for one in self.subtree(holding))
            yield from ((cpus, one) for one in self.ancestors[holding])

    def smallest_holding(self, cpus: CpuSet) -> Pool:
        """The deepest pool with all these cpus; the first without any, the root if none has."""
        return self.pools[self.holding(cpus.mask) if cpus else 0]

    def smallest_sharing(self, cpus: CpuSet) -> Pool:
        """The deepest pool with all these cpus and with some that can be shared, or the root.

        Who shares may be found on reserved cpus alone, which were lent to it: where a pool has no
        others, what others give back later is none of its.
        """
        pool = self.smallest_holding(cpus)
        for one in (pool.id, *self.ancestors[pool.id]):
            if self.pools[one].sharable:
                return self.pools[one]
        return self.root

    def cpus_near(self, cpus: CpuSet, nodes: NodeSet) -> CpuSet:
        """Cpus, of these, whose tightest pool has some of the memory nodes. O(cpus)."""
        pools = {self.deepest[cpu] for cpu in cpus}
        mask = 0
        for pool_id in pools:
            if self.pools[pool_id].memory_nodes & nodes:
                mask |= self.masks[pool_id]
        return cpus & CpuSet(mask)

    def named(self, name: str) -> Pool | None:
        """The pool of a name, the first of several; None for an unknown one."""
        pool_id = self.ids.get(name)
        return None if pool_id is None else self.pools[pool_id]
