"""All grants and what is left: per-pool sums kept up to date with every grant and release.

Cpu sets are plain int masks here and milli-cpus plain ints: this is the hot path of a decision.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace

from ...topology.sets.cpuset import NodeSet
from ..cpus.picker import CpuPicker
from ..model.container import ContainerId
from ..model.decision import Grant
from ..model.request import CpuType
from ..pools.pool_tree import PoolId, PoolTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What every pool could still give, by pool id, at one moment."""

    shared_milli: tuple[int, ...]
    """Sharable milli-cpus, one less where the pool's subtree has a container that asked for none
    (it must not be the last one's cpu); negative where more was promised than there is."""
    grantable_milli: tuple[int, ...]
    """The same without that one: what shared requests may still be promised."""
    sliceable: tuple[int, ...]
    """Whole sharable cpus that can be taken without touching what any pool owes."""


class Ledger:
    """Who holds what. A decision reads it; only `add` and `drop` change it."""

    def __init__(self, tree: PoolTree, picker: CpuPicker) -> None:
        """An empty ledger of these pools."""
        pools = tree.pools
        self.tree = tree
        self._picker = picker
        self.free_sharable = [pool.sharable.mask for pool in pools]
        self.free_isolated = [pool.isolated.mask for pool in pools]
        self._free_count = [len(pool.sharable) for pool in pools]
        self._shared_milli = [0] * len(pools)
        self._zero_requests = [0] * len(pools)
        if not tree.root.reserved:
            # Somebody may come who asks for nothing: without reserved cpus the last one is theirs.
            self._zero_requests[-1] = 1
        self._neighbours = {kind: [0] * len(pools) for kind in CpuType}
        self._reserved_milli = 0
        self._grants: dict[ContainerId, Grant] = {}
        self._sharing: list[dict[ContainerId, Grant]] = [{} for _ in pools]
        self._parent = [-1 if pool.parent is None else int(pool.parent) for pool in pools]
        # cpus of a pool that are in none of its children: nobody below owes them.
        self._own = [
            pool.cpus.mask & ~_union(pools[child].cpus.mask for child in pool.children)
            for pool in pools
        ]
        self._room: Room | None = None

    @property
    def grants(self) -> Mapping[ContainerId, Grant]:
        """Every grant, oldest first."""
        return self._grants

    def neighbours(self, cpu_type: CpuType) -> list[int]:
        """Number of grants of a type in exactly each pool."""
        return self._neighbours[cpu_type]

    def sharing(self, pool_id: PoolId) -> Mapping[ContainerId, Grant]:
        """The grants with a shared part in exactly this pool."""
        return self._sharing[pool_id]

    def promised_milli(self) -> tuple[int, ...]:
        """Milli-cpus promised to the shared grants of exactly each pool. O(pools).

        Those of reserved cpus count for the root, wherever the grant was found.
        """
        whole = self._shared_milli
        own = [
            whole[pool.id] - sum(whole[child] for child in pool.children)
            for pool in self.tree.pools
        ]
        own[-1] += self._reserved_milli
        return tuple(own)

    @property
    def free_reserved_milli(self) -> int:
        """Milli-cpus of the reserved cpus that are not promised."""
        return 1000 * len(self.tree.root.reserved) - self._reserved_milli

    @property
    def room(self) -> Room:
        """What every pool could still give. O(pools) after a change, else O(1)."""
        if self._room is None:
            self._room = self._measure()
        return self._room

    def _measure(self) -> Room:
        """One pass up (what can be sliced below) and one down (what the pools above allow)."""
        size = len(self._free_count)
        slack = [
            1000 * count - shared
            for count, shared in zip(self._free_count, self._shared_milli, strict=True)
        ]
        sliceable = [0] * size
        children = [pool.children for pool in self.tree.pools]
        for pool_id in range(size):
            below = children[pool_id]
            spare = (slack[pool_id] - (self._zero_requests[pool_id] > 0)) // 1000
            if not below:
                sliceable[pool_id] = spare if spare > 0 else 0
                continue
            inside = (self.free_sharable[pool_id] & self._own[pool_id]).bit_count()
            for child in below:
                inside += sliceable[child]
            sliceable[pool_id] = max(0, min(spare, inside))
        # Who asked for nothing binds its own pool and those around it, and the pools beside only
        # where they would take the last cpu of all around both. Promised shares keep one anyway.
        owed = zip(slack, self._shared_milli, self._zero_requests, strict=True)
        whole = [(milli - (zero > 0 and not shared)) // 1000 for milli, shared, zero in owed]
        grantable = slack
        for pool_id in range(size - 2, -1, -1):
            parent = self._parent[pool_id]
            if grantable[parent] < grantable[pool_id]:
                grantable[pool_id] = grantable[parent]
            if whole[parent] < whole[pool_id]:
                whole[pool_id] = whole[parent]
            spare = (grantable[pool_id] - (self._zero_requests[pool_id] > 0)) // 1000
            if spare < sliceable[pool_id] or whole[pool_id] < sliceable[pool_id]:
                sliceable[pool_id] = max(0, min(spare, whole[pool_id]))
        pairs = zip(grantable, self._zero_requests, strict=True)
        return Room(
            shared_milli=tuple([milli - (zero > 0) for milli, zero in pairs]),
            grantable_milli=tuple(grantable),
            sliceable=tuple(sliceable),
        )

    def slice(self, pool_id: PoolId) -> int:
        """A mask of sharable cpus of a pool of which any `Room.sliceable` may be taken at once.

        Every pool below keeps the cpus it owes its shared grants.
        """
        free = self.free_sharable[pool_id]
        pool = self.tree.pools[pool_id]
        owes = self._shared_milli[pool_id] or self._zero_requests[pool_id]
        if not pool.children or not owes:
            return free
        return _union((free & self._own[pool_id], *map(self._spared, pool.children)))

    def _spared(self, pool_id: PoolId) -> int:
        """The cpus a pool can give up all at once to somebody above it."""
        spare = (
            1000 * self._free_count[pool_id]
            - self._shared_milli[pool_id]
            - (self._zero_requests[pool_id] > 0)
        ) // 1000
        if spare <= 0:
            return 0
        found = self.slice(pool_id)
        return found if found.bit_count() <= spare else self._picker.pick(found, spare) or 0

    def without_share(self, grant: Grant) -> "Ledger":
        """A ledger to ask, never to change, where a grant has given back its shared part."""
        ledger = copy(self)
        ledger._room = None
        if grant.has_shared_part:
            ledger._shared_milli = list(self._shared_milli)
            ledger._zero_requests = list(self._zero_requests)
            ledger._promise(grant, -1)
        return ledger

    def copy(self) -> "Ledger":
        """Another ledger with the same grants. O(pools + grants)."""
        ledger = copy(self)
        ledger.free_sharable = list(self.free_sharable)
        ledger.free_isolated = list(self.free_isolated)
        ledger._free_count = list(self._free_count)
        ledger._shared_milli = list(self._shared_milli)
        ledger._zero_requests = list(self._zero_requests)
        ledger._neighbours = {kind: list(counts) for kind, counts in self._neighbours.items()}
        ledger._grants = dict(self._grants)
        ledger._sharing = [dict(one) for one in self._sharing]
        return ledger

    def spare_nobody(self) -> None:
        """Keep no cpu for those who asked for none; only for a copy that is asked and dropped."""
        self._zero_requests = [0] * len(self._zero_requests)
        self._room = None

    def repool(self, grant: Grant) -> None:
        """Another pool for the shared part of a grant; its own cpus and memory stay."""
        self.drop(grant.container_id)
        self.add(grant)

    def add(self, grant: Grant) -> None:
        """Book a grant. O(pools of its subtree and above)."""
        assert grant.container_id not in self._grants, grant.container_id
        self._grants[grant.container_id] = grant
        self._book(grant, 1)
        taken = grant.exclusive.mask & ~grant.isolated.mask
        for pool_id in self._touched(grant):
            if taken & self.free_sharable[pool_id]:
                self.free_sharable[pool_id] &= ~taken
                self._free_count[pool_id] = self.free_sharable[pool_id].bit_count()
            self.free_isolated[pool_id] &= ~grant.isolated.mask

    def drop(self, container_id: ContainerId) -> Grant | None:
        """Undo a grant; None for a container that has none. O(pools of its subtree and above)."""
        grant = self._grants.pop(container_id, None)
        if grant is None:
            return None
        self._book(grant, -1)
        pools = self.tree.pools
        for pool_id in self._touched(grant):
            back = grant.exclusive.mask & pools[pool_id].sharable.mask
            if back:
                self.free_sharable[pool_id] |= back
                self._free_count[pool_id] = self.free_sharable[pool_id].bit_count()
            self.free_isolated[pool_id] |= grant.isolated.mask & pools[pool_id].isolated.mask
        return grant

    def move_memory(self, container_id: ContainerId, zone: NodeSet) -> None:
        """Another memory zone for a grant; its cpus stay."""
        grant = replace(self._grants[container_id], memory=zone)
        self._grants[container_id] = grant
        if grant.has_shared_part:
            self._sharing[grant.pool_id][container_id] = grant

    def _book(self, grant: Grant, sign: int) -> None:
        self._room = None
        self._neighbours[grant.cpu_type][grant.pool_id] += sign
        if grant.cpu_type is CpuType.RESERVED:
            self._reserved_milli += sign * grant.shared_milli
            return
        if not grant.has_shared_part:
            return
        if sign > 0:
            self._sharing[grant.pool_id][grant.container_id] = grant
        else:
            del self._sharing[grant.pool_id][grant.container_id]
        self._promise(grant, sign)

    def _promise(self, grant: Grant, sign: int) -> None:
        zero = 0 if grant.shared_milli else sign
        milli = sign * grant.shared_milli
        for pool_id in (grant.pool_id, *self.tree.ancestors[grant.pool_id]):
            self._shared_milli[pool_id] += milli
            self._zero_requests[pool_id] += zero

    def _touched(self, grant: Grant) -> Iterator[PoolId]:
        if grant.exclusive:
            # Adopted cpus may lie outside the pool's own set, so the whole tree is looked at then.
            if grant.exclusive <= self.tree.pools[grant.pool_id].cpus:
                yield from map(PoolId, self.tree.subtree(grant.pool_id))
                yield from self.tree.ancestors[grant.pool_id]
            else:
                yield from map(PoolId, range(len(self.tree.pools)))

    def check(self) -> None:
        """Assert every invariant by recomputing all sums from the grants."""
        fresh = Ledger(self.tree, self._picker)
        for grant in self._grants.values():
            fresh.add(grant)
        assert fresh.free_sharable == self.free_sharable
        assert fresh.free_isolated == self.free_isolated
        assert fresh._free_count == self._free_count
        assert fresh._shared_milli == self._shared_milli
        assert fresh._zero_requests == self._zero_requests
        assert fresh._neighbours == self._neighbours
        assert fresh._reserved_milli == self._reserved_milli
        seen = 0
        for grant in self._grants.values():
            assert not seen & grant.exclusive.mask, f"{grant.container_id}: cpu granted twice"
            seen |= grant.exclusive.mask


def _union(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total
