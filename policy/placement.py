"""Choosing a pool: which pools are feasible for a request, and the rank of each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .config import BurstLevel, CpuPriority
from .cpupriority import PriorityClasses
from .decision import CpuType
from .ledger import Ledger, Room
from .memorychoice import Zone
from .pool import PoolId, PoolTree
from .rank import Dropped, Rank, decided_by
from .request import Isolation, Request


class MemoryOf(Protocol):
    """The memory a request would get from each pool."""

    def zone(self, pool_id: int) -> Zone | Dropped:
        """The zone it would be given, or why it would get none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of the pools for one request beside their cpus. All lists are by pool id."""

    memory: MemoryOf
    affinities: Sequence[int]
    """Scaled sums, greater is nearer to friends."""
    hints: Sequence[tuple[int, int]] = ()
    """Product of the hint scores and of the non-zero ones; empty where there are no hints."""
    cpu_class: Sequence[bool] = ()
    """Whether the pool's cpus suit the cpu class asked for; empty where none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Every pool's rank or reason, and the winner (None where no pool is feasible)."""

    candidates: tuple[Rank | Dropped, ...]
    winner: PoolId | None
    decided_by: str


class Chooser:
    """Ranks the pools of one tree."""

    def __init__(self, tree: PoolTree, classes: PriorityClasses) -> None:
        """Precomputes what never changes about the pools."""
        self._depth = [-pool.depth for pool in tree.pools]
        self._level = [pool.kind.level for pool in tree.pools]
        self._high = classes.high or classes.normal
        self._normal = classes.normal
        self._low = classes.low

    def rank(self, request: Request, ledger: Ledger, facts: Facts) -> Ranking:
        """The ranks of all pools for a request. O(pools)."""
        room = ledger.room
        found: list[Rank | Dropped] = []
        best: Rank | None = None
        second: Rank | None = None
        burst_level = self._burst_level(request)
        for pool_id in range(len(self._depth)):
            one: Rank | Dropped | None = _too_small(request, ledger, room, pool_id)
            if one is None:
                zone = facts.memory.zone(pool_id)
                one = (
                    zone
                    if isinstance(zone, Dropped)
                    else self._rank(request, ledger, pool_id, zone, facts, burst_level)
                )
            found.append(one)
            if isinstance(one, Dropped):
                continue
            if best is None or one < best:
                best, second = one, best
            elif second is None or one < second:
                second = one
        return Ranking(
            candidates=tuple(found),
            winner=None if best is None else PoolId(best.pool_id),
            decided_by=decided_by(best, second) if best and second else "only candidate",
        )

    def _rank(
        self,
        request: Request,
        ledger: Ledger,
        pool_id: int,
        zone: Zone,
        facts: Facts,
        burst_level: int,
    ) -> Rank:
        room = ledger.room
        part = request.shared_milli if request.exclusive else max(request.shared_milli, 1)
        isolated, is_isolated_served = -1, False
        if request.wants_isolated:
            isolated = ledger.free_isolated[pool_id].bit_count() - request.exclusive
            is_isolated_served = isolated >= 0
        shared = room.shared_milli[pool_id] - part
        if not is_isolated_served:
            shared -= 1000 * request.exclusive
        has_isolated_left = request.wants_isolated and isolated > 0
        has_shared_left = request.exclusive > 0 and shared > 0
        hints, hints_partial = facts.hints[pool_id] if facts.hints else (0, 0)
        is_hinted = hints > 0 or hints_partial > 0
        burst_distance = 0
        if request.is_unlimited:
            inward = self._level[pool_id] - burst_level
            # A pool inside the wanted level is nearer to the wish than any wider one.
            burst_distance = inward if inward >= 0 else _WIDER - inward
        is_short_of_limit = (
            request.cpu_limit_milli is not None
            and room.shared_milli[pool_id] < request.cpu_limit_milli
        )
        return Rank(
            crowded=int(shared < 0),
            isolated_missing=int(request.wants_isolated and not is_isolated_served),
            affinity=-facts.affinities[pool_id],
            hints=-hints,
            hints_partial=0 if hints else -hints_partial,
            hints_depth=self._depth[pool_id] if is_hinted else 0,
            hints_pool=pool_id if is_hinted else 0,
            memory_type=int(not zone.is_exact),
            memory_limit=int(zone.is_below_limit),
            cpu_limit=int(is_short_of_limit),
            burst_level=burst_distance,
            burst_room=-room.shared_milli[pool_id]
            if request.is_unlimited and not burst_distance
            else 0,
            burst_pool=pool_id if request.is_unlimited else 0,
            memory_nodes=zone.node_count,
            memory_missing=int(zone.lacks_kind),
            cpu_class=int(bool(facts.cpu_class) and not facts.cpu_class[pool_id]),
            cpu_priority=self._missing_priority(request, ledger, pool_id),
            depth=self._depth[pool_id],
            isolated_room=-isolated if has_isolated_left else 0,
            isolated_pool=pool_id if has_isolated_left else 0,
            cpu_priority_normal=self._missing_normal(request, ledger, pool_id),
            exclusive_room=-shared if has_shared_left else 0,
            exclusive_pool=pool_id if has_shared_left else 0,
            neighbours=ledger.neighbours(CpuType.NORMAL)[pool_id],
            shared_room=-shared,
            pool_id=pool_id,
        )

    def _missing_priority(self, request: Request, ledger: Ledger, pool_id: int) -> int:
        if request.priority is CpuPriority.LOW:
            return _is_short(request, ledger.free_sharable[pool_id] & self._low)
        if request.priority is CpuPriority.HIGH:
            return _is_short(request, ledger.free_sharable[pool_id] & self._high)
        return 0

    def _missing_normal(self, request: Request, ledger: Ledger, pool_id: int) -> int:
        if request.priority is CpuPriority.NORMAL:
            return _is_short(request, ledger.free_sharable[pool_id] & self._normal)
        return 0

    def _burst_level(self, request: Request) -> int:
        """The deepest level that exists and is not inside the one wanted; the widest else."""
        wanted = _BURST_LEVELS[request.burst_level]
        return max((level for level in self._level if level <= wanted), default=min(self._level))


_WIDER = 100
_BURST_LEVELS = {level: number for number, level in enumerate(BurstLevel, start=1)}


def _is_short(request: Request, cpus: int) -> int:
    part = request.total_milli or 1
    return int(1000 * cpus.bit_count() < part)


def _too_small(request: Request, ledger: Ledger, room: Room, pool_id: int) -> Dropped | None:
    """Why a pool has not the cpus for a request; None where it has.

    A container that asks for no cpu fits everywhere: it never starves for want of a promise.
    """
    grantable = room.grantable_milli[pool_id]
    if request.exclusive:
        isolated = ledger.free_isolated[pool_id].bit_count()
        if not (request.wants_isolated and isolated >= request.exclusive):
            if request.isolation is Isolation.REQUIRED:
                return Dropped("isolated cpus", str(request.exclusive), str(isolated))
            if room.sliceable[pool_id] < request.exclusive:
                return Dropped(
                    "exclusive cpus", str(request.exclusive), str(room.sliceable[pool_id])
                )
            grantable -= 1000 * request.exclusive
    if request.shared_milli > grantable and request.shared_milli:
        return Dropped("shared cpu", f"{request.shared_milli}m", f"{max(grantable, 0)}m")
    return None
