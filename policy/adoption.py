"""Re-adoption: which grant a running container already has, read off the cpus it runs on.

Re-adoption is not admission: a container keeps exactly what it has as long as that is legal, even
where it would not be placed there today.
"""

from collections.abc import Iterable
from dataclasses import replace

from ..topology.cpuset import NO_CPUS, CpuSet
from .container import Container, ContainerState, QosClass
from .decision import Grant
from .ledger import Ledger
from .picker import CpuPicker
from .request import CpuType, Request

_QOS_ORDER = {QosClass.GUARANTEED: 0, QosClass.BURSTABLE: 1, QosClass.BEST_EFFORT: 2}


def adoption_order(container: Container) -> tuple[int, int, str, str]:
    """The key by which containers are looked at: Guaranteed first, then oldest, then by name."""
    qos = _QOS_ORDER[container.pod.qos]
    return (qos, container.created_at, container.path, container.id)


def newest_of_each_name(containers: Iterable[Container]) -> tuple[Container, ...]:
    """One container for each name in a pod: the newest, where the runtime lists several.

    A runtime that crashed may still list the old instance of a restarted container as running.
    """
    newest: dict[tuple[str, str], Container] = {}
    for container in containers:
        key = instance_key(container)
        known = newest.get(key)
        if known is None or _age(known) < _age(container):
            newest[key] = container
    return tuple(newest.values())


def instance_key(container: Container) -> tuple[str, str]:
    """What the instances of one restarted container have in common."""
    pod = container.pod
    return (pod.uid or f"{pod.namespace}/{pod.name}", container.name)


def _age(container: Container) -> tuple[int, str]:
    return (container.created_at, container.id)


def adopted_grant(
    container: Container,
    request: Request,
    ledger: Ledger,
    picker: CpuPicker,
    others: int,
) -> Grant | None:
    """The grant that explains the cpus a container has; None where there is no legal one.

    `others` is the mask of the cpus of all other running containers. Exclusive grants must be
    adopted before shared ones: what they hold is not legal for anybody else.
    """
    root = ledger.tree.root
    cpus = container.cpus or NO_CPUS
    if request.cpu_type is CpuType.PRESERVE:
        return _grant(container, request, NO_CPUS, ledger, root.cpus)
    if not cpus or not cpus <= root.cpus:
        return None
    if request.cpu_type is CpuType.RESERVED and not cpus <= root.reserved:
        # The reserved cpus were full when it came.
        request = replace(request, cpu_type=CpuType.NORMAL)
    free = CpuSet(ledger.free_sharable[root.id] | ledger.free_isolated[root.id])
    if not request.exclusive:
        if cpus <= CpuSet(ledger.free_sharable[root.id]) or cpus <= root.reserved:
            return _grant(container, request, NO_CPUS, ledger, cpus)
        return None
    if not cpus <= free:
        return None
    exclusive = _exclusive_part(cpus, request, picker, others, free)
    if exclusive is None:
        return None
    return _grant(container, request, exclusive, ledger, cpus)


def _exclusive_part(
    cpus: CpuSet,
    request: Request,
    picker: CpuPicker,
    others: int,
    free: CpuSet,
) -> CpuSet | None:
    """Which of a container's cpus are its own."""
    if request.shared_milli:
        # The kernel shows the exclusive and the shared cpus as one set: any cpus that nobody else
        # runs on can be the exclusive ones without moving anybody.
        own = cpus.mask & ~others
        picked = picker.pick(own, request.exclusive)
        return None if picked is None else CpuSet(picked)
    if request.hide_hyperthreads and len(cpus) < request.exclusive:
        hidden = CpuSet(picker.cores.covering(cpus.mask) & free.mask) - cpus
        more = picker.pick(hidden.mask, request.exclusive - len(cpus))
        return None if more is None else cpus | CpuSet(more)
    return cpus if len(cpus) == request.exclusive else None


def _grant(
    container: Container,
    request: Request,
    exclusive: CpuSet,
    ledger: Ledger,
    cpus: CpuSet,
) -> Grant:
    root = ledger.tree.root
    pool = root if request.cpu_type is not CpuType.NORMAL else ledger.tree.smallest_holding(cpus)
    return Grant(
        container_id=container.id,
        pool_id=pool.id,
        cpu_type=request.cpu_type,
        exclusive=exclusive,
        isolated=exclusive & root.isolated,
        shared_milli=request.shared_milli,
        hide_hyperthreads=request.hide_hyperthreads,
    )


def is_alive(container: Container) -> bool:
    """Whether a container holds cpus: created or running."""
    return container.state is not ContainerState.EXITED
