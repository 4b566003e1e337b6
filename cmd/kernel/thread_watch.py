"""Threads that are bound to fewer cpus than their container has, looked for from time to time."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ...nri.dispatch.pacer import ALONE, Pacer
from ...policy.model.container import ContainerId
from ...topology.sets.cpuset import CpuSet
from .cgroup_usage import container_folders
from .thread_affinities import folder_affinities

LOOK_THREADS: Final = 2000
"""Threads that one look reads at most, in some 70 ms of cpu; the next one goes on from there."""
CONTAINER_THREADS: Final = 500
"""Threads of one container that are looked at."""


class ThreadWatch:
    """Bound threads of all containers, as far as they were looked at. Not for several threads."""

    def __init__(self, root: Path, pacer: Pacer = ALONE, threads_max: int = LOOK_THREADS) -> None:
        """`root`: the folder that holds proc/ and sys/."""
        self._root = root
        self._pacer = pacer
        self._threads_max = threads_max
        self._folders: dict[str, Path] = {}
        self._last: ContainerId | None = None
        self._bound: dict[ContainerId, Mapping[CpuSet, int]] = {}

    @property
    def bound_threads(self) -> int:
        """The number of threads that were bound when their containers were looked at last."""
        return sum(sum(one.values()) for one in tuple(self._bound.values()))

    def look(
        self, intended: Mapping[ContainerId, CpuSet]
    ) -> Mapping[ContainerId, Mapping[CpuSet, int]]:
        """Containers with threads that are bound to cpus none was bound to the last time.

        `intended`: the cpus of each container. O(containers + threads), and of threads at most
        `threads_max`: a look at more goes on the next time.
        """
        self._find(intended)
        for gone in self._bound.keys() - intended.keys():
            del self._bound[gone]
        found: dict[ContainerId, Mapping[CpuSet, int]] = {}
        left = self._threads_max
        for one in self._pacer.among(self._in_turn(intended)):
            if left <= 0:
                break
            self._last = one
            threads = folder_affinities(
                self._root, self._folders[one], min(left, CONTAINER_THREADS)
            )
            left -= 1 + sum(threads.values())
            # Those on other cpus are in a container that drifted.
            bound = {cpus: count for cpus, count in threads.items() if cpus < intended[one]}
            before = self._bound.pop(one, {})
            if bound:
                self._bound[one] = bound
            if bound.keys() - before.keys():
                found[one] = bound
        return found

    def _find(self, intended: Mapping[ContainerId, CpuSet]) -> None:
        """Look for the cgroups of containers that have come."""
        for gone in self._folders.keys() - intended.keys():
            del self._folders[gone]
        if missing := intended.keys() - self._folders.keys():
            self._folders.update(container_folders(self._root, missing, self._pacer))

    def _in_turn(self, intended: Mapping[ContainerId, CpuSet]) -> Iterator[ContainerId]:
        """The containers with a cgroup, from the one after that of the last look."""
        known = [one for one in intended if one in self._folders]
        last = self._last
        start = known.index(last) + 1 if last is not None and last in known else 0
        yield from known[start:]
        yield from known[:start]
