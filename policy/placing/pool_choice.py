"""Choosing a pool: which pools are feasible for a request, and the rank of each of them."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from ..books.cpu_ledger import Ledger
from ..cpus.cpu_priority import PriorityClasses
from ..hints.hint_score import scores
from ..memory.memory_choice import MemoryChoice, ZoneSummary
from ..model.container import ContainerId
from ..model.cpu_preference import BurstLevel, CpuPriority
from ..model.grant import Dropped, PoolId
from ..model.request import Isolation, Request
from ..pools.pool_masks import grades, ids_of
from ..pools.pool_tree import Pool, PoolTree
from ..tuning.cpu_class import misfits
from .choice import choose_from
from .hint_demand import objection
from .lineup import MILLI, Demand, Lineup, roomy_pools
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
    """Containers that keep a cpu of their pool whatever is asked for: they asked for none."""


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
        self._depth = tuple(-pool.depth for pool in tree.pools)
        self._depth_grades = grades(self._depth)
        self._around = tuple(_around(pool) for pool in tree.pools)
        self._cpu_to_run_on = _cpu_to_run_on(tree)
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
        demands = _demands(request, ledger, room.grantable_milli, contest.isolated)
        demands = demands or self._cpu_to_run_on
        return Lineup(
            contest=contest,
            names=self._names,
            demands=demands,
            zones=zones,
            # With rules and without them it is asked several times.
            roomy=roomy_pools(demands, len(self._ids)),
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
        isolated: Sequence[int] = ()
        shared: Sequence[int] = ()
        if request.exclusive and request.may_take_isolated(ledger.free_isolated[-1]):
            isolated = [mask.bit_count() - request.exclusive for mask in ledger.free_isolated]
            shared = _shared_beside(isolated, room, whole, request.exclusive)
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
            neighbours=tuple(ledger.neighbours),
            free_of_priority=self._free_of_priority(request, ledger.free_sharable),
            has_usual_memory=is_usual(zones),
            depth_grades=self._depth_grades,
            burst_grades=self._burst_grades[request.burst_level],
            node_grades=facts.memory.usual_node_grades if is_usual(zones) else (),
        )

    def _free_of_priority(self, request: Request, free: Sequence[int]) -> Sequence[int]:
        cpus = self._classes.get(request.priority)
        return () if cpus is None else [(one & cpus).bit_count() for one in free]

    def within_rules(self, lineup: Lineup, openings: Openings, ledger: Ledger) -> Lineup:
        """The lineup with what rules between containers say of the pools.

        What a container is to be near, or to have of its own, counts on the cpus that they leave.
        """
        contest = replace(
            lineup.contest,
            preferred=openings.preferred,
            unmet=openings.unmet,
            unmet_of_others=openings.unmet_of_others,
            narrowed=openings.narrowed,
        )
        if openings.regions is not ledger.tree.masks:
            contest = self._within_regions(contest, openings.regions, ledger)
        return replace(lineup, contest=contest, rules=openings.dropped)

    def _within_regions(self, contest: Contest, regions: Sequence[int], ledger: Ledger) -> Contest:
        request = contest.request
        if contest.hints:
            contest = replace(contest, hints=_hints_within(contest, ledger.tree, regions))
        if request.exclusive and request.may_take_isolated(ledger.free_isolated[-1]):
            free = map(int.__and__, ledger.free_isolated, regions)
            isolated = [mask.bit_count() - request.exclusive for mask in free]
            shared = _shared_beside(isolated, contest.room, contest.whole_milli, request.exclusive)
            contest = replace(contest, isolated=isolated, shared=shared)
        suitable = request.class_cpus if request.exclusive else None
        if contest.free_of_priority or suitable is not None:
            left = list(map(int.__and__, ledger.free_sharable, regions))
            contest = replace(
                contest,
                free_of_priority=self._free_of_priority(request, left),
                misfits_class=()
                if suitable is None
                else misfits(left, request.exclusive, suitable),
            )
        return contest


class Candidates:
    """The pools as candidates for one request, with numbers as exact as it takes to choose.

    What a pool has left beside narrowed shares takes long to tell. It is never more than its own
    numbers say, so where these are enough only the pool that would win is looked at.
    """

    def __init__(self, chooser: Chooser, request: Request, ledger: Ledger, facts: Facts) -> None:
        self._chooser = chooser
        self._request = request
        self._ledger = ledger
        self._rough = chooser.lineup(request, ledger, facts)
        self._exact = self._rough if ledger.narrowed.is_empty else None
        ledger.spare_cpus.rest()

    @property
    def lineup(self) -> Lineup:
        """The lineup with what every pool has left. O(pools x sets of cpus) when first asked."""
        if self._exact is None:
            rough = self._rough
            isolated = rough.contest.isolated
            demands = _exact_demands(self._request, self._ledger, rough.demands, isolated)
            self._exact = replace(rough, demands=demands, roomy=None)
        return self._exact

    @cached_property
    def roomy(self) -> Sequence[int]:
        """By pool id 1 where it has enough by its own numbers, else 0: there nothing ever fits."""
        return self._rough.roomy_pools().to_bytes(len(self._rough.names), "little")

    @cached_property
    def rivals(self) -> Sequence[int]:
        """By pool id 1 where nothing speaks against it by its own numbers, else 0."""
        return self._rough.feasible_pools().to_bytes(len(self._rough.names), "little")

    def has_any(self, openings: Openings | None = None) -> bool:
        """Whether some pool of those that rules leave, where they count, has what is asked for."""
        if self._exact is not None:
            return bool(self.within(openings).feasible_pools())
        rough = self._rough if openings is None else self._within(self._rough, openings)
        # The wide ones first: most likely they have it.
        return any(map(self._has_room, map(PoolId, reversed(rough.feasible()))))

    def within(self, openings: Openings | None) -> Lineup:
        """The exact lineup with what rules say, where they count."""
        return self.lineup if openings is None else self._within(self.lineup, openings)

    def best(self, openings: Openings | None) -> Ranking:
        """The best pool of those that rules leave, where they count. O(pools)."""
        if self._exact is None:
            rough = self._rough if openings is None else self._within(self._rough, openings)
            ranking = self._chooser.best(rough)
            if ranking.winner is None or self._has_room(ranking.winner):
                return ranking
        return self._chooser.best(self.within(openings))

    def _within(self, lineup: Lineup, openings: Openings) -> Lineup:
        return self._chooser.within_rules(lineup, openings, self._ledger)

    def _has_room(self, pool_id: PoolId) -> bool:
        """Whether a pool that has enough by its own numbers has it beside narrowed shares."""
        request, spare = self._request, self._ledger.spare_cpus
        free, count = self._ledger.free_sharable[pool_id], request.exclusive
        isolated = self._rough.contest.isolated
        if isolated and isolated[pool_id] >= 0:
            count = 0
        if not request.shared_milli:
            return spare.takeable(free, count).bit_count() >= count
        return spare.grantable(free, count, request.shared_milli) >= request.shared_milli


def _hints_within(
    contest: Contest, tree: PoolTree, regions: Sequence[int]
) -> Sequence[tuple[int, int]]:
    """The scores of the regions that rules leave of the pools.

    Where none of them is near any hint, those of the smallest pools around them that are.
    """
    found = scores(tree, contest.request.hints, regions)
    if any(map(any, found)):
        return found
    around: list[Pool] = []
    for pool in tree.pools:
        while not any(contest.hints[pool.id]) and pool.parent is not None:
            pool = tree.pools[pool.parent]
        around.append(pool)
    least = min([one.height for one, left in zip(around, regions, strict=True) if left], default=0)
    return [contest.hints[one.id] if one.height == least else (0, 0) for one in around]


def _shared_beside(isolated: Column, room: Column, whole_milli: int, exclusive: int) -> Column:
    """The sharable milli-cpus that a request for isolated cpus leaves of each pool.

    Isolated cpus are no sharable ones: where they serve, only the rest is taken of those.
    """
    part = whole_milli - 1000 * exclusive
    pairs = zip(room, isolated, strict=True)
    return [milli - (part if count >= 0 else whole_milli) for milli, count in pairs]


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


def _cpu_to_run_on(tree: PoolTree) -> tuple[Demand, ...]:
    """The demand of who asks for no cpu, on a machine with pools that have none for containers.

    There it would run on cpus of others, far from the memory of the pool.
    """
    sharable = tuple(len(pool.sharable) for pool in tree.pools)
    if all(sharable) or not tree.root.sharable:
        return ()
    return (Demand("sharable CPUs", 1, sharable),)


def _demands(
    request: Request, ledger: Ledger, left: Column, isolated: Column
) -> tuple[Demand, ...]:
    """Demands on a pool's cpus. `left`: milli-cpus that can be granted.

    `isolated`: those cpus after the request, negative where they do not serve.
    A container that asks for no cpu fits wherever some are: it never starves for want of a promise.
    """
    count, milli = request.exclusive, request.shared_milli
    demands: list[Demand] = []
    if count:
        sliceable, milli_taken = ledger.room.sliceable, 1000 * count
        demands.append(_own_demand(request, sliceable, isolated))
        if not milli:
            pass
        elif not isolated:
            left = [other - milli_taken for other in left]
        else:
            pairs = zip(isolated, left, strict=True)
            left = [other if one >= 0 else other - milli_taken for one, other in pairs]
    if milli:
        demands.append(Demand("shared CPU", milli, left, MILLI))
    return tuple(demands)


def _exact_demands(
    request: Request, ledger: Ledger, demands: Sequence[Demand], isolated: Column
) -> tuple[Demand, ...]:
    """Demands with what the pools have left beside narrowed shares."""
    count, milli, spare = request.exclusive, request.shared_milli, ledger.spare_cpus
    if not (count or milli):
        return tuple(demands)
    found: list[Demand] = []
    if count:
        sliceable = spare.sliceable_up_to(count, ledger.room.sliceable)
        found.append(_own_demand(request, sliceable, isolated))
    if milli:
        left = demands[-1].available
        counts = [0 if one >= 0 else count for one in isolated] or [count] * len(left)
        left = spare.grantable_up_to(milli, counts, left)
        found.append(Demand("shared CPU", milli, left, MILLI))
    return tuple(found)


def _own_demand(request: Request, sliceable: Column, isolated: Column) -> Demand:
    count = request.exclusive
    if request.isolation is Isolation.REQUIRED:
        return Demand("isolated CPUs", count, [one + count for one in isolated])
    if not isolated:
        return Demand("exclusive CPUs", count, sliceable)
    serving = zip(isolated, sliceable, strict=True)
    whole = [one + count if one >= 0 else other for one, other in serving]
    return Demand("exclusive CPUs", count, whole)


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
