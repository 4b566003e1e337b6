"""Simulation of whole scenarios, and of the pods of manifests."""

from collections.abc import Callable, Iterable

from ..configuration.config import Config
from ..configuration.config_text import CheckedConfig
from ..manifests.pod_spec import PodSpec
from .result import ScenarioResult
from .running_node import RunningNode
from .scenario_file import Scenario, Topology
from .scenario_run import ScenarioRun
from .step import CreatePod, Start, Step


def pods_scenario(pods: tuple[PodSpec, ...]) -> Scenario:
    """The scenario `manifests`: the policy starts and the pods are created in order."""
    return Scenario(id="manifests", steps=tuple(CreatePod(pod=pod) for pod in pods))


def run_scenario(
    scenario: Scenario,
    topology: Topology,
    config: Config | CheckedConfig,
    name: str = "",
    node: RunningNode | None = None,
    track: Callable[[Iterable[Step]], Iterable[Step]] = iter,
) -> ScenarioResult:
    """The result of a scenario run on this hardware; `name`: how the result calls it.

    `config` is in force where a start has none of its own, and from the beginning where a scenario
    has no start. `node`: what runs there already, under a configuration of its own. `track` sees
    the steps go by.
    """
    run = ScenarioRun(topology, config)
    if node is not None:
        run.take_over(node)
    elif not any(isinstance(step, Start) for step in scenario.steps):
        run.take(Start(config=None, environment={}))
    for number, step in enumerate(track(scenario.steps)):
        run.verdicts.step = number
        run.take(step)
        run.look()
    return run.result(scenario.id, name or scenario.topology)
