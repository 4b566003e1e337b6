"""What the kernel should do follows the grants of an engine, whatever happens to it."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.tuning.effects import Hardware, Knob, KnobKind, effects
from pinfold.policy.tuning.interrupts import Interrupt
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet

MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")
DISK = Interrupt(number=7, description="nvme0q1", affinity=CpuSet.parse("0-7"))
NET = Interrupt(number=9, description="eth0", affinity=CpuSet.parse("0-7"))
IRQ = "irq-affinity.resource-policy.nri.io/container.c"


def config(**fields: object) -> Config:
    classes = [{"name": "low"}, {"name": "high", "freqGovernor": "performance"}]
    return config_from_values(
        {
            "cpuClasses": classes,
            "sharedPoolCPUClass": "low",
            "schedulingClasses": [{"name": "fast", "policy": "rr", "priority": 1}],
            "podQoSSchedulingClasses": {"Guaranteed": "fast"},
            "controllableInterrupts": ["nvme*"],
            **fields,
        }
    )


def container(name: str = "c", **annotations: str) -> Container:
    keys = {
        "irq": IRQ,
        "cpu_class": "cpu-class.resource-policy.nri.io/pod",
        "scheduling": "scheduling-class.resource-policy.nri.io/pod",
    }
    pod = Pod(
        id=PodId(name),
        name=name,
        qos=QosClass.GUARANTEED,
        annotations={keys[key]: text for key, text in annotations.items()},
    )
    resources = Resources(cpu_request_milli=2000, cpu_limit_milli=2000)
    return Container(id=ContainerId(name), name="c", pod=pod, resources=resources)


TUNED = container(irq="claim: ['nvme*']", cpu_class="high")


def seen(engine: Engine) -> dict[Knob, str]:
    return dict(
        effects(engine.snapshot().occupancy(), Hardware(interrupts=engine.interrupts)).values
    )


def expected(cpus: str) -> dict[Knob, str]:
    governors = {Knob(KnobKind.GOVERNOR, cpu): "performance" for cpu in CpuSet.parse(cpus)}
    return {Knob(KnobKind.IRQ_AFFINITY, 7): cpus, **governors}


@pytest.fixture(name="engine")
def fixture_engine() -> Engine:
    engine = Engine(MACHINE, config(), interrupts=(DISK, NET))
    assert isinstance(engine.create(TUNED).result, Grant)
    return engine


def test_effects_begin_and_end_with_the_grant(engine: Engine) -> None:
    assert seen(engine) == expected("1-2")
    engine.stop(TUNED.id)
    assert seen(engine) == {}


def test_effects_survive_another_configuration(engine: Engine) -> None:
    fresh, _ = engine.reconfigured(config(reservedPoolCPUClass="low"))
    assert seen(fresh) == expected("1-2")


def test_effects_survive_a_restart(engine: Engine) -> None:
    fresh = Engine(MACHINE, config(), interrupts=(DISK, NET))
    running = replace(TUNED, state=ContainerState.RUNNING, cpus=CpuSet.parse("1-2"))
    fresh.synchronize([running], engine.snapshot().advice())
    assert seen(fresh) == expected("1-2")


def test_effects_follow_a_resize(engine: Engine) -> None:
    engine.update(TUNED.id, Resources(cpu_request_milli=3000, cpu_limit_milli=3000))
    assert seen(engine) == expected("1-3")


def test_a_refused_container_has_no_effects_and_takes_nothing(engine: Engine) -> None:
    decision = engine.create(container("other", irq="mask: [eth0]"))
    assert isinstance(decision.result, Refusal)
    assert "denied interrupt: 9 (eth0)" in decision.result.reason
    assert len(engine.grants) == 1
    assert seen(engine) == expected("1-2")


def test_interrupts_that_appear_later_are_denied_too(engine: Engine) -> None:
    late = Interrupt(number=11, description="eth1", affinity=CpuSet.of(0))
    asking = container("other", irq="mask: [11]")
    assert isinstance(engine.create(asking).result, Grant)
    engine.interrupts = (*engine.interrupts, late)
    assert isinstance(engine.create(asking).result, Refusal)
    fresh, _ = engine.reconfigured(config())
    assert fresh.interrupts == engine.interrupts


def test_a_decision_carries_the_scheduling_class(engine: Engine) -> None:
    chosen = engine.decisions[TUNED.id].scheduling
    assert chosen is not None
    assert chosen.name == "fast"
    unknown = engine.create(container("other", scheduling="fats"))
    assert isinstance(unknown.result, Grant)
    assert unknown.scheduling is None
    assert "no scheduling class 'fats'" in str(unknown.problems[0])
