"""Calls on a connection whose two threads change places: each gets one answer, in its order."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import Answered, Decided, Disconnected, Happening, Outcome
from pinfold.nri.embedded.kubelet import container_message, sandbox_message
from pinfold.nri.plugin.plugin import Timing
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import Container, QosClass, Resources
from tests.unit.nri.dialects import CONTAINERD_2_1
from tests.unit.nri.loopback import loopback
from tests.unit.nri.plugin.session_node import (
    MACHINE,
    MEMORY,
    GatedEngine,
    eventually,
    exclusive,
    running,
)

SHORT = Timing(deadline_seconds=0.1, first_retry_seconds=0.002, last_retry_seconds=0.004)


class SlowEngine(Engine):
    """Takes its time over creations, as it is told one by one."""

    def __init__(self, *seconds: float) -> None:
        super().__init__(MACHINE, Config())
        self._seconds = [*seconds]

    def create(self, container: Container) -> Decision:
        if self._seconds:
            time.sleep(self._seconds.pop(0))
        return super().create(container)


def test_a_call_is_answered_that_came_before_a_late_one_was_over() -> None:
    with running(policy=SlowEngine(0.15, 0.07), timing=SHORT, timeout=5.0) as node:
        late, next_one = node.create("late", exclusive(1)), node.create("next", exclusive(1))
        assert node.runtime.wait_until_synchronized(0)
        node.settled()
        assert not node.seen(Disconnected)
        assert node.cpus(late) == "1"
        assert node.cpus(next_one) == "2"


def test_a_call_of_a_hasty_runtime_is_answered_in_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The other thread would look much later; each request carries the time that it has left.
    monkeypatch.setattr("pinfold.nri.plugin.reading_turns._LOOK_SECONDS", 100.0)
    monkeypatch.setattr("pinfold.nri.plugin.service._PATIENCE", 0.02)
    policy = GatedEngine(MACHINE)
    with running(policy=policy, timing=Timing(deadline_seconds=100.0), timeout=5.0) as node:
        node.create("late", exclusive(1))
        assert node.answered(Outcome.LATE, 1)
        policy.gate.set()
        node.settled()
        assert node.tally.connections == 1


def test_calls_that_come_together_are_each_answered_whoever_serves_them() -> None:
    seconds = [0.12, 0.03, 0.12, 0.0, 0.05, 0.05, 0.05, 0.0, 0.12, 0.0]
    with running(policy=SlowEngine(*seconds), timing=SHORT, timeout=5.0) as node:
        requests: list[bytes] = []
        for number in range(len(seconds)):
            container = ContainerSpec(name=f"c{number}", resources=Resources())
            pod = PodSpec(name=f"p{number}", qos=QosClass.BEST_EFFORT)
            message = container_message(container, pod, MEMORY)
            requests.append(
                nri_pb2.CreateContainerRequest(
                    pod=sandbox_message(pod), container=message
                ).SerializeToString()
            )
        with ThreadPoolExecutor(len(requests)) as callers:
            calls = [
                callers.submit(node.runtime.exchange, "CreateContainer", one, 5.0)
                for one in requests
            ]
            assert [one.result() for one in calls] == [0] * len(requests)
        node.settled()
        assert len(node.policy.grants) == len(requests)
        answers = len(requests) + 2  # Configure and Synchronize
        assert eventually(lambda: len(node.seen(Answered)) >= answers)
        assert len(node.seen(Answered)) == answers
        assert not node.seen(Disconnected)


def test_what_is_left_of_a_late_call_is_done_although_the_runtime_is_silent() -> None:
    with running(CONTAINERD_2_1, SlowEngine(0.3), SHORT, way=lambda _: "none") as node:
        node.create("late", exclusive(1))
        until = time.monotonic() + 10
        while not node.seen(Decided) and time.monotonic() < until:
            time.sleep(0.01)
        assert node.seen(Decided)


@pytest.mark.parametrize(
    ("outcome", "think_seconds"),
    [
        pytest.param(Outcome.DONE, 0.0, id="a call that was answered in time"),
        pytest.param(Outcome.LATE, 0.3, id="a call that was answered for the other thread"),
    ],
)
def test_whoever_takes_reports_holds_up_no_answer(outcome: Outcome, think_seconds: float) -> None:
    hung, gate = threading.Event(), threading.Event()
    told: list[str] = []

    def report(happening: Happening) -> None:
        if not isinstance(happening, Answered):
            return
        if happening.method == "CreateContainer" and happening.outcome is outcome:
            hung.set()
        told.append(happening.method)
        if hung.is_set():
            # This one, and all that follow.
            gate.wait(10)

    with loopback(
        SlowEngine(think_seconds), report, timing=SHORT, machine_memory_bytes=MEMORY
    ) as node:
        pod = PodSpec(name="p", qos=QosClass.GUARANTEED)
        node.runtime.run_pod(sandbox_message(pod))
        container = ContainerSpec(name="c", resources=exclusive(1))
        created = node.runtime.create(container_message(container, pod, MEMORY))
        assert hung.wait(5)
        try:
            for _ in range(4):
                node.runtime.update_cpuset(created.id, "5", "0")
            assert node.runtime.wait_until_synchronized(0), "it was answered in time"
            assert told[-1] == "CreateContainer"
        finally:
            gate.set()
        # Where the creation was late, what it comes to is an update, too.
        assert eventually(lambda: told.count("UpdateContainer") >= 4)
