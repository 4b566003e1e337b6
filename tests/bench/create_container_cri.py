"""What the CRI proxy adds to CreateContainer of a real containerd: `make bench-runtime`.

Beside it a proxy that does nothing but pass on: the floor. Not named test_*: it runs only where it
is asked for by name.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.bench.timings import percentile_ms
from tests.e2e.agreement import eventually
from tests.e2e.containerd import Containerd
from tests.e2e.cri import HANGS_AFTER_SECONDS, Cri
from tests.e2e.daemon import Daemon
from tests.e2e.host.conftest import cgroup_root, containerd, node, unpacked_runtime
from tests.e2e.leash import LEASH
from tests.e2e.node import Node
from tests.e2e.pods import PodSpec, burstable
from tests.e2e.runtime import CONTAINERD_SUITES

# Fixtures of the end-to-end tests; here, too, once they are named.
__all__ = ["cgroup_root", "containerd", "node"]

ROUNDS: Final = 60
WARM_UP: Final = 3
RESIDENTS: Final = 10


@pytest.fixture(scope="session")
def front() -> tuple[str, str]:
    """One runtime alone, without NRI."""
    return CONTAINERD_SUITES[0], "cri"


@pytest.fixture(scope="session")
def unpacked(front: tuple[str, str]) -> Path:
    """Its programs."""
    return unpacked_runtime(front[0])


@pytest.fixture
def floor(containerd: Containerd, tmp_path: Path) -> Iterator[Path]:
    """The socket of a proxy without a policy."""
    path = tmp_path / "floor.sock"
    command = [
        sys.executable,
        "-m",
        "tests.bench.cri_floor",
        "proxy",
        str(containerd.socket),
        str(path),
    ]
    with subprocess.Popen([*LEASH, *command]) as started:
        assert eventually(path.exists)
        yield path
        started.terminate()


@pytest.mark.e2e
def test_create_container_through_proxies(
    containerd: Containerd,
    node: Node,
    floor: Path,
    tmp_path: Path,
) -> None:
    daemon = Daemon(
        *(tmp_path, containerd.nri_socket, containerd.socket, LEASH, containerd.kubelet_socket)
    )
    daemon.start()
    names = [f"resident-{number}" for number in range(RESIDENTS)]
    node.start_pod(PodSpec(name="residents", containers=tuple(burstable(one, 10) for one in names)))
    spec = PodSpec(name="newcomers", containers=())
    pod = node.start_pod(spec)
    ways = {
        "direct": node.direct,
        "floor": Cri(floor, HANGS_AFTER_SECONDS),
        "pinfold": node.cri,
    }
    times: dict[str, list[int]] = {name: [] for name in ways}
    config = spec.sandbox_config(node.cgroup_root)
    for number in range(ROUNDS + WARM_UP):
        for name in ways if number % 2 else reversed(ways):
            container = spec.container_config(burstable(f"{name}-{number}", 10))
            begun = time.perf_counter_ns()
            created = ways[name].create_container(pod.id, config=container, pod_config=config)
            times[name].append(time.perf_counter_ns() - begun)
            node.direct.remove_container(created)
    daemon.kill()
    ways["floor"].close()
    for name, found in times.items():
        found = found[WARM_UP:]
        print(f"{name:8} {percentile_ms(found, 50):7.2f} / {percentile_ms(found, 99):7.2f} ms")
