"""The plugin's session against the embedded runtime, over a socketpair, with the real policy."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import pytest

from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import (
    Connected,
    CreationUndone,
    Decided,
    Disconnected,
    Outcome,
    Released,
    Synchronized,
    Updated,
    Waiting,
)
from pinfold.nri.embedded.embedded_runtime import RequestError
from pinfold.nri.embedded.kubelet import container_message, resources_message, sandbox_message
from pinfold.nri.embedded.runtime_dialects import NEWEST, Dialect
from pinfold.nri.plugin.plugin import Timing, retry_seconds
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.decision import Adopted, Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import Container, ContainerId, QosClass, Resources
from pinfold.policy.model.grant import Refusal
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.policy.model.pinning import Change
from pinfold.topology.model.machine import Machine
from tests.unit.nri.dialects import CONTAINERD_1_7, CONTAINERD_2_1, CONTAINERD_2_3, DIALECTS
from tests.unit.nri.plugin.session_node import (
    FAST,
    MACHINE,
    MEMORY,
    PATIENT,
    SHARED,
    GatedEngine,
    Node,
    exclusive,
    running,
)


@pytest.fixture(name="node")
def fixture_node() -> Iterator[Node]:
    with running() as node:
        yield node


dialects = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.version)


@dialects
def test_container_lives_and_its_neighbour_gets_out_of_the_way(dialect: Dialect) -> None:
    with running(dialect) as node:
        shared = node.add("shared", SHARED)
        assert node.cpus(shared) == "1-7"
        alone = node.add("alone", exclusive(2))
        assert node.cpus(alone) == "1-2"
        assert node.cpus(shared) == "3-7"
        node.runtime.stop(alone)
        assert node.cpus(shared) == "1-7"
        node.runtime.remove(alone)
        node.runtime.remove(shared)
        node.settled()
        assert node.policy.containers == {}
        assert set(node.outcomes) == {Outcome.DONE}


def test_only_who_really_changes_is_updated(node: Node) -> None:
    alone, shared = node.add("alone", exclusive(1)), node.add("shared", SHARED)
    node.add("other", exclusive(1))
    node.settled()
    assert node.runtime.update_counts == {shared: 1}
    assert node.cpus(alone) == "1"


@dialects
def test_removed_pod_takes_its_containers_along(dialect: Dialect) -> None:
    with running(dialect) as node:
        node.add("alone", exclusive(2))
        node.runtime.remove_pod(next(iter(node.runtime.pods)))
        node.settled()
        assert node.policy.containers == {}


def test_refusal_fails_the_creation_with_its_whole_reason(node: Node) -> None:
    with pytest.raises(RequestError) as raised:
        node.add("huge", exclusive(64))
    [decided] = node.settled().seen(Decided)
    assert isinstance(decided, Decided)
    assert isinstance(decided.decision.result, Refusal)
    assert node.seen(CreationUndone) == [], "the runtime undoes it, and nobody else is at fault"
    assert f"code = 9 desc = {decided.decision.result.reason}" in str(raised.value)
    assert node.answered(Outcome.REFUSED, 1)
    assert node.cpus(node.add("small", exclusive(1))) == "1"


def test_bad_annotation_does_not_fail_the_container(node: Node) -> None:
    pod = PodSpec(
        name="odd",
        annotations={
            "memory-type.resource-policy.nri.io": "cheese",
            "noderesource.dev/resources": "{",
        },
    )
    container = node.add("shared", SHARED, pod)
    assert node.cpus(container)
    [decided] = node.settled().seen(Decided)
    assert isinstance(decided, Decided)
    assert "not JSON" in str(decided.problems[0])
    assert "cheese" in str(decided.decision.problems[0])


@dialects
def test_reconnection_moves_nobody_and_pins_who_came_meanwhile(dialect: Dialect) -> None:
    with running(dialect) as node:
        first = node.add("first", exclusive(2))
        node.settled()
        node.runtime.drop()
        # Creation goes on without us: the runtime does not wait for a lost plugin.
        second = node.create("second", exclusive(1))
        node.await_synchronization()
        assert node.cpus(first) == "1-2"
        assert node.cpus(second) == "3"
        # What cannot be read back is told again, to be sure.
        again = {} if dialect.tells_pids else {first: 1}
        assert node.runtime.update_counts == {second: 1} | again


def test_requests_survive_a_reconnection_although_shares_were_adjusted(node: Node) -> None:
    container = node.add("kube-proxy", Resources(cpu_request_milli=1500), system_pod())
    before = node.policy.containers[ContainerId(container)].resources
    node.reconnect()
    assert node.policy.containers[ContainerId(container)].resources == before


def system_pod() -> PodSpec:
    return PodSpec(name="kube-proxy", namespace="kube-system", qos=QosClass.BURSTABLE)


@dialects
def test_very_large_synchronize_is_understood(dialect: Dialect) -> None:
    with running(dialect) as node:
        ids: list[str] = []
        for number in range(20):
            pod = PodSpec(name=f"pod-{number}", annotations={"large": "x" * 300_000})
            ids.append(node.add("shared", pod=pod))
        node.reconnect()
        synchronized = node.seen(Synchronized)[-1]
        assert synchronized == Synchronized(20, 0)
        assert set(map(node.cpus, ids)) == {"1-7"}


@dialects
def test_slow_decision_is_answered_safely_and_follows_as_an_update(dialect: Dialect) -> None:
    policy = GatedEngine(MACHINE)
    with running(dialect, policy, FAST) as node:
        container = node.create("late", exclusive(2))
        assert node.cpus(container) == ""
        assert node.answered(Outcome.LATE, 1)
        policy.gate.set()
        node.settled()
        assert node.cpus(container) == "1-2"
        assert node.tally.connections == 1


def test_later_events_are_answered_in_time_while_the_policy_thinks() -> None:
    policy = GatedEngine(MACHINE)
    with running(policy=policy, timing=FAST) as node:
        first, second = node.add("first", exclusive(1)), node.add("second", exclusive(1))
        node.runtime.stop(first)
        assert node.answered(Outcome.LATE, 3)
        policy.gate.set()
        node.settled()
        assert ContainerId(first) not in node.policy.grants
        assert node.cpus(second) == "2"


def test_update_lost_during_a_slow_creation_is_repeated_at_its_start() -> None:
    policy = GatedEngine(MACHINE)
    with running(policy=policy, timing=FAST) as node:
        container = node.create("late", exclusive(2))
        policy.gate.set()
        node.settled()
        node.runtime.containers[container].linux.resources.cpu.cpus = ""
        node.runtime.start(container)
        node.settled()
        assert node.cpus(container) == "1-2"


def test_container_refused_too_late_is_placed_when_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = GatedEngine(MACHINE)
    with running(policy=policy) as node:
        policy.gate.set()
        alone = node.add("alone", exclusive(2))
        policy.gate.clear()
        with monkeypatch.context() as hasty:
            # This answer alone is late: others may be, too, where the machine is busy.
            hasty.setattr("pinfold.nri.plugin.service._PATIENCE", 0.005)
            huge = node.create("huge", exclusive(64))
        policy.gate.set()
        node.settled()
        assert (node.cpus(huge), ContainerId(huge) in policy.grants) == ("", False)
        node.runtime.start(huge)
        node.settled()
        # It cannot have what it asks for, but must leave others' cpus alone.
        assert (node.cpus(alone), node.cpus(huge)) == ("1-2", "3-7")
        assert node.runtime.update_counts == {huge: 1}


class SlowStarter(Engine):
    """Thinks about what runs until the gate is open."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Config())
        self.gate = threading.Event()

    def synchronize(
        self,
        containers: Sequence[Container],
        advice: Mapping[ContainerId, Advice] = MappingProxyType({}),
        unread: Mapping[ContainerId, Exception] = MappingProxyType({}),
    ) -> Adopted:
        if not self.gate.wait(10):
            raise AssertionError("the test forgot the gate")
        return super().synchronize(containers, advice, unread)


@dialects
def test_slow_synchronize_is_answered_safely_and_follows_as_updates(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The runtime waits for seconds, as others may need the cpus now; our part of it is short.
    monkeypatch.setattr("pinfold.nri.plugin.service._PATIENCE", 0.05)
    policy = SlowStarter(MACHINE)
    node = Node(dialect, policy, PATIENT, timeout=5.0)
    container = node.create("early", exclusive(2))
    node.thread.start()
    assert node.plugin.wait_until_ready(5)
    assert node.cpus(container) == ""
    assert node.answered(Outcome.LATE, 1)
    policy.gate.set()
    node.settled()
    assert node.cpus(container) == "1-2"
    assert node.tally.connections == 1
    node.plugin.stop()
    node.thread.join(10)


class CrashingEngine(Engine):
    """Falls over containers of a certain name."""

    def create(self, container: Container) -> Decision:
        if container.name == "poison":
            raise ZeroDivisionError("a fault in the policy")
        return super().create(container)

    def adopt(self, container: Container, advice: Advice | None = None) -> Decision:
        if container.name == "poison":
            raise ZeroDivisionError("the same fault")
        return super().adopt(container, advice)

    def stop(self, container_id: ContainerId) -> tuple[Change, ...]:
        if self.containers[container_id].name == "viper":
            raise KeyError(container_id)
        return super().stop(container_id)


def test_fault_in_the_policy_changes_nothing_and_harms_nobody_else() -> None:
    with running(policy=CrashingEngine(MACHINE, Config())) as node:
        poison = node.add("poison", exclusive(1))
        assert node.cpus(poison) == ""
        viper = node.add("viper", exclusive(1))
        assert node.cpus(viper) == "1"
        node.runtime.stop(viper)
        assert node.cpus(node.add("healthy", exclusive(1))) == "1", "who stopped holds nothing"
        # The third is the attempt to adopt the container at its start.
        assert node.tally.crashes == 3
        # The stop was answered with what followed from it.
        assert node.answered(Outcome.CRASHED, 1)
        assert node.tally.connections == 1


def test_resize_moves_the_container_and_its_neighbours(node: Node) -> None:
    alone, shared = node.add("alone", exclusive(1)), node.add("shared", SHARED)
    wanted = linux_resources(exclusive(3), QosClass.GUARANTEED, MEMORY)
    node.runtime.update(alone, resources_message(wanted))
    assert node.cpus(alone) == "1-3"
    assert node.cpus(shared) == "4-7"
    assert node.policy.containers[ContainerId(alone)].resources.cpu_request_milli == 3000


def test_resize_that_does_not_fit_is_refused_and_changes_nothing(node: Node) -> None:
    alone, shared = node.add("alone", exclusive(1)), node.add("shared", SHARED)
    wanted = linux_resources(exclusive(64), QosClass.GUARANTEED, MEMORY)
    with pytest.raises(RequestError, match="UpdateContainer: rpc error: code = 9"):
        node.runtime.update(alone, resources_message(wanted))
    node.settled()
    assert (node.cpus(alone), node.cpus(shared)) == ("1", "2-7")


def test_cpuset_in_an_update_request_does_not_win_over_ours(node: Node) -> None:
    container = node.add("alone", exclusive(2))
    request = nri_pb2.LinuxResources(cpu=nri_pb2.LinuxCPU(cpus="0-7", mems="0"))
    node.runtime.update(container, request)
    assert node.cpus(container) == "1-2"


def test_update_with_wrappers_of_zero_changes_no_request(node: Node) -> None:
    container = node.add("alone", exclusive(2))
    before = node.policy.containers[ContainerId(container)].resources
    request = nri_pb2.LinuxResources(
        cpu=nri_pb2.LinuxCPU(
            shares=nri_pb2.OptionalUInt64(value=0), quota=nri_pb2.OptionalInt64(value=0)
        ),
        memory=nri_pb2.LinuxMemory(limit=nri_pb2.OptionalInt64(value=0)),
    )
    node.runtime.update(container, request)
    assert node.policy.containers[ContainerId(container)].resources == before


def test_failed_update_is_reported_for_the_container_alone(node: Node) -> None:
    first, second = node.add("first", SHARED), node.add("second", SHARED)
    # Once they run and were looked at: what the kernel has already is not sent.
    node.settled()
    node.runtime.broken_ids.add(first)
    pinnings = {
        ContainerId(one): pinning
        for one in (first, second)
        if (pinning := node.policy.pinning(ContainerId(one))) is not None
    }
    assert len(pinnings) == 2
    node.plugin.actuator.want(pinnings)
    node.settled()
    # The failed one is tried again, sooner or later.
    assert node.seen(Updated)[:2] == [
        Updated((ContainerId(second),), ""),
        Updated((ContainerId(first),), "UNKNOWN: failed to update resources"),
    ]
    assert node.tally.updates == 1
    assert node.tally.failed_updates >= 1


def test_another_configuration_takes_over_without_moving_anybody(node: Node) -> None:
    alone, shared = node.add("alone", exclusive(2)), node.add("shared", SHARED)
    node.settled()
    counts = node.runtime.update_counts.copy()
    config = Config(reserved_pool_namespaces=("monitoring",))
    node.plugin.owner.ask("reload", lambda: node.plugin.events.reconfigure(config))
    node.settled()
    assert (node.cpus(alone), node.cpus(shared)) == ("1-2", "3-7")
    assert node.runtime.update_counts == counts
    assert node.cpus(node.add("next", exclusive(1))) == "3"
    assert node.cpus(node.add("agent", SHARED, PodSpec(name="a", namespace="monitoring"))) == "0"


def test_what_happened_is_told_in_words_for_logs(node: Node) -> None:
    container = node.add("alone", exclusive(1))
    node.runtime.remove(container)
    node.settled()
    assert Connected("containerd v2.4.0") in node.happenings
    [decided] = node.seen(Decided)
    assert isinstance(decided, Decided)
    assert (decided.event, decided.container.path) == ("create", "default/alone/alone")
    released = node.seen(Released)
    assert [one.container.name for one in released if isinstance(one, Released)] == ["alone"]


def test_lost_connection_is_reported_with_the_pause_before_the_next(node: Node) -> None:
    node.reconnect()
    [lost] = node.seen(Disconnected)
    assert isinstance(lost, Disconnected)
    assert lost.reason == "the runtime closed the connection"
    assert lost.retry_seconds is not None
    assert lost.retry_seconds > 0


def test_time_a_request_has_left_shortens_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = GatedEngine(MACHINE)
    with running(CONTAINERD_1_7, policy, PATIENT, timeout=5.0) as node:
        # This dialect does not tell its timeout, but every request carries it.
        monkeypatch.setattr("pinfold.nri.plugin.service._PATIENCE", 0.02)
        container = node.create("late", exclusive(1))
        assert node.cpus(container) == ""
        assert node.answered(Outcome.LATE, 1)
        policy.gate.set()
        node.settled()
        assert node.tally.connections == 1


@pytest.mark.parametrize(
    ("attempt", "draw", "seconds"),
    [
        pytest.param(0, 0.0, 0.05, id="the first pause is short"),
        pytest.param(0, 1.0, 0.1, id="chance doubles it at most"),
        pytest.param(3, 0.0, 0.4, id="every attempt doubles it"),
        pytest.param(20, 1.0, 2.0, id="up to the longest, which is short"),
        pytest.param(20, 0.0, 1.0, id="with jitter at the longest, too"),
        pytest.param(10_000, 1.0, 2.0, id="and never overflows"),
    ],
)
def test_pauses_grow_with_jitter(attempt: int, draw: float, seconds: float) -> None:
    assert retry_seconds(Timing(), attempt, draw) == pytest.approx(seconds)


def test_an_update_of_our_own_is_no_decision_and_is_answered_with_the_newest_word(
    node: Node,
) -> None:
    shared = node.add("shared", SHARED)
    node.settled()
    decisions = len(node.seen(Decided))
    config = config_from_values({"reservedResources": {"cpu": "cpuset:0-1"}})
    node.plugin.owner.ask("reload", lambda: node.plugin.events.reconfigure(config))
    node.settled()
    assert node.cpus(shared) == "2-7"
    assert len(node.seen(Decided)) == decisions
    assert node.runtime.unsolicited == 0, "it went by the CRI socket"


def test_a_container_that_starts_meanwhile_gets_what_it_was_told_once_it_runs(node: Node) -> None:
    shared = node.create("shared", SHARED)
    node.runtime.begin_start(shared)
    node.add("alone", exclusive(2))
    node.runtime.finish_start(shared)
    node.settled()
    assert node.runtime.kernel[shared].cpus == "3-7"


def test_without_a_look_at_the_kernel_it_is_told_again_all_the_same() -> None:
    with running(reads_back=False) as node:
        shared = node.create("shared", SHARED)
        node.runtime.begin_start(shared)
        node.add("alone", exclusive(2))
        node.runtime.finish_start(shared)
        node.settled()
        assert node.runtime.kernel[shared].cpus == "3-7"


@pytest.mark.parametrize("dialect", [CONTAINERD_1_7, CONTAINERD_2_1, CONTAINERD_2_3])
def test_a_runtime_that_may_hang_is_never_sent_updates_by_nri(dialect: Dialect) -> None:
    with running(dialect, way=lambda _: "there is no CRI socket") as node:
        shared = node.add("shared", SHARED)
        config = config_from_values({"reservedResources": {"cpu": "cpuset:0-1"}})
        node.plugin.owner.ask("reload", lambda: node.plugin.events.reconfigure(config))
        node.settled()
        assert node.cpus(shared) == "1-7", "it waits for the next call of the runtime"
        assert node.seen(Waiting) == [Waiting(1, "there is no CRI socket")]
        node.add("other", SHARED)
        assert node.cpus(shared) == "2-7"
        assert node.runtime.unsolicited == 0


def test_a_runtime_that_cannot_hang_is_sent_updates_by_nri_where_there_is_no_cri_socket() -> None:
    with running(NEWEST, way=lambda _: "there is no CRI socket") as node:
        shared = node.add("shared", SHARED)
        config = config_from_values({"reservedResources": {"cpu": "cpuset:0-1"}})
        node.plugin.owner.ask("reload", lambda: node.plugin.events.reconfigure(config))
        node.settled()
        assert node.cpus(shared) == "2-7"
        assert node.runtime.unsolicited == 1


def test_a_creation_that_is_undone_after_our_answer_is_told_with_its_count(node: Node) -> None:
    pod = PodSpec(name="twice", qos=QosClass.BURSTABLE)
    for attempt in (1, 2):
        spec = ContainerSpec(name="c", resources=SHARED)
        message = container_message(spec, pod, MEMORY, attempt)
        node.runtime.run_pod(sandbox_message(pod))
        node.runtime.create_and_undo(message)
    node.settled()
    told = [one for one in node.seen(CreationUndone) if isinstance(one, CreationUndone)]
    assert [(one.container.path, one.times, one.had_cpus) for one in told] == [
        ("default/twice/c", 1, False),
        ("default/twice/c", 2, False),
    ]
    assert dict(node.policy.grants) == {}


def test_a_container_that_is_removed_before_it_ran_was_not_undone(node: Node) -> None:
    node.runtime.remove(node.create("shared", SHARED))
    node.settled()
    assert node.seen(CreationUndone) == []
