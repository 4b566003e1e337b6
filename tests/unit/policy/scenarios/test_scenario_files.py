"""Our own scenario files: everything in them is run, holds, and breaks no law."""

from pathlib import Path

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.scenarios.scenario_file import Scenario, Topology, build_topology
from pinfold.policy.scenarios.simulation import run_scenario
from pinfold.policy.text.yaml_fields import FieldError, read_fields
from tests.scenarios.scenario_files import no_sysfs, scenarios_in

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


def test_a_policy_that_no_kubelet_has_is_told() -> None:
    (document,) = read_fields("{machine: 'core:2', memoryReservationPolicy: Tiered}", "t.yaml")
    with pytest.raises(FieldError, match=r"unknown policy 'Tiered'.*TieredReservation"):
        build_topology(document, no_sysfs)
