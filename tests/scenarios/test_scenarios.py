"""The project's scenario files: each holds in a simulation, and over NRI in every dialect."""

from pathlib import Path

import pytest
from msgspec import structs

from pinfold.nri.embedded.runtime_dialects import DIALECTS, Dialect
from pinfold.policy.configuration.config import Config
from pinfold.policy.model.memory_qos import MemoryQos
from pinfold.policy.scenarios.scenario_file import Scenario, Topology
from pinfold.policy.scenarios.scenario_run import ScenarioRun, run_scenario
from pinfold.policy.scenarios.step import Start

from .node_run import NodeRun
from .scenario_files import scenarios_in

FOLDER = Path(__file__).parent

SCENARIOS = [pytest.param(*pair, id=pair[0].id) for pair in scenarios_in(FOLDER)]


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
    """All expectations hold on the node then: they are about these cpus and memory nodes.

    With the newest runtimes the kubelet protects memory, with the others it does what is said.
    """
    if dialect.nri_version:
        topology = structs.replace(topology, memory_qos=MemoryQos.TIERED)
    simulated, node = ScenarioRun(topology, Config()), NodeRun(topology, dialect)
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
