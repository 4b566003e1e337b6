"""Usage of containers as their cgroups count it: processor time, waiting, memory by NUMA node.

Source: the kernel's documentation, "Control Group v2" and "Control Groups version 1", "PSI".
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...nri.dispatch.pacer import ALONE, Pacer

_ID: Final = re.compile(r"[0-9a-f]{64}")
_UNIFIED: Final = "sys/fs/cgroup"
_TIMES: Final = ("cpu,cpuacct", "cpuacct")
_LIMITS: Final = ("cpu,cpuacct", "cpu")
"""Version one counts both in one hierarchy on most machines, and in two on others."""
_MEMORY: Final = "memory"
_CPUSETS: Final = ("cpuset", "cpu,cpuset", "unified")
"""Beside version two, cpusets are in a hierarchy of version one, where it has them at all."""
_NODE: Final = re.compile(r"N(\d+)=(\d+)")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_DEPTH_MAX: Final = 12
"""Of cgroups; pods have them some five levels deep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupUsage:
    """One container's counters since its start; None for what its kernel does not count."""

    used_usec: int | None = None
    throttled_usec: int | None = None
    waiting_usec: int | None = None
    """In which some task of it could run and had no cpu."""
    memory_bytes: Mapping[int, int] = field(default_factory=dict[int, int])
    """By NUMA node; empty where that is not counted."""


def read_usages(root: Path, ids: Collection[str]) -> Mapping[str, CgroupUsage]:
    """The usage of containers by id, as far as they have a cgroup. O(cgroups).

    `root`: the folder that holds sys/.
    """
    wanted = set(ids)
    top = root / _UNIFIED
    if (top / "cgroup.controllers").exists():
        return {one: _unified(folder) for one, folder in _folders(top, wanted)}
    times, limits = _first_folders(top, _TIMES, wanted), _first_folders(top, _LIMITS, wanted)
    memory = dict(_folders(top / _MEMORY, wanted))
    return {
        one: _version_one(times.get(one), limits.get(one), memory.get(one))
        for one in times.keys() | limits.keys()
    }


def _first_folders(
    top: Path, names: Sequence[str], wanted: Collection[str], pacer: Pacer = ALONE
) -> dict[str, Path]:
    """The cgroup of each container in the first of these hierarchies that is there."""
    hierarchies = (top / name for name in names)
    first = next(filter(Path.is_dir, hierarchies), top / names[0])
    return dict(_folders(first, wanted, pacer))


def container_folders(
    root: Path, ids: Collection[str], pacer: Pacer = ALONE
) -> Iterator[tuple[str, Path]]:
    """The cgroup of each container in which its cpuset is. O(cgroups).

    `root`: the folder that holds sys/.
    """
    top = root / _UNIFIED
    if (top / "cgroup.controllers").exists():
        return _folders(top, set(ids), pacer)
    return iter(_first_folders(top, _CPUSETS, set(ids), pacer).items())


def _folders(
    top: Path, wanted: Collection[str], pacer: Pacer = ALONE
) -> Iterator[tuple[str, Path]]:
    """The cgroup of each container: the uppermost one that bears its id."""
    waiting = [(os.fspath(top), 0)]
    while waiting:
        pacer.rest()
        folder, depth = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            # It ended meanwhile.
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                continue
            named = _ID.search(entry.name)
            if named is None or named[0] not in wanted:
                if depth < _DEPTH_MAX:
                    waiting.append((entry.path, depth + 1))
            elif "conmon" not in entry.name:
                # CRI-O has a cgroup of its monitor beside that of the container.
                yield named[0], Path(entry.path)


def _unified(folder: Path) -> CgroupUsage:
    times = _table(_text(folder / "cpu.stat"))
    pressure = re.search(r"^some .*total=(\d+)", _text(folder / "cpu.pressure"), re.MULTILINE)
    memory: dict[int, int] = {}
    for line in _text(folder / "memory.numa_stat").splitlines():
        # What is in them: pages of processes, and of files that they read.
        if line.startswith(("anon ", "file ")):
            for node, size in _NODE.findall(line):
                memory[int(node)] = memory.get(int(node), 0) + int(size)
    return CgroupUsage(
        used_usec=times.get("usage_usec"),
        throttled_usec=times.get("throttled_usec"),
        waiting_usec=int(pressure[1]) if pressure else None,
        memory_bytes=memory,
    )


def _version_one(times: Path | None, limits: Path | None, memory_in: Path | None) -> CgroupUsage:
    used = _text(times / "cpuacct.usage").strip() if times else ""
    throttled = _table(_text(limits / "cpu.stat")).get("throttled_time") if limits else None
    memory: dict[int, int] = {}
    if memory_in is not None:
        for line in _text(memory_in / "memory.numa_stat").splitlines():
            if line.startswith("total="):
                pages = {int(node): int(count) for node, count in _NODE.findall(line)}
                memory = {node: count * _PAGE_BYTES for node, count in pages.items()}
    return CgroupUsage(
        used_usec=int(used) // 1000 if used.isdecimal() else None,
        throttled_usec=None if throttled is None else throttled // 1000,
        memory_bytes=memory,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _table(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {one[0]: int(one[1]) for one in pairs if len(one) == 2 and one[1].isdecimal()}
