"""Mending: moves of containers to where required rules hold that are told as unmet."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ...model.container import ContainerId
from ...model.grant import Grant
from ..engine import Engine
from ..snapshot import Snapshot
from .placement_score import PlacementObjective
from .route import RouteStep
from .tenants import own_objection

_TRIES_MAX: Final = 256
"""So often a plan asks whether rules of some container would hold elsewhere."""


class Mending:
    """Steps on a trial engine, each of which mends rules of one container and breaks none.

    Pens stay where they are.
    """

    def __init__(
        self, trial: Engine, snapshot: Snapshot, objective: PlacementObjective, *, exclusive: bool
    ) -> None:
        """`exclusive`: whether containers with exclusive cpus are moved, too."""
        self._trial = trial
        self._objective = objective
        self._waiting = [
            one
            for one in _by_path(trial, trial.grants)
            if trial.grants[one].pen is None
            and not own_objection(snapshot, one, moves_exclusive=exclusive)
        ]
        self._tries = 0

    def steps(self) -> Iterator[RouteStep]:
        """The containers that were moved, in order; one that moves may make room for another."""
        has_moved = True
        while has_moved:
            has_moved = False
            for container_id in self._waiting:
                if not self._trial.decisions[container_id].unmet or self._tries >= _TRIES_MAX:
                    continue
                self._tries += 1
                step = self._step(container_id)
                if step is not None:
                    has_moved = True
                    yield step

    def _step(self, container_id: ContainerId) -> RouteStep | None:
        trial, score = self._trial, self._score()
        before, told = trial.grants[container_id], trial.pinning(container_id)
        unmet = trial.decisions[container_id].unmet
        decision = trial.place_anew(container_id, mends_told=True)
        if not isinstance(decision.result, Grant):
            return None
        left = set(_rules(trial.decisions[container_id].unmet))
        return RouteStep(
            container_id,
            before,
            told,
            decision,
            decision.result.pool_id,
            gain=self._score() - score,
            mends=tuple(one for one in _rules(unmet) if one not in left),
        )

    def _score(self) -> int:
        pools = {one: grant.pool_id for one, grant in self._trial.grants.items()}
        return 0 if self._objective.is_empty else self._objective.score(pools)


def _by_path(trial: Engine, container_ids: Iterable[ContainerId]) -> Sequence[ContainerId]:
    return sorted(container_ids, key=lambda one: (trial.containers[one].path, one))


def _rules(unmet: Iterable[str]) -> Iterator[str]:
    """The rules and their owners in such texts: why they do not hold differs from day to day."""
    for text in unmet:
        yield text.rpartition(": ")[0]
