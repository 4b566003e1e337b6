"""Demands of hints on a container's cpus and memory: strictness, and picking by them."""

from ...topology.sets.cpuset import CpuSet, NodeSet
from ..books.cpu_ledger import Ledger
from ..cpus.picker import CpuPicker
from ..memory.memory_choice import ZoneSummary
from ..model.grant import Dropped
from ..model.hint import HintOrigin
from ..model.request import Request


def strict_cpus(request: Request, cpus: int) -> int:
    """A mask of cpus without those that are far from a hint, where the container is strict."""
    if request.is_strict:
        for hint in request.hints:
            cpus &= hint.cpus.mask
    return cpus


def suitable_cpus(request: Request, free: int, count: int) -> int:
    """Candidates among a mask of free cpus, of which a container should get `count`.

    Strictness leaves what it leaves; its class of cpus counts where enough of them are free.
    """
    free = strict_cpus(request, free)
    if request.class_cpus is not None:
        near = free & request.class_cpus.mask
        free = near if near.bit_count() >= count else free
    return free


def shares_near_hints(request: Request, shared: int) -> bool:
    """Whether a container may run on all of a mask of sharable cpus, if it runs on any."""
    if not request.needs_shared_cpu:
        return True
    near = strict_cpus(request, shared)
    return bool(near) and near == shared


def objection(request: Request, ledger: Ledger, pool_id: int, zone: ZoneSummary) -> Dropped | None:
    """The reason why a pool would not keep a strict container near its hints; None if it does."""
    if not request.is_strict:
        return None
    if request.exclusive:
        isolated = ledger.free_isolated[pool_id]
        is_isolated = request.wants_isolated and isolated.bit_count() >= request.exclusive
        free = isolated if is_isolated else ledger.slice(ledger.tree.pools[pool_id].id)
        near = strict_cpus(request, free)
        if not (is_isolated or ledger.narrowed.is_empty):
            left = strict_cpus(request, ledger.free_sharable[pool_id])
            near = ledger.spare_cpus.takeable(left, request.exclusive)
        if near.bit_count() < request.exclusive:
            return _too_far("exclusive CPUs fail strict hints", str(request.exclusive), near)
    shared = ledger.free_sharable[pool_id]
    if not shares_near_hints(request, shared):
        near = strict_cpus(request, shared)
        return _too_far("shared CPUs fail strict hints", str(CpuSet(shared)), near)
    if request.preserve_memory:
        return None
    for hint in request.hints:
        nodes = hint.numa_nodes
        if nodes and zone.mask & ~nodes.mask:
            wanted, available = str(NodeSet(zone.mask)), f"{nodes} ({hint.provider})"
            return Dropped("memory fails strict hints", wanted, available)
    return None


def reserved_objection(request: Request, reserved: CpuSet) -> Dropped | None:
    """The reason why the reserved cpus do not suit a strict container; None where they do."""
    near = strict_cpus(request, reserved.mask)
    if near == reserved.mask:
        return None
    return _too_far("reserved CPUs fail strict hints", str(reserved), near)


def pick_by_hints(request: Request, free: int, picker: CpuPicker) -> int | None:
    """Exclusive cpus taken evenly from near each device the kubelet gave; None: pick as usual.

    Where the cpus cannot be divided evenly, each device has one near it and the rest is picked as
    usual.
    """
    hints = [one for one in request.hints if one.origin is HintOrigin.POD_RESOURCES]
    if not request.pick_by_hints or not 0 < len(hints) <= request.exclusive:
        return None
    each, rest = divmod(request.exclusive, len(hints))
    if rest:
        each = 1
    picked = 0
    for hint in hints:
        near = free & hint.cpus.mask & ~picked
        found = picker.pick(near, each, request.priority, request.smt)
        if found is None:
            return None
        picked |= found
    missing = request.exclusive - picked.bit_count()
    more = picker.pick(free & ~picked, missing, request.priority, request.smt)
    return None if more is None else picked | more


def _too_far(criterion: str, wanted: str, near: int) -> Dropped:
    return Dropped(criterion, wanted, str(CpuSet(near)) or "none")
