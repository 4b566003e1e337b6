"""Routes from one placement to another: single moves, each of which is legal where it is taken.

Two containers cannot change places at once. Whoever is in the way of others steps aside first, and
goes on from there: on shared cpus into a wider pool, as when room is made for a newcomer.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ...model.container import ContainerId
from ...model.grant import Grant, PoolId
from ...model.move_purpose import MovePurpose
from ...model.pinning import Pinning
from ..decision import Decision
from ..engine import Engine
from ..replacing.asked_move import AskedMove
from .model import PlacementModel

_REFUSALS_MAX: Final = 2
"""A container that the ledgers refuse so often stays where it is."""


class RouteStep(NamedTuple):
    """One move that was made on the trial engine."""

    container_id: ContainerId
    before: Grant
    told: Pinning | None
    """The pinning of the container before it."""
    decision: Decision
    pool_id: PoolId
    gain: int
    purpose: MovePurpose
    mends: tuple[str, ...] = ()
    """Unmet rules with their owners that hold afterwards."""
    breaks: tuple[str, ...] = ()
    """Rules with their owners that are told as unmet afterwards, and were not before."""
    awaited: tuple[ContainerId, ...] = ()
    """Containers that have to be with it, and come after it: all of them go, or none."""

    @property
    def asked(self) -> AskedMove:
        """The move, as it is asked for."""
        return AskedMove(self.pool_id, self.purpose, self.awaited)


class Route:
    """Steps on a trial engine and on the model beside it, which are in the same placement."""

    def __init__(self, trial: Engine, model: PlacementModel, targets: Mapping[int, int]) -> None:
        """`targets`: by the number of a container in the model the pool where it is to go."""
        self._trial = trial
        self._model = model
        self._pending = {
            index: target for index, target in targets.items() if model.place[index] != target
        }
        self._refusals: dict[int, int] = {}
        self._has_stepped_aside: set[int] = set()

    def steps(self) -> Iterator[RouteStep]:
        """The containers that were moved, in order, each with what that gains.

        Those with most to gain go first among those for whom there is room.
        """
        while self._pending:
            has_moved = False
            for index in self._by_gain():
                if index in self._pending:
                    step = self._step(index, self._pending[index])
                    if step is not None:
                        has_moved = True
                        self._pending.pop(index, None)
                        yield step
            if not has_moved:
                step = self._step_aside()
                if step is not None:
                    yield step
                elif self._pending:
                    # Nobody can make room for it: the least is lost by the one that gains least.
                    del self._pending[self._by_gain()[-1]]
        yield from self._last_steps()

    def _by_gain(self) -> list[int]:
        gains = {index: self._gain(index, target) for index, target in self._pending.items()}
        return sorted(gains, key=lambda index: (-gains[index], index))

    def _gain(self, index: int, target: int) -> int:
        model = self._model
        return model.worth(index, target) - model.worth(index, model.place[index])

    def _step(self, index: int, target: int) -> RouteStep | None:
        model = self._model
        if not model.fits(index, target):
            return None
        container_id = model.tenants[index].id
        before, told = self._trial.grants[container_id], self._trial.pinning(container_id)
        gain = self._gain(index, target)
        purpose = self._purpose(index, target, gain)
        decision = self._trial.move(container_id, PoolId(target), purpose)
        if not isinstance(decision.result, Grant):
            self._refusals[index] = self._refusals.get(index, 0) + 1
            if self._refusals[index] >= _REFUSALS_MAX:
                self._pending.pop(index, None)
            return None
        model.move(index, target)
        return RouteStep(container_id, before, told, decision, PoolId(target), gain, purpose)

    def _purpose(self, index: int, target: int, gain: int) -> MovePurpose:
        if gain > 0:
            return MovePurpose.WISHES
        is_narrowed = not gain and target in self._model.tenants[index].narrower
        return MovePurpose.ONE_NUMA_NODE if is_narrowed else MovePurpose.ASIDE

    def _step_aside(self) -> RouteStep | None:
        """The step of a container that is to leave a pool which others wait for."""
        model, pending = self._model, self._pending
        for waiting in self._by_gain():
            if waiting not in pending:
                # It was refused for good as it was to make room for another.
                continue
            need = model.shortage(waiting, pending[waiting])
            inside = [
                index
                for index in model.members[pending[waiting]]
                if index in pending and index not in self._has_stepped_aside
            ]
            for index in sorted(inside, key=lambda one: self._help(one, need)):
                self._has_stepped_aside.add(index)
                for pool_id in self._asides(index):
                    step = self._step(index, pool_id)
                    if step is not None:
                        return step
                    if index not in pending:
                        break
        return None

    def _help(self, index: int, need: int) -> tuple[bool, int, int]:
        """The smallest container that gives enough room comes first, else the largest."""
        milli = self._model.tenants[index].milli
        return (milli < need, milli if milli >= need else -milli, index)

    def _asides(self, index: int) -> list[int]:
        """Where a container can wait.

        On shared cpus in the smallest pool that holds both its pool and that where it is to go:
        there is always room, and its memory stays where it is. With cpus of its own in another
        pool with room.
        """
        model = self._model
        tenant, source = model.tenants[index], model.place[index]
        if not tenant.has_own_cpus:
            around = model.chains[self._pending[index]]
            return [next(one for one in model.chains[source] if one in around)]
        worths: dict[int, int] = {
            pool_id: model.worth(index, pool_id)
            for pool_id in tenant.targets
            if pool_id != source and model.fits(index, pool_id)
        }
        return sorted(worths, key=lambda one: (-worths[one], one))

    def _last_steps(self) -> Iterator[RouteStep]:
        """Single moves that still gain something: not everybody may be where it was to go."""
        model = self._model
        has_moved = True
        while has_moved:
            has_moved = False
            gains = {index: self._best(index) for index in model.movable}
            for index in sorted(gains, key=lambda one: (-gains[one][0], one)):
                # Others may have moved since, or taken the room.
                gain, target = self._best(index)
                if gain > 0 and self._refusals.get(index, 0) < _REFUSALS_MAX:
                    step = self._step(index, target)
                    if step is not None:
                        has_moved = True
                        yield step

    def _best(self, index: int) -> tuple[int, int]:
        """The most that a move of one container gains, and the pool; no gain where it stays."""
        model = self._model
        source = model.place[index]
        best = (0, source)
        if model.has_wishes(index):
            here = model.worth(index, source)
            pairs = zip(model.worths(index), model.tenants[index].targets, strict=True)
            for worth, target in pairs:
                gain = worth - here
                if gain > best[0] and model.fits(index, target):
                    best = (gain, target)
        return best
