"""A foreign program changes cpusets under containerd: it is found, told of and undone."""

import os
import time
from pathlib import Path

import pytest

from pinfold.cmd.control.control_client import ControlClient
from pinfold.cmd.control.documents import PinDocument
from tests.e2e.agreement import eventually
from tests.e2e.daemon import Daemon
from tests.e2e.node import Node, RunningPod
from tests.e2e.pins import cpuset_cgroup
from tests.e2e.pods import PodSpec, best_effort, guaranteed

pytestmark = pytest.mark.e2e

PODS = (
    PodSpec(name="alone", containers=(guaranteed("owner", 1),)),
    PodSpec(name="shared", containers=(best_effort("first"), best_effort("second"))),
)
EVERY_CPU = ",".join(map(str, sorted(os.sched_getaffinity(0))))
WITHIN_SECONDS = 15.0
"""Ten seconds between two looks, and some for a loaded machine."""
START_SECONDS = 3.0
"""The daemon looks after half a second, and on a busy machine a little later."""


def cpuset_file(node: Node, pod: RunningPod, container: str) -> Path:
    return cpuset_cgroup(node.pid(pod, container)) / "cpuset.cpus"


def test_a_foreign_writer_is_found_by_an_audit_and_undone_by_the_runtime(
    node: Node, daemon: Daemon
) -> None:
    alone, shared = map(node.start_pod, PODS)
    client = ControlClient(daemon.control)
    assert eventually(lambda: client.audit(repair=False).containers == 3)
    assert client.audit(repair=False).drift == ()
    intended = node.pins(alone, "owner")
    cpuset_file(node, alone, "owner").write_text(EVERY_CPU)
    repaired = client.audit(repair=True)
    # The daemon's own look may have come first.
    assert [one.container.split("/")[1:] for one in repaired.drift] in ([["alone", "owner"]], [])
    assert all(one.repaired for one in repaired.drift)
    assert eventually(lambda: node.pins(alone, "owner") == intended)
    status = client.status()
    assert status.runtime.connected
    (owner,) = [one for one in status.containers if one.container.endswith("/owner")]
    assert owner.kind == "exclusive"
    assert owner.kernel == PinDocument(cpus=intended.cgroup_cpus, mems=intended.cgroup_mems)
    assert node.pins(shared, "first").cpus == node.pins(shared, "second").cpus


def test_the_daemon_finds_a_foreign_writer_by_itself(node: Node, daemon: Daemon) -> None:
    alone, shared = map(node.start_pod, PODS)
    client = ControlClient(daemon.control)
    assert eventually(lambda: client.audit(repair=False).containers == 3)
    # What comes sooner is seen, and no drift, when the daemon looks what became of their start.
    time.sleep(START_SECONDS)
    wanted = node.pins(alone, "owner"), node.pins(shared, "first")
    for pod, container in ((alone, "owner"), (shared, "first")):
        cpuset_file(node, pod, container).write_text(EVERY_CPU)
    assert eventually(
        lambda: (node.pins(alone, "owner"), node.pins(shared, "first")) == wanted, WITHIN_SECONDS
    ), daemon.log_tail()
    # The log is written after the containers were told.
    assert eventually(lambda: daemon.log.read_text().count("event=drift") == 2), daemon.log_tail()
    log = daemon.log.read_text()
    assert "likely=" in log


def test_explain_tells_of_containers_of_a_real_runtime(node: Node, daemon: Daemon) -> None:
    for spec in PODS:
        node.start_pod(spec)
    client = ControlClient(daemon.control)
    found = client.explain("owner")
    assert (found.result, found.request["exclusive"]) == ("grant", 1)
    assert found.candidates
    assert found.at is not None
