"""What the plugin adds to CreateContainer of a real containerd: `make bench-runtime`.

Not named test_*: it runs only where it is asked for by name.
"""

import time
from pathlib import Path
from typing import Final

import pytest

from tests.bench.figure import HEADER, OUTPUT, Figure, write_json
from tests.bench.timings import Timings, percentile_ms
from tests.e2e.containerd import Containerd
from tests.e2e.daemon import Daemon
from tests.e2e.host.conftest import cgroup_root, containerd, node, unpacked_runtime
from tests.e2e.leash import LEASH
from tests.e2e.node import Node, RunningPod
from tests.e2e.pods import PodSpec, burstable
from tests.e2e.runtime import CONTAINERD_SUITES

# Fixtures of the end-to-end tests; here, too, once they are named.
__all__ = ["cgroup_root", "containerd", "node"]

ROUNDS: Final = 20
PAIRS: Final = 10
"""In one round."""
WARM_UP: Final = 2
RESIDENTS: Final = 10

RULES: Final = {
    "resource-policy.nri.io/affinity": """\
newcomer:
- match: {key: pod/name, operator: Equals, values: [residents]}
  scope: {key: namespace, operator: Equals, values: [default]}
  weight: 5
"""
}


@pytest.fixture(scope="session")
def front() -> tuple[str, str]:
    """One runtime alone: its figure is compared from run to run."""
    return CONTAINERD_SUITES[0], "nri"


@pytest.fixture(scope="session")
def unpacked(front: tuple[str, str]) -> Path:
    """Its programs."""
    return unpacked_runtime(front[0])


@pytest.mark.e2e
def test_create_container_added(
    containerd: Containerd, node: Node, cgroup_root: str, tmp_path: Path
) -> None:
    names = [f"resident-{number}" for number in range(RESIDENTS)]
    residents = tuple(burstable(name, 10) for name in names)
    node.start_pod(PodSpec(name="residents", containers=residents))
    pod = node.start_pod(PodSpec(name="newcomers", containers=(), annotations=RULES))
    alone, pinned = list[int](), list[int]()
    daemon = Daemon(tmp_path, containerd.nri_socket, containerd.socket, LEASH)
    for number in range(ROUNDS):
        # Pairs close in time, in either order: the machine is not equally busy all the time.
        for is_pinned in (number % 2 > 0, number % 2 == 0):
            if is_pinned:
                daemon.start()
                pinned += create_times(node, pod, cgroup_root)
                assert daemon.is_running, daemon.log_tail()
                daemon.stop()
            else:
                alone += create_times(node, pod, cgroup_root)
    decisions = daemon.log.read_text().count("container=newcomer")
    assert decisions >= ROUNDS * PAIRS, "the daemon was asked for none or some only"
    added = [longer - shorter for longer, shorter in zip(pinned, alone, strict=True)]
    figure = Figure("create-container-added", "containerd, pairs", Timings(wall=added))
    medians = f"alone {percentile_ms(alone, 50)} ms, with the plugin {percentile_ms(pinned, 50)} ms"
    print(f"\n{HEADER}\n{figure.row()}; medians: {medians}")
    write_json(OUTPUT, [figure])


def create_times(node: Node, pod: RunningPod, cgroup_root: str) -> list[int]:
    """How many nanoseconds each of some creations took; the containers are removed again."""
    container = burstable("newcomer", 10)
    pod_config = pod.spec.sandbox_config(cgroup_root)
    config = pod.spec.container_config(container)
    found: list[int] = []
    for _ in range(WARM_UP + PAIRS):
        start = time.perf_counter_ns()
        created = node.cri.create_container(pod.id, config, pod_config)
        found.append(time.perf_counter_ns() - start)
        node.cri.remove_container(created)
    return found[WARM_UP:]
