"""The daemon as a plugin that the runtime starts itself."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pinfold.topology.sets.cpuset import CpuSet
from tests.e2e.agreement import eventually
from tests.e2e.containerd import Containerd
from tests.e2e.daemon import Belief, Daemon
from tests.e2e.node import Node, RunningPod
from tests.e2e.pods import PodSpec, best_effort, guaranteed

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("nri_alone")]

FIRST_THAT_SYNCHRONIZES: Final = (2,)


@pytest.fixture
def owner(daemon: Daemon, node: Node) -> RunningPod:
    """A guaranteed pod with a cpu of its own; the daemon that placed it is gone."""
    pod = node.start_pod(PodSpec(name="exclusive", containers=(guaranteed("owner", 1),)))
    assert len(cpus(node, pod, "owner")) == 1
    daemon.stop()
    return pod


@pytest.fixture
def plugin(owner: RunningPod, containerd: Containerd, tmp_path: Path) -> Iterator[Daemon]:
    """The daemon as a pre-installed plugin of a runtime that was started anew."""
    del owner
    folder = tmp_path / "preinstalled"
    folder.mkdir()
    started = Daemon(folder, containerd.nri_socket, containerd.socket)
    containerd.stop()
    path = started.preinstall(containerd.plugins)
    try:
        containerd.start()
        yield started
    finally:
        path.unlink()
        containerd.kill()
        containerd.start()


def cpus(node: Node, pod: RunningPod, container: str) -> CpuSet:
    return CpuSet.parse(node.pins(pod, container).cpus)


def late_pod(node: Node) -> RunningPod:
    return node.start_pod(PodSpec(name="late", containers=(best_effort("newcomer"),)))


def test_a_running_exclusive_container_is_known_where_the_runtime_tells_what_runs(
    containerd: Containerd, node: Node, owner: RunningPod, plugin: Daemon
) -> None:
    if containerd.version() < FIRST_THAT_SYNCHRONIZES:
        pytest.skip("this containerd does not tell pre-installed plugins what runs")
    own = cpus(node, owner, "owner")
    believed = Belief(cpus=own, exclusive=own)
    assert eventually(lambda: plugin.beliefs().get(owner.containers["owner"]) == believed)
    newcomer = cpus(node, late_pod(node), "newcomer")
    assert newcomer
    assert newcomer.isdisjoint(own)
    assert cpus(node, owner, "owner") == own


@pytest.mark.skipif(Path("/dev/log").exists(), reason="syslog takes the daemon's log here")
def test_it_refuses_with_the_reason_where_the_runtime_does_not_and_harms_nobody(
    containerd: Containerd, node: Node, owner: RunningPod, plugin: Daemon
) -> None:
    if containerd.version() >= FIRST_THAT_SYNCHRONIZES:
        pytest.skip("this containerd tells pre-installed plugins what runs")
    own = cpus(node, owner, "owner")

    def says_why() -> bool:
        return any(
            "pre-installed" in line and "service" in line for line in plugin.log_tail().splitlines()
        )

    assert eventually(says_why), plugin.log_tail()
    everywhere = CpuSet.collect(os.sched_getaffinity(0))
    rival = PodSpec(name="rival", containers=(guaranteed("rival", 1),))
    assert cpus(node, node.start_pod(rival), "rival") == everywhere, "nobody pins it"
    assert cpus(node, owner, "owner") == own
    assert containerd.is_running
