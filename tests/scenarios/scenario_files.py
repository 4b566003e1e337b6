"""Scenario files in folders of the tests, for those that run them."""

from pathlib import Path
from typing import NoReturn

from pinfold.policy.scenarios.scenario_file import (
    Scenario,
    Topology,
    build_topology,
    parse_scenarios,
)
from pinfold.policy.text.yaml_fields import read_fields
from pinfold.topology.made.spec import machine_from_spec

DEFAULT = Topology(machine=machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"))
"""The machine of a scenario that names none."""


def no_sysfs(path: str) -> NoReturn:
    """A scenario of ours describes its machine in a line."""
    raise AssertionError(path)


def scenarios_in(folder: Path) -> list[tuple[Scenario, Topology]]:
    """All scenarios of a folder's files, each with its machine, in the order of the files."""
    found: list[tuple[Scenario, Topology]] = []
    for path in sorted(folder.glob("*.yaml")):
        (document,) = read_fields(path.read_text(), path.name)
        parsed = parse_scenarios(document)
        for one in parsed.scenarios:
            topology = DEFAULT
            if one.topology:
                topology = build_topology(parsed.topologies[one.topology], no_sysfs)
            found.append((one, topology))
    return found
