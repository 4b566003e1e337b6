"""Classes of caches and block devices: who gets which, and what the runtime is told."""

import pytest

from pinfold.nri.plugin.messages import adjustment_message
from pinfold.policy.configuration.config import BlockIoControl, Config, Control, RdtControl
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.tuning.resource_class import NO_CLASSES, ResourceClasses
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet

MACHINE = machine_from_spec("socket:1 core:4")
RDT, BLOCKIO = "rdtclass.resource-policy.nri.io", "blockioclass.resource-policy.nri.io"
OFF = Config()
ON = Config(
    control=Control(rdt=RdtControl(enable=True), blockio=BlockIoControl(enable=True)),
)
BY_QOS = Config(
    control=Control(
        rdt=RdtControl(enable=True, use_pod_qos_as_default_class=True),
        blockio=BlockIoControl(use_pod_qos_as_default_class=True),
    )
)


def container(annotations: dict[str, str]) -> Container:
    pod = Pod(id=PodId("p"), name="p", annotations=annotations, qos=QosClass.BURSTABLE)
    return Container(id=ContainerId("c"), name="c", pod=pod)


@pytest.mark.parametrize(
    ("config", "annotations", "expected"),
    [
        pytest.param(ON, {}, NO_CLASSES, id="who asks for nothing"),
        pytest.param(
            ON,
            {f"{RDT}/pod": "gold", f"{BLOCKIO}/container.c": "slow"},
            ResourceClasses(rdt="gold", blockio="slow"),
            id="a pod's class and a container's own",
        ),
        pytest.param(OFF, {f"{RDT}/pod": "gold"}, NO_CLASSES, id="classes are off"),
        pytest.param(BY_QOS, {}, ResourceClasses(rdt="Burstable"), id="its QoS class by default"),
        pytest.param(
            BY_QOS, {f"{RDT}/pod": "gold"}, ResourceClasses(rdt="gold"), id="its own word wins"
        ),
    ],
)
def test_the_classes_of_a_container(
    config: Config, annotations: dict[str, str], expected: ResourceClasses
) -> None:
    decision = Engine(MACHINE, config).create(container(annotations))
    assert decision.classes == expected


def test_a_class_that_is_off_is_told_and_refuses_nobody() -> None:
    decision = Engine(MACHINE, OFF).create(container({f"{RDT}/pod": "gold"}))
    (problem,) = decision.problems
    assert str(problem) == (
        "rdtclass of default/p/c: class 'gold' is left out: this node's configuration has them off"
        " — configure 'control.rdt.enable: true', or leave it out"
    )
    assert decision.pinning.cpus


def test_the_runtime_is_told_the_names() -> None:
    pinning = Pinning(cpus=CpuSet.parse("1-2"))
    message = adjustment_message(pinning, classes=ResourceClasses(rdt="gold", blockio="slow"))
    assert message is not None
    assert message.linux.resources.rdt_class.value == "gold"
    assert message.linux.resources.blockio_class.value == "slow"
    plain = adjustment_message(pinning)
    assert plain is not None
    assert not plain.linux.resources.HasField("rdt_class")
    assert not plain.linux.resources.HasField("blockio_class")
