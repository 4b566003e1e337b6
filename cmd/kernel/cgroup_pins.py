"""The cpus and memory nodes that cgroups give to containers, read back from the kernel."""

import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from ...nri.dispatch.update_sender import ReadBack
from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from ...topology.sets.cpuset import CpuSet, IdListError, NodeSet
from ...topology.sysfs.sysfs_tree import DirectoryTree
from .cgroup_namespace import CgroupNamespace

_UNIFIED: Final = "0"
"""The number of the hierarchy of cgroup v2 in /proc/PID/cgroup. Source: cgroups(7)."""
_MOUNTS: Final = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
_CPUSET_MOUNTS: Final = ("sys/fs/cgroup/cpuset", "sys/fs/cgroup/cpu,cpuset")
_KNOWN_MAX: Final = 2048
"""More than run on a node: those that were read least lately are gone."""
_TEXTS_KEPT: Final = 64


def cgroup_reader(root: str) -> ReadBack:
    """Reads the cpuset of a container's cgroup, found by a process of it.

    `root`: a folder that holds proc/ and sys/. The reader answers None where there is no process,
    no cpuset, or a cgroup that does not bear the container's id: a process id may be another's by
    now. For several threads, which wait for each other: the actuator reads, and the audit.
    """
    turn = threading.Lock()
    folders: dict[ContainerId, str] = {}
    # One for all reads: to find a root takes longer than to read a cpuset.
    tree = DirectoryTree(root)
    namespace = CgroupNamespace(Path(root))

    def read(container_id: ContainerId, pid: int, likely: Pinning | None) -> Pinning | None:
        folder = folders.pop(container_id, None)
        found = None if folder is None else _read_folder(tree, folder, likely)
        if folder is not None and found is not None:
            # Behind all others: whoever is not read any more is soon the first.
            folders[container_id] = folder
            return found
        for folder in _folders(tree.read(f"proc/{pid}/cgroup") or "", container_id, namespace):
            one = _read_folder(tree, folder, likely)
            if one is not None and one.cpus:
                folders[container_id] = folder
                if len(folders) > _KNOWN_MAX:
                    del folders[next(iter(folders))]
                return one
            found = found or one
        return found

    def read_in_turn(container_id: ContainerId, pid: int, likely: Pinning | None) -> Pinning | None:
        with turn:
            return read(container_id, pid, likely)

    return read_in_turn


def _read_folder(tree: DirectoryTree, folder: str, likely: Pinning | None) -> Pinning | None:
    cpus, mems = tree.read(f"{folder}/cpuset.cpus"), tree.read(f"{folder}/cpuset.mems")
    if cpus is None or mems is None:
        return None
    cpus, mems = cpus.strip(), mems.strip()
    # As a rule a text of it was made a moment ago, for the runtime; to read one takes far longer.
    if likely is not None and cpus == str(likely.cpus) and mems == str(likely.mems):
        return likely
    try:
        return _pinning(cpus, mems)
    except IdListError:
        return None


# Containers that share cpus have the same texts, one after the other.
@lru_cache(maxsize=_TEXTS_KEPT)
def _pinning(cpus: str, mems: str) -> Pinning:
    """The pinning that two files of a cgroup tell. Raises `IdListError`."""
    return Pinning(cpus=CpuSet.parse(cpus), mems=NodeSet.parse(mems))


def _folders(text: str, container_id: ContainerId, namespace: CgroupNamespace) -> Iterator[str]:
    """Where the cpuset of a container may be, given the /proc/PID/cgroup of a process of it.

    The process may be in a cgroup of its own below that of its container; and crun under systemd
    sets the cpuset of that one alone. So the container's comes first, then those inside it.
    """
    if not container_id:
        return
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        mounts: tuple[str, ...] = ()
        if "cpuset" in controllers.split(","):
            mounts = _CPUSET_MOUNTS
        elif number == _UNIFIED and not controllers:
            mounts = _MOUNTS
        if not mounts or container_id not in path:
            continue
        parts = namespace.whole(number, path, container_id).split("/")
        own = next((at for at, part in enumerate(parts) if container_id in part), None)
        if own is None:
            continue
        for depth in range(own + 1, len(parts) + 1):
            inside = "/".join(parts[:depth]).strip("/")
            yield from (f"{mount}/{inside}" for mount in mounts)
