"""Placements to try out: containers in pools, with sums that make a move cheap to judge.

Cpu is counted as the ledger of cpus counts it, memory by the nodes that pools have. Whether a step
is really legal the ledgers say when it is taken; this only has to be right most of the time.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from ...model.container import ContainerId
from ...model.grant import PoolId
from .layers import Steps
from .placement_score import PlacementObjective


class Tenant(Struct, frozen=True, kw_only=True):
    """A container that is in a pool, and what it needs of another one."""

    id: ContainerId
    pool_id: PoolId
    milli: int
    """Of its own and shared cpus together."""
    is_movable: bool
    targets: tuple[PoolId, ...] = ()
    """The pools where it may go."""
    narrower: tuple[PoolId, ...] = ()
    """Where it would be on one NUMA node, if it is spread over several without need."""
    has_own_cpus: bool = False
    memory_bytes: int = 0
    zones: Mapping[PoolId, int] | None = None
    """By pool the memory nodes it would get there, as masks; None: it keeps those it has."""
    zone: int = 0
    """The memory nodes it has."""


class Path(NamedTuple):
    """The way from one pool to another: the pools that are left and those that are entered."""

    left: tuple[int, ...]
    entered: tuple[int, ...]


class PlacementModel:
    """Containers in pools, the satisfied weight, and what is left of cpus and memory.

    For each container with wishes there is a sum for every pool of the tree. What a leaf is worth
    to it is the total of these along the way to the root, so a move of a friend changes a few of
    them, whatever the number of pools.
    """

    def __init__(
        self,
        objective: PlacementObjective,
        tenants: Sequence[Tenant],
        room: Sequence[int],
        memory: Mapping[int, int],
    ) -> None:
        """`room`: free milli-cpus by pool id; `memory`: free bytes by the mask of a zone."""
        self.objective = objective
        self.tenants = tenants
        self.place = [int(one.pool_id) for one in tenants]
        self.room = list(room)
        self.memory = dict(memory)
        self.zone = [one.zone for one in tenants]
        self.movable = [index for index, one in enumerate(tenants) if one.is_movable]
        pools = objective.tree.pools
        self.chains = [(pool.id, *objective.tree.ancestors[pool.id]) for pool in pools]
        self.is_leaf = [not pool.children for pool in pools]
        self._parents = [int(pool.parent) if pool.parent is not None else -1 for pool in pools]
        self._paths: dict[tuple[int, int], Path] = {}
        self._shifts: dict[tuple[int, int, int], Steps] = {}
        self._containing: dict[int, tuple[int, ...]] = {}
        index_of = {one.id: index for index, one in enumerate(tenants)}
        self.weights: list[list[dict[int, int]]] = []
        """By layer and container those to others."""
        for layer in objective.layers:
            found: list[dict[int, int]] = [{} for _ in tenants]
            for one, weights in layer.weights.items():
                if one in index_of:
                    found[index_of[one]] = {
                        index_of[other]: weight
                        for other, weight in weights.items()
                        if other in index_of
                    }
            self.weights.append(found)
        self.sums = [[0] * len(pools) for _ in tenants]
        """By container and pool: what being inside this pool, rather than just around it, adds."""
        for index in range(len(tenants)):
            self._shift(index, -1, self.place[index])
        self.members: list[dict[int, None]] = [{} for _ in pools]
        """The movable containers of exactly each pool."""
        for index in self.movable:
            self.members[self.place[index]][index] = None

    def path(self, source: int, target: int) -> Path:
        """The way from one pool to another."""
        known = self._paths.get((source, target))
        if known is None:
            out, into = self.chains[source], self.chains[target]
            left = tuple(one for one in out if one not in into)
            entered = tuple(one for one in into if one not in out)
            known = self._paths[source, target] = Path(left, entered)
        return known

    def worth(self, index: int, pool_id: int) -> int:
        """The worth of a pool to a container: the satisfied weight of all its pairs there."""
        if self.is_leaf[pool_id]:
            sums = self.sums[index]
            return sum([sums[one] for one in self.chains[pool_id]])
        total = 0
        for layer, weights in zip(self.objective.layers, self.weights, strict=True):
            for other, weight in weights[index].items():
                total += weight * layer.worth(weight, pool_id, self.place[other])
        return total

    def pull(self, index: int, pool_id: int) -> int:
        """The pull of preferred rules on a container: of a wide pool each domain counts a part."""
        total = 0
        for layer, weights in zip(self.objective.layers, self.weights, strict=True):
            for other, weight in weights[index].items():
                total += weight * layer.pull(pool_id, self.place[other])
        return total

    def worths(self, index: int) -> Sequence[int]:
        """The worth of every target to a container, in their order. O(pools)."""
        targets, sums = self.tenants[index].targets, self.sums[index]
        if not targets or not self.is_leaf[targets[0]]:
            return [self.worth(index, one) for one in targets]
        totals = list(sums)
        # Every pool has a higher id than those inside it.
        for pool_id in range(len(totals) - 2, -1, -1):
            totals[pool_id] += totals[self._parents[pool_id]]
        return [totals[one] for one in targets]

    def has_wishes(self, index: int) -> bool:
        """Whether anybody's rules are between a container and another one."""
        return any(weights[index] for weights in self.weights)

    def swapped(self, one: int, other: int, own: int) -> int:
        """The gain of an exchange of two containers; `own`: of the first if it went alone."""
        first, second = self.place[one], self.place[other]
        gain = own + self.worth(other, first) - self.worth(other, second)
        for layer, weights in zip(self.objective.layers, self.weights, strict=True):
            weight = weights[one].get(other)
            if weight:
                # Each was looked at as if the other had stayed; they are as far as before.
                at = layer.worth
                apart = at(weight, first, second)
                here, there = at(weight, first, first), at(weight, second, second)
                gain -= weight * (here + there - 2 * apart)
        return gain

    def fits(self, index: int, pool_id: int) -> bool:
        """Whether there is room for a container in another pool."""
        room, milli = self.room, self.tenants[index].milli
        for one in self.path(self.place[index], pool_id).entered:
            if room[one] < milli:
                return False
        return self._has_memory(self._memory_shifts(index, pool_id))

    def shortage(self, index: int, pool_id: int) -> int:
        """The milli-cpus that another pool lacks for a container; 0 where it has enough."""
        entered = self.path(self.place[index], pool_id).entered
        milli = self.tenants[index].milli
        return max([0, *(milli - self.room[one] for one in entered)])

    def swap_fits(self, one: int, other: int) -> bool:
        """Whether two containers could change places."""
        room = self.room
        more = self.tenants[one].milli - self.tenants[other].milli
        path = self.path(self.place[one], self.place[other])
        if any(room[into] < more for into in path.entered):
            return False
        if any(room[into] < -more for into in path.left):
            return False
        shifts = self._memory_shifts(one, self.place[other])
        for zone, size in self._memory_shifts(other, self.place[one]).items():
            shifts[zone] = shifts.get(zone, 0) + size
        return self._has_memory(shifts)

    def move(self, index: int, pool_id: int) -> None:
        """Move a container; whether it fits is not asked."""
        source, tenant = self.place[index], self.tenants[index]
        for zone, size in self._memory_shifts(index, pool_id).items():
            self.memory[zone] -= size
        if tenant.zones is not None:
            self.zone[index] = tenant.zones.get(PoolId(pool_id), tenant.zone)
        left, entered = self.path(source, pool_id)
        room, milli = self.room, tenant.milli
        for one in left:
            room[one] += milli
        for one in entered:
            room[one] -= milli
        self.place[index] = pool_id
        del self.members[source][index]
        self.members[pool_id][index] = None
        self._shift(index, source, pool_id)

    def _shift(self, index: int, source: int, target: int) -> None:
        """Tell everybody who cares for a container that it is elsewhere; -1: it was nowhere."""
        sums = self.sums
        for number, weights in enumerate(self.weights):
            if not weights[index]:
                continue
            friendly = self._shifted(number, source, target)
            hostile: Steps = ()
            if (source >= 0 and not self.is_leaf[source]) or not self.is_leaf[target]:
                hostile = self.objective.layers[number].refuges(source, target)
            for other, weight in weights[index].items():
                own = sums[other]
                for pool_id, step in friendly:
                    own[pool_id] += weight * step
                if weight < 0:
                    for pool_id, step in hostile:
                        own[pool_id] += weight * step

    def _shifted(self, number: int, source: int, target: int) -> Steps:
        known = self._shifts.get((number, source, target))
        if known is None:
            known = self.objective.layers[number].steps(source, target)
            self._shifts[number, source, target] = known
        return known

    def _memory_shifts(self, index: int, pool_id: int) -> dict[int, int]:
        """The bytes that a move takes of every zone, negative where it gives some back."""
        tenant = self.tenants[index]
        if tenant.zones is None or not tenant.memory_bytes:
            return {}
        before, after = self.zone[index], tenant.zones.get(PoolId(pool_id), tenant.zone)
        if before == after:
            return {}
        left, entered = self._zones_around(before), self._zones_around(after)
        shifts = {zone: tenant.memory_bytes for zone in entered if zone not in left}
        shifts.update({zone: -tenant.memory_bytes for zone in left if zone not in entered})
        return shifts

    def _has_memory(self, shifts: Mapping[int, int]) -> bool:
        memory = self.memory
        return all(size <= 0 or size <= memory[zone] for zone, size in shifts.items())

    def _zones_around(self, mask: int) -> tuple[int, ...]:
        known = self._containing.get(mask)
        if known is None:
            known = self._containing[mask] = tuple(zone for zone in self.memory if not mask & ~zone)
        return known

    def pools(self) -> dict[ContainerId, PoolId]:
        """The pool of every container at present."""
        pairs = zip(self.tenants, self.place, strict=True)
        return {one.id: PoolId(pool_id) for one, pool_id in pairs}

    def score(self) -> int:
        """The present satisfied weight, summed up anew."""
        return self.objective.score(self.pools())

    def put(self, places: Sequence[int]) -> None:
        """Move everybody to where they are in another placement of the same containers."""
        for index in self.movable:
            if self.place[index] != places[index]:
                self.move(index, places[index])
