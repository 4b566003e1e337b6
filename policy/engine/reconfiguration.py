"""Moves of running containers under another configuration, or with other cpus."""

import enum
from collections.abc import Iterator
from dataclasses import replace

from msgspec import Struct, structs

from ...topology.sets.cpuset import NO_CPUS, CpuSet, NodeSet
from ..model.container import Container, ContainerId
from ..model.criterion_words import words_of
from ..model.pinning import Pinning
from ..model.request import CpuType
from ..text.errors import Problem
from .snapshot import Snapshot


class Fate(enum.Enum):
    """The fate of a container in a reconfiguration."""

    STAYS = "stays"
    MOVES = "moves"
    DEGRADED = "degraded"
    """It does not have all it asks for any more."""


class Move(Struct, frozen=True, kw_only=True):
    """One container before and after; `reason` is empty for those that stay."""

    container: Container
    fate: Fate
    before: Pinning
    """What the kernel has of it as far as we know, whoever told it."""
    after: Pinning
    """What the kernel is told from then on; None leaves what it has."""
    pool_before: str
    pool_after: str
    reason: str = ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it has other cpus or memory from now on."""
        return self.after.differs_from(self.before)


def find_moves(old: Snapshot, new: Snapshot) -> tuple[Move, ...]:
    """Moves of all containers placed by an engine and by its `reconfigured(...)` one, by name."""
    moves = [
        _move(container, old, new)
        for container in old.containers.values()
        if container.id in old.grants and container.id in new.grants
    ]
    return tuple(sorted(moves, key=lambda one: (one.container.path, one.container.id)))


def _move(container: Container, old: Snapshot, new: Snapshot) -> Move:
    move = Move(
        container=container,
        fate=Fate.STAYS,
        before=_known(container, old),
        after=new.pinnings.get(container.id) or Pinning(),
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
    return structs.replace(move, fate=fate, reason="; ".join(reasons))


def _known(container: Container, old: Snapshot) -> Pinning:
    """The pinning that the kernel was told, by us or before we knew the container."""
    told = old.pinnings.get(container.id) or Pinning()
    return structs.replace(
        told,
        cpus=container.cpus if told.cpus is None else told.cpus,
        mems=container.mems if told.mems is None else told.mems,
    )


def _losses(container: Container, old: Snapshot, new: Snapshot) -> Iterator[str]:
    """Problems of annotations that are in vain from here on, and were not before."""
    vain = {_place(one) for one in old.decisions[container.id].problems}
    decision = new.decisions[container.id]
    for one in decision.problems:
        is_told = one.is_advice or str(one) in decision.degraded
        if not is_told and _place(one) not in vain:
            yield str(replace(one, where=one.where.removesuffix(f" of {container.path}")))


def _place(problem: Problem) -> tuple[str, int, int]:
    """The place of a problem; its text may name another interrupt of those that match."""
    return problem.where, problem.line, problem.column


def _pool(snapshot: Snapshot, container_id: ContainerId) -> str:
    return snapshot.tree.pools[snapshot.grants[container_id].pool_id].name


def _why(container_id: ContainerId, before: Pinning, after: Pinning, new: Snapshot) -> str:
    """The reason why a container cannot stay where it is."""
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


def _why_memory(nodes: NodeSet, new: Snapshot) -> str:
    supply = new.supply.memory
    if reserved := nodes & supply.reserved:
        return f"memory nodes {reserved} are reserved"
    if supply.ordinary is not None and (unavailable := nodes - supply.ordinary):
        return f"memory nodes {unavailable} are not available"
    return f"memory nodes {nodes} are not for it any more"


def _why_cpus(container_id: ContainerId, cpus: CpuSet, new: Snapshot) -> str:
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
