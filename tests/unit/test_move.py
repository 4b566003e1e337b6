"""What another configuration means for running containers, and why."""

import dataclasses

import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.decision import Pinning
from pinfold.policy.engine import Engine
from pinfold.policy.move import Fate, find_moves
from pinfold.topology.cpuset import CpuSet
from pinfold.topology.machine import Machine
from pinfold.topology.spec import machine_from_spec

MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:4G")


def container(name: str, milli: int, qos: QosClass = QosClass.GUARANTEED) -> Container:
    namespace = "kube-system" if name.startswith("system") else "default"
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=PodId(name), name=name, namespace=namespace, qos=qos),
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
    return {one.container.name: (one.fate, one.reason) for one in find_moves(old, new)}


def test_the_same_configuration_moves_nobody() -> None:
    old = engine_with(container("a", 2000), container("b", 500), container("system", 100))
    assert {fate for fate, _ in fates(old, old.config).values()} == {Fate.STAYS}


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
    assert found == {"system": (Fate.STAYS, "")}


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
