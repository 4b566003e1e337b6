"""The project's scenario files: each holds in a simulation, and over NRI in every dialect."""

from pathlib import Path
from typing import NoReturn

import pytest

from pinfold.nri.embedded.runtime_dialects import DIALECTS, Dialect
from pinfold.policy.configuration.config import Config
from pinfold.policy.scenarios.scenario_file import (
    Scenario,
    Topology,
    build_topology,
    parse_scenarios,
)
from pinfold.policy.scenarios.scenario_run import ScenarioRun, run_scenario
from pinfold.policy.scenarios.step import Start
from pinfold.policy.text.yaml_fields import read_fields
from pinfold.topology.made.spec import machine_from_spec

from .node_run import NodeRun

FOLDER = Path(__file__).parent
DEFAULT = Topology(machine=machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"))


def no_sysfs(path: str) -> NoReturn:
    raise AssertionError(path)


def scenarios() -> list[tuple[Scenario, Topology]]:
    found: list[tuple[Scenario, Topology]] = []
    for path in sorted(FOLDER.glob("*.yaml")):
        (document,) = read_fields(path.read_text(), path.name)
        parsed = parse_scenarios(document)
        for one in parsed.scenarios:
            topology = DEFAULT
            if one.topology:
                topology = build_topology(parsed.topologies[one.topology], no_sysfs)
            found.append((one, topology))
    return found


SCENARIOS = [pytest.param(*pair, id=pair[0].id) for pair in scenarios()]


@pytest.mark.parametrize(("scenario", "topology"), SCENARIOS)
def test_scenario_holds_in_a_simulation(scenario: Scenario, topology: Topology) -> None:
    result = run_scenario(scenario, topology, Config())
    assert [one for one in result.expectations if not one.holds] == []
    assert result.problems == ()
    assert result.skipped == ()
    assert result.refusals == (), "refusals that no step waits for"
    assert result.expectations


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: f"{one.name}-{one.version}")
@pytest.mark.parametrize(("scenario", "topology"), SCENARIOS)
def test_a_node_does_what_the_simulation_says(
    scenario: Scenario, topology: Topology, dialect: Dialect
) -> None:
    """All expectations hold on the node then: they are about these cpus and memory nodes."""
    simulated, node = ScenarioRun(topology, Config()), NodeRun(topology.machine, dialect)
    steps = scenario.steps
    if not any(isinstance(step, Start) for step in steps):
        steps = (Start(config=None, environment={}), *steps)
    try:
        for number, step in enumerate(steps):
            simulated.take(step)
            node.take(step)
            expected = {
                one.container.path: (
                    simulated.runtime.effective_cpus(one),
                    simulated.runtime.effective_mems(one),
                )
                for one in simulated.runtime.running.values()
            }
            assert node.pins() == expected, f"step {number}: {step}"
    finally:
        node.stop()
