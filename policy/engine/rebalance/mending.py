"""Mending: moves after which required rules hold that are told as unmet.

Of the container at which one is told, or of those that it names as being in the way, or too far.
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import count, takewhile
from typing import Final

from msgspec import Struct

from ...model.container import ContainerId
from ...model.grant import PoolId
from ..engine import Engine
from ..replacing.companies import movable_ids
from ..replacing.joint_replacement import make_move
from ..replacing.unmet_names import in_the_way, unmet_after, unmet_names
from ..snapshot import Snapshot
from .mending_moves import TRIES_OF_COPY, MendingMoves
from .model import PlacementModel
from .placement_score import PlacementObjective
from .route import RouteStep
from .search import Effort, improve
from .tenants import placement_model

_TRIES_MAX: Final = 256
"""So often a plan asks whether rules of some container would hold elsewhere.

And so often whether one that is in the way of others would go.
"""
_TOGETHER_EFFORT_MAX: Final = 128_000
"""So many times are containers in the way of moves of some that go together, which are tried."""
_WAYS_MAX: Final = 128
"""So many ways to mend are compared at most."""
_TRIES_COMPARED_MAX: Final = 4000
"""For that so many places are asked for at most."""
_TRY_EFFORT_MAX: Final = 60_000
"""And so many times are containers in the way of that, together."""
_STEPS_PER_CONTAINER: Final = 100
"""A way takes as long as so many steps of the search that follows, for each container."""
_ANNEALED_MAX: Final = 16
"""For so few containers a way is judged by more than the next better places."""
_ASIDE_MAX: Final = 3
"""So many containers make room for one."""
_KEPT: Final = 3
"""So many ways are gone on with."""
_COMPARED_MAX: Final = 100
"""Of more containers one, which takes long enough."""


class Mended(Struct, frozen=True, kw_only=True):
    """A way to mend: the moves of it, and the node after them."""

    steps: tuple[RouteStep, ...]
    snapshot: Snapshot
    unmet: int
    """The number of rules that do not hold then."""


class _Way(Struct, frozen=True, kw_only=True):
    """Moves that were made on an engine of their own."""

    engine: Engine
    steps: tuple[RouteStep, ...]
    model: PlacementModel
    """The placement after them."""
    unmet: int
    promise: int
    """The satisfied weight that can follow, as far as a short look tells."""

    @property
    def order(self) -> tuple[int, int, int]:
        """The least is the best way."""
        return (self.unmet, -self.promise, len(self.steps))


class Mending:
    """Ways to mend, each step of which takes a container to where rules hold, or makes room.

    None breaks a rule. Pens stay where they are.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        objective: PlacementObjective,
        *,
        exclusive: bool,
        moves: int | None,
        search_steps: int,
    ) -> None:
        """`exclusive`: whether containers with exclusive cpus are moved, too; `moves`: at most."""
        self._snapshot = snapshot
        self._objective = objective
        self._exclusive = exclusive
        self._moves = len(snapshot.grants) * _ASIDE_MAX if moves is None else moves
        grants = snapshot.grants
        self._waiting = movable_ids(snapshot, moves_exclusive=exclusive)
        self._ids = {snapshot.containers[one].path: one for one in self._waiting}
        size = max(len(grants), 1)
        self._tries_left = min(_TRIES_COMPARED_MAX, _TRY_EFFORT_MAX // size)
        self._steps = MendingMoves(snapshot, objective, self._waiting)
        self._steps.tries_left = self._tries_left
        self._tries_together = min(_TRIES_MAX, _TOGETHER_EFFORT_MAX // size)
        self._ways_left = min(_WAYS_MAX, search_steps // (_STEPS_PER_CONTAINER * size))

    def best(self) -> Sequence[Mended]:
        """The best ways, the best one first: those that mend most, then those of most weight.

        What many containers might do is not compared: they go where the policy places them.
        """
        ways = self._compared()
        are_few = len(self._snapshot.grants) <= _COMPARED_MAX
        kept = heapq.nsmallest(_KEPT if are_few else 1, ways, key=lambda one: one.order)
        found = [self._finished(one) for one in kept]
        return [one for one in found if one.steps]

    def _compared(self) -> Sequence[_Way]:
        first = self._way(Engine.of(self._snapshot), ())
        numbers, known = count(), {_places(first.engine)}
        heap = [(first.order, next(numbers), first)]
        ways = [first]
        while heap and self._ways_left > 0:
            _, _, way = heapq.heappop(heap)
            for further in self._further(way):
                if (places := _places(further.engine)) not in known:
                    known.add(places)
                    if further.unmet < way.unmet:
                        # Else it is one of several in the way who is gone, and others have to go.
                        ways.append(further)
                    heapq.heappush(heap, (further.order, next(numbers), further))
        return ways

    def _further(self, way: _Way) -> Iterator[_Way]:
        """The ways that move one container more; those first for which nobody makes room."""
        pools, rest = way.engine.tree.pools, list[tuple[ContainerId, int, PoolId]]()
        trial = Engine.of(way.engine.snapshot())
        told = [one for one in self._waiting if way.engine.decisions[one].unmet]
        others = [one for some in in_the_way(way.engine, self._ids) for one in some]
        for container_id in dict.fromkeys((*told, *others)):
            index = _index(way.model, container_id)
            widest = pools[way.engine.grants[container_id].pool_id].height
            for pool in pools:
                if pool.height > widest:
                    continue
                if self._ways_left <= 0 or self._tries_left <= 0 or len(way.steps) >= self._moves:
                    return
                if way.model.shortage(index, pool.id):
                    rest.append((container_id, index, pool.id))
                    continue
                self._tries_left -= 1
                moves = self._moves - len(way.steps)
                after, steps = self._steps.some(trial, container_id, pool.id, moves)
                if steps:
                    self._ways_left -= 1
                    yield self._way(after, (*way.steps, *steps))
                    after = Engine.of(way.engine.snapshot())
                trial = after
        for container_id, index, pool_id in rest:
            if self._ways_left <= 0:
                return
            self._ways_left -= 1
            found = self._with_room(way, container_id, index, pool_id)
            if found is not None:
                yield found

    def _with_room(
        self, way: _Way, container_id: ContainerId, index: int, pool_id: PoolId
    ) -> _Way | None:
        """A way that goes on with a container in a pool once others make room."""
        trial = Engine.of(way.engine.snapshot())
        aside = tuple(self._aside(trial, index, pool_id))
        if not aside:
            return None
        moves = self._moves - len(way.steps) - len(aside)
        trial, made = self._steps.some(trial, container_id, pool_id, moves)
        steps = (*way.steps, *aside, *made, *(self._onward(trial, aside) if made else ()))
        return self._way(trial, steps) if made and len(steps) <= self._moves else None

    def _aside(self, trial: Engine, index: int, pool_id: int) -> Iterator[RouteStep]:
        """The steps of containers that make room in a pool: where least is lost by it."""
        model = self._model(trial)
        for _ in range(_ASIDE_MAX):
            need = model.shortage(index, pool_id)
            if not need:
                return
            entered = model.path(model.place[index], pool_id).entered
            short = [one for one in entered if model.room[one] < model.tenants[index].milli]
            found = self._asides(model, short[-1], need)
            for _, other, target in sorted(found):
                step = self._steps.one(trial, model.tenants[other].id, PoolId(target))
                if step is not None:
                    model.move(other, target)
                    yield step
                    break
            else:
                return

    def _asides(
        self, model: PlacementModel, around: int, need: int
    ) -> Iterator[tuple[tuple[bool, bool, int, int], int, int]]:
        """The moves out of a pool, each with how well it suits.

        Whoever finds no room elsewhere waits on the shared cpus of a wider pool: see `Route`.
        """
        for other in model.movable:
            source = model.place[other]
            if around not in model.chains[source]:
                continue
            tenant, here = model.tenants[other], model.worth(other, source)
            wider = () if tenant.has_own_cpus else model.chains[around][1:2]
            for target in (*tenant.targets, *wider):
                if around not in model.chains[target] and model.fits(other, target):
                    loss = here - model.worth(other, target)
                    waits = target in wider
                    yield (tenant.milli < need, waits, loss, tenant.milli), other, target

    def _onward(self, trial: Engine, aside: Sequence[RouteStep]) -> Iterator[RouteStep]:
        """The steps of containers that waited in a wider pool, to where there is room by now."""
        pools = trial.tree.pools
        for one in aside:
            if pools[one.pool_id].height <= pools[one.before.pool_id].height:
                continue
            model = self._model(trial)
            index = _index(model, one.container_id)
            worths = {
                target: model.worth(index, target)
                for target in model.tenants[index].targets
                if model.fits(index, target)
            }
            for target in sorted(worths, key=lambda it: (-worths[it], it)):
                step = self._steps.one(trial, one.container_id, target)
                if step is not None:
                    yield step
                    break

    def _model(self, engine: Engine) -> PlacementModel:
        return placement_model(engine.snapshot(), self._objective, moves_exclusive=self._exclusive)

    def _finished(self, way: _Way) -> Mended:
        """A way with what else the policy finds a place for by itself.

        It ends where a rule is mended: whoever leaves others in the way of one goes for nothing.
        And before a step that drives somebody to where another rule breaks; but whoever may stay
        for that stays, and others go on.
        """
        steps, trial, tries = [*way.steps], way.engine, _TRIES_MAX
        staying = set[ContainerId]()
        self._cleared_left = _TRIES_MAX
        self._steps.tries_left = self._tries_together
        has_moved = True
        while has_moved:
            has_moved = False
            for container_id in self._waiting:
                is_told = trial.decisions[container_id].unmet and container_id not in staying
                if not is_told or tries <= 0:
                    continue
                if len(steps) >= self._moves:
                    break
                tries -= 1
                earlier, moves = trial.snapshot(), self._moves - len(steps)
                trial, found = self._steps.some(trial, container_id, None, moves)
                if any(one.breaks for one in found):
                    # Others may be mended all the same.
                    tries, trial = tries - TRIES_OF_COPY, Engine.of(earlier)
                    staying.add(container_id)
                elif found:
                    has_moved = True
                    steps += found
            if not has_moved:
                trial, found = self._cleared(trial, self._moves - len(steps))
                has_moved = bool(found)
                steps += found
        legal = [*takewhile(lambda one: not one.breaks, steps)]
        chosen = len(way.steps) if len(way.steps) <= len(legal) else 0
        kept = max(chosen, _mending_length(legal))
        if kept < len(steps):
            steps = steps[:kept]
            trial = self._made(steps)
        return Mended(steps=tuple(steps), snapshot=trial.snapshot(), unmet=_unmet_count(trial))

    def _made(self, steps: Sequence[RouteStep]) -> Engine:
        """An engine on which some steps were made."""
        trial = Engine.of(self._snapshot)
        for one in steps:
            make_move(trial, one.container_id, one.asked)
            unmet_after(trial, one.container_id)
        return trial

    def _cleared(self, engine: Engine, moves: int) -> tuple[Engine, Sequence[RouteStep]]:
        """The moves of all who are in the way of one rule, and the engine on which they were made.

        It may be this one, or a copy. None where no rule can be mended by it.
        """
        copied: Engine | None = None
        for some in in_the_way(engine, self._ids):
            if len(some) > moves or self._cleared_left < len(some):
                continue
            if any(engine.decisions[one].unmet for one in some):
                # It has been tried.
                continue
            trial, steps = engine, list[RouteStep]()
            if len(some) > 1:
                if copied is None:
                    copied = Engine.of(engine.snapshot())
                    self._cleared_left -= TRIES_OF_COPY
                trial = copied
            for one in some:
                if any(one == step.container_id for step in steps):
                    # It went together with another one.
                    continue
                self._cleared_left -= 1
                trial, found = self._steps.some(trial, one, None, moves - len(steps))
                if not found:
                    break
                steps += found
            else:
                return trial, steps
            if len(some) > 1:
                copied = None if steps else trial
            else:
                engine = trial
        return engine, ()

    def _way(self, engine: Engine, steps: tuple[RouteStep, ...]) -> _Way:
        model = self._model(engine)
        promise = 0
        if not self._objective.is_empty and self._ways_left > 0:
            places, movable = list(model.place), len(model.movable)
            effort = Effort(steps=100 * movable if movable <= _ANNEALED_MAX else 0)
            promise = model.score() + improve(model, effort)
            model.put(places)
        return _Way(
            engine=engine,
            steps=steps,
            model=model,
            unmet=_unmet_count(engine),
            promise=promise,
        )


def _index(model: PlacementModel, container_id: ContainerId) -> int:
    return next(number for number, one in enumerate(model.tenants) if one.id == container_id)


def _places(engine: Engine) -> frozenset[tuple[ContainerId, PoolId, int]]:
    """The places of all containers, as far as they differ for rules."""
    return frozenset(
        (one, grant.pool_id, grant.within.mask if grant.within else 0)
        for one, grant in engine.grants.items()
    )


def _mending_length(steps: Sequence[RouteStep]) -> int:
    """The number of steps up to the last that mends; with all that come after one of these."""
    length, mends = 0, False
    for number, one in enumerate(steps, start=1):
        mends |= bool(one.mends)
        if mends and not one.awaited:
            length, mends = number, False
    return length


def _unmet_count(engine: Engine) -> int:
    """The number of rules that are told as unmet, one that both sides are told of once."""
    return len(unmet_names(engine.decisions, engine.grants))
