"""What another configuration, or other cpus, mean for the containers that run."""

import enum
from dataclasses import dataclass

from ..topology.cpuset import NO_CPUS, CpuSet, NodeSet
from .container import Container, ContainerId
from .decision import Pinning
from .engine import Engine
from .request import CpuType


class Fate(enum.Enum):
    """What becomes of a container."""

    STAYS = "stays"
    MOVES = "moves"
    DEGRADED = "degraded"
    """It does not have all it asks for any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One container before and after; `reason` is empty for those that stay."""

    container: Container
    fate: Fate
    before: Pinning
    after: Pinning
    pool_before: str
    pool_after: str
    reason: str = ""


def find_moves(old: Engine, new: Engine) -> tuple[Move, ...]:
    """What became of every container of `old` in `old.reconfigured(...)`, by name."""
    moves = [
        _move(container, old, new)
        for container in old.containers.values()
        if container.id in old.grants and container.id in new.grants
    ]
    return tuple(sorted(moves, key=lambda one: (one.container.path, one.container.id)))


def _move(container: Container, old: Engine, new: Engine) -> Move:
    before = old.pinning(container.id) or Pinning()
    after = new.pinning(container.id) or Pinning()
    degraded = new.decisions[container.id].degraded
    fate, reason = Fate.STAYS, ""
    if degraded and degraded != old.decisions[container.id].degraded:
        fate, reason = Fate.DEGRADED, degraded
    elif after.differs_from(before):
        fate, reason = Fate.MOVES, _why(container.id, before, after, new)
    return Move(
        container=container,
        fate=fate,
        before=before,
        after=after,
        pool_before=_pool(old, container.id),
        pool_after=_pool(new, container.id),
        reason=reason,
    )


def _pool(engine: Engine, container_id: ContainerId) -> str:
    return engine.tree.pools[engine.grants[container_id].pool_id].name


def _why(container_id: ContainerId, before: Pinning, after: Pinning, new: Engine) -> str:
    """Why a container cannot stay where it is."""
    if after.cpus not in (None, before.cpus):
        if before.cpus is None:
            return "it was not pinned"
        return _why_cpus(container_id, before.cpus, new)
    if after.mems not in (None, before.mems):
        if before.mems is None:
            return "its memory was not pinned"
        return _why_memory(before.mems, new)
    return f"its cpu shares were {before.cpu_shares}"


def _why_memory(nodes: NodeSet, new: Engine) -> str:
    supply = new.supply.memory
    if reserved := nodes & supply.reserved:
        return f"memory nodes {reserved} are reserved"
    if supply.ordinary is not None and (unavailable := nodes - supply.ordinary):
        return f"memory nodes {unavailable} are not available"
    return f"memory nodes {nodes} are not for it any more"


def _why_cpus(container_id: ContainerId, cpus: CpuSet, new: Engine) -> str:
    if offline := cpus - new.machine.online:
        return f"cpus {offline} are offline"
    if unavailable := cpus - new.supply.allowed:
        return f"cpus {unavailable} are not available"
    if new.grants[container_id].cpu_type is CpuType.RESERVED:
        return f"cpus {cpus - new.supply.reserved} are not reserved any more"
    if reserved := cpus & new.supply.reserved:
        return f"cpus {reserved} are reserved"
    taken = NO_CPUS
    for one in new.grants.values():
        if one.container_id != container_id:
            taken |= one.exclusive
    if taken := cpus & taken:
        return f"cpus {taken} are another container's own"
    return f"placed anew: {new.decisions[container_id].decided_by}"
