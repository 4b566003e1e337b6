"""Affinities of containers' threads, as the kernel has them.

Whoever may, the program itself included, can bind a thread to some of its container's cpus; a
change of the container's cpuset undoes that, and nobody is told.
Source: sched_setaffinity(2); proc(5), /proc/pid/status; cpuset(7).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from ...topology.sets.cpuset import CpuSet, IdListError
from .cgroup_usage import container_folders

_ALLOWED: Final = re.compile(r"^Cpus_allowed_list:\s*(\S*)", re.MULTILINE)
_THREADS_MAX: Final = 65536
"""Of all containers together; further ones are not looked at."""


def read_affinities(root: Path, ids: Collection[str]) -> Mapping[str, Mapping[CpuSet, int]]:
    """The number of threads of each container by the cpus they may run on. O(threads).

    `root`: the folder that holds proc/ and sys/. Containers without a cgroup are left out.
    """
    found: dict[str, Mapping[CpuSet, int]] = {}
    left = _THREADS_MAX
    for container_id, folder in container_folders(root, ids):
        counts: Counter[CpuSet] = Counter()
        for pid in _processes(folder):
            for cpus in _threads(root / "proc" / str(pid) / "task"):
                if left:
                    left -= 1
                    counts[cpus] += 1
        found[container_id] = counts
    return found


def _processes(folder: Path) -> Iterator[int]:
    """Processes of a cgroup and of those that the container made below it."""
    for file in (folder / "cgroup.procs", *sorted(folder.glob("*/**/cgroup.procs"))):
        try:
            text = file.read_text(encoding="ascii")
        except OSError:
            # It ended meanwhile, or threads are spread over cgroups of their own there.
            continue
        yield from map(int, filter(str.isdecimal, text.split()))


def _threads(tasks: Path) -> Iterator[CpuSet]:
    try:
        threads = sorted(tasks.iterdir())
    except OSError:
        return
    for thread in threads:
        try:
            allowed = _ALLOWED.search((thread / "status").read_text(errors="replace"))
            if allowed is not None:
                yield CpuSet.parse(allowed[1])
        except (OSError, IdListError):
            continue
