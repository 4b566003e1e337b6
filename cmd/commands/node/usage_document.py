"""Usage of pools and containers over a short time, held against what they were granted."""

from collections.abc import Mapping, Sequence
from typing import Final

from ....topology.model.machine import Machine
from ....topology.sets.cpuset import CpuSet
from ...control.documents import ContainerDocument, NodeDocument, StatusDocument
from ...kernel.cgroup_usage import CgroupUsage

_DIGITS: Final = 4


class ContainerUsage(NodeDocument, frozen=True, kw_only=True):
    """One container's usage; null for what is not known, ratios from 0 to 1."""

    container: str
    pool: str
    kind: str
    cpus: str | None
    granted_milli: int
    used_milli: int | None
    throttled_ratio: float | None
    """Of the time its limit held it back."""
    waiting_ratio: float | None
    """Of the time some task of it waited for a cpu."""
    memory_bytes: int | None
    remote_ratio: float | None
    """Of its memory, that on other NUMA nodes than those of its cpus."""


class PoolUsage(NodeDocument, frozen=True, kw_only=True):
    """One pool's usage: the sums of the containers in it and below it that are known of them."""

    name: str
    cpus: str
    granted_milli: int
    used_milli: int | None
    """Null where there are containers and nothing is known of any, as the ratios are."""
    throttled_ratio: float | None
    """That of the container which its limit held back longest."""
    waiting_ratio: float | None
    """That of the container which waited longest for a cpu."""


class UsageDocument(NodeDocument, frozen=True, kw_only=True):
    """Usage of a node between two looks."""

    seconds: float
    pools: tuple[PoolUsage, ...]
    containers: tuple[ContainerUsage, ...]


def usage_document(
    status: StatusDocument,
    before: Mapping[str, CgroupUsage],
    after: Mapping[str, CgroupUsage],
    seconds: float,
    machine: Machine,
) -> UsageDocument:
    """The usage of a node by two looks at its cgroups, so many seconds apart."""
    containers = [
        _container(one, before.get(one.id), after.get(one.id), seconds, machine)
        for one in status.containers
    ]
    return UsageDocument(
        seconds=round(seconds, _DIGITS),
        pools=tuple(_pools(status, containers)),
        containers=tuple(sorted(containers, key=lambda one: one.container)),
    )


def _pools(status: StatusDocument, containers: Sequence[ContainerUsage]) -> list[PoolUsage]:
    pools = {one.name: CpuSet.parse(one.cpus) for one in status.pools}
    found: list[PoolUsage] = []
    for pool in status.pools:
        inside = [
            one
            for one in containers
            if one.pool == pool.name
            or (one.pool in pools and pools[one.pool].mask and pools[one.pool] < pools[pool.name])
        ]
        used = [one.used_milli for one in inside if one.used_milli is not None]
        found.append(
            PoolUsage(
                name=pool.name,
                cpus=pool.cpus,
                granted_milli=sum(one.granted_milli for one in inside),
                used_milli=sum(used) if used or not inside else None,
                throttled_ratio=_most([one.throttled_ratio for one in inside]),
                waiting_ratio=_most([one.waiting_ratio for one in inside]),
            )
        )
    return found


def _most(ratios: Sequence[float | None]) -> float | None:
    known = [one for one in ratios if one is not None]
    return max(known, default=None if ratios else 0.0)


def _container(
    one: ContainerDocument,
    before: CgroupUsage | None,
    after: CgroupUsage | None,
    seconds: float,
    machine: Machine,
) -> ContainerUsage:
    pin = one.kernel or one.intended
    before, after = before or CgroupUsage(), after or CgroupUsage()
    used = _difference(before.used_usec, after.used_usec)
    total = sum(after.memory_bytes.values())
    return ContainerUsage(
        container=one.container,
        pool=one.pool,
        kind=one.kind,
        cpus=pin.cpus,
        granted_milli=one.granted_milli,
        used_milli=None if used is None else round(used / seconds / 1000),
        throttled_ratio=_ratio(before.throttled_usec, after.throttled_usec, seconds),
        waiting_ratio=_ratio(before.waiting_usec, after.waiting_usec, seconds),
        memory_bytes=total if after.memory_bytes else None,
        remote_ratio=_remote(after.memory_bytes, pin.cpus, machine) if total else None,
    )


def _remote(memory: Mapping[int, int], cpus: str | None, machine: Machine) -> float:
    used = machine.online if cpus is None else CpuSet.parse(cpus)
    near = {node.id for node in machine.numa_nodes if not node.cpus.isdisjoint(used)}
    far = sum(size for node, size in memory.items() if node not in near)
    return round(far / sum(memory.values()), _DIGITS)


def _ratio(before: int | None, after: int | None, seconds: float) -> float | None:
    changed = _difference(before, after)
    return None if changed is None else round(min(changed / seconds / 1e6, 1.0), _DIGITS)


def _difference(before: int | None, after: int | None) -> int | None:
    """The difference of two counters; None where one is missing, or began anew."""
    if before is None or after is None or after < before:
        return None
    return after - before
