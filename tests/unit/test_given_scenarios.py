"""The placement scenarios of the policy our users run today, where they are at hand."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.scenarios.result import ScenarioResult
from pinfold.policy.scenarios.scenario_file import ScenarioFile, build_topology, parse_scenarios
from pinfold.policy.scenarios.simulation import run_scenario
from pinfold.policy.text.yaml_fields import read_fields

GIVEN = Path(__file__).parents[3] / "shared" / "scenarios" / "given.yaml"
# Expectations that do not hold here, by scenario and step, and why.
DIFFERENCES: Mapping[tuple[str, int], str] = {}


@cache
def load() -> ScenarioFile:
    if not GIVEN.exists():
        pytest.skip(f"{GIVEN.name} is not beside the project")
    (document,) = read_fields(GIVEN.read_text(), GIVEN.name)
    return parse_scenarios(document)


def no_sysfs(path: str) -> NoReturn:
    raise AssertionError(path)


def ids() -> list[str]:
    if not GIVEN.exists():
        return ["not at hand"]
    return [one.id for one in load().scenarios]


def run(scenario_id: str) -> ScenarioResult:
    parsed = load()
    (scenario,) = [one for one in parsed.scenarios if one.id == scenario_id]
    topology = build_topology(parsed.topologies[scenario.topology], no_sysfs)
    return run_scenario(scenario, topology, Config())


@pytest.mark.parametrize("scenario_id", ids())
def test_scenario_goes_as_given(scenario_id: str) -> None:
    result = run(scenario_id)
    failed = {one.step: one for one in result.expectations if not one.holds}
    known = {step for one, step in DIFFERENCES if one == scenario_id}
    assert [one for step, one in failed.items() if step not in known] == []
    assert known <= failed.keys(), "a difference that is none any more: take it out"
    assert result.problems == ()
    assert result.refusals == (), "refusals that no step waits for"


@pytest.mark.parametrize("scenario_id", ids())
def test_scenario_goes_the_same_way_twice(scenario_id: str) -> None:
    assert run(scenario_id) == run(scenario_id)


def test_skipped_steps_are_those_that_need_more_than_a_policy() -> None:
    allowed = re.compile(
        r"daemon|needs an (API server|OpenTelemetry)|state file|not simulated|timing sensitive|"
        r"random model based|generated at test time"
    )
    parsed = load()
    for scenario in parsed.scenarios:
        for skipped in run(scenario.id).skipped:
            assert allowed.search(skipped.reason), (scenario.id, skipped)
