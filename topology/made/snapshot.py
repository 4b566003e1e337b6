"""Snapshots of machines: archives of them, and capturing one.

It has what discovery reads, and what other tools want beside it. /proc/cmdline and addresses of
network cards are left out: snapshots are sent to other people.
"""

import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..model.machine import Machine
from ..sets.base_errors import TopologyError
from ..sysfs.attributes import Attributes
from ..sysfs.cpus import CPU
from ..sysfs.discovery import discover, is_live
from ..sysfs.numa_nodes import NODE
from ..sysfs.speed_select_source import ask_hardware, snapshot_files
from ..sysfs.sysfs_tree import SysfsTree

SUFFIXES: Final = (".tar.xz", ".tar.gz", ".tar")
_WHOLE_MACHINE: Final = (
    "proc/cpuinfo",
    "proc/meminfo",
    f"{CPU}/offline",
    f"{CPU}/kernel_max",
    f"{CPU}/nohz_full",
    f"{CPU}/smt/active",
    f"{NODE}/possible",
    f"{NODE}/has_cpu",
    f"{NODE}/has_generic_initiator",
)
_PAGE_CHARACTERS: Final = 4096
_CPU_FILES: Final = ("online", "cpu_capacity")
_FREQUENCY_FILES: Final = (
    "affected_cpus",
    "related_cpus",
    "scaling_driver",
    "scaling_governor",
    "scaling_max_freq",
    "scaling_min_freq",
)
_NODE_FILES: Final = ("cpulist", "cpumap", "distance", "meminfo")
_ACCESS_FILES: Final = ("read_bandwidth", "read_latency", "write_bandwidth", "write_latency")


@dataclass(frozen=True, slots=True, kw_only=True)
class SysfsSnapshot:
    """Files by path, links by path (their targets as paths of the snapshot), further folders."""

    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    folders: frozenset[str] = frozenset()


def pack(snapshot: SysfsSnapshot, name: str) -> bytes:
    """The snapshot as an archive of the kind a file name asks for; equal ones give equal bytes.

    Raises `TopologyError` where the name ends in no known suffix.
    """
    if not name.endswith(SUFFIXES):
        raise TopologyError(f"{name}: unknown kind of archive — name it *{' or *'.join(SUFFIXES)}")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted({*_folders(snapshot), *snapshot.files, *snapshot.links}):
            member = tarfile.TarInfo(path)
            content = b""
            if path in snapshot.files:
                content = snapshot.files[path].encode()
                member.size = len(content)
            elif path in snapshot.links:
                member.type = tarfile.SYMTYPE
                member.linkname = os.path.relpath(snapshot.links[path], os.path.dirname(path))
            else:
                member.type = tarfile.DIRTYPE
                member.mode = 0o755
            archive.addfile(member, io.BytesIO(content))
    content = buffer.getvalue()
    if name.endswith(".xz"):
        return lzma.compress(content)
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def _folders(snapshot: SysfsSnapshot) -> Iterator[str]:
    """Every folder, those above before those below."""
    found = set(snapshot.folders)
    for path in (*snapshot.files, *snapshot.links, *snapshot.folders):
        while (path := os.path.dirname(path)) and path not in found:
            found.add(path)
    yield from sorted(found - set(snapshot.links))


class Recorder:
    """A tree that remembers what it was asked for and what it answered."""

    def __init__(self, tree: SysfsTree, rest: Callable[[], object] = lambda: None) -> None:
        """`rest`: called before each look at the tree; may take its time."""
        self._tree = tree
        self._rest = rest
        self._files: dict[str, str] = {}
        self._missing: set[str] = set()
        self._names: dict[str, list[str]] = {}
        self._links: dict[str, str] = {}

    @property
    def root(self) -> str:
        """The root of the recorded tree."""
        return self._tree.root

    def read(self, path: str) -> str | None:
        """The text of a file; the same at every call, though files like meminfo change."""
        if path not in self._files and path not in self._missing:
            self._rest()
            text = self._tree.read(path)
            if text is None:
                self._missing.add(path)
            else:
                self._files[path] = text
        return self._files.get(path)

    def keep(self, path: str, text: str) -> None:
        """Put a file of our own into the snapshot."""
        self._files[path] = text

    def beginning(self, path: str) -> str | None:
        """The first page of a file, which may be all; None where there is none to read."""
        text = self.read(path)
        return None if text is None else text[:_PAGE_CHARACTERS]

    def names(self, path: str) -> list[str]:
        """The sorted names in a directory."""
        if path not in self._names:
            self._rest()
            self._names[path] = self._tree.names(path)
        return self._names[path]

    def resolve(self, path: str) -> str | None:
        """The path with all links followed."""
        self._rest()
        target = self._tree.resolve(path)
        if target is not None and target != path:
            self._links[path] = target
        return target

    def snapshot(self) -> SysfsSnapshot:
        """The snapshot of all files read; one read through a link is where the link leads."""
        # Listed folders count though nothing in them was read: an offline cpu's, an empty node's.
        folders = {
            f"{folder}/{name}"
            for folder, names in self._names.items()
            for name in names
            if name[-1:].isdigit() and f"{folder}/{name}" not in self._files
        }
        return SysfsSnapshot(
            files={self._place(path): text for path, text in self._files.items()},
            links=self._links,
            folders=frozenset(
                {self._place(path) for path in (*folders, *self._names) if self._is_folder(path)}
                | set(self._links.values())
            )
            - self._links.keys(),
        )

    def _is_folder(self, path: str) -> bool:
        return path not in self._links and (bool(self._names.get(path)) or path[-1:].isdigit())

    def _place(self, path: str) -> str:
        """Where a path leads, by the links that were followed."""
        at = path.rfind("/")
        while at > 0:
            if path[:at] in self._links:
                return self._links[path[:at]] + path[at:]
            at = path.rfind("/", 0, at)
        return path


def capture(
    tree: SysfsTree, rest: Callable[[], object] = lambda: None
) -> tuple[Machine, SysfsSnapshot]:
    """The machine a tree shows, and the snapshot in which discovery finds that very machine.

    What hardware was asked for is kept as a file; a warning that it could not be read is not.
    `rest`: as for `Recorder`.
    """
    recorder = Recorder(tree, rest)
    machine = discover(recorder)
    if is_live(tree):
        machine = ask_hardware(machine)
        for path, text in snapshot_files(machine).items():
            recorder.keep(path, text)
    for path in _more_files(recorder):
        recorder.read(path)
    return machine, recorder.snapshot()


def _more_files(recorder: Recorder) -> Iterator[str]:
    attributes = Attributes(recorder)
    yield from _WHOLE_MACHINE
    for cpu in attributes.numbered(CPU, "cpu"):
        folder = f"{CPU}/cpu{cpu}"
        yield from (f"{folder}/{name}" for name in _CPU_FILES)
        yield from (f"{folder}/topology/{name}" for name in recorder.names(f"{folder}/topology"))
        yield from (f"{folder}/cpufreq/{name}" for name in _FREQUENCY_FILES)
        for index in attributes.numbered(f"{folder}/cache", "index"):
            cache = f"{folder}/cache/index{index}"
            yield from (f"{cache}/{name}" for name in recorder.names(cache) if name != "uevent")
    for node in attributes.numbered(NODE, "node"):
        folder = f"{NODE}/node{node}"
        yield from (f"{folder}/{name}" for name in _NODE_FILES)
        for access in ("access0", "access1"):
            yield from (f"{folder}/{access}/initiators/{name}" for name in _ACCESS_FILES)
        for index in attributes.numbered(f"{folder}/memory_side_cache", "index"):
            cache = f"{folder}/memory_side_cache/index{index}"
            yield from (f"{cache}/{name}" for name in recorder.names(cache) if name != "uevent")
