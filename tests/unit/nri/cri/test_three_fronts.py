"""The same manifests come to the same places, with the same reasons, whoever hands them in.

Over NRI and over CRI a policy reads requests off cgroup values, and `simulate` does the same. Where
a kubelet protects memory it tells requests exactly, over either; where it does not, as shown over
NRI, a request is known within thousandths of the machine's.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import CheckedConfig
from pinfold.policy.model.memory_qos import MemoryQos
from pinfold.policy.scenarios.scenario_file import (
    Scenario,
    ScenarioFile,
    Topology,
    build_topology,
    parse_scenarios,
)
from pinfold.policy.scenarios.scenario_run import ScenarioRun
from pinfold.policy.scenarios.step import Start
from pinfold.policy.text.yaml_fields import read_fields
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from tests.scenarios.device_node import DeviceNode, be_patient
from tests.unit.nri.cri.wired_run import Place, WiredRun
from tests.unit.nri.cri.wires import CriWire, NriWire, Wire

ROOT = Path(__file__).parents[4]
FILES = (
    ROOT.parent / "shared" / "scenarios" / "given.yaml",
    *sorted((ROOT / "tests" / "golden" / "scenarios").glob("*.yaml")),
    *sorted((ROOT / "tests" / "scenarios").glob("*.yaml")),
)
DEFAULT = Topology(machine=machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"))
FRONTS = ("nri", "nri-exact", "cri-exact")
State = tuple[dict[str, Place], dict[str, str]]
"""Containers that run, and the reasons of those that were refused, by path."""


@cache
def load(path: Path) -> ScenarioFile:
    (document,) = read_fields(path.read_text(), path.name)
    return parse_scenarios(document)


def cases() -> Iterator[object]:
    for path in FILES:
        if not path.exists():
            continue
        for scenario in load(path).scenarios:
            yield pytest.param(path, scenario.id, id=f"{path.stem}/{scenario.id}")


def simulated(scenario: Scenario, run: ScenarioRun) -> Iterator[State]:
    for number, step in enumerate(scenario.steps):
        run.verdicts.step = number
        run.take(step)
        results = run.result(scenario.id, "").containers.values()
        candidates = {
            one.container.path: one.decision.candidates if one.decision else ()
            for one in run.runtime.by_key().values()
        }
        places = {
            f"{one.namespace}/{one.pod}/{one.name}": Place(
                pool=one.pool,
                cpus=one.cpus,
                mems=one.mems,
                exclusive=one.exclusive,
                decided_by=one.decided_by,
                reason=one.reason,
                kind=one.kind,
                unmet=one.unmet,
                candidates=candidates[f"{one.namespace}/{one.pod}/{one.name}"],
                moved=tuple((other.path, other.before, other.after) for other in one.moved),
            )
            for one in results
            if one.refused is None and run.is_started
        }
        refused = {
            f"{one.namespace}/{one.pod}/{one.name}": one.refused
            for one in results
            if one.refused is not None
        }
        yield places, refused


def wired(scenario: Scenario, run: WiredRun) -> Iterator[State]:
    for step in scenario.steps:
        run.take(step)
        yield run.places(), dict(run.refused)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.mark.parametrize(
    ("front", "is_exact"), [("nri", False), ("nri", True), ("cri", True)], ids=FRONTS
)
@pytest.mark.parametrize(("path", "scenario_id"), list(cases()))
def test_a_scenario_comes_to_the_same_decisions(
    path: Path, scenario_id: str, front: str, tmp_path: Path, *, is_exact: bool
) -> None:
    parsed = load(path)
    (scenario,) = [one for one in parsed.scenarios if one.id == scenario_id]
    topology = DEFAULT
    if scenario.topology:
        topology = build_topology(parsed.topologies[scenario.topology], no_sysfs)
    memory = sum(node.memory_bytes or 0 for node in topology.machine.numa_nodes) or None
    if is_exact:
        topology = replace(topology, memory_qos=MemoryQos.TIERED)
    qos = topology.memory_qos
    wire: Wire = NriWire(memory, qos) if front == "nri" else CriWire(memory, tmp_path, qos)
    devices = DeviceNode(topology) if topology.machine.devices else None
    run = WiredRun(wire, topology.machine, Config(), devices)
    expected = ScenarioRun(topology, CheckedConfig(Config()))
    if not any(isinstance(step, Start) for step in scenario.steps):
        start = Start(config=None, environment={})
        expected.take(start)
        run.take(start)
    try:
        both = zip(simulated(scenario, expected), wired(scenario, run), strict=True)
        for number, (wanted, found) in enumerate(both):
            assert found == wanted, f"step {number}: {scenario.steps[number]}"
    finally:
        wire.close()
        run.close()
        if devices is not None:
            devices.close()
    assert not wire.faults


def no_sysfs(path: str) -> Machine:
    raise AssertionError(path)
