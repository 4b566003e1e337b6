"""Drift: containers that the kernel has on other cpus or memory nodes than they should have."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..engine.snapshot import Snapshot
from ..model.container import Container, ContainerId
from ..model.pinning import Pinning
from ..placing.judging.restriction import names_text

CLEARED: Final = "another program cleared its cpuset, or made its cgroup anew"
KUBELET_CPUS: Final = (
    "the kubelet's static CPU manager, which gives shared containers all cpus that are nobody's own"
)
EVERYTHING: Final = "another program that puts containers on all cpus"
MEMORY_ALONE: Final = "the kubelet's memory manager, or another program that sets memory nodes"
REFUSED: Final = "nobody: its runtime refuses to update it"
SOMEBODY: Final = "another program that sets cpusets: the kubelet, or another NRI plugin"


class Drift(Struct, frozen=True, kw_only=True):
    """A container with the pinning it should have and the one that the kernel has."""

    container: Container
    intended: Pinning
    kernel: Pinning
    likely: str
    """The program that may have changed it, a guess from what it was changed to."""


def is_drift(intended: Pinning, kernel: Pinning) -> bool:
    """Whether the kernel has other cpus or memory nodes than a container should have.

    What is not pinned, or cannot be read, is none.
    """
    return (intended.cpus is not None and kernel.cpus not in (None, intended.cpus)) or (
        intended.mems is not None and kernel.mems not in (None, intended.mems)
    )


def find_drift(snapshot: Snapshot, kernel: Mapping[ContainerId, Pinning]) -> tuple[Drift, ...]:
    """The drift of all placed containers that were read back, in the order of their grants.

    `kernel`: what was read. O(containers).
    """
    found = [
        (container_id, intended, observed)
        for container_id in snapshot.grants
        if (intended := snapshot.pinnings.get(container_id)) is not None
        and (observed := kernel.get(container_id)) is not None
        and is_drift(intended, observed)
    ]
    # Once for all: where containers come and go, many have changed since they were read.
    exclusive = 0
    for grant in snapshot.grants.values() if found else ():
        exclusive |= grant.exclusive.mask
    return tuple(
        [
            Drift(
                container=snapshot.containers[container_id],
                intended=intended,
                kernel=observed,
                likely=_likely(snapshot, container_id, intended, observed, CpuSet(exclusive)),
            )
            for container_id, intended, observed in found
        ]
    )


def _likely(
    snapshot: Snapshot,
    container_id: ContainerId,
    intended: Pinning,
    kernel: Pinning,
    exclusive: CpuSet,
) -> str:
    """The program that may have changed a pinning. `exclusive`: all exclusive cpus."""
    cpus, online = kernel.cpus, snapshot.machine.online
    if container_id in snapshot.refused:
        return _stuck_text(snapshot, container_id)
    if intended.cpus is None or cpus in (None, intended.cpus):
        return MEMORY_ALONE if kernel.mems else CLEARED
    if not cpus:
        return CLEARED
    if cpus >= online:
        return EVERYTHING
    is_shared = not snapshot.grants[container_id].exclusive
    if is_shared and cpus >= online - exclusive - snapshot.supply.reserved:
        return KUBELET_CPUS
    return SOMEBODY


def _stuck_text(snapshot: Snapshot, container_id: ContainerId) -> str:
    """The fault of a runtime with one container, and the others who are not alone for it."""
    cpus, held_as = CpuSet(snapshot.stuck[container_id]), snapshot.grants[container_id].held_as
    owners = [
        snapshot.containers[one]
        for one, grant in snapshot.grants.items()
        if one != container_id
        # What is nobody's part of a pen is for all that are in it.
        and (grant.exclusive or (grant.rest if grant.held_as != held_as else NO_CPUS)) & cpus
    ]
    return f"{REFUSED}; it runs on cpus of {names_text(owners)}" if owners else REFUSED
