"""Our own scenario files: everything in them is run, holds, and breaks no law."""

from pathlib import Path

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.scenarios.scenario_file import Scenario, Topology
from pinfold.policy.scenarios.simulation import run_scenario
from tests.scenarios.scenario_files import scenarios_in

FOLDER = Path(__file__).parents[3] / "golden" / "scenarios"


@pytest.mark.parametrize(
    ("scenario", "topology"), [pytest.param(*pair, id=pair[0].id) for pair in scenarios_in(FOLDER)]
)
def test_scenario_holds(scenario: Scenario, topology: Topology) -> None:
    result = run_scenario(scenario, topology, Config())
    assert [one for one in result.expectations if not one.holds] == []
    assert result.problems == ()
    assert result.skipped == ()
    assert result.expectations


def test_there_are_scenarios() -> None:
    assert len(scenarios_in(FOLDER)) >= 6
