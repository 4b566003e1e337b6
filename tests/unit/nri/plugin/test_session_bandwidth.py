"""Cpu quota and memory policy over NRI, in every dialect."""

import pytest

from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import Unsupported
from pinfold.nri.embedded.kubelet import resources_message
from pinfold.nri.embedded.runtime_dialects import Dialect
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import PodSpec
from pinfold.policy.model.container import QosClass, Resources
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.nri.dialects import DIALECTS
from tests.unit.nri.plugin.session_node import MACHINE, MEMORY, exclusive, running

dialects = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: f"{one.name}-{one.version}")
LIFTING = {"quota.pinfold.dev/pod": "lift"}
LIFTING_ALL = config_from_values({"exclusiveCPUQuota": "Lift"})


def quota(runtime_container: nri_pb2.Container) -> int:
    return runtime_container.linux.resources.cpu.quota.value


@dialects
def test_the_quota_of_exclusive_cpus_is_lifted_and_stays_so(dialect: Dialect) -> None:
    pod = PodSpec(name="p", qos=QosClass.GUARANTEED, annotations=LIFTING)
    with running(dialect) as node:
        container_id = node.add("fast", exclusive(2), pod)
        told = node.runtime.containers[container_id]
        assert quota(told) == -1
        for cpus in (3, 3):
            linux = linux_resources(exclusive(cpus), QosClass.GUARANTEED, MEMORY)
            node.runtime.update(container_id, resources_message(linux))
            node.settled()
            assert (quota(told), len(node.cpus(container_id))) == (-1, len("1-3"))
        node.reconnect()
        node.runtime.update(container_id, resources_message(linux))
        assert quota(told) == -1


@pytest.mark.parametrize(
    ("config", "annotations", "resources", "expected"),
    [
        pytest.param(Config(), {}, exclusive(2), 200_000, id="it is kept if nobody says otherwise"),
        pytest.param(LIFTING_ALL, {}, exclusive(2), -1, id="the configuration can lift it"),
        pytest.param(
            LIFTING_ALL,
            {"quota.pinfold.dev": "keep"},
            exclusive(2),
            200_000,
            id="and a pod can keep it",
        ),
        pytest.param(
            Config(),
            LIFTING,
            Resources(cpu_request_milli=1000, cpu_limit_milli=2000),
            200_000,
            id="on shared cpus it holds",
        ),
        pytest.param(
            Config(),
            LIFTING | {"exclusive.pinfold.dev": "request"},
            Resources(cpu_request_milli=1000, cpu_limit_milli=2000),
            -1,
            id="own cpus of any class are without",
        ),
        pytest.param(
            config_from_values({"pinCPU": False}),
            LIFTING,
            exclusive(2),
            200_000,
            id="who is not pinned has nothing else that limits it",
        ),
    ],
)
def test_the_quota_is_lifted_where_all_cpus_are_its_own(
    config: Config, annotations: dict[str, str], resources: Resources, expected: int
) -> None:
    is_guaranteed = resources.cpu_request_milli == resources.cpu_limit_milli
    qos = QosClass.GUARANTEED if is_guaranteed else QosClass.BURSTABLE
    pod = PodSpec(name="p", qos=qos, annotations=annotations)
    with running(policy=Engine(MACHINE, config)) as node:
        container_id = node.add("c", resources, pod)
        assert quota(node.runtime.containers[container_id]) == expected


@dialects
def test_memory_is_interleaved_where_the_runtime_can(dialect: Dialect) -> None:
    engine = Engine(machine_from_spec("socket:2 core:4 mem:4G"), Config())
    pod = PodSpec(
        name="p",
        qos=QosClass.GUARANTEED,
        annotations={"memory.pinfold.dev/pod": "interleave"},
    )
    with running(dialect, engine) as node:
        for name in ("first", "second"):
            container_id = node.add(name, exclusive(2), pod)
            assert node.runtime.containers[container_id].linux.resources.cpu.mems == "0-1"
            if dialect.sets_memory_policies:
                policy = node.runtime.memory_policies[container_id]
                assert (policy.mode, policy.nodes) == (nri_pb2.MPOL_INTERLEAVE, "0-1")
        told = [one for one in node.settled().seen(Unsupported)]
        assert len(told) == (0 if dialect.sets_memory_policies else 1)
