"""The model of a snapshot: which containers may be moved, where to, and what they need there."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from ....topology.model.machine import MemoryKind
from ....topology.sets.cpuset import NodeSet
from ...books.ties import is_tied
from ...model.container import ContainerId
from ...model.grant import Grant, PoolId
from ...model.request import CpuType, Request
from ...placing.mover import immovable
from ...pools.pool_labels import LabelsOfPool, pool_labels
from ...pools.pool_tree import Pool, PoolTree
from ...rules.podaffinity.pool_term import PoolPreference
from ...rules.podaffinity.standing_rules import StandingRules
from ..replacing.companies import own_objection
from ..snapshot import Snapshot
from .model import PlacementModel, Tenant
from .placement_score import PlacementObjective

_UNKNOWN_BYTES = 1 << 62
"""Of memory whose size the kernel does not say."""


def placement_model(
    snapshot: Snapshot, objective: PlacementObjective, *, moves_exclusive: bool
) -> PlacementModel:
    """The placement of a snapshot, to try others. O(containers x leaves).

    `moves_exclusive`: whether containers with exclusive cpus may be moved as well.
    """
    zones, standing, wishes = _Zones(snapshot.tree), standing_rules(snapshot), _PoolWishes(snapshot)
    tenants = tuple(
        _tenant(
            snapshot, container_id, grant, standing, zones, wishes, moves_exclusive=moves_exclusive
        )
        for container_id, grant in snapshot.grants.items()
    )
    memory = {mask: _free_bytes(snapshot, NodeSet(mask)) for mask in zones.masks()}
    return PlacementModel(objective, tenants, _free_milli(snapshot), memory)


def standing_rules(snapshot: Snapshot) -> StandingRules:
    """The required and preferred rules of all that hold something."""
    standing = StandingRules()
    for container_id in snapshot.grants:
        if known := snapshot.classified.get(container_id):
            standing.add(snapshot.containers[container_id], known.placement)
    return standing


def staying_reason(
    snapshot: Snapshot, container_id: ContainerId, standing: StandingRules, *, moves_exclusive: bool
) -> str:
    """The reason why a container is not moved for a wish; empty where it may be."""
    if reason := own_objection(snapshot, container_id, moves_exclusive=moves_exclusive):
        return reason
    grant = snapshot.grants[container_id]
    container = snapshot.containers[container_id]
    if is_tied(container, grant, standing) or standing.spreads.is_counted(container):
        return "required rules hold it where it is"
    return immovable(grant, snapshot.classified[container_id].request)


def _tenant(
    snapshot: Snapshot,
    container_id: ContainerId,
    grant: Grant,
    standing: StandingRules,
    zones: "_Zones",
    wishes: "_PoolWishes",
    *,
    moves_exclusive: bool,
) -> Tenant:
    milli = 1000 * len(grant.exclusive) + grant.shared_milli
    if staying_reason(snapshot, container_id, standing, moves_exclusive=moves_exclusive):
        return Tenant(id=container_id, pool_id=grant.pool_id, milli=milli, is_movable=False)
    # Who asks for nothing must not be the one to be left without a cpu.
    milli = max(milli, 1)
    targets = wishes.kept(container_id, _targets(snapshot.tree, grant, milli))
    request = snapshot.classified[container_id].request
    return Tenant(
        id=container_id,
        pool_id=grant.pool_id,
        milli=milli,
        is_movable=True,
        targets=targets,
        narrower=wishes.kept(container_id, _narrower(snapshot.tree, grant, request, milli)),
        has_own_cpus=bool(grant.exclusive),
        memory_bytes=grant.memory_bytes,
        zones=None if request.spreads_memory else zones.of(request.memory_kinds),
        zone=grant.memory.mask,
    )


def _targets(tree: PoolTree, grant: Grant, milli: int) -> tuple[PoolId, ...]:
    """The tightest pools that could ever hold a container, none wider than the one it is in."""
    most = tree.pools[grant.pool_id].height
    for height in range(most + 1):
        found = tuple(
            pool.id
            for pool in tree.pools
            if pool.height == height and 1000 * len(pool.sharable) >= milli
        )
        if found:
            return found
    return ()


def _narrower(tree: PoolTree, grant: Grant, request: Request, milli: int) -> tuple[PoolId, ...]:
    """The pools of one NUMA node that would do for a container that is spread over several.

    Whoever has no cpu limit may be meant to spread, and whoever has a large one, too.
    """
    if len(tree.pools[grant.pool_id].memory_nodes) < 2 or request.is_unlimited:
        return ()
    size = max(milli, request.cpu_limit_milli or 0)
    return tuple(
        pool.id
        for pool in tree.pools[tree.pools[grant.pool_id].first : grant.pool_id]
        if len(pool.memory_nodes) < 2 and 1000 * len(pool.sharable) >= size
    )


class _PoolWishes:
    """Preferred rules about pools, which are in no sum over pairs: no move costs one of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def _labels(self) -> Sequence[LabelsOfPool]:
        snapshot = self._snapshot
        return pool_labels(snapshot.tree, snapshot.machine, snapshot.config)

    def kept(self, container_id: ContainerId, pools: tuple[PoolId, ...]) -> tuple[PoolId, ...]:
        """The pools, of some, that a container prefers no less than the one where it is."""
        preferred = self._snapshot.classified[container_id].placement.pool_preferred
        if not preferred:
            return pools
        here = self._worth(preferred, self._snapshot.grants[container_id].pool_id)
        return tuple(one for one in pools if self._worth(preferred, one) >= here)

    def _worth(self, preferred: Sequence[PoolPreference], pool_id: PoolId) -> int:
        labels = self._labels[pool_id]
        return sum([one.weight for one in preferred if one.term.matches(labels)])


class _Zones:
    """The memory nodes that containers get in every pool, by the kinds of memory they ask for."""

    def __init__(self, tree: PoolTree) -> None:
        self._tree = tree
        self._of_kinds: dict[frozenset[MemoryKind], Mapping[PoolId, int]] = {}

    def of(self, kinds: frozenset[MemoryKind]) -> Mapping[PoolId, int]:
        found = self._of_kinds.get(kinds)
        if found is None:
            found = {pool.id: _zone(pool, kinds) for pool in self._tree.pools}
            self._of_kinds[kinds] = found
        return found

    def masks(self) -> Sequence[int]:
        return sorted({mask for zones in self._of_kinds.values() for mask in zones.values()})


def _zone(pool: Pool, kinds: frozenset[MemoryKind]) -> int:
    mask = 0
    for kind, nodes in pool.memory.items():
        if kind in kinds:
            mask |= nodes.mask
    return mask or pool.memory_nodes.mask


def _free_bytes(snapshot: Snapshot, zone: NodeSet) -> int:
    capacity = snapshot.memory.capacity(zone)
    return _UNKNOWN_BYTES if capacity is None else capacity - snapshot.memory.usage(zone)


def _free_milli(snapshot: Snapshot) -> list[int]:
    """What every pool has left by its own numbers, beside what is spared for who asks for none."""
    tree = snapshot.tree
    free = [1000 * mask.bit_count() for mask in snapshot.free_sharable]
    spared: Mapping[bool, int] = {True: 1, False: 0}
    keeps_one = [not tree.root.reserved and not pool.parent for pool in tree.pools]
    for grant in (*snapshot.grants.values(), *snapshot.pens.values()):
        if grant.cpu_type is not CpuType.NORMAL or not grant.has_shared_part:
            continue
        for pool_id in (grant.pool_id, *tree.ancestors[grant.pool_id]):
            free[pool_id] -= grant.shared_milli
            keeps_one[pool_id] |= not grant.shared_milli
    return [left - spared[keeps] for left, keeps in zip(free, keeps_one, strict=True)]
