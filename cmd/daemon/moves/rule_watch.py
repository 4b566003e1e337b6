"""Looks after rules that are required during execution: their owners are moved where they hold."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ....nri.dispatch.front import Front, runtime_fault
from ....nri.dispatch.report import Report, Unplaceable
from ....policy.engine.engine import Engine
from ....policy.engine.replacing.companies import company_of
from ....policy.engine.replacing.joint_replacement import (
    JointStep,
    may_go_with_others,
    plan_together,
)
from ....policy.engine.replacing.owners_due import SECOND, OwnersDue
from ....policy.engine.replacing.replacement import holds_where_it_is
from ....policy.engine.snapshot import Snapshot
from ....policy.model.container import ContainerId
from ....policy.placing.judging.restriction import names_text
from .move_budget import MoveBudget
from .refused_moves import RefusedMoves

RULES_SECONDS: Final = 5.0
"""Between two looks at rules that are required during execution."""
_MINUTE: Final = 60.0


class RuleWatch:
    """Waits for the grace period and keeps to the budget; the policy says who is moved where.

    All but `look` is done in turns at the policy.
    """

    def __init__(
        self,
        front: Front,
        report: Report,
        clock: Callable[[], float] = time.monotonic,
        refused_moves: RefusedMoves | None = None,
    ) -> None:
        """`clock`: seconds that never go back."""
        self._front = front
        self._report = report
        self._refused_moves = refused_moves or RefusedMoves()
        self._clock = clock
        self._due = OwnersDue()
        self._to_plan: dict[ContainerId, str] = {}
        """Owners that are to go together with others, which takes long to plan.

        And why each stays by itself, if that was tried.
        """
        self._refusals = Counter[ContainerId]()
        """How often the runtime refused to move an owner: each time it was noted anew."""
        self._budget = MoveBudget(_MINUTE)

    def look(self) -> None:
        """Have the policy look at the rules, and move whose grace period is over.

        Nobody is moved who would stay where it is, as its runtime is away.
        """
        for container_id in () if runtime_fault(self._front) else (*self._to_plan,):
            self._plan(container_id, self._to_plan.pop(container_id, ""))
        self._front.owner.submit("rules required during execution", self._look)

    def refused(self, container_id: ContainerId, reason: str) -> None:
        """Note that an owner stays as its runtime refused to move it. In a turn at the policy."""
        self._note()
        grants = self._front.events.policy.grants
        self._refusals = Counter({one: n for one, n in self._refusals.items() if one in grants})
        if container_id in self._due:
            attempts = self._refusals[container_id]
            self._tell(container_id, f"the runtime refuses to move it: {reason}", attempts)
            self._refusals[container_id] += 1

    def _look(self) -> None:
        events, now = self._front.events, self._clock()
        settings = events.policy.config.during_execution
        with events.policy.undone_on_fault():
            changes = events.policy.widen()
        events.adjust("room that rules leave", changes)
        is_away = runtime_fault(self._front)
        if not is_away:
            events.moves.resize_missed()
        self._note()
        due = [] if is_away else self._due.due(self._now)
        for container_id in due[: self._budget.left(settings.moves_per_minute, now)]:
            # A turn for each: calls of the runtime come between.
            self._front.owner.submit("place anew", partial(self._move, container_id))

    def _note(self) -> None:
        events = self._front.events
        self._due.note(events.look_at_rules(), events.policy, self._now)

    def _looked_again(self) -> Snapshot:
        """A snapshot after another look at rules."""
        self._note()
        return self._front.events.policy.snapshot()

    def _move(self, container_id: ContainerId) -> None:
        """Move an owner by itself, or have it planned with whom it goes."""
        policy = self._front.events.policy
        if container_id not in self._due or container_id not in policy.grants:
            return
        if 1 < len(company_of(policy, container_id)) <= self._most:
            self._to_plan.setdefault(container_id, "")
            return
        reason = self._make([JointStep(container_id)])
        if holds_where_it_is(reason):
            # Another owner that was due went out of its way, or came to it.
            self._due.forget(container_id)
        elif reason and self._most > 1 and may_go_with_others(policy, container_id, reason):
            self._to_plan.setdefault(container_id, reason)
        else:
            self._tell(container_id, reason)

    def _plan(self, container_id: ContainerId, reason: str) -> None:
        """Plan where an owner goes with others. In no turn at the policy."""
        try:
            snapshot = self._front.owner.look("where owners go together", self._looked_again)
        except TimeoutError:
            # The policy is busy: it is due at the next look, too.
            return
        if container_id not in self._due:
            # Its rules hold, as others have moved since it was tried by itself.
            return
        most = snapshot.config.during_execution.moves_per_minute
        steps = plan_together(snapshot, container_id, most)
        move = partial(self._move_together, container_id, steps, reason, snapshot)
        self._front.owner.submit("place together", move)

    def _move_together(
        self,
        container_id: ContainerId,
        steps: Sequence[JointStep],
        reason: str,
        planned_on: Snapshot,
    ) -> None:
        """Move an owner with others as planned, unless anything differs by now."""
        policy, now = self._front.events.policy, self._clock()
        is_same = policy.config is planned_on.config and policy.grants == planned_on.grants
        if not is_same or container_id not in self._due or container_id not in policy.grants:
            return
        if not (steps or reason) and len(company_of(policy, container_id)) < 2:
            # Its followers have ended since it was found that it has some.
            steps = [JointStep(container_id)]
        if not steps:
            self._tell(container_id, reason or _nowhere_together(policy, container_id))
        elif len(steps) <= self._budget.left(self._most, now):
            self._tell(container_id, self._make(steps))

    @property
    def _now(self) -> int:
        return round(self._clock() * SECOND)

    @property
    def _most(self) -> int:
        return self._front.events.policy.config.during_execution.moves_per_minute

    def _make(self, steps: Sequence[JointStep]) -> str:
        """Make the moves until one is refused, for which reason; empty where none is."""
        events = self._front.events
        for step in steps:
            self._refused_moves.note(step.container_id, events.policy)
        made, reason = events.moves.place_anew(steps)
        for container_id in made:
            self._due.went(container_id, events.policy)
            self._budget.spend(self._clock())
        return reason

    def _tell(self, container_id: ContainerId, reason: str, attempts: int = 0) -> None:
        """Tell why an owner stays where it is; without a reason it does not.

        `attempts`: how often it was tried in vain before it was noted.
        """
        policy = self._front.events.policy
        container = policy.containers.get(container_id)
        if not reason or container is None:
            self._due.forget(container_id)
        elif self._due.stays(container_id, reason, policy, self._now, attempts=attempts):
            told = Unplaceable(container, reason)
            self._front.owner.afterwards(lambda: self._report(told))


def _nowhere_together(policy: Engine, container_id: ContainerId) -> str:
    """The reason why an owner stays to which others would have to come; for people."""
    others = names_text(
        [policy.containers[one] for one in policy.followers(container_id, only_lasting=True)]
    )
    unmet = "; ".join(policy.decisions[container_id].unmet)
    return f"no place is better with room for {others}, which must be with it: {unmet}"
