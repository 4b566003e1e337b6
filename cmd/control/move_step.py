"""One step of a rebalance: a running container goes to another pool, if all is as was thought."""

from typing import Final

from ...policy.engine.decision import Decision
from ...policy.engine.snapshot import Snapshot
from ...policy.inquiry.counted_rules import RuleKind, counted_rules
from ...policy.model.container import Container, ContainerId
from ...policy.model.grant import PoolId, Refusal
from ...policy.model.pinning import Pinning
from ..daemon.daemon import Daemon
from .container_names import ControlRequestError
from .documents import MoveDocument
from .status_document import pin_document

_POLICY_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 5.0


def move_container(
    daemon: Daemon, snapshot: Snapshot, container_id: ContainerId, from_pool: str, to_pool: str
) -> MoveDocument:
    """The end that a move came to, once the kernel has it or some seconds are over.

    `snapshot`: of this moment. Raises `ControlRequestError` for pools and containers that are not
    there, `TimeoutError` where the policy is busy.
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
    reason = _objection(snapshot, container, pool, from_pool)
    if not reason:
        decision = daemon.plugin.owner.ask(
            "move",
            lambda: _move_unless_changed(daemon, snapshot, container_id, pools[to_pool]),
            _POLICY_SECONDS,
        )
        if decision is None:
            reason = "the node changed meanwhile"
        elif isinstance(decision.result, Refusal):
            reason = decision.result.reason
        else:
            pool, pinning = decision.pool, decision.pinning
            daemon.plugin.actuator.settle(_SETTLE_SECONDS)
            reason = _unsettled(daemon, container_id, pinning)
    return MoveDocument(
        container=container.path,
        moved=not reason,
        reason=reason or None,
        pool=pool,
        pin=pin_document(pinning),
    )


def _held_id(snapshot: Snapshot, shown_id: ContainerId) -> ContainerId:
    """The policy's id of a container that is known by another one outside."""
    if shown_id in snapshot.grants:
        return shown_id
    containers = snapshot.containers
    return next((one for one in snapshot.grants if containers[one].shown_id == shown_id), shown_id)


def _objection(snapshot: Snapshot, container: Container, pool: str, from_pool: str) -> str:
    """The reason not even to try; empty where there is none."""
    if pool != from_pool:
        return f"it is in {pool} by now"
    if snapshot.decisions[container.id].unmet:
        # Where a rule does not hold, the policy looks whether it does in the other pool.
        return ""
    if any(one.kind is RuleKind.REQUIRED for one in counted_rules(snapshot, container)):
        # A move looks at room alone, and must not break what was promised.
        return "a required rule says where it is"
    return ""


def _move_unless_changed(
    daemon: Daemon, snapshot: Snapshot, container_id: ContainerId, pool_id: PoolId
) -> Decision | None:
    """In the policy's turn: the move, or None where anybody came, went or moved since."""
    policy = daemon.engine
    is_same = policy.tree is snapshot.tree and dict(policy.grants) == dict(snapshot.grants)
    return daemon.plugin.events.move(container_id, pool_id) if is_same else None


def _unsettled(daemon: Daemon, container_id: ContainerId, wanted: Pinning) -> str:
    """The reason why a container may not have what it was told; empty where it has."""
    look = daemon.plugin.actuator.looks().get(container_id)
    if look is None or (look.is_settled and not look.problem and look.wanted == wanted):
        return ""
    return look.problem or "the runtime has not confirmed it yet"
