"""Choosing a pool: which pools are feasible for a request, and the rank of each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .config import BurstLevel, CpuPriority
from .cpupriority import PriorityClasses
from .hinted import objection
from .ledger import Ledger
from .memorychoice import MemoryChoice
from .pool import PoolId, PoolTree
from .rank import Contest, Dropped, Rank, Zone, decided_by, ranks
from .request import CpuType, Isolation, Request

ONLY_CANDIDATE: Final = "only_candidate"
"""What decides where there is no second pool to compare with."""

_BURST_LEVELS: Final = {level: number for number, level in enumerate(BurstLevel, start=1)}
_NO_ZONE: Final = Zone(0, 0, False, False, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of the pools for one request beside their cpus. Sequences are by pool id."""

    memory: MemoryChoice
    affinities: Sequence[int]
    """Scaled sums, greater is nearer to friends."""
    hints: Sequence[tuple[int, int]] = ()
    """Product of the hint scores and of the non-zero ones; empty where there are no hints."""
    misfits_class: Sequence[int] = ()
    """1 where the pool's cpus do not suit the cpu class asked for; empty where none was."""


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
        size = len(tree.pools)
        self._zeros = (0,) * size
        self._ids = tuple(range(size))
        self._none_isolated = (-1,) * size
        self._depth = tuple(-pool.depth for pool in tree.pools)
        self._level = tuple(pool.kind.level for pool in tree.pools)
        # Where no cpu stands out, every cpu is as good as high priority gets.
        self._classes = {
            CpuPriority.HIGH: classes.high or classes.normal,
            CpuPriority.NORMAL: classes.normal,
            CpuPriority.LOW: classes.low,
        }

    def rank(self, request: Request, ledger: Ledger, facts: Facts) -> Ranking:
        """The ranks of all pools for a request. O(pools)."""
        zones = facts.memory.zones()
        dropped = _too_small(request, ledger)
        candidates: list[Rank | Dropped] = []
        feasible: list[Rank] = []
        for rank in ranks(self._contest(request, ledger, facts, zones)):
            zone = zones[rank.pool_id]
            reason = dropped[rank.pool_id]
            if reason is None:
                if isinstance(zone, Dropped):
                    reason = zone
                else:
                    reason = objection(request, ledger, rank.pool_id, zone)
            candidates.append(reason or rank)
            if reason is None:
                feasible.append(rank)
        feasible.sort()
        reason_of_choice = ONLY_CANDIDATE
        if len(feasible) > 1:
            reason_of_choice = decided_by(feasible[0], feasible[1])
        return Ranking(
            candidates=tuple(candidates),
            winner=PoolId(feasible[0].pool_id) if feasible else None,
            decided_by=reason_of_choice,
        )

    def _contest(
        self, request: Request, ledger: Ledger, facts: Facts, zones: Sequence[Zone | Dropped]
    ) -> Contest:
        room = ledger.room.shared_milli
        part = request.shared_milli
        if not request.exclusive:
            part = max(part, 1)
        whole = part + 1000 * request.exclusive
        isolated: Sequence[int] = self._none_isolated
        if request.wants_isolated:
            isolated = [mask.bit_count() - request.exclusive for mask in ledger.free_isolated]
        # Isolated cpus are no sharable ones: where they serve, only the rest is taken from those.
        shared = [
            milli - (part if count >= 0 else whole)
            for milli, count in zip(room, isolated, strict=True)
        ]
        wanted = self._burst_level(request)
        return Contest(
            request=request,
            zeros=self._zeros,
            ids=self._ids,
            depth=self._depth,
            inward=[level - wanted for level in self._level],
            room=room,
            shared=shared,
            isolated=isolated,
            zones=[_NO_ZONE if isinstance(zone, Dropped) else zone for zone in zones],
            affinities=facts.affinities,
            hints=facts.hints,
            misfits_class=facts.misfits_class,
            neighbours=ledger.neighbours(CpuType.NORMAL),
            free_of_priority=self._free_of_priority(request, ledger),
        )

    def _free_of_priority(self, request: Request, ledger: Ledger) -> Sequence[int]:
        cpus = self._classes.get(request.priority)
        if cpus is None:
            return ()
        return [(free & cpus).bit_count() for free in ledger.free_sharable]

    def _burst_level(self, request: Request) -> int:
        """The deepest level that exists and is not inside the one wanted; the widest else."""
        wanted = _BURST_LEVELS[request.burst_level]
        return max((level for level in self._level if level <= wanted), default=min(self._level))


def _too_small(request: Request, ledger: Ledger) -> list[Dropped | None]:
    """By pool id, why it has not the cpus for a request; None where it has.

    A container that asks for no cpu fits everywhere: it never starves for want of a promise.
    """
    room = ledger.room
    milli = request.shared_milli
    if not request.exclusive:
        return [
            _no_share(milli, left) if left < milli and milli else None
            for left in room.grantable_milli
        ]
    found: list[Dropped | None] = []
    for pool_id, left in enumerate(room.grantable_milli):
        isolated = ledger.free_isolated[pool_id].bit_count()
        reason: Dropped | None = None
        if not (request.wants_isolated and isolated >= request.exclusive):
            left -= 1000 * request.exclusive
            sliceable = room.sliceable[pool_id]
            if request.isolation is Isolation.REQUIRED:
                reason = Dropped("isolated cpus", str(request.exclusive), str(isolated))
            elif sliceable < request.exclusive:
                reason = Dropped("exclusive cpus", str(request.exclusive), str(sliceable))
        if reason is None and milli and left < milli:
            reason = _no_share(milli, left)
        found.append(reason)
    return found


def _no_share(wanted_milli: int, left_milli: int) -> Dropped:
    return Dropped("shared cpu", f"{wanted_milli}m", f"{max(left_milli, 0)}m")
