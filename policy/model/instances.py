"""Instances of containers in a runtime's list: those that count, and the order to look at them."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from .container import Container, ContainerId, ContainerState, QosClass

_QOS_ORDER = {QosClass.GUARANTEED: 0, QosClass.BURSTABLE: 1, QosClass.BEST_EFFORT: 2}


class Listed(Struct, frozen=True, kw_only=True):
    """The running containers of a runtime's list in the order they are looked at."""

    running: tuple[Container, ...]
    repeated: Mapping[ContainerId, int]
    """How often the list has an id, of those it has more than once."""

    @classmethod
    def of(cls, containers: Iterable[Container]) -> "Listed":
        """The part of a list that counts: the newest live container of each id and of each name."""
        containers = tuple(containers)
        counts: dict[ContainerId, int] = {}
        for one in containers:
            counts[one.id] = counts.get(one.id, 0) + 1
        newest = newest_of_each_name(newest_of_each_id(containers))
        return cls(
            running=tuple(sorted(filter(is_alive, newest), key=adoption_order)),
            repeated={one: count for one, count in counts.items() if count > 1},
        )


def adoption_order(container: Container) -> tuple[int, int, str, str]:
    """The key by which containers are looked at: Guaranteed first, then oldest, then by name."""
    qos = _QOS_ORDER[container.pod.qos]
    return (qos, container.created_at, container.path, container.id)


def newest_of_each_id(containers: Iterable[Container]) -> tuple[Container, ...]:
    """One live container for each id: the newest, at last the one that is listed last."""
    newest: dict[ContainerId, Container] = {}
    for container in filter(is_alive, containers):
        known = newest.get(container.id)
        if known is None or known.created_at <= container.created_at:
            newest[container.id] = container
    return tuple(newest.values())


def newest_of_each_name(containers: Iterable[Container]) -> tuple[Container, ...]:
    """One live container for each name in a pod: the newest, where the runtime lists several.

    A runtime that crashed may still list the old instance of a restarted container as running.
    """
    newest: dict[tuple[str, str], Container] = {}
    for container in filter(is_alive, containers):
        key = instance_key(container)
        known = newest.get(key)
        if known is None or _age(known) < _age(container):
            newest[key] = container
    return tuple(newest.values())


def instance_key(container: Container) -> tuple[str, str]:
    """The key that the instances of one restarted container have in common.

    A runtime may list containers whose sandbox it does not: then the sandbox's id alone tells their
    pods apart. A container without a name is an instance of nothing but itself.
    """
    pod = container.pod
    named = f"{pod.namespace}/{pod.name}" if pod.name else pod.id
    known = pod.uid or named
    return (known, container.name) if known and container.name else ("", container.id)


def _age(container: Container) -> tuple[int, str]:
    return (container.created_at, container.id)


def is_alive(container: Container) -> bool:
    """Whether a container holds cpus: created or running."""
    return container.state is not ContainerState.EXITED
