"""Rules that stop holding at containers which others drive elsewhere: told like all others."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec.structs import replace

from ...policy.engine.decision import Decision
from ...policy.engine.engine import Engine
from ...policy.model.container import ContainerId
from ...policy.model.pinning import Change, Pinning
from .report import (
    Adjusted,
    Decided,
    Happening,
    Reconfigured,
    Released,
    Report,
    Synchronized,
)

_NONE: Final = frozenset[str]()
_LOOKS_WAITED: Final = 3
"""So many looks later, of which there is one every few seconds, a plan was given up half-way."""


class BrokenRules:
    """A report that tells another one all it is told, and what stops holding by it besides.

    To be told what happened once the policy's answer is away.
    """

    def __init__(self, report: Report, policy: Callable[[], Engine]) -> None:
        """`policy`: the present one."""
        self._report = report
        self._policy = policy
        self._told: dict[ContainerId, frozenset[str]] = {}
        """The rules that were told as broken, and have not held since as far as that was seen."""
        self._coming: dict[ContainerId, int] = {}
        """Containers that go together, of whom some have yet to come; for so many looks more."""

    def expect(self, container_id: ContainerId, awaited: Collection[ContainerId]) -> None:
        """Tell nothing of a container and those that follow it until all of them are there.

        Their rules about each other do not hold meanwhile. It is told after a while in any case;
        once nobody is awaited any more, at the next look.
        """
        if awaited:
            self._coming |= dict.fromkeys((container_id, *awaited), _LOOKS_WAITED)
        elif container_id in self._coming:
            self._coming = dict.fromkeys(self._coming, 1)

    def look(self) -> None:
        """Report whose rules do not hold any more, and of whom that was put off for long enough."""
        over = [one for one, left in self._coming.items() if left <= 1]
        self._coming = {one: left - 1 for one, left in self._coming.items() if left > 1}
        for container_id in over:
            decision = self._policy().decisions.get(container_id)
            if decision is not None:
                self._look_again(container_id, decision, self._told.get(container_id, _NONE))
        self.look_at_lost()

    def __call__(self, happening: Happening) -> None:
        """Report it, and whose rules do not hold any more among those that changed for it."""
        if isinstance(happening, Decided) and happening.container.id in self._coming:
            if happening.event == "unmet":
                return
            happening = replace(happening, decision=self._as_before(happening.decision))
        self._report(happening)
        changes: Sequence[Change] = ()
        match happening:
            case Decided(container=container, decision=decision):
                self._note(container.id, decision)
                changes = decision.changes
            case Released(container=container, changes=changes):
                self._told.pop(container.id, None)
                self._coming.pop(container.id, None)
            case Adjusted(change=change):
                changes = (change,)
            case Synchronized():
                self._coming.clear()
                # All were told, each with a decision of its own, and who is gone is in no list.
                self._told.clear()
                for container_id, decision in self._policy().decisions.items():
                    self._note(container_id, decision)
            case Reconfigured():
                before, self._told = self._told, {}
                self._coming.clear()
                for container_id, decision in self._policy().decisions.items():
                    self._look_again(container_id, decision, before.get(container_id, _NONE))
            case _:
                pass
        self.look_at_lost(changes)

    def look_at_lost(self, changes: Sequence[Change] = ()) -> None:
        """Report whose rules do not hold any more: of those that changed, and as others moved."""
        policy = self._policy()
        decisions = policy.decisions if changes else dict[ContainerId, Decision]()
        for one in changes:
            decision = decisions.get(one.container_id)
            before = self._told.get(one.container_id, _NONE)
            # Most have no rule that does not hold, and had none before.
            if decision is not None and (decision.unmet or before):
                self._look_again(one.container_id, decision, before)
        for container_id in policy.lost_rules():
            decision = policy.decisions.get(container_id)
            if decision is not None:
                before = self._told.get(container_id, _NONE)
                self._look_again(container_id, decision, before)

    def _look_again(
        self, container_id: ContainerId, decision: Decision, before: frozenset[str]
    ) -> None:
        """Report what does not hold any more. `before`: what did not hold by then."""
        if container_id in self._coming:
            return
        policy = self._policy()
        container = policy.containers.get(container_id)
        if self._note(container_id, decision) - before and container is not None:
            told = as_it_is(policy, decision)
            self._report(Decided(event="unmet", container=container, decision=told))

    def _as_before(self, decision: Decision) -> Decision:
        """A decision without the rules that do not hold since others have yet to come."""
        before = self._told.get(decision.container_id, _NONE)
        left = [text for text in decision.unmet if text.rpartition(": ")[0] in before]
        return replace(decision, unmet=tuple(left))

    def _note(self, container_id: ContainerId, decision: Decision) -> frozenset[str]:
        """The names of the rules that do not hold at a container; why may change, and often."""
        names = frozenset([text.rpartition(": ")[0] for text in decision.unmet])
        if names:
            self._told[container_id] = names
        else:
            self._told.pop(container_id, None)
        return names


def as_it_is(policy: Engine, decision: Decision) -> Decision:
    """An earlier decision with the place that its container has by now, and no changes of others.

    Others may have needed room since.
    """
    container_id = decision.container_id
    grant = policy.grants.get(container_id)
    if grant is None:
        return replace(decision, changes=())
    return replace(
        decision,
        result=grant,
        pool=policy.tree.pools[grant.pool_id].name,
        pinning=policy.pinning(container_id) or Pinning(),
        changes=(),
    )


def unmet_by_now(policy: Engine, decision: Decision) -> Decision:
    """An earlier decision with the rules that are told as unmet by now.

    Those that it awaited, as its rules want them there, have come since.
    """
    unmet = policy.decisions.get(decision.container_id, decision).unmet
    return replace(decision, unmet=unmet)
