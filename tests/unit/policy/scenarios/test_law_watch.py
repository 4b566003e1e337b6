"""Broken laws are seen: a healthy state is spoilt in one way at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.scenarios.law_watch import LawWatch
from pinfold.policy.scenarios.scenario_file import Topology, parse_scenarios
from pinfold.policy.scenarios.scenario_run import ScenarioRun
from pinfold.policy.scenarios.simulated_runtime import Running, Runtime
from pinfold.policy.scenarios.step import Start, Step
from pinfold.policy.text.yaml_fields import read_fields
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.counted_calls import count_lines

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
    assert list(LawWatch(*healthy()).broken()) == []


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
    assert any(sentence in one for one in LawWatch(engine, runtime).broken())


def test_memory_that_is_not_for_a_container_breaks_a_law() -> None:
    engine, runtime = healthy(available_memory="nodeset:0")
    assert list(LawWatch(engine, runtime).broken()) == []
    held(runtime, "shared").mems = NodeSet.of(0, 1)
    assert "default/shared/shared may use memory nodes 1, which are not for it" in list(
        LawWatch(engine, runtime).broken()
    )


def test_cpus_of_two_owners_break_a_law_of_both() -> None:
    engine, runtime = healthy()
    grants = dict(engine.holdings.grants)
    own, also = ContainerId("own"), ContainerId("also")
    held_twice = replace(grants[also], exclusive=grants[own].exclusive)
    told = [*_watch_of(engine, runtime, grants | {also: held_twice}).broken()]
    assert "cpu 4 is exclusive to both default/also/also and default/own/own" in told


def test_cpus_of_two_slices_of_a_pen_break_a_law_of_both() -> None:
    engine, runtime = healthy()
    own = engine.grants[ContainerId("own")]
    # Its id is between those of both, in the order of the alphabet.
    pen = replace(own, container_id=ContainerId("b"), is_pen=True)
    slices = {
        one: replace(own, container_id=one, pen=pen.container_id)
        for one in (ContainerId("also"), ContainerId("own"))
    }
    told = [*_watch_of(engine, runtime, slices, {pen.container_id: pen}).broken()]
    assert "cpu 4 is exclusive to both default/also/also and default/own/own" in told


def test_cpus_of_a_pen_and_of_another_container_break_a_law() -> None:
    engine, runtime = healthy()
    own = engine.grants[ContainerId("own")]
    pen = replace(own, container_id=ContainerId("pen"), is_pen=True)
    inside = replace(engine.grants[ContainerId("also")], pen=pen.container_id)
    grants = {**engine.grants, ContainerId("also"): inside}
    told = [*_watch_of(engine, runtime, grants, {pen.container_id: pen}).broken()]
    assert "cpu 4 is exclusive to both default/own/own and pen" in told


def test_a_pen_of_nobody_breaks_a_law() -> None:
    engine, runtime = healthy()
    pen = replace(engine.grants[ContainerId("own")], container_id=ContainerId("pen"), is_pen=True)
    told = [*_watch_of(engine, runtime, engine.grants, {pen.container_id: pen}).broken()]
    assert "pen has cpus 4-5 and no containers" in told


class _Spoilt:
    """An engine of which others are shown to hold something else."""

    def __init__(
        self,
        engine: Engine,
        grants: Mapping[ContainerId, Grant],
        pens: Mapping[ContainerId, Grant] | None = None,
    ) -> None:
        self.config = engine.config
        self.holdings = engine.holdings._replace(grants=grants, pens=pens or {})


def _watch_of(
    engine: Engine,
    runtime: Runtime,
    grants: Mapping[ContainerId, Grant],
    pens: Mapping[ContainerId, Grant] | None = None,
) -> LawWatch:
    return LawWatch(cast(Engine, _Spoilt(engine, grants, pens)), runtime)


POD = "do: create_pod, qos: guaranteed"
STEPS = [
    f"{{{POD}, pod: a, containers: [{{name: a, cpu_lim: 1, mem_lim: 1M}}]}}",
    f"{{{POD}, pod: b, containers: [{{name: b, cpu_lim: 1, mem_lim: 1M}}]}}",
    "{do: create_pod, pod: c, containers: [{name: c, cpu_req: 100m}]}",
    "{do: delete_pods, pods: [b]}",
    "{do: create_pod, pod: d, containers: [{name: d}]}",
]


def _steps(text: Sequence[str]) -> tuple[Step, ...]:
    written = "scenarios: [{id: one, steps: [" + ", ".join(text) + "]}]"
    (document,) = read_fields(written, "steps.yaml")
    (scenario,) = parse_scenarios(document).scenarios
    return scenario.steps


def _problems(spoil: Callable[[Engine, Runtime], None], at: int) -> tuple[str, ...]:
    """The problems of a run whose state is spoilt after one of its steps, and no step says so."""
    run = ScenarioRun(Topology(machine=MACHINE), Config())
    run.take(Start(config=None, environment={}))
    for number, step in enumerate(_steps(STEPS)):
        run.verdicts.step = number
        run.take(step)
        if number == at:
            assert run.engine is not None
            spoil(run.engine, run.runtime)
        run.look()
    return run.result("one", "").problems


def a_shares_no_cpus(engine: Engine, runtime: Runtime) -> None:
    held(runtime, "a").cpus = MACHINE.online


def a_has_absent_memory(engine: Engine, runtime: Runtime) -> None:
    held(runtime, "a").mems = NodeSet.of(7)


def a_holds_nothing(engine: Engine, runtime: Runtime) -> None:
    engine.stop(held(runtime, "a").container.id)


def a_does_not_run(engine: Engine, runtime: Runtime) -> None:
    del runtime.running[held(runtime, "a").container.id]


def a_is_believed_elsewhere(engine: Engine, runtime: Runtime) -> None:
    pinnings = engine.holdings.pinnings
    assert isinstance(pinnings, dict)
    pinnings[held(runtime, "a").container.id] = Pinning(cpus=CpuSet.of(0))


@pytest.mark.parametrize("at", range(len(STEPS)))
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (a_shares_no_cpus, "default/a/a runs on 0-7 and memory"),
        (a_has_absent_memory, "default/a/a is told to use memory nodes 7, which do not exist"),
        (a_holds_nothing, "default/a/a runs and holds nothing"),
        (a_does_not_run, "default/a/a holds cpus and does not run"),
        (a_is_believed_elsewhere, "the policy believes otherwise: "),
    ],
)
def test_a_law_is_told_at_the_step_that_breaks_it_whomever_the_step_names(
    spoil: Callable[[Engine, Runtime], None], sentence: str, at: int
) -> None:
    (step,) = [one.partition(":")[0] for one in _problems(spoil, at) if sentence in one]
    assert step == f"step {at}"


def test_a_container_on_cpus_that_become_those_of_another_is_told() -> None:
    engine, runtime = healthy()
    watch = LawWatch(engine, runtime)
    assert [*watch.broken()] == []
    shared = held(runtime, "shared")
    shares_before = shared.cpus
    newcomer = container("newcomer", 2000, QosClass.GUARANTEED)
    decision = engine.create(newcomer)
    runtime.running[newcomer.id] = running = Running(newcomer)
    running.tell(decision.pinning)
    # The runtime does not apply what the decision says of others.
    assert shared.cpus is shares_before
    taken = running.cpus
    assert f"default/shared/shared may run on cpus {taken}, which are exclusive to others" in [
        *watch.broken()
    ]


def test_a_look_costs_what_changed() -> None:
    def calls(already: int) -> int:
        pods = [f"{{do: create_pod, pod: p{n}, containers: [{{name: c}}]}}" for n in range(already)]
        run = ScenarioRun(Topology(machine=MACHINE), Config())
        run.take(Start(config=None, environment={}))
        for step in _steps(pods):
            run.take(step)
        run.look()
        (step,) = _steps(["{do: create_pod, pod: last, containers: [{name: c}]}"])
        run.take(step)
        return count_lines(run.look)

    assert calls(200) == calls(20)
