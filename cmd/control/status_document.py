"""The status of a node as a document: its pools and containers, as intended and as they are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from ...policy.engine.decision import Decision
from ...policy.engine.snapshot import Snapshot
from ...policy.inquiry.audit import is_drift
from ...policy.model.container import ContainerId
from ...policy.model.grant import Grant
from ...policy.model.pinning import Pinning
from ...topology.sets.cpuset import CpuSet
from .documents import (
    ContainerDocument,
    PinDocument,
    PoolDocument,
    RuntimeDocument,
    StatusDocument,
)


def status_document(
    snapshot: Snapshot,
    runtime: RuntimeDocument,
    kernel: Mapping[ContainerId, Pinning],
    unsettled: Mapping[ContainerId, str],
    problems: Sequence[str],
) -> StatusDocument:
    """The status document of a snapshot. O(containers + pools).

    `kernel`: what could be read back; `unsettled`: containers of which an update is under way, with
    what went wrong with it so far, if anything.
    """
    by_pool: dict[int, list[str]] = {}
    for container_id, grant in snapshot.grants.items():
        path = snapshot.containers[container_id].path
        by_pool.setdefault(grant.pool_id, []).append(path)
    return StatusDocument(
        runtime=runtime,
        pools=tuple(_pools(snapshot, by_pool)),
        containers=container_documents(snapshot, snapshot.grants, kernel, unsettled),
        problems=tuple(problems),
    )


def container_documents(
    snapshot: Snapshot,
    container_ids: Iterable[ContainerId],
    kernel: Mapping[ContainerId, Pinning],
    unsettled: Mapping[ContainerId, str],
) -> tuple[ContainerDocument, ...]:
    """Documents of placed containers, by their names; see `status_document`."""
    found = [
        _container(snapshot, one, snapshot.grants[one], kernel.get(one), unsettled)
        for one in container_ids
    ]
    return tuple(sorted(found, key=lambda one: (one.container, one.id)))


def pin_document(pinning: Pinning) -> PinDocument:
    """Cpus and memory nodes of a pinning."""
    return PinDocument(
        cpus=None if pinning.cpus is None else str(pinning.cpus),
        mems=None if pinning.mems is None else str(pinning.mems),
    )


def _pools(snapshot: Snapshot, by_pool: Mapping[int, list[str]]) -> Iterator[PoolDocument]:
    # What measures loads is loaded by whoever asks.
    from ...policy.engine.gauges.kept_loads import pool_loads

    holders = (*snapshot.grants.values(), *snapshot.pens.values())
    exclusive = reduce(lambda mask, one: mask | one.exclusive.mask, holders, 0)
    promised, free = pool_loads(snapshot).promised_milli, snapshot.free_milli()
    for pool in snapshot.tree.pools:
        usable = pool.isolated | pool.reserved | pool.sharable
        yield PoolDocument(
            name=pool.name,
            cpus=str(usable),
            exclusive=str(CpuSet(usable.mask & exclusive)),
            sharable=str(CpuSet(snapshot.free_sharable[pool.id])),
            shared_milli=promised[pool.id],
            free_milli=free[pool.id],
            mems=str(pool.memory_nodes),
            containers=tuple(sorted(by_pool.get(pool.id, ()))),
        )


def _container(
    snapshot: Snapshot,
    container_id: ContainerId,
    grant: Grant,
    kernel: Pinning | None,
    unsettled: Mapping[ContainerId, str],
) -> ContainerDocument:
    container = snapshot.containers[container_id]
    decision = snapshot.decisions.get(container_id)
    intended = snapshot.pinnings.get(container_id) or Pinning()
    differs = kernel is not None and is_drift(intended, kernel)
    problem = unsettled.get(container_id, "")
    pool = snapshot.tree.pools[grant.pool_id].name
    return ContainerDocument(
        container=container.path,
        id=container.shown_id,
        pool=pool,
        kind=grant.kind.value,
        intended=pin_document(intended),
        kernel=None if kernel is None else pin_document(kernel),
        idle=str(snapshot.idle_of(container_id)),
        granted_milli=1000 * len(grant.exclusive) + grant.shared_milli,
        # What is just being told is no drift, unless it failed.
        drift=differs and (container_id not in unsettled or bool(problem)),
        decided_by=decision.decided_by if decision else "",
        placed_in=decision.pool if decision is not None and decision.pool != pool else "",
        problems=tuple(_problems(decision, problem)),
    )


def _problems(decision: Decision | None, problem: str) -> Iterator[str]:
    if decision is not None:
        if decision.degraded:
            yield decision.degraded
        yield from map(str, decision.problems)
    if problem:
        yield problem
