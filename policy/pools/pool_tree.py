"""The pool tree: nested groups of cpus with their memory, in which containers are placed.

Pool ids are given in post-order (children in creation order, then their parent), so the pools of a
subtree are the ids `first..id` and the root has the highest id.
"""

import enum
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ...topology.model.machine import Domain, Machine, MemoryKind, NumaNode
from ...topology.sets.cpuset import CpuSet, NodeSet, iter_bits
from ..model.grant import PoolId
from .memory_supply import MemorySupply
from .supply import Supply


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


class Branch(Struct):
    """A pool before it has an id, and before it is known what of its cpus may be used."""

    name: str
    kind: PoolKind
    cpus: CpuSet
    children: "list[Branch]" = field(default_factory=lambda: [])


def build_tree(machine: Machine, supply: Supply) -> PoolTree:
    """The pool tree of a machine: sockets, dies, NUMA nodes and L3 groups where they divide cpus.

    A level that would repeat its parent is left out, so a tree has no chains. Overlapping NUMA
    nodes give a cpu to the first of them only: pools of one parent never share a cpu.
    """
    sockets = [_socket_branch(machine, socket) for socket in _by_id(machine.sockets)]
    root = sockets[0] if len(sockets) == 1 else Branch("root", PoolKind.VIRTUAL, machine.online)
    if len(sockets) > 1:
        root.children = sockets
    return number_branches(root, machine, supply)


def _by_id(domains: Iterable[Domain]) -> list[Domain]:
    """Domains by the ids in their labels: a machine may start on the cpus of socket 1."""
    return sorted(domains, key=lambda one: [int(part) for part in one.label.split("/")])


def _socket_branch(machine: Machine, socket: Domain) -> Branch:
    branch = Branch(f"socket #{socket.label}", PoolKind.SOCKET, socket.cpus)
    dies = _by_id(die for die in machine.dies if die.cpus <= socket.cpus)
    if _has_die_pools(machine, dies):
        for die in dies:
            below = Branch(f"die #{die.label}", PoolKind.DIE, die.cpus)
            _add_numa_or_l3(machine, below)
            branch.children.append(below)
    else:
        _add_numa_or_l3(machine, branch)
    return branch


def _has_die_pools(machine: Machine, dies: list[Domain]) -> bool:
    if len(dies) < 2:
        return False
    # A kernel without cluster files (before 5.16) tells nothing against die pools.
    clusters = {cpu: machine.cpus[cpu].cluster for die in dies for cpu in die.cpus}
    if all(cluster < 0 for cluster in clusters.values()):
        return True
    return any(len({clusters[cpu] for cpu in die.cpus}) > 1 for die in dies)


def _add_numa_or_l3(machine: Machine, parent: Branch) -> None:
    nodes = [node for node in machine.numa_nodes if not node.cpus.isdisjoint(parent.cpus)]
    if len(nodes) < 2:
        _add_l3(machine, parent)
        return
    taken = CpuSet()
    for node in nodes:
        cpus = (node.cpus & parent.cpus) - taken
        # The cpus of a node without memory stay with the parent, whose memory they use.
        if not cpus or node.id not in machine.nodes_with_memory:
            continue
        taken |= cpus
        name = f"NUMA node #{node.id}"
        if not node.cpus <= parent.cpus:
            name = f"{parent.name}/{name}"
        branch = Branch(name, PoolKind.NUMA, cpus)
        _add_l3(machine, branch)
        parent.children.append(branch)
    if len(parent.children) == 1 and parent.children[0].cpus == parent.cpus:
        parent.children = parent.children[0].children


def _add_l3(machine: Machine, parent: Branch) -> None:
    groups = [group for group in _whole_l3_groups(machine, parent.cpus) if group <= parent.cpus]
    if len(groups) < 2:
        return
    named = [(machine.l3_ids.get(group), group) for group in groups]
    if None in {one for one, _ in named} or len({one for one, _ in named}) < len(named):
        named = list(enumerate(groups))
    taken = CpuSet()
    for cache_id, group in sorted(named, key=lambda pair: (pair[0] or 0, pair[1].lowest)):
        if group.isdisjoint(taken):
            taken |= group
            name = f"{parent.name}/L3 cache #{cache_id}"
            parent.children.append(Branch(name, PoolKind.L3, group))


def _whole_l3_groups(machine: Machine, among: CpuSet) -> list[CpuSet]:
    """The L3 groups that have some of these cpus, those that divide a core as one.

    Threads of a core may have a cache for some of them each. A pool has whole cores: else two
    containers that seem to be apart would share one.
    """
    # A machine that was written by hand may name offline cpus there: they have no core.
    groups = [group & machine.online for group in machine.l3_groups if not group.isdisjoint(among)]
    core_of = machine.core_of
    if all(core_of[cpu] <= group for group in groups for cpu in group):
        return groups
    found: list[CpuSet] = []
    for group in groups:
        for cpu in group:
            group |= core_of[cpu]
        apart = [one for one in found if one.isdisjoint(group)]
        for one in found:
            if not one.isdisjoint(group):
                group |= one
        found = [*apart, group]
    return sorted(found, key=lambda one: one.lowest)


def number_branches(root: Branch, machine: Machine, supply: Supply) -> PoolTree:
    """The pools of a tree of branches, each after all that is below it."""
    memory = _MemoryMap(machine, supply.memory)
    pools: list[Pool] = []
    ancestors: dict[int, tuple[PoolId, ...]] = {}

    def add(branch: Branch, depth: int) -> Pool:
        first = PoolId(len(pools))
        below = [add(child, depth + 1) for child in branch.children]
        pool_id = PoolId(len(pools))
        is_root = depth == 0
        pool = Pool(
            id=pool_id,
            name=branch.name,
            kind=branch.kind,
            depth=depth,
            height=1 + max(child.height for child in below) if below else 0,
            first=first,
            parent=None,
            children=tuple(child.id for child in below),
            cpus=branch.cpus,
            isolated=supply.isolated & branch.cpus,
            reserved=supply.reserved & branch.cpus,
            sharable=supply.sharable & branch.cpus,
            memory=memory.everything() if is_root else memory.near(branch.cpus),
        )
        pools.append(pool)
        return pool

    add(root, 0)
    parents = {child: pool.id for pool in pools for child in pool.children}
    for pool in reversed(pools):
        parent = parents.get(pool.id)
        ancestors[pool.id] = () if parent is None else (parent, *ancestors[parent])
    masks = tuple(pool.cpus.mask for pool in pools)
    linked = tuple(replace(pool, parent=parents.get(pool.id)) for pool in pools)
    return PoolTree(
        pools=linked,
        ancestors=tuple(ancestors[pool.id] for pool in pools),
        masks=masks,
        deepest=_deepest(masks),
        ids={pool.name: pool.id for pool in reversed(pools)},
        has_repeated_pools=any(
            len(pool.children) == 1 and masks[pool.children[0]] == masks[pool.id] for pool in pools
        ),
        root=linked[-1],
    )


def _deepest(masks: Sequence[int]) -> Sequence[int]:
    """The narrowest pool of each cpu; two bytes each, for there may be thousands."""
    found = array("h", [len(masks) - 1] * masks[-1].bit_length())
    # Pools come after those below them.
    for pool_id in reversed(range(len(masks))):
        for cpu in iter_bits(masks[pool_id]):
            found[cpu] = pool_id
    return found


class _MemoryMap:
    """Which memory nodes belong to which cpus."""

    def __init__(self, machine: Machine, supply: MemorySupply) -> None:
        self._machine = machine
        self._cpus = [(node.id, node.cpus.mask) for node in machine.numa_nodes]
        self._with_memory = [
            node
            for node in machine.numa_nodes
            if node.id in machine.nodes_with_memory and not supply.excludes(node.id)
        ]
        self._nearest = {
            node.id: self._nearest_to(node) for node in self._with_memory if not node.cpus
        }

    def _nearest_to(self, node: NumaNode) -> NodeSet:
        """The nodes with cpus nearest to a node without; with memory, where any such have."""
        with_cpus = self._machine.nodes_with_cpus
        usable = with_cpus & self._machine.nodes_with_memory
        return self._machine.numa_distances.nearest(NodeSet.of(node.id), usable or with_cpus)

    def everything(self) -> Mapping[MemoryKind, NodeSet]:
        return _by_kind(self._with_memory)

    def near(self, cpus: CpuSet) -> Mapping[MemoryKind, NodeSet]:
        """The nodes of these cpus and the memory-only nodes nearest to one of them."""
        # On plain masks: this is asked for each pool and each node.
        mask = cpus.mask
        own = NodeSet.collect(node_id for node_id, of_node in self._cpus if of_node & mask)
        near = [
            node
            for node in self._with_memory
            if own.mask >> node.id & 1
            or (not node.cpus and not self._nearest[node.id].isdisjoint(own))
        ]
        return _by_kind(near or self._nearest_memory(own))

    def _nearest_memory(self, own: NodeSet) -> list[NumaNode]:
        """Where no node of the cpus has memory: the nearest that have some."""
        every = NodeSet.collect(node.id for node in self._with_memory)
        near = self._machine.numa_distances.nearest(own, every) or every
        return [node for node in self._with_memory if node.id in near]


def _by_kind(nodes: list[NumaNode]) -> Mapping[MemoryKind, NodeSet]:
    masks: dict[MemoryKind, int] = {}
    for node in nodes:
        masks[node.kind] = masks.get(node.kind, 0) | 1 << node.id
    return {kind: NodeSet(masks[kind]) for kind in MemoryKind if kind in masks}
