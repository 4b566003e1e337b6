"""Threads that are bound to fewer cpus than their container has: affinities, and a watch of them.

Whoever may, the program itself included, can bind a thread to some of its container's cpus; a
change of the container's cpuset undoes that, and nobody is told.
Source: sched_setaffinity(2); proc(5), /proc/pid/status; cpuset(7).
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from ...nri.dispatch.pacer import ALONE, Pacer
from ...policy.model.container import ContainerId
from ...topology.sets.cpuset import CpuSet, IdListError
from .cgroup_usage import container_folders

_ALLOWED: Final = re.compile(rb"^Cpus_allowed_list:[ \t]*([0-9,-]+)", re.MULTILINE)
_LINKS_WITHOUT_FOLDERS: Final = 2
"""Of a folder: its own name and its dot; each folder in it is one more, but in file systems that do
not count them and always say one. Source: Linux, fs/kernfs/inode.c; find(1), -noleaf."""
_THREADS_MAX: Final = 65536
"""Of all containers together; further ones are not looked at."""
LOOK_THREADS: Final = 2000
"""Threads that one look reads at most, in some 70 ms of cpu; the next one goes on from there."""
CONTAINER_THREADS: Final = 500
"""Threads of one container that are looked at."""


def read_affinities(root: Path, ids: Collection[str]) -> Mapping[str, Mapping[CpuSet, int]]:
    """The number of threads of each container by the cpus they may run on. O(threads).

    `root`: the folder that holds proc/ and sys/. Containers without a cgroup are left out.
    """
    found: dict[str, Mapping[CpuSet, int]] = {}
    left = _THREADS_MAX
    for container_id, folder in container_folders(root, ids):
        found[container_id] = folder_affinities(root, folder, left)
        left -= sum(found[container_id].values())
    return found


def folder_affinities(root: Path, folder: Path, threads_max: int) -> Mapping[CpuSet, int]:
    """The number of threads of one container's cgroup by the cpus they may run on.

    `threads_max`: so many are looked at. Raises nothing where the cgroup is gone: it is empty.
    """
    counts: Counter[str] = Counter()
    threads = (one for pid in _processes(folder) for one in _threads(f"{root}/proc/{pid}/task"))
    for cpus in islice(threads, threads_max):
        counts[cpus] += 1
    found: dict[CpuSet, int] = {}
    for text, count in counts.items():
        with suppress(IdListError):
            found[CpuSet.parse(text)] = count
    return found


def _processes(folder: Path) -> Iterator[int]:
    """Processes of a cgroup and of those that the container made below it."""
    # Not by `Path`: its patterns take longer than the kernel does.
    waiting = [os.fspath(folder)]
    while waiting:
        here, text = waiting.pop(), b""
        # It may have ended, or threads are spread over cgroups of their own there.
        with suppress(OSError), open(f"{here}/cgroup.procs", "rb") as file:
            text = file.read()
        yield from map(int, filter(bytes.isdigit, text.split()))
        waiting += sorted(_inside(here), reverse=True)


def _inside(cgroup: str) -> list[str]:
    """The cgroups in a cgroup; hardly any container makes some."""
    with suppress(OSError):
        # Each has dozens of files, of which none need be looked at where no folder is among them.
        if os.stat(cgroup).st_nlink == _LINKS_WITHOUT_FOLDERS:
            return []
        with os.scandir(cgroup) as entries:
            return [one.path for one in entries if one.is_dir(follow_symlinks=False)]
    return []


def _threads(tasks: str) -> Iterator[str]:
    """The cpus of each thread of a process, in the kernel's list format."""
    try:
        threads = sorted(os.listdir(tasks))
    except OSError:
        return
    for thread in threads:
        try:
            # Not by `Path`: it takes longer than the kernel does.
            with open(f"{tasks}/{thread}/status", "rb") as file:
                allowed = _ALLOWED.search(file.read())
        except OSError:
            continue
        if allowed is not None:
            yield allowed[1].decode()


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
