"""Live moves: containers that run are sent to other cpus, and what they leave is kept meanwhile."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from ...policy.engine.advice import Advice
from ...policy.engine.decision import Decision
from ...policy.engine.engine import Engine
from ...policy.engine.replacing.asked_move import AskedMove
from ...policy.engine.replacing.joint_replacement import JointStep, make_move
from ...policy.model.container import Container, ContainerId
from ...policy.model.grant import Grant, Refusal
from ...policy.model.pinning import Change, Pinning, changed, new_pinnings
from .actuator import Actuator
from .broken_rules import BrokenRules, unmet_by_now
from .owner import Owner
from .report import Crashed

T = TypeVar("T")

LEFT: Final = "cpus that a moved container has left"
"""The cause for which others are told more cpus."""
_MISSED_AT_ONCE: Final = 16
"""So many missed resizes are tried again in one turn: calls of the runtime wait meanwhile."""


class _Made(NamedTuple):
    """A move that the policy made, and the container as it was known before."""

    known: Container
    decision: Decision


class LiveMoves:
    """Moves of running containers, each in a turn at the policy.

    What a container had for itself is nobody's until the kernel is known to have moved it: its
    runtime may be late, or refuse.
    """

    def __init__(
        self,
        policy: Callable[[], Engine],
        actuator: Actuator,
        owner: Owner,
        report: BrokenRules,
        decided: Callable[[str, Container, Decision], None],
        adjust: Callable[[str, tuple[Change, ...]], None],
    ) -> None:
        """`policy`: the present one. `decided`: tells of a move. `adjust`: has others told."""
        self._policy = policy
        self._actuator = actuator
        self._owner = owner
        self._report = report
        self._decided = decided
        self._adjust = adjust
        self._awaited: dict[ContainerId, Sequence[ContainerId]] = {}
        """Containers on the move, by the ids they are held as: their own, or their pen's."""
        self._is_looking = False
        """Whether some are known to have landed, and the policy will look."""
        self._missed: dict[ContainerId, None] = {}
        """Containers whose runtime resized them while nobody looked, and for which there was no
        room so far."""
        actuator.looked.append(self._look)

    def move(self, container_id: ContainerId, asked: AskedMove) -> Decision:
        """Move a running container to another pool, and tell all that change; or say why not."""
        policy, made = self._policy(), list[_Made]()
        known = policy.containers.get(container_id)
        with policy.undone_on_fault():
            before = self._lent([container_id])
            decision = make_move(policy, container_id, asked)
            if known is not None and isinstance(decision.result, Grant):
                made.append(_Made(known, decision))
            sent, told = self._to_send(made, before)
        self._send(told, before)
        if known is not None and sent:
            [decision] = sent
            self._report.expect(container_id, asked.awaited)
            self._owner.afterwards(lambda: self._decided("move", known, decision))
        return decision

    def place_anew(self, steps: Sequence[JointStep]) -> tuple[Sequence[ContainerId], str]:
        """Move containers to where their rules hold, until one cannot be; those gone are passed by.

        Those that were moved, and why the next one was not. All that change are told.
        """
        policy, made = self._policy(), list[_Made]()
        reason, fault = "", None
        with policy.undone_on_fault():
            before = self._lent([one.container_id for one in steps])
            try:
                reason = self._make(steps, made)
            except Exception as error:
                # Those before it are elsewhere by now, as far as others know.
                fault = error
            sent, told = self._to_send(made, before)
        self._send(told, before)
        for one, decision in zip(made, sent, strict=True):
            self._owner.afterwards(partial(self._tell_replaced, one.known, decision))
        if fault is not None:
            raise fault
        return [one.known.id for one in made], reason

    def _make(self, steps: Sequence[JointStep], made: list[_Made]) -> str:
        """Make one step after the other, added to `made`; why one cannot be made."""
        policy = self._policy()
        for step in steps:
            known = policy.containers.get(step.container_id)
            if known is None or step.container_id not in policy.grants:
                continue
            with policy.undone_on_fault():
                decision = policy.place_anew(step.container_id, step.asked, mends_told=step.follows)
            if isinstance(decision.result, Refusal):
                return decision.result.reason
            made.append(_Made(known, decision))
        return ""

    def _tell_replaced(self, known: Container, decision: Decision) -> None:
        self._decided("replace", known, unmet_by_now(self._policy(), decision))

    def _lent(self, container_ids: Iterable[ContainerId]) -> dict[ContainerId, Grant]:
        """Grants of some containers, or their pens, with what they have left, by their ids.

        To be kept once they were moved or resized; until then they may have all of it again.
        """
        left_cpus = self._policy().left_cpus
        found = filter(None, map(left_cpus.lend, container_ids))
        return {one.container_id: one for one in reversed([*found])}

    def kept(
        self,
        container_ids: Iterable[ContainerId],
        change: Callable[[], tuple[T, tuple[Change, ...]]],
    ) -> tuple[T, tuple[Change, ...]]:
        """The result of a change of some containers, and what follows once their cpus are kept.

        Those that they have given up, until they have left them. `change` also returns what
        followed from it. Whatever raises leaves everything as it was, and nothing is awaited. The
        changes are to be sent in the same turn.
        """
        policy = self._policy()
        with policy.undone_on_fault():
            before = self._lent(container_ids)
            found, changes = change()
            changes = _together(changes, policy.left_cpus.keep(before.values()))
        self._await(before, policy)
        return found, changes

    def resized_meanwhile(
        self,
        containers: Sequence[Container],
        advice: Mapping[ContainerId, Advice],
        changes: tuple[Change, ...] = (),
    ) -> tuple[Change, ...]:
        """Resize adopted containers, as they are listed, whose runtime did so while nobody looked.

        As by `kept`, each by itself: one that is refused, or fails, stays as it is, and is tried
        again. Returns these earlier `changes` with what follows.
        """
        for one in self._policy().missed_resizes.among(containers, advice):
            changes = _together(changes, self._made_good(one))
        return changes

    def resize_missed(self) -> None:
        """Try again such resizes that were refused: there may be room by now. All are told.

        Some at each call, in turn.
        """
        for one in tuple(islice(self._missed, _MISSED_AT_ONCE)):
            self._actuator.want(new_pinnings(self._made_good(one)))

    def _made_good(self, container_id: ContainerId) -> tuple[Change, ...]:
        """What follows from one resize, if it is missed still, and made."""
        self._missed.pop(container_id, None)
        policy = self._policy()
        if not policy.missed_resizes.misses(container_id):
            if container_id in policy.grants and policy.decisions[container_id].fault:
                # It is left as it runs for now.
                self._missed[container_id] = None
            return ()
        known = policy.containers[container_id]
        try:
            decision, changes = self.kept([container_id], partial(self._resize, container_id))
        except Exception as fault:
            crashed = Crashed(f"resize of container {container_id}", fault)
            self._owner.afterwards(partial(self._report, crashed))
            return ()
        if isinstance(decision.result, Grant):
            # It may be less than it wishes for: that is no reason to try again.
            self._owner.afterwards(partial(self._decided, "update", known, decision))
        else:
            policy.missed_resizes.remember(container_id)
            self._missed[container_id] = None
        return changes

    def _resize(self, container_id: ContainerId) -> tuple[Decision, tuple[Change, ...]]:
        """Make good one resize; what follows from it, its own container's change included."""
        policy = self._policy()
        before = policy.pinning(container_id) or Pinning()
        decision = policy.missed_resizes.make(container_id)
        own = changed(container_id, before, decision.pinning)
        return decision, decision.changes if own is None else (*decision.changes, own)

    def kept_since(self, old: Engine, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """As by `kept`, of all whom the present policy leaves less than an older one gave them."""
        policy, before = self._policy(), dict[ContainerId, Grant]()
        for container_id in policy.grants:
            had, has = old.left_cpus.held(container_id), policy.left_cpus.held(container_id)
            if had is not None and has is not None and had.exclusive - has.exclusive:
                before[had.container_id] = had
        if not before:
            return changes
        changes = _together(changes, policy.left_cpus.keep(before.values()))
        self._await(before, policy)
        self._await(before, old)
        return changes

    def _await(self, held_as: Iterable[ContainerId], policy: Engine) -> None:
        """Have what was left let go once all have landed that were held so in a policy."""
        for one in self._policy().left.keys() & dict.fromkeys(held_as):
            members = [other for other, grant in policy.grants.items() if grant.held_as == one]
            # Before they are sent: they may land while nobody looks.
            self._awaited[one] = members

    def _to_send(
        self, made: Sequence[_Made], before: Mapping[ContainerId, Grant]
    ) -> tuple[Sequence[Decision], Mapping[ContainerId, Pinning]]:
        """The decisions about containers that were moved as they are sent, and what all are told.

        `before`: what they had. All at once: what is kept is not given to others first.
        """
        policy = self._policy()
        kept = policy.left_cpus.keep(before.values())
        sent = _as_they_are(policy, made)
        told = new_pinnings(kept)
        for one in made:
            for change in one.decision.changes:
                # It was to use what is kept by now, and nothing is new for it.
                told.pop(change.container_id, None)
        for decision in sent:
            told |= {**new_pinnings(decision.changes), decision.container_id: decision.pinning}
        return sent, told

    def _send(
        self, told: Mapping[ContainerId, Pinning], before: Mapping[ContainerId, Grant]
    ) -> None:
        """Send containers that were moved, and others that follow. `before`: what those had."""
        self._await(before, self._policy())
        self._actuator.want(told)

    def _look(self) -> None:
        """Look who has landed. In the actuator's thread."""
        if not self._awaited or self._is_looking:
            return
        if any(map(self._actuator.have_landed, tuple(self._awaited.values()))):
            self._is_looking = True
            self._owner.submit("cpus that were left", self._let_go)

    def _let_go(self) -> None:
        """Let go what they left who have landed; who was moved once more meanwhile has not."""
        self._is_looking = False
        awaited, policy = self._awaited.items(), self._policy()
        landed = [one for one, ids in awaited if self._actuator.have_landed(ids)]
        with policy.undone_on_fault():
            changes = policy.left_cpus.let_go(landed)
        for held_as in landed:
            del self._awaited[held_as]
        self._adjust(LEFT, changes)


def _together(changes: tuple[Change, ...], later: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes that some come to together with later ones, one of each container."""
    if not later:
        return changes
    found = dict[ContainerId, Change]()
    for one in (*changes, *later):
        first = found.pop(one.container_id, one)
        if (both := changed(one.container_id, first.before, one.after)) is not None:
            found[one.container_id] = both
    return tuple(found.values())


def _as_they_are(policy: Engine, made: Sequence[_Made]) -> Sequence[Decision]:
    """The decisions about moves, one after the other, with what all are told after the last one.

    For somebody was to use what is kept by now.
    """
    found: list[Decision] = []
    later: dict[ContainerId, Pinning] = {}
    for decision in [one.decision for one in reversed(made)]:
        changes: list[Change] = []
        for one in decision.changes:
            after = later.get(one.container_id) or policy.pinning(one.container_id) or one.after
            if (change := changed(one.container_id, one.before, after)) is not None:
                changes.append(change)
            later[one.container_id] = one.before
        own = later.get(decision.container_id) or policy.pinning(decision.container_id)
        found.insert(0, replace(decision, pinning=own or Pinning(), changes=tuple(changes)))
    return found
