"""Topology hints: where a container's devices and volumes are."""

import enum
from dataclasses import dataclass

from ...topology.sets.cpuset import NO_CPUS, NO_NODES, CpuSet, IdSet, NodeSet


class HintOrigin(enum.Enum):
    """The origin of a hint."""

    MOUNT = "mount"
    DEVICE = "device"
    POD_RESOURCES = "pod-resources"
    CLAIM = "claim"
    """A device of dynamic resource allocation."""
    NAMED = "named"
    """A device that the pod names, whether the container has it or not."""
    MEMORY = "memory"
    """The memory of a container that runs already, and has to leave its cpus."""
    TEST = "test"
    """Written in an annotation, for tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One provider's idea of the right place; a set that is empty says nothing.

    As found, the sets are the provider's own words and may name what is not there; resolved
    (`policy.hints.place`), they are online cpus and NUMA nodes of the machine.
    """

    provider: str
    """The sysfs folder that says it, or `podresourceapi:<resource>`."""
    origin: HintOrigin
    path: str = ""
    """The path on the host that is mounted; empty for hints of another origin."""
    device: str = ""
    """The sysfs path of the device that was looked at: the provider, or below it."""
    cpus: CpuSet = NO_CPUS
    numa_nodes: NodeSet = NO_NODES
    sockets: tuple[int, ...] = ()
    interrupts: tuple[int, ...] = ()
    """Numbers of the device's own interrupts, for who wants them on its cpus."""


def parse_sockets(text: str) -> tuple[int, ...]:
    """The socket ids of a list with ranges, ascending. Raises `IdListError`.

    >>> parse_sockets("3,0-1")
    (0, 1, 3)
    """
    return tuple(IdSet.parse(text))
