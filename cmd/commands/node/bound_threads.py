"""Threads that are bound to fewer cpus than their container has, by whomever."""

from pathlib import Path
from typing import Self

from ....topology.sets.cpuset import CpuSet
from ...control.documents import AuditDocument, NodeDocument, StatusDocument
from ...kernel.thread_watch import read_affinities


class BoundThreads(NodeDocument, frozen=True, kw_only=True):
    """Threads of one container that are bound to the same cpus."""

    container: str
    intended: str
    """The cpus of the container."""
    cpus: str
    threads: int


class ThreadAuditDocument(AuditDocument, frozen=True, kw_only=True):
    """An audit with the threads that are bound."""

    threads: tuple[BoundThreads, ...]

    @classmethod
    def of(cls, audit: AuditDocument, threads: tuple[BoundThreads, ...]) -> Self:
        """The audit with these threads."""
        return cls(containers=audit.containers, drift=audit.drift, threads=threads)


def bound_threads(status: StatusDocument, root: Path) -> tuple[BoundThreads, ...]:
    """Threads that are bound, by container and cpus; of containers that are pinned alone.

    `root`: the folder that holds proc/ and sys/.
    """
    affinities = read_affinities(root, [one.id for one in status.containers])
    found: list[BoundThreads] = []
    for one in status.containers:
        if one.intended.cpus is None:
            continue
        intended = CpuSet.parse(one.intended.cpus)
        for cpus, count in affinities.get(one.id, {}).items():
            # Those on other cpus are in a container that drifted.
            if cpus < intended:
                found.append(
                    BoundThreads(
                        container=one.container,
                        intended=str(intended),
                        cpus=str(cpus),
                        threads=count,
                    )
                )
    return tuple(sorted(found, key=lambda one: (one.container, one.cpus)))
