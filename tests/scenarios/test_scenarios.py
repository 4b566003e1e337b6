"""The project's scenario files: each holds in a simulation, and over NRI in every dialect."""

import re
from pathlib import Path

import pytest
from msgspec import structs

from pinfold.nri.embedded.runtime_dialects import Dialect
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import CheckedConfig
from pinfold.policy.model.memory_qos import MemoryQos
from pinfold.policy.scenarios.scenario_file import Scenario, Topology
from pinfold.policy.scenarios.scenario_run import ScenarioRun
from pinfold.policy.scenarios.simulation import run_scenario
from pinfold.policy.scenarios.step import Expect, Start, Step, UpdatePod
from tests.unit.nri.dialects import DIALECTS

from .device_node import be_patient
from .node_run import NodeRun
from .scenario_files import scenarios_in

FOLDER = Path(__file__).parent

SCENARIOS = [pytest.param(*pair, id=pair[0].id) for pair in scenarios_in(FOLDER)]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


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
    scenario: Scenario, topology: Topology, dialect: Dialect, tmp_path: Path
) -> None:
    """All expectations hold on the node then: they are about these cpus and memory nodes.

    With the newest runtimes the kubelet protects memory, with the others it does what is said.
    """
    if dialect.nri_version:
        topology = structs.replace(topology, memory_qos=MemoryQos.TIERED)
    simulated, node = (
        ScenarioRun(topology, CheckedConfig(Config())),
        NodeRun(topology, dialect, tmp_path),
    )
    steps = scenario.steps
    if not any(isinstance(step, Start) for step in steps):
        steps = (Start(config=None, environment={}), *steps)
    try:
        for number, step in enumerate(steps):
            simulated.take(step)
            node.take(step)
            if isinstance(step, UpdatePod) and not dialect.updates_pods:
                # Until the kubelet has updated the containers that show the pod's numbers.
                continue
            expected = {
                one.container.path: (
                    simulated.runtime.effective_cpus(one),
                    simulated.runtime.effective_mems(one),
                )
                for one in simulated.runtime.running.values()
            }
            assert node.pins() == expected, f"step {number}: {step}"
            assert is_as_told(simulated, node, dialect), f"step {number}: {step}"
            if simulated.engine is not None and simulated.is_started:
                known = {one.path: one.given for one in simulated.engine.containers.values()}
                given = node.given()
                # A node knows those too that ended and are not removed yet.
                assert {path: given.get(path) for path in known} == known
            for text in waited_for(step):
                told = [text in one for one in node.told]
                assert any(told) is any(text in one for one in simulated.told), text
    finally:
        node.close()


def waited_for(step: Step) -> list[str]:
    """Parts of the sentences that operators are told, or not, by an expectation."""
    that = step.that if isinstance(step, Expect) else ()
    return [text for one in that for text in re.findall(r'told\("([^"]*)"\)', one)]


def is_as_told(simulated: ScenarioRun, node: NodeRun, dialect: Dialect) -> bool:
    """Whether limits are lifted, and memory interleaved, where the simulation says so.

    NRI before 0.12 does not carry how memory is taken, and operators are told.
    """
    engine, runtime = simulated.engine, node.runtime
    if engine is None or not simulated.is_started:
        return True
    lifted: set[str] = set()
    interleaved: dict[str, str] = {}
    for one in map(runtime.containers.__getitem__, runtime.kernel):
        pod = runtime.pods[one.pod_sandbox_id]
        path = f"{pod.namespace}/{pod.name}/{one.name}"
        if one.linux.resources.cpu.quota.value < 0:
            lifted.add(path)
        if one.id in runtime.memory_policies and runtime.memory_policies[one.id].nodes:
            interleaved[path] = runtime.memory_policies[one.id].nodes
    running = [one.container for one in simulated.runtime.running.values()]
    if lifted != {one.path for one in running if engine.lifts_quota(one.id)}:
        return False
    nodes_by_path = {one.path: engine.interleaved(one.id) for one in running}
    wanted = {path: str(nodes) for path, nodes in nodes_by_path.items() if nodes}
    is_warned = any("cannot set how memory is interleaved" in one for one in node.told)
    if not dialect.sets_memory_policies:
        return interleaved == {} and is_warned >= bool(wanted)
    return interleaved == wanted and not is_warned
