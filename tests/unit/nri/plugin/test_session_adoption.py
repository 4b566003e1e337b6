"""Containers that ran before us, or that we were late for: what is known of them and left alone."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pinfold.nri.dispatch.report import Crashed, Decided
from pinfold.nri.embedded.kubelet import container_message, sandbox_message
from pinfold.nri.plugin import container_reader
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.roster import PACKED_TOGETHER
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import ContainerId, ContainerState, QosClass
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.nri.plugin.session_node import (
    FAST,
    MACHINE,
    MEMORY,
    SHARED,
    GatedEngine,
    Node,
    exclusive,
    running,
)
from tests.unit.topology.model.offline import without

POISON = "poison"


@pytest.fixture(name="node")
def fixture_node() -> Iterator[Node]:
    with running() as node:
        yield node


class UnreadableError(Exception):
    """A fault of ours."""


def poison(monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    """Let the reading of whatever has a certain name fail."""
    read = getattr(container_reader, reader)

    def fail(message: Any, *rest: Any, **named: Any) -> object:
        if message.name == POISON:
            raise UnreadableError
        return read(message, *rest, **named)

    monkeypatch.setattr(container_reader, reader, fail)


def forget_all(node: Node) -> None:
    """Connect again as after a restart: nothing is remembered."""
    node.policy = node.plugin.events.policy = Engine(MACHINE, Config())
    node.reconnect()


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param("container_value", id="a container"),
        pytest.param("container_linux_value", id="its resources"),
        pytest.param("pod_value", id="its pod"),
    ],
)
def test_what_cannot_be_read_is_left_as_it_runs_and_no_fault_of_others(
    node: Node, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    bad = node.add(POISON, exclusive(2))
    all_ids = (bad, node.add("good", exclusive(2)), node.add("shared", SHARED))
    before = [node.cpus(one) for one in all_ids]
    assert before == ["1-2", "3-4", "5-7"]
    counts = node.settled().runtime.update_counts.copy()
    poison(monkeypatch, reader)
    forget_all(node)
    assert [node.cpus(one) for one in all_ids] == before
    assert node.runtime.update_counts == counts
    [told] = node.seen(Crashed)
    assert isinstance(told, Crashed)
    assert told.what == f"adoption of container {bad}"
    assert isinstance(told.error, UnreadableError)
    assert node.cpus(node.add("next", exclusive(2))) == "5-6"
    config = Config(colocate_pods=True)
    node.plugin.owner.ask("reload", lambda: node.plugin.events.reconfigure(config))
    node.settled()
    assert [node.cpus(one) for one in all_ids[:2]] == before[:2]
    policy = node.plugin.events.policy
    assert str(policy.grants[ContainerId(bad)].exclusive) == "1-2", "nor does a reload free them"
    policy.check()


def test_a_container_that_cannot_be_read_when_it_starts_is_kept_off_the_cpus_of_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = node.add("alone", exclusive(2))
    poison(monkeypatch, "container_value")
    bad = node.add(POISON, SHARED)
    node.settled()
    assert (node.cpus(alone), node.cpus(bad)) == ("1-2", "3-7")
    assert node.tally.crashes == 2, "at its creation, and when it starts"


def start_in(node: Node, pod: PodSpec, name: str, cpus: int) -> str:
    """A container that starts while the pod's sandbox is known; returns its id."""
    node.runtime.run_pod(sandbox_message(pod))
    message = container_message(ContainerSpec(name=name, resources=exclusive(cpus)), pod, MEMORY)
    message.linux.cgroups_path = f"/kubepods/pod-{pod.name}/{message.id}"
    container_id = node.runtime.create(message).id
    node.runtime.start(container_id)
    return container_id


def test_containers_of_one_name_whose_sandboxes_are_not_listed_are_two(node: Node) -> None:
    pods = [PodSpec(name=name, qos=QosClass.GUARANTEED) for name in ("one", "two")]
    ids = [start_in(node, pod, "app", 2) for pod in pods]
    assert [node.cpus(one) for one in ids] == ["1-2", "3-4"]
    node.runtime.pods.clear()
    forget_all(node)
    granted = [str(node.policy.grants[ContainerId(one)].exclusive) for one in ids]
    assert granted == ["1-2", "3-4"]
    assert [node.cpus(one) for one in ids] == ["1-2", "3-4"]
    assert node.cpus(node.add("next", exclusive(2))) == "5-6"


def reasons(node: Node, ids: Sequence[str]) -> list[object]:
    policy = node.plugin.events.policy
    found = [policy.decisions[ContainerId(one)] for one in ids]
    return [(one.decided_by, one.candidates, one.result, one.pinning) for one in found]


def packed_ids(node: Node) -> set[str]:
    found = node.settled().plugin.events.policy.decisions
    assert all(one.lineup for one in found.values())
    return {key for key, one in found.items() if one.lineup and one.lineup == one.lineup.packed()}


def test_what_was_known_of_all_pools_is_kept_packed(node: Node) -> None:
    ids = [node.add("alone", exclusive(2))]
    ids += [node.add(f"beside-{number}", SHARED) for number in range(1, PACKED_TOGETHER)]
    assert packed_ids(node) == set(ids)
    for one in ids:
        node.runtime.kernel[one].cpus = node.runtime.containers[one].linux.resources.cpu.cpus = ""
    forget_all(node)
    assert packed_ids(node) == set(ids), "placed anew"


def test_one_container_that_was_refused_too_late_leaves_all_others_alone() -> None:
    policy = GatedEngine(MACHINE)
    with running(policy=policy, timing=FAST) as node:
        policy.gate.set()
        ids = [node.add("alone", exclusive(2)), node.create("created", SHARED)]
        policy.gate.clear()
        huge = node.create("huge", exclusive(64))
        policy.gate.set()
        before = reasons(node.settled(), ids)
        told = len(node.seen(Decided))
        node.runtime.start(huge)
        node.settled()
        assert reasons(node, ids) == before
        states = [policy.containers[ContainerId(one)].state for one in (*ids, huge)]
        assert states == [
            ContainerState.RUNNING,
            ContainerState.CREATED,
            ContainerState.RUNNING,
        ]
        [late] = node.seen(Decided)[told:]
        assert isinstance(late, Decided)
        assert late.container.id == huge


def test_who_lost_a_cpu_of_its_own_asks_for_it_after_a_restart_and_gets_it_back(
    node: Node,
) -> None:
    """A runtime tells how much was asked for, whatever cpus are left of it."""

    def find(machine: Machine) -> None:
        events = node.plugin.events
        node.plugin.owner.ask("cpus", lambda: events.reconfigure(machine=machine))
        node.settled()

    four, other = node.add("four", exclusive(4)), node.add("other", exclusive(3))
    assert (node.cpus(four), node.cpus(other)) == ("1-4", "5-7")
    poor = without(MACHINE, CpuSet.of(4))
    find(poor)
    assert node.cpus(four) == "1-3"
    node.restart(Engine(poor, Config()))
    assert (node.cpus(four), node.cpus(other)) == ("1-3", "5-7")
    policy = node.plugin.events.policy
    assert policy.containers[ContainerId(four)].resources.cpu_request_milli == 4000
    assert policy.decisions[ContainerId(four)].degraded == "1 of 4 exclusive CPUs are missing"
    find(MACHINE)
    assert (node.cpus(four), node.cpus(other)) == ("1-4", "5-7")
    policy = node.plugin.events.policy
    assert not policy.decisions[ContainerId(four)].degraded
    policy.check()
