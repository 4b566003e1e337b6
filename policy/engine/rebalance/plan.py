"""Rebalancing: moves that place running containers better than they came to be placed.

Newcomers choose well, and residents stay where history put them. A plan says who would go where, in
an order in which every step is legal by itself: no exclusive cpu is ever shared, nobody is without
cpus, memory fits. It is found on a copy; whoever carries it out asks for the steps one by one.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct, structs

from ....topology.sets.cpuset import CpuSet, NodeSet
from ...model.container import Container, ContainerId
from ...model.grant import Grant, PoolId
from ...model.move_purpose import MovePurpose
from ...model.pinning import Pinning
from ..engine import Engine
from ..snapshot import Snapshot
from .gathering import Gathering
from .mending import Mended, Mending
from .model import PlacementModel
from .placement_score import placement_objective
from .route import Route, RouteStep
from .search import Effort, improve
from .tenants import placement_model

_STEPS_MAX: Final = 300_000
"""Half a dozen seconds for a thousand containers on an ordinary machine."""
_STEPS_PER_CONTAINER: Final = 4000
_QUALITY_STEPS: Final = 100_000


class RebalanceBudget(Struct, frozen=True, kw_only=True):
    """The limits of a plan."""

    moves: int | None = None
    """The most moves; None leaves that open."""
    moves_exclusive: bool = False
    """Whether containers with exclusive cpus are moved, too: their threads lose warm caches."""
    search_steps: int = _STEPS_MAX
    """The most placements that the search tries."""


NO_LIMIT: Final = RebalanceBudget()


class Site(Struct, frozen=True, kw_only=True):
    """The pool, cpus and memory nodes of a container before or after a move."""

    pool: str
    cpus: CpuSet
    mems: NodeSet


class RebalanceMove(Struct, frozen=True, kw_only=True):
    """One step of a plan."""

    container: Container
    pool_id: PoolId
    """Where it goes."""
    before: Site
    after: Site
    gain: int
    """What the score gains; negative where a container only makes room for others."""
    migrated_bytes: int
    """Memory on nodes that it leaves, if its memory is spread evenly over those it has."""
    changed_cpusets: int
    """Containers whose cpusets or memory sets are other ones afterwards, itself included."""
    purpose: MovePurpose
    mends: tuple[str, ...]
    """Required rules with their owners that are told as unmet, and hold afterwards."""
    awaited: tuple[Container, ...]
    """Containers that have to be with it, and come by the next moves: all of these, or none."""


class RebalancePlan(Struct, frozen=True, kw_only=True):
    """Moves in the order in which they are to be made, and the scores around them."""

    score: int
    """The satisfied weight before the first move, in units of 1/`scale`."""
    score_after: int
    scale: int
    moves: tuple[RebalanceMove, ...]

    @property
    def migrated_bytes(self) -> int:
        """The memory that all moves together migrate."""
        return sum(move.migrated_bytes for move in self.moves)

    @property
    def changed_cpusets(self) -> int:
        """The number of times that a container is told other cpus or memory nodes."""
        return sum(move.changed_cpusets for move in self.moves)


def rebalance(snapshot: Snapshot, budget: RebalanceBudget = NO_LIMIT) -> RebalancePlan:
    """The moves that mend unmet rules and raise the satisfied weight, within a budget.

    First whoever is where a required rule does not hold goes where it does, whatever that weighs.
    Then the score never falls: containers that spread over NUMA nodes without need go back to one,
    and parts of cpus become whole ones where these are scarce, both where that costs nothing. The
    same snapshot has the same plan. Takes some seconds for a thousand containers; any thread may
    ask.
    """
    ways = _mended(snapshot, budget)
    if not ways:
        return _improved(snapshot, budget)
    least = min(way.unmet for way in ways)
    plans = [_continued(way, budget) for way in ways if way.unmet == least]
    return max(plans, key=lambda plan: (plan.score_after, -len(plan.moves)))


def _mended(snapshot: Snapshot, budget: RebalanceBudget) -> Sequence[Mended]:
    """The best ways to mend rules which are told as unmet; none where none can be mended."""
    if not any(one.unmet for one in snapshot.decisions.values()):
        return ()
    return Mending(
        snapshot,
        placement_objective(snapshot),
        exclusive=budget.moves_exclusive,
        moves=budget.moves,
        search_steps=budget.search_steps,
    ).best()


def _continued(way: Mended, budget: RebalanceBudget) -> RebalancePlan:
    """The plan that begins with moves that mend."""
    if budget.moves is not None:
        budget = structs.replace(budget, moves=budget.moves - len(way.steps))
    trial, pages = Engine.of(way.snapshot), dict[ContainerId, NodeSet]()
    mending = tuple(_move(trial, step, pages) for step in way.steps)
    further = _improved(way.snapshot, budget)
    return structs.replace(
        further,
        score=further.score - sum(move.gain for move in mending),
        moves=(*mending, *further.moves),
    )


def _improved(snapshot: Snapshot, budget: RebalanceBudget) -> RebalancePlan:
    objective = placement_objective(snapshot)
    model = placement_model(snapshot, objective, moves_exclusive=budget.moves_exclusive)
    score = model.score()
    origin = list(model.place)
    improve(model, effort(model, budget.search_steps))
    _narrow(model)
    _settle_back(model, origin)
    targets = {index: model.place[index] for index in model.movable}
    trial, moves = _route(snapshot, model, origin, targets, budget)
    if budget.moves is not None:
        # A few good moves from here may be better than the first ones of a long way.
        other, few = _route(snapshot, model, origin, {}, budget)
        if sum(move.gain for move in few) > sum(move.gain for move in moves):
            trial, moves = other, few
    moves = (*moves, *_gathered(trial, model, budget, len(moves)))
    return RebalancePlan(
        score=score,
        score_after=score + sum(move.gain for move in moves),
        scale=objective.scale,
        moves=moves,
    )


class PlacementQuality(Struct, frozen=True, kw_only=True):
    """The quality of a placement, beside the best one known for the same containers."""

    score: int
    """The satisfied weight, in units of 1/`scale`."""
    best_known: int
    scale: int


def placement_quality(snapshot: Snapshot) -> PlacementQuality | None:
    """The quality of the placement that a snapshot shows; None where nobody wishes anything.

    The best that a search finds, however the containers would get there: those with exclusive cpus
    may be elsewhere as well.
    """
    objective = placement_objective(snapshot)
    if objective.is_empty:
        return None
    model = placement_model(snapshot, objective, moves_exclusive=True)
    score = model.score()
    best = score + improve(model, effort(model, _QUALITY_STEPS))
    return PlacementQuality(score=score, best_known=best, scale=objective.scale)


def effort(model: PlacementModel, steps_max: int) -> Effort:
    """The effort that suits so many containers."""
    steps = min(steps_max, _STEPS_PER_CONTAINER * len(model.movable))
    return Effort(steps=steps, restarts=4 if len(model.movable) <= 50 else 1)


def _narrow(model: PlacementModel) -> None:
    """Bring containers that spread over NUMA nodes without need back to one, at no cost.

    Whoever is in a wide pool because a friend has a part of it would go there again.
    """
    for index in model.movable:
        tenant, source = model.tenants[index], model.place[index]
        if source != tenant.pool_id or not tenant.narrower:
            continue
        here, drawn = model.worth(index, source), model.pull(index, source)
        worths = {one: model.worth(index, one) for one in tenant.narrower}
        for target in sorted(worths, key=lambda one: (-worths[one], -model.room[one], one)):
            is_as_near = worths[target] >= here and model.pull(index, target) >= drawn
            if is_as_near and model.fits(index, target):
                model.move(index, target)
                break


def _settle_back(model: PlacementModel, origin: Sequence[int]) -> None:
    """Leave everybody in place whose move gains nothing."""
    has_moved = True
    while has_moved:
        has_moved = False
        for index in model.movable:
            source = model.place[index]
            if source == origin[index] or _is_narrowed(model, index, origin[index]):
                continue
            gain = model.worth(index, origin[index]) - model.worth(index, source)
            if gain >= 0 and model.fits(index, origin[index]):
                model.move(index, origin[index])
                has_moved = True


def _is_narrowed(model: PlacementModel, index: int, origin: int) -> bool:
    """Whether a container that was spread is on one NUMA node, and as near to its friends."""
    target = model.place[index]
    is_on_one = target in model.tenants[index].narrower
    return is_on_one and model.pull(index, target) >= model.pull(index, origin)


def _route(
    snapshot: Snapshot,
    model: PlacementModel,
    origin: Sequence[int],
    targets: Mapping[int, int],
    budget: RebalanceBudget,
) -> tuple[Engine, tuple[RebalanceMove, ...]]:
    """The legal steps from the beginning towards some targets, up to where the score is highest.

    With an engine on which they were made.
    """
    model.put(origin)
    trial = Engine.of(snapshot)
    steps = islice(Route(trial, model, targets).steps(), budget.moves)
    pages: dict[ContainerId, NodeSet] = {}
    moves = [_move(trial, step, pages) for step in steps]
    best = length = total = 0
    for number, move in enumerate(moves, start=1):
        total += move.gain
        # There and back again gains nothing either, and is for nothing.
        if total > best or (total == best and move.purpose is MovePurpose.ONE_NUMA_NODE):
            best, length = total, number
    if length < len(moves):
        trial = Engine.of(snapshot)
        for move in moves[:length]:
            trial.move(move.container.id, move.pool_id, move.purpose)
    return trial, tuple(moves[:length])


def _gathered(
    trial: Engine, model: PlacementModel, budget: RebalanceBudget, made: int
) -> tuple[RebalanceMove, ...]:
    """The moves after so many others that make whole cpus of parts of them."""
    model.put([int(trial.grants[one.id].pool_id) for one in model.tenants])
    left = None if budget.moves is None else budget.moves - made
    steps, pages = Gathering(trial, model).steps(), dict[ContainerId, NodeSet]()
    return tuple(_move(trial, step, pages) for step in islice(steps, left))


def _move(trial: Engine, step: RouteStep, pages: dict[ContainerId, NodeSet]) -> RebalanceMove:
    """`pages`: the nodes on which the memory of containers moved so far is."""
    grant = step.decision.result
    assert isinstance(grant, Grant), "a step of a route was granted"
    told = step.told or Pinning()
    before, after = _site(trial, step.before, told), _site(trial, grant, step.decision.pinning)
    held = pages.get(step.container_id, before.mems)
    left = held - after.mems
    # A wider set moves no page; told nothing, the kernel moves none either.
    is_migrated = bool(left) and step.decision.pinning.mems is not None
    pages[step.container_id] = after.mems if is_migrated else held
    own_change = step.decision.pinning.differs_from(told)
    return RebalanceMove(
        container=trial.containers[step.container_id],
        pool_id=step.pool_id,
        before=before,
        after=after,
        gain=step.gain,
        migrated_bytes=grant.memory_bytes * len(left) // len(held) if is_migrated else 0,
        changed_cpusets=own_change + len(step.decision.changes),
        purpose=step.purpose,
        mends=step.mends,
        awaited=tuple(trial.containers[one] for one in step.awaited),
    )


def _site(trial: Engine, grant: Grant, told: Pinning) -> Site:
    pool = trial.tree.pools[grant.pool_id]
    cpus = told.cpus if told.cpus is not None else grant.exclusive or pool.sharable
    return Site(pool=pool.name, cpus=cpus, mems=told.mems or grant.memory)
