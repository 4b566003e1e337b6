"""What another configuration, or other cpus, mean for the containers that run."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...topology.sets.cpuset import NO_CPUS, CpuSet, NodeSet
from ..model.container import Container, ContainerId
from ..model.decision import Pinning
from ..model.request import CpuType
from ..text.errors import Problem
from .engine import Engine
from .reason import words_of


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
    """What the kernel has of it as far as we know, whoever told it."""
    after: Pinning
    """What the kernel is told by now; None leaves what it has."""
    pool_before: str
    pool_after: str
    reason: str = ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it has other cpus or memory from now on."""
        return self.after.differs_from(self.before)


def find_moves(old: Engine, new: Engine) -> tuple[Move, ...]:
    """What became of every container of `old` in `old.reconfigured(...)`, by name."""
    moves = [
        _move(container, old, new)
        for container in old.containers.values()
        if container.id in old.grants and container.id in new.grants
    ]
    return tuple(sorted(moves, key=lambda one: (one.container.path, one.container.id)))


def _move(container: Container, old: Engine, new: Engine) -> Move:
    move = Move(
        container=container,
        fate=Fate.STAYS,
        before=_known(container, old),
        after=new.pinning(container.id) or Pinning(),
        pool_before=_pool(old, container.id),
        pool_after=_pool(new, container.id),
    )
    reasons = list(_losses(container, old, new))
    fate = Fate.DEGRADED if reasons else Fate.STAYS
    degraded = new.decisions[container.id].degraded
    if degraded and degraded != old.decisions[container.id].degraded:
        fate, reasons = Fate.DEGRADED, [degraded, *reasons]
    elif move.is_elsewhere:
        fate = Fate.DEGRADED if reasons else Fate.MOVES
        is_mended = bool(old.decisions[container.id].degraded) and not degraded
        why = _why(container.id, move.before, move.after, new)
        reasons = ["what it missed is there again" if is_mended else why, *reasons]
    return replace(move, fate=fate, reason="; ".join(reasons))


def _known(container: Container, old: Engine) -> Pinning:
    """What the kernel was told, by us or before we knew the container."""
    told = old.pinning(container.id) or Pinning()
    return replace(
        told,
        cpus=container.cpus if told.cpus is None else told.cpus,
        mems=container.mems if told.mems is None else told.mems,
    )


def _losses(container: Container, old: Engine, new: Engine) -> Iterator[str]:
    """What its annotations ask for in vain from now on."""
    vain = {_place(one) for one in old.decisions[container.id].problems}
    decision = new.decisions[container.id]
    for one in decision.problems:
        is_told = one.is_advice or str(one) in decision.degraded
        if not is_told and _place(one) not in vain:
            yield str(replace(one, where=one.where.removesuffix(f" of {container.path}")))


def _place(problem: Problem) -> tuple[str, int, int]:
    """Where a problem is; the text may name another interrupt of those that match by now."""
    return problem.where, problem.line, problem.column


def _pool(engine: Engine, container_id: ContainerId) -> str:
    return engine.tree.pools[engine.grants[container_id].pool_id].name


def _why(container_id: ContainerId, before: Pinning, after: Pinning, new: Engine) -> str:
    """Why a container cannot stay where it is."""
    cpus = after.cpus
    if cpus is not None and cpus != before.cpus:
        if before.cpus is None:
            return "it was not pinned"
        if before.cpus <= cpus:
            return f"cpus {cpus - before.cpus} are for it as well"
        return _why_cpus(container_id, before.cpus, new)
    if before.mems is None:
        return "its memory was not pinned"
    return _why_memory(before.mems, new)


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
    others = cpus - new.supply.reserved
    if others and new.grants[container_id].cpu_type is CpuType.RESERVED:
        return f"cpus {others} are not reserved any more"
    if reserved := cpus & new.supply.reserved:
        return f"cpus {reserved} are reserved"
    taken = NO_CPUS
    for one in new.grants.values():
        if one.container_id != container_id:
            taken |= one.exclusive
    if taken := cpus & taken:
        return f"cpus {taken} are another container's own"
    return f"placed anew: {words_of(new.decisions[container_id].decided_by)}"
