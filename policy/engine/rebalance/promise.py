"""Promises of planned steps: what a plan said of a step, held against the node of this moment."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...model.container import ContainerId
from ...model.grant import PoolId, Refusal
from ...model.move_purpose import MovePurpose
from ..engine import Engine
from ..replacing.asked_move import AskedMove
from ..replacing.joint_replacement import make_move
from ..replacing.unmet_names import unmet_after, unmet_names
from ..snapshot import Snapshot
from .gathering import whole_cpus
from .placement_score import placement_objective, pools_of
from .plan import RebalanceMove

NEEDED_MAX: Final = 64
"""So many steps are held against a node at once: each is a part of a request."""


class PromisedStep(Struct, frozen=True, kw_only=True):
    """One step of a plan, as far as it can be held against another moment."""

    container_id: ContainerId
    before: PoolId
    """Where the container is, or is by then."""
    after: PoolId
    gain: int
    """What the satisfied weight gains by this step, in the unit of the plan."""
    purpose: MovePurpose = MovePurpose.WISHES
    mends: tuple[str, ...] = ()
    awaited: tuple[ContainerId, ...] = ()
    """Containers of the next steps that have to be with it, and come after it."""

    @property
    def asked(self) -> AskedMove:
        """The step, as it is asked for."""
        return AskedMove(self.after, self.purpose, self.awaited)


def broken_promise(snapshot: Snapshot, steps: Sequence[PromisedStep]) -> str:
    """The reason why the first of some steps is not what it was planned as; empty where it is.

    The others are those for the sake of which it is made: a step that only makes room for another
    is of no use where that one is not any more. A step may gain more than was planned. O(pairs).
    """
    if not steps:
        return ""
    pools = pools_of(snapshot.grants)
    if reason := _moved_reason(snapshot, steps, pools) or _mends_reason(snapshot, steps):
        return reason
    objective = placement_objective(snapshot, {step.container_id for step in steps})
    score = objective.score(pools)
    for number, step in enumerate(steps):
        pools[step.container_id] = step.after
        after = objective.score(pools)
        gain, score = after - score, after
        if gain < step.gain:
            path = snapshot.containers[step.container_id].path
            which = "it gains" if not number else f"the step it is for, of {path}, gains"
            return f"{which} less by now than was planned"
    return ""


def needed_moves(moves: Sequence[RebalanceMove]) -> Sequence[RebalanceMove]:
    """The first of some moves, with those that follow until what they cost is made up for.

    A move that mends a rule, or gains something, needs no others but those that it awaits.
    """
    total, mends = 0, False
    for number, move in enumerate(moves[:NEEDED_MAX], start=1):
        total += move.gain
        mends |= bool(move.mends)
        # The last of some that go together may mend nothing that the first of them does not.
        if not move.awaited and (total > 0 or mends):
            return moves[:number]
    # It is for no wish of containers: parts of cpus become whole ones, say.
    return moves[: 1 + len(moves[0].awaited)] if moves else moves


def _moved_reason(
    snapshot: Snapshot, steps: Sequence[PromisedStep], pools: Mapping[ContainerId, PoolId]
) -> str:
    """The reason that a container of later steps is elsewhere; empty where all are as planned."""
    by_then = dict(pools)
    for step in steps:
        at = by_then.get(step.container_id)
        if at is None:
            return "a container that it makes room for is gone by now"
        if at != step.before:
            path, pool = snapshot.containers[step.container_id].path, snapshot.tree.pools[at]
            return f"{path} is in {pool.name} by now"
        by_then[step.container_id] = step.after
    return ""


def _mends_reason(snapshot: Snapshot, steps: Sequence[PromisedStep]) -> str:
    """The reason that steps do not mend what they were to mend; empty where they do."""
    # Which of the two is told of a rule between them depends on who came first, or came back.
    told = unmet_names(snapshot.decisions, snapshot.grants)
    followers = {one for step in steps for one in step.awaited}
    for step in steps:
        # What followers mend does not hold only once whom they follow is gone.
        is_first = step.container_id not in followers
        if is_first and step.mends and not any(one in told for one in step.mends):
            return f"a rule that it was to mend holds by now: {step.mends[0]}"
    first = steps[0]
    if first.mends or first.awaited:
        # Whatever else is promised between them: each of those has to be able to follow.
        joint = [first, *(one for one in steps[1:] if one.container_id in first.awaited)]
        return _joint_reason(Engine.of(snapshot), joint)
    if first.purpose is not MovePurpose.WHOLE_CPUS:
        return ""
    trial = Engine.of(snapshot)
    result = trial.move(first.container_id, first.after).result
    if isinstance(result, Refusal):
        return result.reason
    is_more = whole_cpus(trial.snapshot()) > whole_cpus(snapshot)
    return "" if is_more else "it would leave no whole cpu free by now"


def _joint_reason(trial: Engine, steps: Sequence[PromisedStep]) -> str:
    """The reason that the first of some steps, which go together, is not to be made by now."""
    told = unmet_names(trial.decisions, trial.grants)
    left: Mapping[str, None] = told
    for step in steps:
        result = make_move(trial, step.container_id, step.asked).result
        if isinstance(result, Refusal):
            path = trial.containers[step.container_id].path
            which = "" if step is steps[0] else f"{path}, which must be with it, cannot follow: "
            return f"{which}{result.reason}"
        left = unmet_after(trial, step.container_id)
        if lasting := [one for one in step.mends if one in left]:
            return f"a rule that it was to mend would not hold by now: {lasting[0]}"
    broken = [one for one in left if one not in told]
    return f"a rule would stop to hold by now: {broken[0]}" if broken and len(steps) > 1 else ""
