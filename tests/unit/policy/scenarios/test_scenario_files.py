"""Our own scenario files: everything in them is run, holds, and breaks no law."""

from pathlib import Path
from typing import NoReturn

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.scenarios.scenario_file import (
    Scenario,
    Topology,
    build_topology,
    parse_scenarios,
)
from pinfold.policy.scenarios.scenario_run import run_scenario
from pinfold.policy.text.yaml_fields import read_fields
from pinfold.topology.made.spec import machine_from_spec

FOLDER = Path(__file__).parents[3] / "golden" / "scenarios"
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


@pytest.mark.parametrize(
    ("scenario", "topology"), [pytest.param(*pair, id=pair[0].id) for pair in scenarios()]
)
def test_scenario_holds(scenario: Scenario, topology: Topology) -> None:
    result = run_scenario(scenario, topology, Config())
    assert [one for one in result.expectations if not one.holds] == []
    assert result.problems == ()
    assert result.skipped == ()
    assert result.expectations


def test_there_are_scenarios() -> None:
    assert len(scenarios()) >= 6
