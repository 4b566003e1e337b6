"""Whatever law a scenario breaks at a step is told by then, as by a look at everything."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.scenarios.law_watch import LawWatch
from pinfold.policy.scenarios.scenario_file import Topology, parse_scenarios
from pinfold.policy.scenarios.scenario_run import ScenarioRun
from pinfold.policy.scenarios.simulated_runtime import Runtime
from pinfold.policy.scenarios.step import Start
from pinfold.policy.text.yaml_fields import read_fields
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

MACHINE = machine_from_spec("socket:1 numa:2 core:4 thread:2 mem:2G")
NAMES = ("a", "b", "c", "d")
KINDS = (
    "cpu_lim: 1, mem_lim: 1M",
    "cpu_lim: 3, mem_lim: 1M",
    "cpu_req: 100m",
    "cpu_req: 2, cpu_lim: 4",
)
PENNED = "annotations: {group.pinfold.dev/pod: together}"


def _taken(engine: Engine, runtime: Runtime, name: str) -> None:
    if (one := runtime.find(name)) is not None:
        one.cpus = CpuSet.of(0, 5)


def _elsewhere(engine: Engine, runtime: Runtime, name: str) -> None:
    if (one := runtime.find(name)) is not None:
        one.mems = NodeSet.of(9)


def _released(engine: Engine, runtime: Runtime, name: str) -> None:
    if (one := runtime.find(name)) is not None:
        runtime.apply(engine.stop(one.container.id))


def _gone(engine: Engine, runtime: Runtime, name: str) -> None:
    if (one := runtime.find(name)) is not None:
        del runtime.running[one.container.id]


def _grown(engine: Engine, runtime: Runtime, name: str) -> None:
    tables = engine.holdings.grants
    if (one := runtime.find(name)) is not None and isinstance(tables, dict):
        others = [grant for grant in tables.values() if grant.exclusive]
        for grant in others[:1]:
            tables[one.container.id] = replace(grant, container_id=one.container.id)


def _as_it_is(engine: Engine, runtime: Runtime, name: str) -> None:
    """Most steps spoil nothing."""


SPOILS: tuple[Callable[[Engine, Runtime, str], None], ...] = (
    *(_as_it_is, _as_it_is, _as_it_is),
    *(_taken, _elsewhere, _released, _gone, _grown),
)
steps = st.sampled_from(
    [
        *(
            f"{{do: create_pod, pod: {name}, {pen}containers: [{{name: {name}, {kind}}}]}}"
            for name in NAMES
            for kind in KINDS
            for pen in ("", f"{PENNED}, ")
        ),
        *(f"{{do: delete_pods, pods: [{name}]}}" for name in NAMES),
        *(f"{{do: update_container, container: {name}, cpu_req: 1}}" for name in NAMES),
        '{do: set_online, cpus: "0-13"}',
        '{do: set_online, cpus: "0-15"}',
        "{do: update_config, config: {reservedResources: {cpu: 2}, pinMemory: false}}",
    ]
)


@given(
    st.lists(st.tuples(steps, st.sampled_from(SPOILS), st.sampled_from(NAMES)), max_size=12),
)
@settings(deadline=None)
def test_a_watch_tells_what_a_look_at_everything_tells(
    events: list[tuple[str, Callable[[Engine, Runtime, str], None], str]],
) -> None:
    text = "scenarios: [{id: one, steps: [" + ", ".join(step for step, _, _ in events) + "]}]"
    (document,) = read_fields(text, "steps.yaml")
    (scenario,) = parse_scenarios(document).scenarios
    run = ScenarioRun(Topology(machine=MACHINE), Config())
    run.take(Start(config=None, environment={}))
    watch: LawWatch | None = None
    told: set[str] = set()
    for step, (_, spoil, name) in zip(scenario.steps, events, strict=True):
        try:
            run.take(step)
            if run.engine is not None:
                spoil(run.engine, run.runtime, name)
        except (KeyError, AssertionError):
            # What is spoilt may be too much for the engine itself.
            return
        assert run.engine is not None
        if watch is None or not watch.is_of(run.engine, run.runtime):
            watch = LawWatch(run.engine, run.runtime)
        told |= {*watch.broken()}
        assert {*LawWatch(run.engine, run.runtime).broken()} <= told
