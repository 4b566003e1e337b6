"""One step of a rebalance: a running container goes to another pool, if all is as was thought."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ...nri.dispatch.front import runtime_fault
from ...policy.engine.decision import Decision, rule_names
from ...policy.engine.replacing.asked_move import AskedMove
from ...policy.engine.replacing.companies import own_objection
from ...policy.engine.snapshot import Snapshot
from ...policy.inquiry.counted_rules import RuleKind, counted_rules
from ...policy.model.container import Container, ContainerId
from ...policy.model.grant import PoolId, Refusal
from ...policy.model.move_purpose import MovePurpose
from ...policy.model.pinning import Pinning
from ..daemon.daemon import Daemon
from .container_names import ControlRequestError
from .documents import MoveDocument, PlannedMoveDocument
from .status_document import pin_document

if TYPE_CHECKING:
    from ...policy.engine.rebalance.promise import PromisedStep

_POLICY_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 5.0


class MoveEnd(Struct, frozen=True):
    """The end that a move came to, as it is told, and whether the policy made it.

    It may have although the kernel does not have it yet.
    """

    document: MoveDocument
    is_made: bool


def read_promised(text: str) -> tuple[PlannedMoveDocument, ...]:
    """The promised steps of a request, from JSON; none of nothing. Raises `ControlRequestError`."""
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[PlannedMoveDocument, ...])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ControlRequestError(
            f"promised: {error} — send moves as 'pinfold rebalance -o json' shows them"
        ) from error


def move_container(
    daemon: Daemon,
    snapshot: Snapshot,
    container_id: ContainerId,
    from_pool: str,
    to_pool: str,
    *,
    moves_exclusive: bool = False,
    promised: Sequence[PlannedMoveDocument] = (),
) -> MoveEnd:
    """The end that a move came to, once the kernel has it or some seconds are over.

    `snapshot`: of this moment. `promised`: what a plan said of the move, and those after it that it
    is made for. Raises `ControlRequestError` for pools and containers that are not there,
    `TimeoutError` where the policy is busy.
    """
    container_id = _held_id(snapshot, container_id)
    grant = snapshot.grants.get(container_id)
    if grant is None:
        raise ControlRequestError(f"container: {container_id!r} holds nothing — plan anew")
    pools = {pool.name: pool.id for pool in snapshot.tree.pools}
    if to_pool not in pools:
        raise ControlRequestError(f"pool: {to_pool!r} is not here — see 'pinfold pools'")
    container = snapshot.containers[container_id]
    pool = snapshot.tree.pools[grant.pool_id].name
    pinning = snapshot.pinnings.get(container_id) or Pinning()
    steps, gone = _promised_steps(snapshot, container, pools, to_pool, promised)
    asked = steps[0].asked if steps else AskedMove(pools[to_pool], MovePurpose.WISHES)
    reason = (
        ("the daemon is about to end" if daemon.is_stopping else "")
        or runtime_fault(daemon.front)
        or _objection(snapshot, container, pool, from_pool, moves_exclusive=moves_exclusive)
        or gone
        or _broken_promise(snapshot, steps, moves_exclusive=moves_exclusive)
        or _rule_objection(snapshot, container)
    )
    is_made = False
    if not reason:
        decision = daemon.front.owner.ask(
            "move",
            lambda: _move_unless_changed(daemon, snapshot, container_id, asked),
            _POLICY_SECONDS,
        )
        if decision is None:
            reason = "the node changed meanwhile"
        elif isinstance(decision.result, Refusal):
            reason = decision.result.reason
        else:
            pool, pinning, is_made = decision.pool, decision.pinning, True
            daemon.front.actuator.settle(_SETTLE_SECONDS)
            reason = _unsettled(daemon, container_id, pinning)
    document = MoveDocument(
        container=container.path,
        moved=not reason,
        reason=reason or None,
        pool=pool,
        pin=pin_document(pinning),
    )
    return MoveEnd(document, is_made)


def _held_id(snapshot: Snapshot, shown_id: ContainerId) -> ContainerId:
    """The policy's id of a container that is known by another one outside."""
    if shown_id in snapshot.grants:
        return shown_id
    containers = snapshot.containers
    return next((one for one in snapshot.grants if containers[one].shown_id == shown_id), shown_id)


def _objection(
    snapshot: Snapshot, container: Container, pool: str, from_pool: str, *, moves_exclusive: bool
) -> str:
    """The reason not even to try; empty where there is none."""
    if pool != from_pool:
        return f"it is in {pool} by now"
    return own_objection(snapshot, container.id, moves_exclusive=moves_exclusive)


def _rule_objection(snapshot: Snapshot, container: Container) -> str:
    """The rule that keeps a container where it is; empty where none does."""
    if snapshot.decisions[container.id].unmet:
        # Where a rule does not hold, the policy looks whether it does in the other pool.
        return ""
    required = [one for one in counted_rules(snapshot, container) if one.kind is RuleKind.REQUIRED]
    for one in required:
        if f"{one.text} of {one.owner.path}" in rule_names(snapshot.decisions[one.owner.id].unmet):
            # So it does where one that is about it does not hold.
            return ""
    # A move looks at room alone, and must not break what was promised.
    return "a required rule says where it is" if required else ""


def _promised_steps(
    snapshot: Snapshot,
    container: Container,
    pools: Mapping[str, PoolId],
    to_pool: str,
    promised: Sequence[PlannedMoveDocument],
) -> "tuple[Sequence[PromisedStep], str]":
    """The promised steps by ids, or the reason that one cannot be made any more."""
    from ...policy.engine.rebalance.promise import NEEDED_MAX, PromisedStep

    if len(promised) > NEEDED_MAX:
        # Each takes a look at all pairs, beside a policy that has to answer meanwhile.
        raise ControlRequestError(f"promised: {len(promised)} moves — send {NEEDED_MAX} at most")
    steps: list[PromisedStep] = []
    # From the last one: who is awaited comes after whom that one follows.
    ids: dict[str, ContainerId] = {}
    for one in reversed(promised):
        found = container if one.container == container.path else _found(snapshot, one)
        if found is None or not {one.from_.pool, one.to.pool} <= pools.keys():
            return (), f"{one.container}, which moves after it, or its pool is gone by now"
        step = PromisedStep(
            container_id=found.id,
            before=pools[one.from_.pool],
            after=pools[one.to.pool],
            gain=one.gain,
            purpose=one.purpose,
            mends=one.mends,
            # Whoever is not promised is taken for one that stays, and may keep it where it is.
            awaited=tuple(ids[path] for path in one.awaited if path in ids),
        )
        steps.insert(0, step)
        ids[one.container] = found.id
    if steps and (steps[0].container_id, steps[0].after) != (container.id, pools[to_pool]):
        raise ControlRequestError("promised: another move comes first — begin with this one")
    return steps, ""


def _broken_promise(
    snapshot: Snapshot, steps: "Sequence[PromisedStep]", *, moves_exclusive: bool
) -> str:
    """The reason why a move is not worth by now what a plan said of it; empty where it is."""
    from ...policy.engine.rebalance.promise import broken_promise

    for one in steps[0].awaited if steps else ():
        if reason := own_objection(snapshot, one, moves_exclusive=moves_exclusive):
            return f"{snapshot.containers[one].path}, which must be with it, stays: {reason}"
    return broken_promise(snapshot, steps)


def _found(snapshot: Snapshot, move: PlannedMoveDocument) -> Container | None:
    """The placed container of a name; of several, as while one is replaced, one where it says."""
    pools, found = snapshot.tree.pools, None
    for container_id, grant in snapshot.grants.items():
        container = snapshot.containers[container_id]
        if container.path == move.container:
            found = container
            if pools[grant.pool_id].name == move.from_.pool:
                break
    return found


def _move_unless_changed(
    daemon: Daemon, snapshot: Snapshot, container_id: ContainerId, asked: AskedMove
) -> Decision | None:
    """In the policy's turn: the move, or None where anybody came, went or moved since."""
    policy = daemon.engine
    is_same = policy.tree is snapshot.tree and dict(policy.grants) == dict(snapshot.grants)
    if not is_same:
        return None
    daemon.refused_moves.note(container_id, policy)
    return daemon.front.events.moves.move(container_id, asked)


def _unsettled(daemon: Daemon, container_id: ContainerId, wanted: Pinning) -> str:
    """The reason why a container may not have what it was told; empty where it has."""
    look = daemon.front.actuator.looks().get(container_id)
    if look is None or (look.is_settled and not look.problem and look.wanted == wanted):
        return ""
    return look.problem or "the runtime has not confirmed it yet"
