"""Gathering: shares go where parts of cpus are left, so that more cpus are whole and free."""

from collections.abc import Iterator
from typing import Final

from ...model.grant import Grant, PoolId
from ...model.move_purpose import MovePurpose
from ..engine import Engine
from ..snapshot import Snapshot
from .model import PlacementModel
from .route import RouteStep

_SCARCE: Final = 8
"""Whole cpus are scarce where fewer than one of so many is free."""
_FAILURES_MAX: Final = 16
"""So many moves are tried in vain: for each of them all that is there is copied."""


class Gathering:
    """Steps after each of which more whole cpus are free, where these are scarce, at no cost.

    By the ledger's own count: what one pool has left may be owed to those in the pools around it.
    """

    def __init__(self, trial: Engine, model: PlacementModel) -> None:
        """An engine to move on, and the model of the same placement, which follows it."""
        self._trial = trial
        self._model = model
        leaves = [pool for pool in trial.tree.pools if not pool.children]
        self._sharable = sum(len(leaf.sharable) for leaf in leaves)

    @property
    def _is_needed(self) -> bool:
        """Whether whole cpus are scarce, and the parts of cpus make at least one more."""
        whole = whole_cpus(self._trial.snapshot())
        root = self._trial.tree.root.id
        return _SCARCE * whole < self._sharable and self._model.room[root] // 1000 > whole

    def steps(self) -> Iterator[RouteStep]:
        """The moves that were made. A share goes to a part of a cpu that it fills."""
        failures_left = _FAILURES_MAX
        for index in self._model.movable if self._is_needed else ():
            if not self._frees_one(index):
                continue
            target = self._target(index)
            if target is None:
                continue
            step = self._step(index, target)
            if step is not None:
                yield step
            else:
                failures_left -= 1
            if not failures_left or not self._is_needed:
                return

    def _frees_one(self, index: int) -> bool:
        """Whether a cpu is whole once a share is gone, by the numbers of its own pool."""
        model, grants = self._model, self._trial.grants
        tenant, source = model.tenants[index], model.place[index]
        if tenant.has_own_cpus or not model.is_leaf[source]:
            return False
        if not grants[tenant.id].shared_milli:
            # One cpu is for all that asked for none: it is the last one of them who leaves it.
            asks_none = [
                one.container_id
                for one in grants.values()
                if one.pool_id == source and one.has_shared_part and not one.shared_milli
            ]
            if len(asks_none) > 1:
                return False
        return model.room[source] % 1000 + tenant.milli >= 1000

    def _target(self, index: int) -> PoolId | None:
        model, room = self._model, self._model.room
        tenant, source = model.tenants[index], model.place[index]
        here = model.worth(index, source)
        for target in sorted(tenant.targets, key=lambda one: (room[one] % 1000, one)):
            is_filled = target != source and room[target] % 1000 >= tenant.milli
            if is_filled and model.worth(index, target) >= here and model.fits(index, target):
                return target
        return None

    def _step(self, index: int, target: PoolId) -> RouteStep | None:
        """A move, which is taken back unless more cpus are whole and free by it."""
        model, trial = self._model, self._trial
        container_id, earlier = model.tenants[index].id, trial.snapshot()
        gain = model.worth(index, target) - model.worth(index, model.place[index])
        before, told = trial.grants[container_id], trial.pinning(container_id)
        decision = trial.move(container_id, target, MovePurpose.WHOLE_CPUS)
        if not isinstance(decision.result, Grant):
            return None
        if whole_cpus(trial.snapshot()) <= whole_cpus(earlier):
            self._trial = Engine.of(earlier)
            return None
        model.move(index, target)
        purpose = MovePurpose.WHOLE_CPUS
        return RouteStep(container_id, before, told, decision, target, gain, purpose)


def whole_cpus(snapshot: Snapshot) -> int:
    """The cpus that containers may still get for themselves on the node."""
    return snapshot.room.sliceable[snapshot.tree.root.id]
