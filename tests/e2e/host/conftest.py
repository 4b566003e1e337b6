"""A containerd and a pinfoldd on this machine, under a folder and a cgroup of their own."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import debian, runtime
from tests.e2e.containerd import Containerd
from tests.e2e.cri import Cri
from tests.e2e.daemon import Daemon
from tests.e2e.leash import LEASH
from tests.e2e.node import Node, remove_cgroups
from tests.e2e.pins import cpuset_mount


def _missing() -> str:
    """Why containers cannot be run and pinned on this machine; empty where they can."""
    if os.geteuid() != 0:
        return "not root"
    if platform.machine() != "x86_64":
        return f"{platform.machine()}: the image is built for x86-64"
    if len(os.sched_getaffinity(0)) < 2:
        return "fewer than two cpus: one is reserved, one is to be exclusive"
    mount = cpuset_mount("cgroup") or cpuset_mount("cgroup2")
    if mount is None:
        return "no cpuset cgroup is mounted"
    if not os.access(mount, os.W_OK) or os.statvfs(mount).f_flag & os.ST_RDONLY:
        return f"{mount}: is read-only"
    return debian.missing()


@pytest.fixture(scope="session")
def unpacked() -> Path:
    """The folder with containerd, runc and the image; skips where they cannot run."""
    reason = _missing()
    if reason:
        pytest.skip(reason)
    return runtime.unpacked()


@pytest.fixture(scope="session")
def cgroup_root() -> str:
    """The name of the cgroup that all pods of this run are in."""
    return f"pinfold-e2e-{os.getpid()}"


@pytest.fixture(scope="session")
def containerd(unpacked: Path, cgroup_root: str) -> Iterator[Containerd]:
    """A running containerd with the image imported."""
    # Memory where there is enough: the snapshotter copies the image for every container.
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="pinfold-e2e-", dir=memory if memory.is_dir() else None))
    started = Containerd(runtime.binaries(unpacked), folder)
    try:
        started.start()
        started.import_image(unpacked / "image.tar")
        yield started
    finally:
        started.stop()
        started.end_shims()
        remove_cgroups(cgroup_root)
        shutil.rmtree(folder)


@pytest.fixture
def node(containerd: Containerd, cgroup_root: str) -> Iterator[Node]:
    """A node without pods; those a test leaves are ended."""
    cri = Cri(containerd.socket)
    node = Node(cri, cgroup_root)
    node.wait_for_image()
    yield node
    node.end_all()
    cri.close()


@pytest.fixture
def daemon(containerd: Containerd, node: Node, tmp_path: Path) -> Iterator[Daemon]:
    """A pinfoldd that is ready; it is ended before the pods are."""
    # Depends on the node, so that its pods are ended after the daemon.
    del node
    started = Daemon(tmp_path, containerd.nri_socket, LEASH)
    started.start()
    yield started
    started.kill()
