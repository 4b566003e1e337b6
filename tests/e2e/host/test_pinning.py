"""Containers of a real containerd are where the daemon says, read back from the kernel."""

import os
import signal
from collections.abc import Callable

import pytest

from pinfold.topology.sets.cpuset import CpuSet
from tests.e2e.agreement import eventually
from tests.e2e.api import cri_pb2 as api
from tests.e2e.containerd import Containerd
from tests.e2e.daemon import Daemon
from tests.e2e.node import Node, RunningPod
from tests.e2e.pods import PodSpec, best_effort, burstable, guaranteed

pytestmark = pytest.mark.e2e

SHARED = PodSpec(name="shared", containers=(best_effort("first"), best_effort("second")))
EXCLUSIVE = PodSpec(name="exclusive", containers=(guaranteed("owner", 1),))


def cpus(node: Node, pod: RunningPod, container: str) -> CpuSet:
    """The cpus of a container; what the task has and what its cgroup was told must agree."""
    found: list[CpuSet] = []

    def agree() -> bool:
        pins = node.pins(pod, container)
        found[:] = CpuSet.parse(pins.cpus), CpuSet.parse(pins.cgroup_cpus)
        return found[0] == found[1]

    # Read one after the other: an update may come in between.
    assert eventually(agree, 5), found
    return found[0]


def shared_cpus(node: Node, pod: RunningPod) -> tuple[CpuSet, ...]:
    return tuple(cpus(node, pod, name) for name in pod.containers)


@pytest.mark.usefixtures("daemon")
def test_shared_containers_run_on_the_same_cpus_and_nowhere_else(node: Node) -> None:
    shared = node.start_pod(SHARED)
    first, second = shared_cpus(node, shared)
    assert first == second
    assert first
    assert first < CpuSet.collect(os.sched_getaffinity(0)), "one cpu is reserved"


@pytest.mark.usefixtures("daemon")
def test_a_guaranteed_container_gets_its_own_cpu_and_the_others_leave_it(node: Node) -> None:
    shared = node.start_pod(SHARED)
    exclusive = node.start_pod(EXCLUSIVE)
    own = cpus(node, exclusive, "owner")
    assert len(own) == 1
    for others in shared_cpus(node, shared):
        assert others
        assert others.isdisjoint(own)


@pytest.mark.usefixtures("daemon")
def test_a_container_that_comes_later_stays_off_an_exclusive_cpu(node: Node) -> None:
    own = cpus(node, node.start_pod(EXCLUSIVE), "owner")
    for others in shared_cpus(node, node.start_pod(SHARED)):
        assert others
        assert others.isdisjoint(own)


@pytest.mark.usefixtures("daemon")
def test_deleting_a_pod_gives_its_cpu_back(node: Node) -> None:
    shared = node.start_pod(SHARED)
    before = shared_cpus(node, shared)
    exclusive = node.start_pod(EXCLUSIVE)
    own = cpus(node, exclusive, "owner")
    node.end_pod(exclusive)
    assert eventually(lambda: shared_cpus(node, shared) == before)
    assert cpus(node, node.start_pod(EXCLUSIVE), "owner") == own


@pytest.mark.usefixtures("daemon")
def test_a_container_that_dies_gives_its_cpu_back(node: Node) -> None:
    shared = node.start_pod(SHARED)
    before = shared_cpus(node, shared)
    os.kill(node.pid(node.start_pod(EXCLUSIVE), "owner"), signal.SIGKILL)
    assert eventually(lambda: shared_cpus(node, shared) == before)


@pytest.mark.usefixtures("daemon")
def test_an_update_of_other_resources_keeps_the_cpus(node: Node) -> None:
    exclusive = node.start_pod(EXCLUSIVE)
    own = cpus(node, exclusive, "owner")
    resources = api.LinuxContainerResources(memory_limit_in_bytes=128 << 20)
    node.cri.update_resources(exclusive.containers["owner"], resources)
    assert cpus(node, exclusive, "owner") == own


@pytest.mark.parametrize("end", [Daemon.kill, Daemon.stop], ids=["killed", "stopped"])
def test_ending_and_restarting_the_daemon_moves_nothing(
    node: Node, daemon: Daemon, end: Callable[[Daemon], None]
) -> None:
    shared, exclusive = node.start_pod(SHARED), node.start_pod(EXCLUSIVE)
    before = (shared_cpus(node, shared), cpus(node, exclusive, "owner"))
    end(daemon)
    assert (shared_cpus(node, shared), cpus(node, exclusive, "owner")) == before
    daemon.start()
    assert (shared_cpus(node, shared), cpus(node, exclusive, "owner")) == before
    node.end_pod(exclusive)
    freed = before[1]
    assert eventually(lambda: all(freed <= one for one in shared_cpus(node, shared)))


@pytest.mark.parametrize("end", [Containerd.kill, Containerd.stop], ids=["killed", "stopped"])
def test_restarting_containerd_moves_nothing_and_the_daemon_comes_back_to_it(
    node: Node, daemon: Daemon, containerd: Containerd, end: Callable[[Containerd], None]
) -> None:
    shared, exclusive = node.start_pod(SHARED), node.start_pod(EXCLUSIVE)
    before = (shared_cpus(node, shared), cpus(node, exclusive, "owner"))
    end(containerd)
    containerd.start()
    assert (shared_cpus(node, shared), cpus(node, exclusive, "owner")) == before
    # The daemon has its own rhythm of trying again; each late pod shows whether it is back.
    late = PodSpec(name="late", containers=(best_effort("newcomer"),))

    def is_kept_off() -> bool:
        pod = node.start_pod(late)
        newcomer = cpus(node, pod, "newcomer")
        node.end_pod(pod)
        return newcomer.isdisjoint(before[1])

    assert eventually(is_kept_off)
    assert daemon.is_running
    assert (shared_cpus(node, shared), cpus(node, exclusive, "owner")) == before


def test_pods_start_while_the_daemon_is_down_and_are_pinned_when_it_is_back(
    node: Node, daemon: Daemon
) -> None:
    shared = node.start_pod(SHARED)
    daemon.kill()
    # A proxy that is down lets nobody pass; pods may still come past it.
    exclusive = node.start_pod(EXCLUSIVE, node.direct)
    spec = PodSpec(name="late", containers=(burstable("newcomer", 100),))
    late = node.start_pod(spec, node.direct)
    assert len(cpus(node, exclusive, "owner")) > 1, "nobody was there to pin it"
    daemon.start()
    assert eventually(lambda: len(cpus(node, exclusive, "owner")) == 1)
    own = cpus(node, exclusive, "owner")
    # The runtime applies the updates one after the other.
    assert eventually(lambda: cpus(node, late, "newcomer").isdisjoint(own))
    assert eventually(lambda: all(one.isdisjoint(own) for one in shared_cpus(node, shared)))
