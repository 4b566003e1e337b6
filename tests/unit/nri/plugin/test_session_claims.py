"""Cpus that a DRA driver or another plugin gave: over NRI, in every dialect."""

import pytest

from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import Decided
from pinfold.nri.embedded.kubelet import container_message, sandbox_message
from pinfold.nri.embedded.runtime_dialects import Dialect
from pinfold.policy.annotations.cpu_claims import claimed_cpus
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import Resources
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.nri.dialects import DIALECTS
from tests.unit.nri.plugin.session_node import MACHINE, MEMORY, Node, exclusive, qos_of, running

dialects = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: f"{one.name}-{one.version}")


def create(node: Node, name: str, env: list[str], cpus: str = "") -> nri_pb2.Container:
    resources = Resources(cpu_request_milli=500)
    spec, pod = (
        ContainerSpec(name=name, resources=resources),
        PodSpec(name=name, qos=qos_of(resources)),
    )
    node.runtime.run_pod(sandbox_message(pod))
    message = container_message(spec, pod, MEMORY)
    message.env.extend(env)
    message.linux.resources.cpu.cpus = cpus
    created = node.runtime.create(message)
    node.runtime.start(created.id)
    return created


@dialects
def test_claimed_cpus_are_taken_and_their_container_is_left_alone(dialect: Dialect) -> None:
    with running(dialect) as node:
        shared = node.add("shared", Resources(cpu_request_milli=100))
        claimer = create(node, "claimer", ["A=b", "DRA_CPUSET_4f1=2-3", "DRA_CPUSET_9=6"], "2-3,6")
        assert node.cpus(claimer.id) == "2-3,6"
        assert not CpuSet.parse(node.cpus(shared)) & CpuSet.parse("2-3,6")
        own = node.add("own", exclusive(2))
        assert not CpuSet.parse(node.cpus(own)) & CpuSet.parse("2-3,6")
        node.reconnect()
        assert node.cpus(claimer.id) == "2-3,6"
        late = node.add("late", exclusive(1))
        assert not CpuSet.parse(node.cpus(late)) & CpuSet.parse("2-3,6")
        node.runtime.stop(claimer.id)
        node.settled()
        assert CpuSet.parse("2-3,6") <= CpuSet.parse(node.cpus(shared))


@dialects
def test_another_plugins_cpuset_is_left_as_it_is_and_told(dialect: Dialect) -> None:
    with running(dialect) as node:
        foreign = create(node, "foreign", [], "4-5")
        assert node.cpus(foreign.id) == "4-5"
        (told,) = [one for one in node.settled().seen(Decided) if isinstance(one, Decided)]
        assert "another NRI plugin (balloons or koordlet, say) gave it cpus 4-5" in str(
            told.problems
        )


def test_the_kubelets_cpus_are_overruled_where_its_manager_is_known() -> None:
    with running(policy=Engine(MACHINE, Config())) as node:
        node.plugin.events.foreign_pins.kubelet_pins = True
        assert create(node, "guest", [], "4-5").linux.resources.cpu.cpus != "4-5"


def test_a_claim_never_takes_what_others_are_owed() -> None:
    with running() as node:
        first = node.add("first", Resources(cpu_request_milli=100))
        create(node, "greedy", ["DRA_CPUSET_1=0-7"], "0-7")
        (_, told) = [one for one in node.settled().seen(Decided) if isinstance(one, Decided)]
        assert str(told.decision.problems[-1]).startswith(
            "default/greedy/greedy: cpus 0-7 of its claim (0-7) are not free for it alone"
        )
        node.policy.check()
        assert node.cpus(first) == "1-7"


def test_a_claim_that_cannot_be_read_is_told() -> None:
    cpus, (problem,) = claimed_cpus(["DRA_CPUSET_1=2-", "DRA_CPUSET_2=4"], "a/b/c")
    assert cpus == CpuSet.parse("4")
    assert problem.where == "DRA_CPUSET_1 of a/b/c"
