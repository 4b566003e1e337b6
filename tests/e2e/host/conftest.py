"""A containerd and a pinfoldd on this machine, under a folder and a cgroup of their own."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc
import pytest

from tests.e2e import debian, runtime
from tests.e2e.containerd import Containerd
from tests.e2e.cri import HANGS_AFTER_SECONDS, Cri, is_kept_by_a_task, is_unanswered
from tests.e2e.daemon import Daemon
from tests.e2e.host.lengths import Lengths, lengths_of
from tests.e2e.leash import LEASH
from tests.e2e.node import Node, remove_cgroups
from tests.e2e.pins import cpuset_mount

FRONTS: Final = (
    *((suite, "nri") for suite in runtime.CONTAINERD_SUITES),
    # The stable suite's containerd has no NRI; the others have theirs switched off.
    *((suite, "cri") for suite in (runtime.STABLE_SUITE, *runtime.CONTAINERD_SUITES)),
)


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


def unpacked_runtime(suite: str) -> Path:
    """The folder with the suite's containerd, runc and the image; skips where there is none."""
    reason = _missing()
    if reason:
        pytest.skip(reason)
    try:
        return runtime.unpacked(suite)
    except debian.DebianError as error:
        pytest.skip(f"containerd of {suite}: {error}")


@pytest.fixture(scope="session", params=FRONTS, ids=lambda one: f"{one[0]}-{one[1]}")
def front(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A suite of Debian and the interface: every test runs with each containerd, in both ways."""
    suite, interface = request.param
    return str(suite), str(interface)


@pytest.fixture(scope="session")
def lengths(front: tuple[str, str]) -> Lengths:
    """How often, and how long, luck is tried."""
    return lengths_of(front[1])


@pytest.fixture(scope="session")
def nri_alone(front: tuple[str, str]) -> None:
    """Skips what only NRI has."""
    if front[1] != "nri":
        pytest.skip("a matter of NRI: a proxy is no plugin, of which a runtime has several")


@pytest.fixture(scope="session")
def cri_alone(front: tuple[str, str]) -> None:
    """Skips what only a proxy has."""
    if front[1] != "cri":
        pytest.skip("a matter of the CRI proxy")


@pytest.fixture(scope="session")
def unpacked(front: tuple[str, str]) -> Path:
    """The folder with containerd, runc and the image."""
    return unpacked_runtime(front[0])


@pytest.fixture(scope="session")
def cgroup_root() -> str:
    """The name of the cgroup that all pods of this run are in."""
    return f"pinfold-e2e-{os.getpid()}"


@pytest.fixture(scope="session")
def containerd(front: tuple[str, str], unpacked: Path, cgroup_root: str) -> Iterator[Containerd]:
    """A running containerd with the image imported."""
    # Memory where there is enough: the snapshotter copies the image for every container.
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="pinfold-e2e-", dir=memory if memory.is_dir() else None))
    started = Containerd(runtime.binaries(unpacked), folder, has_nri=front[1] == "nri")
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
    cri = Cri(containerd.kubelet_socket, HANGS_AFTER_SECONDS)
    direct = Cri(containerd.socket, HANGS_AFTER_SECONDS)
    node = Node(cri, cgroup_root, direct)
    node.wait_for_image()
    yield node
    try:
        node.end_all()
    except grpc.RpcError as error:
        if not is_unanswered(error) and not is_kept_by_a_task(error):
            raise
        # A test has made it hang, or killed a caller; nothing else frees it for the next one.
        containerd.kill()
        containerd.start()
        node.end_all()
    cri.close()
    direct.close()


@pytest.fixture
def daemon(containerd: Containerd, node: Node, tmp_path: Path) -> Iterator[Daemon]:
    """A pinfoldd that is ready; it is ended before the pods are."""
    # Depends on the node, so that its pods are ended after the daemon.
    del node
    listen = None if containerd.has_nri else containerd.kubelet_socket
    started = Daemon(tmp_path, containerd.nri_socket, containerd.socket, LEASH, listen)
    started.start()
    yield started
    started.kill()
