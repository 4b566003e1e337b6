"""Containers with a cpu class go where cpus can run at its clocks."""

import dataclasses

from pinfold.policy.configuration.config import Amounts, Config, CpuClass
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet

FAST_CPUS = CpuSet.parse("6-7,10-11")


def machine() -> Machine:
    """Two sockets of eight cores; cpus 6-7 and 10-11 reach 4 GHz, the others 3 GHz."""
    plain = machine_from_spec("socket:2 core:8 mem:8G")
    return dataclasses.replace(
        plain,
        cpus={
            key: dataclasses.replace(cpu, max_khz=4_000_000 if key in FAST_CPUS else 3_000_000)
            for key, cpu in plain.cpus.items()
        },
    )


def engine() -> Engine:
    classes = (CpuClass(name="all"), CpuClass(name="fast", max_freq="4GHz"))
    config = Config(
        reserved_resources=Amounts(cpu="cpuset:0"),
        cpu_classes=classes,
        shared_pool_cpu_class="all",
    )
    return Engine(machine(), config)


def create(engine: Engine, cpus: int, name: str, cpu_class: str) -> Decision:
    key = "cpu-class.resource-policy.nri.io/pod"
    pod = Pod(
        id=PodId(name), uid=name, name=name, qos=QosClass.GUARANTEED, annotations={key: cpu_class}
    )
    resources = Resources(cpu_request_milli=1000 * cpus, cpu_limit_milli=1000 * cpus)
    return engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=resources))


def test_the_cpus_of_a_pool_that_suit_a_class_are_taken_first() -> None:
    decision = create(engine(), 2, "quick", "fast")
    assert isinstance(decision.result, Grant)
    assert decision.result.exclusive <= FAST_CPUS


def test_a_pool_with_enough_suitable_cpus_wins() -> None:
    node = engine()
    first = create(node, 2, "one", "fast")
    second = create(node, 2, "two", "fast")
    assert first.pool != second.pool
    assert isinstance(second.result, Grant)
    assert second.result.exclusive <= FAST_CPUS


def test_a_class_is_a_wish_where_no_pool_has_such_cpus() -> None:
    decision = create(engine(), 5, "big", "fast")
    assert isinstance(decision.result, Grant)
    assert len(decision.result.exclusive) == 5
