"""Moves that mend, made on an engine that tries them out: of one container, or of a company."""

from collections.abc import Sequence
from typing import Final

from ...model.container import ContainerId
from ...model.grant import Grant, PoolId, Refusal
from ...model.move_purpose import MovePurpose
from ..decision import Decision, rule_names
from ..engine import Engine
from ..replacing.asked_move import AskedMove
from ..replacing.companies import Companies
from ..replacing.joint_replacement import JointStep, make_move, ways_together
from ..replacing.replacement import leaves_others_alone
from ..replacing.unmet_names import unmet_after, unmet_names
from ..snapshot import Snapshot
from .placement_score import PlacementObjective, pools_of
from .route import RouteStep

TRIES_OF_COPY: Final = 4
"""A copy of all that is there takes as long as so many moves that are tried."""
_POOLS_MAX: Final = 8
"""In so many pools it is tried whether all who go together find room."""


class MendingMoves:
    """Moves of containers for rules that do not hold, with what they gain, mend and break."""

    def __init__(
        self, snapshot: Snapshot, objective: PlacementObjective, movable: Sequence[ContainerId]
    ) -> None:
        """`movable`: the containers that may be moved for it, in the order of their paths."""
        self._snapshot = snapshot
        self._objective = objective
        self._companies = Companies(snapshot, movable)
        self.tries_left = 0
        """So many moves are tried yet of containers that go together."""

    def one(
        self, trial: Engine, container_id: ContainerId, pool_id: PoolId | None
    ) -> RouteStep | None:
        """A move, to where the policy places it if no pool is said; None where it is refused."""
        step = self._made(trial, JointStep(container_id, pool_id))
        return step if isinstance(step, RouteStep) else None

    def some(
        self, trial: Engine, container_id: ContainerId, pool_id: PoolId | None, moves: int
    ) -> tuple[Engine, Sequence[RouteStep]]:
        """The move of a container, or of all who have to be together with it, at most so many.

        With the engine on which they were made; without any, that or another one as it was.
        """
        if moves <= 0:
            return trial, ()
        made = self._made(trial, JointStep(container_id, pool_id))
        if isinstance(made, RouteStep):
            return trial, (made,)
        if self.tries_left <= 0 or not self._may_go_with_others(made):
            return trial, ()
        for company in self._companies.of(trial, container_id):
            if len(company) <= moves and self.tries_left > 0:
                trial, steps = self._together(trial, company, pool_id)
                if steps:
                    return trial, steps
        return trial, ()

    def _may_go_with_others(self, refused: Decision) -> bool:
        """Whether it may be for others that a container has to stay, which might come with it."""
        result = refused.result
        if isinstance(result, Refusal) and leaves_others_alone(result.reason):
            return True
        rules = self._snapshot.classified[refused.container_id].placement.required
        return any(not one.is_anti for one in rules)

    def _together(
        self, trial: Engine, company: Sequence[ContainerId], pool_id: PoolId | None
    ) -> tuple[Engine, Sequence[RouteStep]]:
        """The moves of a whole company after which no other rule is broken than before."""
        snapshot = trial.snapshot()
        told = unmet_names(trial.decisions, trial.grants)
        steps: dict[ContainerId, RouteStep] = {}

        def make(engine: Engine, step: JointStep) -> Decision:
            self.tries_left -= 1
            made = self._made(engine, step)
            if isinstance(made, Decision):
                # It is seen last that there is no place.
                self.tries_left -= 1
                return made
            steps[step.container_id] = made
            return made.decision

        number = 0
        ways = ways_together(trial, company, make, pool_id)
        for number, (engine, made) in enumerate(ways, start=1):
            left = unmet_names(engine.decisions, engine.grants)
            if len(made) == len(company) and left.keys() <= told.keys():
                return engine, [steps[one]._replace(breaks=()) for one in company]
            self.tries_left -= TRIES_OF_COPY
            if number >= _POOLS_MAX or self.tries_left <= 0:
                break
        return (Engine.of(snapshot) if number else trial), ()

    def _made(self, trial: Engine, asked: JointStep) -> RouteStep | Decision:
        """A move as it was made, or the refusal to make it."""
        container_id = asked.container_id
        weigh, unmet = self._objective.score, unmet_names(trial.decisions, trial.grants)
        score = weigh(pools_of(trial.grants))
        before, told = trial.grants[container_id], trial.pinning(container_id)
        own = rule_names(trial.decisions[container_id].unmet)
        move = AskedMove(asked.pool_id, MovePurpose.ASIDE, asked.awaited)
        decision = make_move(trial, container_id, move)
        if not isinstance(decision.result, Grant):
            return decision
        left = unmet_after(trial, container_id)
        mends = tuple(one for one in dict.fromkeys((*own, *unmet)) if one not in left)
        return RouteStep(
            container_id,
            before,
            told,
            decision,
            decision.result.pool_id,
            gain=weigh(pools_of(trial.grants)) - score,
            purpose=MovePurpose.RULES if mends else MovePurpose.ASIDE,
            mends=mends,
            breaks=tuple(one for one in left if one not in unmet),
            awaited=asked.awaited,
        )
