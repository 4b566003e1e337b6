"""What another configuration means for running containers, and why."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.reconfiguration import Fate, find_moves
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.tuning.interrupts import Interrupt
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet

MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:4G")


def container(
    name: str,
    milli: int,
    qos: QosClass = QosClass.GUARANTEED,
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> Container:
    namespace = "kube-system" if name.startswith("system") else "default"
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=PodId(name), name=name, namespace=namespace, qos=qos, annotations=annotations),
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli or None,
            memory_request_bytes=2**20,
            memory_limit_bytes=2**20,
        ),
    )


def engine_with(*containers: Container, config: Config | None = None) -> Engine:
    engine = Engine(MACHINE, config or Config(reserved_resources=Amounts(cpu="cpuset:0")))
    for one in containers:
        engine.create(one)
        engine.start(one.id)
    return engine


def fates(
    old: Engine, config: Config, machine: Machine | None = None
) -> dict[str, tuple[Fate, str]]:
    new, _ = old.reconfigured(config, machine)
    new.check()
    return {
        one.container.name: (one.fate, one.reason)
        for one in find_moves(old.snapshot(), new.snapshot())
    }


def test_the_same_configuration_moves_nobody() -> None:
    old = engine_with(container("a", 2000), container("b", 500), container("system", 100))
    assert {fate for fate, _ in fates(old, old.config).values()} == {Fate.STAYS}


def test_containers_of_the_system_have_cpus_that_are_reserved_besides() -> None:
    """Whether these were nobody's before or not, and whether the daemon restarted meanwhile."""
    some = Config(
        available_resources=Amounts(cpu="exclude-cpuset:7"),
        reserved_resources=Amounts(cpu="cpuset:0"),
    )
    config = Config(reserved_resources=Amounts(cpu="cpuset:0,7"))
    before = engine_with(container("system", 100), container("a", 500), config=some)
    reloaded, _ = before.reconfigured(config)
    restarted = Engine(MACHINE, config)
    restarted.synchronize(before.snapshot().running(), before.snapshot().advice())
    for after in (reloaded, restarted):
        pinning = after.pinning(ContainerId("system"))
        assert pinning is not None
        assert pinning.cpus == CpuSet.parse("0,7")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        pytest.param(
            Config(
                available_resources=Amounts(cpu="exclude-cpuset:4"),
                reserved_resources=Amounts(cpu="cpuset:0"),
            ),
            "cpus 4 are not available",
            id="its cpus are not available",
        ),
        pytest.param(
            Config(reserved_resources=Amounts(cpu="cpuset:4")),
            "cpus 4 are reserved",
            id="its cpus are reserved",
        ),
    ],
)
def test_who_has_to_move_is_told_why(config: Config, reason: str) -> None:
    old = engine_with(container("a", 2000))
    assert old.grants[ContainerId("a")].exclusive == CpuSet.of(4, 5)
    assert fates(old, config) == {"a": (Fate.MOVES, reason)}


def test_cpus_that_go_offline_move_only_who_runs_there() -> None:
    old = engine_with(container("a", 2000), container("b", 2000), container("system", 100))
    gone = old.grants[ContainerId("a")].exclusive
    left = MACHINE.online - gone
    cut = dataclasses.replace(
        machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:4G"),
        online=left,
        cpus={cpu: one for cpu, one in MACHINE.cpus.items() if cpu in left},
        sockets=tuple(dataclasses.replace(one, cpus=one.cpus & left) for one in MACHINE.sockets),
        dies=tuple(dataclasses.replace(one, cpus=one.cpus & left) for one in MACHINE.dies),
        clusters=(),
        cores=tuple(one for one in MACHINE.cores if one <= left),
        l2_groups=(),
        l3_groups=tuple(one & left for one in MACHINE.l3_groups),
        numa_nodes=tuple(
            dataclasses.replace(one, cpus=one.cpus & left) for one in MACHINE.numa_nodes
        ),
    )
    found = fates(old, old.config, cut)
    assert found["a"] == (Fate.MOVES, f"cpus {gone} are offline")
    assert found["b"] == found["system"] == (Fate.STAYS, "")


def test_who_cannot_have_all_it_asks_for_is_degraded() -> None:
    old = engine_with(container("a", 3000), container("b", 3000))
    small = Config(
        available_resources=Amounts(cpu="cpuset:0-2"),
        reserved_resources=Amounts(cpu="cpuset:0"),
    )
    found = fates(old, small)
    assert [fate for fate, _ in found.values()] == [Fate.DEGRADED, Fate.DEGRADED]
    assert all("3 exclusive CPUs" in reason for _, reason in found.values()), found


def test_pinning_that_is_switched_on_moves_everybody() -> None:
    old = engine_with(container("a", 2000), config=Config(pin_cpu=False))
    assert fates(old, Config())["a"] == (Fate.MOVES, "it was not pinned")


def test_who_runs_on_reserved_cpus_follows_them() -> None:
    old = engine_with(container("system", 100))
    found = fates(old, Config(reserved_resources=Amounts(cpu="cpuset:3")))
    assert found == {"system": (Fate.MOVES, "cpus 0 are not reserved any more")}
    found = fates(old, Config(reserved_resources=Amounts(cpu="cpuset:0,3")))
    assert found == {"system": (Fate.MOVES, "cpus 3 are for it as well")}


def test_who_gets_back_what_it_missed_is_told_so() -> None:
    plain = Config(reserved_resources=Amounts(cpu="cpuset:0"))
    old = engine_with(container("a", 3000), config=plain)
    small = Config(
        available_resources=Amounts(cpu="cpuset:0-2"), reserved_resources=Amounts(cpu="cpuset:0")
    )
    squeezed, _ = old.reconfigured(small)
    assert fates(squeezed, plain) == {"a": (Fate.MOVES, "what it missed is there again")}


def test_who_loses_some_cpus_stays_near_its_memory() -> None:
    old = engine_with(container("a", 2000), container("b", 1500, QosClass.BURSTABLE))
    new, _ = old.reconfigured(
        Config(
            available_resources=Amounts(cpu="exclude-cpuset:1,4"),
            reserved_resources=Amounts(cpu="cpuset:0"),
        )
    )
    assert old.grants[ContainerId("a")].exclusive == CpuSet.of(4, 5)
    assert new.grants[ContainerId("a")].exclusive == CpuSet.of(5, 6)
    assert str((old.pinning(ContainerId("b")) or Pinning()).cpus) == "1-3"
    assert str((new.pinning(ContainerId("b")) or Pinning()).cpus) == "2-3"
    for name in ("a", "b"):
        before, after = old.grants[ContainerId(name)], new.grants[ContainerId(name)]
        assert after.memory == before.memory
    new.check()


def test_pinning_that_is_switched_on_again_moves_nobody_who_stayed() -> None:
    old = engine_with(container("a", 2000), container("b", 500), container("system", 100))
    loose, _ = old.reconfigured(msgspec.structs.replace(old.config, pin_cpu=False))
    assert {fate for fate, _ in fates(old, loose.config).values()} == {Fate.STAYS}
    assert {fate for fate, _ in fates(loose, old.config).values()} == {Fate.STAYS}


RESERVED = {"reservedResources": {"cpu": "cpuset:0"}}
CALM = {
    **RESERVED,
    "cpuClasses": [{"name": "calm"}, {"name": "top"}],
    "sharedPoolCPUClass": "calm",
    "schedulingClasses": [{"name": "batch", "policy": "batch"}],
}
ETH0 = Interrupt(number=24, description="PCI-MSI eth0", affinity=CpuSet.of(0))


@pytest.mark.parametrize(
    ("key", "value", "fields", "reason"),
    [
        pytest.param(
            "cpu-class",
            "top",
            {**CALM, "cpuClasses": [{"name": "calm"}, {"name": "topp"}]},
            "unknown CPU class 'top' — did you mean 'topp'?",
            id="its class of cpus has another name",
        ),
        pytest.param(
            "cpu-class",
            "top",
            RESERVED,
            "this node has no cpu classes — configure cpuClasses or leave it out",
            id="there are no classes of cpus any more",
        ),
        pytest.param(
            "irq-affinity",
            "claim: ['*eth0*']",
            {**CALM, "controllableInterrupts": ["*nvme*"]},
            "denied interrupt: 24 (PCI-MSI eth0) is denied but matched by user pattern '*eth0*'"
            " — add it to controllableInterrupts or name another",
            id="its interrupt may not be moved any more",
        ),
        pytest.param(
            "scheduling-class",
            "batch",
            RESERVED,
            "no scheduling class 'batch' — configure schedulingClasses or leave it out",
            id="its scheduling class is gone",
        ),
    ],
)
def test_what_annotations_ask_for_in_vain_from_now_on_is_told(
    key: str, value: str, fields: dict[str, object], reason: str
) -> None:
    name = f"{key}.resource-policy.nri.io/container.a"
    told = key if key == "scheduling-class" else name
    asking = container("a", 2000, annotations={name: value})
    old = Engine(MACHINE, config_from_values(CALM), interrupts=(ETH0,))
    old.create(asking)
    old.create(container("b", 2000))
    assert not old.decisions[asking.id].problems
    found = fates(old, config_from_values(fields))
    assert found["a"][0] is Fate.DEGRADED
    assert found["a"][1].startswith(f"{told}: {reason}")
    assert found["b"] == (Fate.STAYS, "")
    vain, _ = old.reconfigured(config_from_values(fields))
    assert fates(vain, vain.config)["a"] == (Fate.STAYS, ""), "it is told once"
    moved = {**fields, "availableResources": {"cpu": "exclude-cpuset:4"}}
    fate, why = fates(old, config_from_values(moved))["a"]
    assert fate is Fate.DEGRADED
    assert why.startswith(f"cpus 4 are not available; {told}: {reason}")
