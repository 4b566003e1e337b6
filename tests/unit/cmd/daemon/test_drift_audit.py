"""The daemon finds containers that the kernel has elsewhere, tells of them and has them told."""

import logging
import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from pinfold.cmd.daemon.config_watch import ConfigWatch
from pinfold.cmd.daemon.daemon import Daemon, memory_bytes
from pinfold.cmd.daemon.drift_audit import AUDIT_SECONDS, DriftAudit
from pinfold.cmd.daemon.periodic_work import plan_periodic_work
from pinfold.nri.dispatch.report import Drifted, Happening
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import start_pods
from pinfold.policy.inquiry.audit import (
    CLEARED,
    EVERYTHING,
    KUBELET_CPUS,
    MEMORY_ALONE,
    SOMEBODY,
)
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.nri.dispatch.test_live_moves import in_node
from tests.unit.policy.engine.ruled_pods import container_of

from ..commands.test_audit_threads import add_process
from .paper_node import LOG, PATIENT, PaperNode, burstable, config, guaranteed
from .test_refused_moves import PaperFront

MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:8G")


@pytest.fixture(name="node")
def fixture_node() -> Generator[PaperNode]:
    node = PaperNode(MACHINE, config())
    node.start()
    yield node
    node.stop()


def test_repair_tells_again_and_says_so_once_of_the_same(
    node: PaperNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    node.run(guaranteed("db", 2000))
    intended = node.cpus("db")
    for _ in range(2):
        node.runtime.kernel[node.id_of("db")].mems = "0-1"
        node.daemon.audit.repair()
        node.settle()
        assert (node.cpus("db"), node.mems("db")) == (intended, "1")
    assert node.daemon.tally.drifts == 2
    levels = [one.levelname for one in caplog.records if "event=drift" in one.getMessage()]
    assert levels == ["WARNING", "DEBUG"], "a program that does it again is told of once"


@pytest.mark.parametrize(
    ("name", "cpus", "mems", "likely"),
    [
        pytest.param("db", "", "1", CLEARED, id="no cpus at all"),
        pytest.param("db", "4-5", "0-1", MEMORY_ALONE, id="other memory nodes alone"),
        pytest.param("db", "0-7", "1", EVERYTHING, id="all cpus there are"),
        pytest.param("db", "1-2", "1", SOMEBODY, id="some cpus"),
        pytest.param("web", "1-3,6-7", "0", KUBELET_CPUS, id="all that are nobody's own"),
        pytest.param("web", "1", "0", SOMEBODY, id="some cpus of a shared container"),
    ],
)
def test_guess_of_who_did_it(node: PaperNode, name: str, cpus: str, mems: str, likely: str) -> None:
    node.run(guaranteed("db", 2000), burstable("web", 500))
    assert (node.cpus("db"), node.cpus("web")) == ("4-5", "1-3")
    kernel = node.runtime.kernel[node.id_of(name)]
    kernel.cpus, kernel.mems = cpus, mems
    (drift,) = node.daemon.audit.look().drifts
    assert (drift.container.name, drift.likely) == (name, likely)


def test_what_is_being_told_is_no_drift(node: PaperNode) -> None:
    node.run(guaranteed("db", 2000))
    container_id = node.id_of("db")
    node.runtime.kernel[container_id].cpus = "0"
    actuator = node.daemon.front.actuator
    actuator.disconnect()
    actuator.want({container_id: Pinning(cpus=CpuSet.parse("4-5"), mems=NodeSet.parse("1"))})
    assert node.daemon.audit.look().drifts == ()


def test_what_changes_while_it_is_looked_at_is_no_drift() -> None:
    runtime = EmbeddedRuntime()
    link = embedded_link(runtime)
    reads: list[Pinning | None] = []

    def read(container_id: ContainerId, pid: int, likely: Pinning | None) -> Pinning | None:
        """What the kernel has; the second reader finds it mended."""
        assert link.read_back is not None
        reads.append(link.read_back(container_id, pid, likely))
        runtime.kernel[container_id].cpus = "4-5"
        return reads[-1]

    daemon = Daemon(MACHINE, config(), replace(link, read_back=read), timing=PATIENT)
    daemon.start()
    try:
        assert runtime.wait_until_synchronized(5)
        assert not start_pods(runtime, [guaranteed("db", 2000)], memory_bytes(MACHINE))
        assert daemon.front.settle()
        reads.clear()
        (kernel,) = runtime.kernel.values()
        kernel.cpus = "0-7"
        assert daemon.audit.look().drifts == ()
        assert [str(one.cpus) for one in reads if one] == ["0-7", "4-5"]
    finally:
        daemon.stop()


def test_busy_policy_is_asked_the_next_time(node: PaperNode) -> None:
    node.run(guaranteed("db", 2000))
    happenings: list[Happening] = []
    audit = DriftAudit(node.daemon.front, happenings.append, busy_seconds=0.05)
    node.runtime.kernel[node.id_of("db")].cpus = "0"
    is_over = threading.Event()
    node.daemon.front.owner.submit("long work", lambda: is_over.wait(10))
    audit.repair()
    is_over.set()
    assert happenings == []
    audit.repair()
    (drifted,) = happenings
    assert isinstance(drifted, Drifted)
    node.settle()


def test_daemon_looks_every_ten_seconds(tmp_path: Path) -> None:
    clock = FakeClock()
    runtime = EmbeddedRuntime()
    daemon = Daemon(MACHINE, config(), embedded_link(runtime), timing=PATIENT, clock=clock)
    plan_periodic_work(daemon, ConfigWatch(tmp_path / "none.yaml"), None, LOG)
    daemon.start()
    try:
        assert runtime.wait_until_synchronized(5)
        assert not start_pods(runtime, [guaranteed("db", 2000)], memory_bytes(MACHINE))
        assert daemon.front.settle()
        (kernel,) = runtime.kernel.values()
        intended, kernel.cpus = kernel.cpus, "0-7"
        clock.now += AUDIT_SECONDS
        daemon.timers.work_off()
        assert daemon.front.settle()
        (kernel,) = runtime.kernel.values()
        assert kernel.cpus == intended
        assert daemon.tally.drifts == 1
    finally:
        daemon.stop()


def test_bound_threads_are_told_of_once_and_left_as_they_are(
    node: PaperNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    node.run(guaranteed("db", 3000))
    one, other, last = CpuSet.parse(node.cpus("db"))
    cgroup = f"kubepods/x/{node.id_of('db')}"
    add_process(tmp_path, cgroup, 10, {10: f"{one}-{last}", 11: f"{one}", 12: f"{other}"})
    for pid in (20, 30):
        node.daemon.audit.look_at_threads(str(tmp_path))
        node.settle()
        add_process(tmp_path, cgroup, pid, {pid: f"{one}-{other}", pid + 1: f"{other}-{last}"})
    assert node.daemon.audit.bound_threads == 4
    told = [record for record in caplog.records if "event=threads-bound" in record.getMessage()]
    assert [record.levelname for record in told] == ["INFO", "DEBUG"]
    assert f'threads="1 on {one}, 1 on {other}"' in told[0].getMessage()
    assert node.daemon.audit.look().drifts == ()


class FakeClock:
    """Seconds that go on when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_that_was_told_in_vain_and_is_there_by_now_is_not_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pinfold.nri.dispatch.acknowledgements.FIRST_RETRY_SECONDS", 1000.0)
    monkeypatch.setattr("pinfold.nri.dispatch.acknowledgements.LAST_RETRY_SECONDS", 1000.0)
    front = PaperFront()
    try:
        front.run(sharer := container_of("sharer", 0.5, annotations=in_node(1)))
        front.refused.add(sharer.id)
        front.run(container_of("owner", 1, annotations=in_node(1)))
        policy = front.events.policy
        front.wait(lambda: policy.stuck_containers.cpus)
        wanted = policy.pinning(sharer.id)
        assert wanted is not None
        front.kernel[sharer.id] = wanted
        assert not DriftAudit(front, front.report).look().drifts
        front.wait(lambda: not policy.stuck_containers.cpus)
        assert front.actuator.counts().failing == 0
    finally:
        front.end()
