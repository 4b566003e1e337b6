"""Refused moves: the runtime does not make them, and the policy takes them back."""

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from ....nri.dispatch.front import Front
from ....nri.dispatch.report import Decided, Happening, Released, Unapplied
from ....policy.engine.advice import Advice
from ....policy.engine.decision import KEPT, Decision
from ....policy.engine.engine import Engine
from ....policy.engine.left_cpus import PenBefore
from ....policy.engine.replacing.asked_move import REPLACED
from ....policy.model.container import ContainerId, ContainerState
from ....policy.model.grant import Grant
from ....policy.model.move_purpose import MovePurpose
from ....policy.model.pinning import Change, Pinning, new_pinnings
from ....topology.sets.cpuset import NO_CPUS

_MOVES: Final = frozenset([REPLACED, *(one.value for one in MovePurpose)])


class _Before(NamedTuple):
    """The place of a container before it was moved last."""

    pinning: Pinning
    advice: Advice
    """Which of its cpus there were its own: by now others may run on them."""


class RefusedMoves:
    """A report that has a refused move taken back.

    The container is still where it was, and its cpus there would be given to others.
    """

    takes = (Unapplied, Released)

    def __init__(self) -> None:
        self._front: Front | None = None
        self._told: Callable[[ContainerId, str], None] | None = None
        self._before: dict[ContainerId, _Before] = {}
        self._pens: dict[ContainerId, PenBefore] = {}
        """Pens before they were moved, until they have landed."""

    def start(self, front: Front, told: Callable[[ContainerId, str], None]) -> None:
        """Moves are taken back in the policy of `front` from here on.

        `told`: gets each container, in the policy's turn, and what the runtime said.
        """
        self._front, self._told = front, told

    def note(self, container_id: ContainerId, policy: Engine) -> None:
        """Note the place of a container that is about to be moved. In the policy's turn."""
        pen = policy.left_cpus.pen_before(container_id)
        self._pens = {one: had for one, had in self._pens.items() if one in policy.left}
        if pen is not None:
            self._pens[pen.pen.container_id] = pen
        for one in (container_id,) if pen is None else pen.members:
            self._note(one, policy)

    def _note(self, container_id: ContainerId, policy: Engine) -> None:
        pinning, grant = policy.pinning(container_id), policy.grants.get(container_id)
        if pinning is not None and grant is not None:
            advice = Advice.of(grant, policy.tree.pools[grant.pool_id])
            self._before[container_id] = _Before(pinning, advice)

    def __call__(self, happening: Happening) -> None:
        """Have it taken back, if it is a move and its container is still where it was before."""
        front = self._front
        if isinstance(happening, Released):
            self._before.pop(happening.container.id, None)
        if front is None or not isinstance(happening, Unapplied):
            return
        found = happening.found or front.actuator.kernel(happening.container_id)
        before = self._before.get(happening.container_id)
        # Where else the kernel has it, another program has put it.
        if before is not None and found is not None and _is_same(before.pinning, found):
            had = _Before(found, before.advice)
            front.owner.submit("a refused move", lambda: self._take_back(front, happening, had))

    def _take_back(self, front: Front, refused: Unapplied, had: _Before) -> None:
        policy, container_id = front.events.policy, refused.container_id
        container, grant = policy.containers.get(container_id), policy.grants.get(container_id)
        decision = policy.decisions.get(container_id)
        if container is None or grant is None or decision is None:
            return
        if grant.pen is not None:
            self._take_pen_back(front, refused, grant.pen)
            return
        is_move = decision.decided_by in _MOVES and refused.wanted == policy.pinning(container_id)
        if not is_move or not _are_free(had, container_id, policy):
            return
        found = had.pinning
        there = replace(container, cpus=found.cpus, mems=found.mems, state=ContainerState.RUNNING)
        with policy.undone_on_fault():
            kept = policy.adopt(there, had.advice)
        front.actuator.want(new_pinnings(kept.changes))
        front.actuator.want({container_id: kept.pinning}, is_likely=True)
        # Else it may not have these cpus any more, and goes to a third place.
        is_back = kept.decided_by == KEPT

        def tell() -> None:
            event = "return" if is_back else "move"
            front.events.report(Decided(event=event, container=there, decision=kept))
            policy.compact(container_id)

        front.owner.afterwards(tell)
        if is_back and self._told is not None:
            self._told(container_id, refused.error)

    def _take_pen_back(self, front: Front, refused: Unapplied, pen_id: ContainerId) -> None:
        """Have all that are in a pen stay where one of them stays."""
        policy, container_id = front.events.policy, refused.container_id
        had, moves = self._pens.get(pen_id), front.events.moves
        is_on_its_way = pen_id in policy.left and refused.wanted == policy.pinning(container_id)
        if had is None or not is_on_its_way:
            return

        def take_back() -> tuple[Decision, tuple[Change, ...]]:
            kept = policy.left_cpus.take_back(container_id, had)
            return kept, kept.changes if isinstance(kept.result, Grant) else ()

        kept, changes = moves.kept([container_id], take_back)
        front.actuator.want(new_pinnings(changes))
        if not isinstance(kept.result, Grant):
            return
        del self._pens[pen_id]
        pinnings = {one: policy.pinning(one) or Pinning() for one in had.members}
        front.actuator.want(pinnings, is_likely=True)
        container = policy.containers[container_id]
        told = Decided(event="return", container=container, decision=kept)
        front.owner.afterwards(lambda: front.events.report(told))
        if self._told is not None:
            for one in had.members:
                self._told(one, refused.error)


def _are_free(had: _Before, container_id: ContainerId, policy: Engine) -> bool:
    """Whether no other container has been given any of these cpus for itself meanwhile."""
    # Of its own ones the kernel does not show the hidden threads.
    cpus = (had.pinning.cpus or NO_CPUS) | had.advice.exclusive
    others = [one for other, one in policy.grants.items() if other != container_id]
    return not any((one.exclusive | one.rest) & cpus for one in others)


def _is_same(before: Pinning, found: Pinning) -> bool:
    """Whether the kernel has what a container was told before it was moved."""
    if not found.cpus or before.cpus != found.cpus:
        return False
    return before.mems is None or before.mems == found.mems
