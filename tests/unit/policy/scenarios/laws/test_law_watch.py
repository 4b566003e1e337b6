"""Broken laws are seen: a healthy state is spoilt in one way at a time."""

from collections.abc import Callable

import pytest

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.scenarios.simulated_runtime import Running, Runtime, violations
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

MACHINE = machine_from_spec("socket:1 numa:2 core:2 thread:2 mem:2G")


def container(name: str, milli: int, qos: QosClass) -> Container:
    limit = milli if qos is QosClass.GUARANTEED else None
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=PodId(name), name=name, qos=qos),
        resources=Resources(cpu_request_milli=milli, cpu_limit_milli=limit),
    )


def healthy(available_memory: str | None = None) -> tuple[Engine, Runtime]:
    values = {
        "reservedResources": {"cpu": "cpuset:0"},
        "availableResources": {"memory": available_memory},
    }
    engine = Engine(MACHINE, config_from_values(values))
    runtime = Runtime(MACHINE)
    for one in (
        container("own", 2000, QosClass.GUARANTEED),
        container("also", 1000, QosClass.GUARANTEED),
        container("shared", 100, QosClass.BURSTABLE),
    ):
        decision = engine.create(one)
        runtime.apply(decision.changes)
        running = Running(one)
        running.tell(decision.pinning)
        runtime.running[one.id] = running
    return engine, runtime


def held(runtime: Runtime, name: str) -> Running:
    found = runtime.find(name)
    assert found is not None
    return found


def no_cpus(engine: Engine, runtime: Runtime) -> None:
    held(runtime, "shared").cpus = CpuSet()


def offline_cpus(engine: Engine, runtime: Runtime) -> None:
    held(runtime, "shared").cpus = CpuSet.of(64)


def cpus_of_another(engine: Engine, runtime: Runtime) -> None:
    held(runtime, "shared").cpus = held(runtime, "own").cpus


def never_restricted(engine: Engine, runtime: Runtime) -> None:
    held(runtime, "shared").cpus = None


def no_memory(engine: Engine, runtime: Runtime) -> None:
    held(runtime, "shared").mems = NodeSet()


def absent_memory(engine: Engine, runtime: Runtime) -> None:
    held(runtime, "shared").mems = NodeSet.of(7)


def gone(engine: Engine, runtime: Runtime) -> None:
    del runtime.running[ContainerId("own")]


def released(engine: Engine, runtime: Runtime) -> None:
    engine.stop(ContainerId("own"))


def test_a_healthy_state_breaks_no_law() -> None:
    assert list(violations(*healthy())) == []


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (no_cpus, "default/shared/shared has no cpus"),
        (offline_cpus, "told to use cpus 64, which are not online"),
        (cpus_of_another, "which are exclusive to others"),
        (never_restricted, "which are exclusive to others"),
        (never_restricted, "the policy believes otherwise"),
        (no_memory, "default/shared/shared has no memory nodes"),
        (absent_memory, "told to use memory nodes 7, which do not exist"),
        (gone, "own holds cpus and does not run"),
        (released, "default/own/own runs and holds nothing"),
    ],
)
def test_a_broken_law_is_one_sentence(
    spoil: Callable[[Engine, Runtime], None], sentence: str
) -> None:
    engine, runtime = healthy()
    spoil(engine, runtime)
    assert any(sentence in one for one in violations(engine, runtime))


def test_memory_that_is_not_for_a_container_breaks_a_law() -> None:
    engine, runtime = healthy(available_memory="nodeset:0")
    assert list(violations(engine, runtime)) == []
    held(runtime, "shared").mems = NodeSet.of(0, 1)
    assert "default/shared/shared may use memory nodes 1, which are not for it" in list(
        violations(engine, runtime)
    )


def test_the_newest_of_one_name_is_found() -> None:
    _, runtime = healthy()
    again = container("own", 1000, QosClass.GUARANTEED)
    runtime.running[ContainerId("own-2")] = Running(again)
    assert held(runtime, "default/own/own").container is again
    assert runtime.by_key()["own"].container is again
