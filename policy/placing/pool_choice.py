"""Choosing a pool: which pools are feasible for a request, and the rank of each of them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from ..books.cpu_ledger import Ledger
from ..cpus.cpu_priority import PriorityClasses
from ..memory.memory_choice import MemoryChoice, ZoneSummary
from ..model.container import ContainerId
from ..model.cpu_preference import BurstLevel, CpuPriority
from ..model.grant import Dropped, PoolId
from ..model.request import CpuType, Isolation, Request
from ..pools.pool_tree import Pool, PoolTree
from ..pools.sieve import grades, ids_of
from .choice import choose_from
from .hint_demand import objection
from .lineup import MILLI, Demand, Lineup
from .openings.openings import Openings
from .rank import Column, Contest, burst_distances

ONLY_CANDIDATE: Final = "only_candidate"
"""What decides where there is no second pool to compare with."""

_BURST_LEVELS: Final = {level: number for number, level in enumerate(BurstLevel, start=1)}
_NO_ZONE: Final = ZoneSummary(0, 0, is_exact=False)


class Facts(Struct, frozen=True, kw_only=True):
    """Facts of the pools for one request, beside their cpus. Sequences are by pool id."""

    memory: MemoryChoice
    affinities: Sequence[int]
    """Scaled sums, greater is nearer to friends; empty where nobody draws or repels it."""
    hints: Sequence[tuple[int, int]] = ()
    """Product of the hint scores and of the non-zero ones; empty where there are no hints."""
    misfits_class: Sequence[int] = ()
    """1 where the pool's cpus do not suit the cpu class asked for; empty where none was."""
    spared: Collection[ContainerId] = ()
    """Those who keep a cpu of their pool whatever is asked for, though they asked for none."""


class Ranking(Struct, frozen=True, kw_only=True):
    """The pool that won (None where none is feasible), why, and against which others."""

    winner: PoolId | None
    decided_by: str
    lineup: Lineup


class Chooser:
    """Ranks the pools of one tree."""

    def __init__(self, tree: PoolTree, classes: PriorityClasses) -> None:
        """Precomputes what never changes about the pools."""
        size = len(tree.pools)
        self._zeros = (0,) * size
        self._ids = tuple(range(size))
        self._names = tuple(pool.name for pool in tree.pools)
        self._none_isolated = (-1,) * size
        self._depth = tuple(-pool.depth for pool in tree.pools)
        self._depth_grades = grades(self._depth)
        self._around = tuple(_around(pool) for pool in tree.pools)
        self._inward = {level: _inward(tree, level) for level in BurstLevel}
        self._burst_grades = {
            level: grades(burst_distances(inward)) for level, inward in self._inward.items()
        }
        # Where no cpu stands out, every cpu is as good as high priority gets.
        self._classes = {
            CpuPriority.HIGH: classes.high or classes.normal,
            CpuPriority.NORMAL: classes.normal,
            CpuPriority.LOW: classes.low,
        }

    def lineup(self, request: Request, ledger: Ledger, facts: Facts) -> Lineup:
        """All pools as candidates for a request, as far as no rules are asked. O(pools)."""
        zones, room = facts.memory.zones(), ledger.room
        contest = self._contest(request, ledger, facts, zones, room.shared_milli)
        return Lineup(
            contest=contest,
            names=self._names,
            demands=_demands(request, ledger, room.grantable_milli, contest.isolated),
            zones=zones,
            strict=_objections(request, ledger, zones) if request.is_strict else {},
        )

    def best(self, lineup: Lineup) -> Ranking:
        """The best pool of a lineup. O(pools)."""
        feasible = lineup.feasible_pools()
        if not feasible:
            return Ranking(winner=None, decided_by="", lineup=lineup)
        if feasible.bit_count() == 1:
            winner = ids_of(feasible, self._ids)[0]
            return Ranking(winner=PoolId(winner), decided_by=ONLY_CANDIDATE, lineup=lineup)
        winner, decided_by, rivals = choose_from(lineup.contest, feasible)
        lineup = replace(lineup, rivals=rivals)
        return Ranking(winner=PoolId(winner), decided_by=decided_by, lineup=lineup)

    def _contest(
        self,
        request: Request,
        ledger: Ledger,
        facts: Facts,
        zones: Sequence[ZoneSummary | Dropped],
        room: Column,
    ) -> Contest:
        part = request.shared_milli
        if not request.exclusive:
            part = max(part, 1)
        whole = part + 1000 * request.exclusive
        isolated: Sequence[int] = self._none_isolated
        shared: Sequence[int] = ()
        if request.exclusive and request.wants_isolated:
            isolated = [mask.bit_count() - request.exclusive for mask in ledger.free_isolated]
            # Isolated cpus are no sharable ones: where they serve, only the rest is taken of those.
            pairs = zip(room, isolated, strict=True)
            shared = [milli - (part if count >= 0 else whole) for milli, count in pairs]
        free_of_priority: Sequence[int] = ()
        if (cpus := self._classes.get(request.priority)) is not None:
            free_of_priority = [(free & cpus).bit_count() for free in ledger.free_sharable]
        is_usual = facts.memory.are_usual
        return Contest(
            request=request,
            zeros=self._zeros,
            ids=self._ids,
            depth=self._depth,
            inward=self._inward[request.burst_level],
            around=self._around,
            room=room,
            whole_milli=whole,
            shared=shared,
            isolated=isolated,
            # Of a usual request it is known without a look at each.
            zones=zones
            if is_usual(zones) or _are_known(zones)
            else [_zone_of(one) for one in zones],
            affinities=facts.affinities,
            hints=facts.hints,
            misfits_class=facts.misfits_class,
            neighbours=tuple(ledger.neighbours(CpuType.NORMAL)),
            free_of_priority=free_of_priority,
            has_usual_memory=is_usual(zones),
            depth_grades=self._depth_grades,
            burst_grades=self._burst_grades[request.burst_level],
            node_grades=facts.memory.usual_node_grades if is_usual(zones) else (),
        )


def within_rules(lineup: Lineup, openings: Openings) -> Lineup:
    """The lineup with what rules between containers say of the pools."""
    contest = replace(
        lineup.contest,
        preferred=openings.preferred,
        unmet=openings.unmet,
        unmet_of_others=openings.unmet_of_others,
        narrowed=openings.narrowed,
    )
    return replace(lineup, contest=contest, rules=openings.dropped)


def _are_known(zones: Sequence[ZoneSummary | Dropped]) -> TypeGuard[Sequence[ZoneSummary]]:
    """Whether every pool has a zone, as most of the time."""
    return Dropped not in set(map(type, zones))


def _zone_of(zone: ZoneSummary | Dropped) -> ZoneSummary:
    return _NO_ZONE if isinstance(zone, Dropped) else zone


def _inward(tree: PoolTree, level: BurstLevel) -> Column:
    """Levels of each pool inside the deepest level that exists and is not inside this one.

    The widest that exists stands in where there is no such level.
    """
    levels = [pool.kind.level for pool in tree.pools]
    highest = _BURST_LEVELS[level]
    wanted = max((one for one in levels if one <= highest), default=min(levels))
    return tuple(one - wanted for one in levels)


def _around(pool: Pool) -> int:
    if pool.height > 1:
        return -1
    return pool.id if pool.height or pool.parent is None else pool.parent


def _demands(
    request: Request, ledger: Ledger, left: Column, isolated: Column
) -> tuple[Demand, ...]:
    """Demands on a pool's cpus. `left`: milli-cpus that can be granted.

    `isolated`: those cpus after the request, -1 where they do not serve.
    A container that asks for no cpu fits everywhere: it never starves for want of a promise.
    """
    count, milli = request.exclusive, request.shared_milli
    demands: list[Demand] = []
    is_plain = ledger.narrowed.is_empty
    if count:
        sliceable: Sequence[int] = ledger.room.sliceable
        milli_taken = 1000 * count
        if not is_plain:
            sliceable = ledger.spare_cpus.sliceable_up_to(count, sliceable)
        if not request.wants_isolated:
            demands.append(Demand("exclusive CPUs", count, sliceable))
            if milli:
                left = [other - milli_taken for other in left]
        else:
            if request.isolation is Isolation.REQUIRED:
                own = Demand("isolated CPUs", count, [one + count for one in isolated])
            else:
                serving = zip(isolated, sliceable, strict=True)
                whole = [one + count if one >= 0 else other for one, other in serving]
                own = Demand("exclusive CPUs", count, whole)
            demands.append(own)
            pairs = zip(isolated, left, strict=True)
            left = [other if one >= 0 else other - milli_taken for one, other in pairs]
    if milli:
        if not is_plain:
            left_isolated = isolated if request.wants_isolated else (-1,) * len(left)
            counts = [0 if one >= 0 else count for one in left_isolated]
            milli_left = ledger.spare_cpus.grantable_up_to(milli, counts, left)
            return (*demands, Demand("shared CPU", milli, milli_left, MILLI))
        demands.append(Demand("shared CPU", milli, left, MILLI))
    return tuple(demands)


def _objections(
    request: Request, ledger: Ledger, zones: Sequence[ZoneSummary | Dropped]
) -> Mapping[int, Dropped]:
    """By pool id, why a strict container would not be near all its hints."""
    found = {
        pool_id: objection(request, ledger, pool_id, zone)
        for pool_id, zone in enumerate(zones)
        if isinstance(zone, ZoneSummary)
    }
    return {pool_id: one for pool_id, one in found.items() if one is not None}
