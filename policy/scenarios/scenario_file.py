"""Scenario files as values: hardware, and steps with expectations.

A file holds `topologies` (name to hardware) and `scenarios`, each a list of steps; see
`step_reading`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field

from ...topology.made.spec import machine_from_spec
from ...topology.model.machine import Machine
from ...topology.sets.base_errors import PinfoldError
from ..manifests.manifest import is_manifest
from ..model.memory_qos import MemoryQos
from ..text.yaml_fields import Field, FieldError
from .hardware_table import machine_from_table, memory_qos
from .step import Step
from .step_reading import read_step

VERSION: Final = 1
"""The version of the format, which a file need not say."""

KIND: Final = "placement"
"""The kind of scenario that is run; others are tables for unit tests."""


class Scenario(Struct, frozen=True, kw_only=True):
    """One story: hardware by name ("" for the machine at hand) and the steps on it."""

    id: str
    title: str = ""
    topology: str = ""
    where: str = ""
    """The file and the line that name the topology."""
    steps: tuple[Step, ...]


class Topology(Struct, frozen=True, kw_only=True):
    """A scenario's hardware, and names for its NUMA nodes such as `dram0`."""

    machine: Machine
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Names of devices by resource, or patterns; see `DeviceStock`."""
    memory_qos: MemoryQos = MemoryQos.OFF


class ScenarioFile(Struct, frozen=True, kw_only=True):
    """The placement scenarios of a file, and its topologies by name, not yet built."""

    scenarios: tuple[Scenario, ...]
    topologies: Mapping[str, Field]


def is_scenario_file(document: Field) -> bool:
    """Whether a document is a scenario file rather than a Kubernetes manifest."""
    return document.is_mapping and not is_manifest(document)


def parse_scenarios(document: Field) -> ScenarioFile:
    """The scenarios of kind `placement` (the default) of a document. Raises `FieldError`."""
    scenarios: dict[str, Scenario] = {}
    topologies = {**document["topologies"].entries()}
    if document["scenarios"].is_missing:
        if not document["kind"].is_missing:
            raise document.error(
                "a manifest without 'apiVersion'", "write it, as in 'apiVersion: v1'"
            )
        raise document.error(
            "neither a scenario file nor a manifest",
            "write 'scenarios:', or apiVersion and kind",
        )
    if document["version"].integer(VERSION) != VERSION:
        fix = f"write 'version: {VERSION}', or use the pinfold that it was written for"
        raise document["version"].error("is not a version that this pinfold knows", fix)
    for one in document["scenarios"].elements():
        if one["kind"].text(KIND) != KIND:
            continue
        scenario = Scenario(
            id=one["id"].text(),
            title=one["title"].text(""),
            topology=_topology_name(one, topologies),
            where=one["topology"].where,
            steps=tuple(read_step(step) for step in one["steps"].elements()),
        )
        if scenario.id in scenarios:
            raise one["id"].error(f"two scenarios have the id {scenario.id!r}", "rename one")
        scenarios[scenario.id] = scenario
    return ScenarioFile(scenarios=tuple(scenarios.values()), topologies=topologies)


def _topology_name(scenario: Field, topologies: dict[str, Field]) -> str:
    """The name of a scenario's hardware, which is put among `topologies` where it is in place."""
    topology = scenario["topology"]
    if not topology.is_mapping:
        return topology.text("")
    name = topology["machine"].text("") or topology["sysfs"].text("") or scenario["id"].text()
    if name in topologies and topologies[name].value != topology.value:
        name = f"{name} of {scenario['id'].text()}"
    topologies[name] = topology
    return name


def build_topology(table: Field, read_sysfs: Callable[[str], Machine]) -> Topology:
    """The hardware of a topology: a table, `machine: SPEC`, or `sysfs: PATH`.

    `read_sysfs` discovers the machine of a path as written. Raises `FieldError`.
    """
    try:
        if not table["machine"].is_missing:
            machine = machine_from_spec(table["machine"].text())
        elif not table["sysfs"].is_missing:
            machine = read_sysfs(table["sysfs"].text())
        else:
            machine = machine_from_table(table)
    except FieldError:
        raise
    except PinfoldError as error:
        raise table.error(str(error)) from error
    return Topology(
        machine=machine,
        aliases=table["aliases"].texts(),
        devices={
            resource: tuple(one.text() for one in names.elements())
            for resource, names in table["devices"].entries().items()
        },
        memory_qos=memory_qos(table["memoryReservationPolicy"]),
    )
