"""`pinfold simulate`: place the pods of manifests, or run scenarios, without a cluster."""

import fnmatch
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from ...policy.configuration.config_text import CheckedConfig
from ...policy.manifests.manifest import pods_of
from ...policy.model.memory_qos import MemoryQos
from ...policy.scenarios.result import ScenarioResult, result_document
from ...policy.scenarios.running_node import RunningNode
from ...policy.scenarios.scenario_file import (
    Scenario,
    ScenarioFile,
    Topology,
    build_topology,
    is_scenario_file,
    parse_scenarios,
)
from ...policy.scenarios.simulation import pods_scenario, run_scenario
from ...policy.text.yaml_fields import Field, FieldError, read_fields
from ...topology.model.machine import Machine
from ...topology.sysfs.discovery import read_machine
from ..daemon.config_file import input_name, read_input
from ..daemon.machine_source import machine_options
from ..report.console import ProgressBar
from ..report.path_type import PathType
from .check.step_check import misspelt_fields, written_steps
from .node.simulated_node import NodeSource, node_options, running_node
from .options import output_option
from .output_file import write_whole
from .pools import chosen_config
from .saved_node import MachineOptions
from .simulate_text import table_text, tree_text
from .simulation.hardware_options import check_devices, device_names, memory_qos_option
from .simulation.junit_report import junit_text

_LISTED: Final = 5
"""Scenarios that a message names before it stops."""


class Job(Struct, frozen=True):
    """A scenario to run and how to come by its hardware."""

    scenario: Scenario
    topology: Callable[[], Topology]

    @property
    def has_own_hardware(self) -> bool:
        """Whether the file names its hardware, so that no option does."""
        return bool(self.scenario.topology)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, type=PathType())
@machine_options
@click.option(
    "--device",
    "devices",
    metavar="RESOURCE=NAME,...",
    multiple=True,
    help="The machine's devices that pods get for an extended resource; globs.",
)
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=PathType(),
    help="Configuration; else that of the running node, or built-in defaults.",
)
@memory_qos_option
@node_options
@click.option("--only", metavar="ID", multiple=True, help="Run these; globs, or how one id begins.")
@click.option(
    "--allow-refusals",
    is_flag=True,
    help="Exit with 0 although a container is refused: it is only shown.",
)
@click.option(
    "--junit",
    metavar="FILE",
    type=PathType(path_type=Path, dir_okay=False, remedy="name a file in a folder you can write"),
    help="Also write what was expected to FILE as JUnit XML, for CI systems.",
)
@output_option(
    "table",
    "json",
    "tree",
    meaning="A table or a tree of pools for people, or one JSON document for tools.",
)
def command(
    files: tuple[str, ...],
    sysfs_root: str | None,
    machine: str | None,
    devices: tuple[str, ...],
    config_path: str | None,
    memory_qos: MemoryQos,
    state_path: Path | None,
    is_running: bool,
    control: Path | None,
    only: tuple[str, ...],
    allow_refusals: bool,
    junit: Path | None,
    output: str,
) -> int:
    """Place the pods of Kubernetes manifests, or run scenario files; "-" is standard input.

    With --state or --running they come to a node as it runs, and what moves for them is shown, too.
    With --config besides, the node first gets that configuration; no FILE is needed then.

    Exit status: 1 if an expectation does not hold, a container is refused that no
    expect_create_error waits for, or a law is broken; 2 if something cannot be read, also a text
    that is no YAML or no manifest: nothing is placed then. A fault in an annotation that refuses
    nobody is shown and changes no status. How many pods an operator's own kind makes is taken from
    the replicas and the parallelism in it, which is said, as is what was left out.
    """
    source = NodeSource(state_path, is_running, control)
    if not files and not source:
        raise click.UsageError("name a FILE, or a running node with --state or --running")
    chosen = chosen_config(config_path)
    for warning in chosen.warnings:
        click.echo(f"warning: {warning}", err=True)
    state = source.state() if source else None
    meant = MachineOptions(sysfs_root, machine).for_state(state, state_path)
    hardware = _Hardware(meant, device_names(devices), memory_qos)
    jobs = _chosen(_jobs(files, hardware), only)
    node: RunningNode | None = None
    if state is not None:
        jobs = jobs or [Job(pods_scenario(()), hardware.topology)]
        for job in jobs:
            source.check(job.scenario)
        is_live = meant.spec is None and os.path.isdir(meant.sysfs_root or "/")
        root = Path(meant.sysfs_root or "/") if is_live else None
        other = None if config_path is None else chosen
        node = running_node(state, hardware.topology().machine, root, other)
        hardware.name = source.name
    if unused := hardware.unused_option(jobs):
        click.echo(unused, err=True)
    with ProgressBar(sum(len(job.scenario.steps) for job in jobs)) as bar:
        results = [_run(job, chosen, hardware, node, bar) for job in jobs]
    if junit is not None:
        report = junit_text(results, allows_refusals=allow_refusals)
        write_whole(junit, report.encode())
    if output == "json":
        click.echo(json.dumps(result_document(results), indent=2, ensure_ascii=False))
    else:
        text = table_text if output == "table" else tree_text
        click.echo("\n\n".join(text(result) for result in results))
    refused = [] if allow_refusals else [one for result in results for one in result.refusals]
    if refused:
        many = "1 container is" if len(refused) == 1 else f"{len(refused)} containers are"
        message = f"pinfold simulate: {many} refused — accept that with --allow-refusals"
        click.echo(message, err=True)
    return int(bool(refused) or any(result.has_failed for result in results))


class _Hardware:
    """The machine the options mean, read when it is first needed."""

    def __init__(
        self,
        meant: MachineOptions,
        devices: Mapping[str, tuple[str, ...]],
        memory_qos: MemoryQos,
    ) -> None:
        self.name = meant.spec or meant.sysfs_root or "this machine"
        self._meant = meant
        self._devices = devices
        self._memory_qos = memory_qos
        self._machine: Machine | None = None

    def unused_option(self, jobs: Sequence[Job]) -> str:
        """What to say of an option that some scenarios pass over; empty where there is nothing."""
        ids = [job.scenario.id for job in jobs if job.has_own_hardware]
        if not ids or not self._meant.is_given:
            return ""
        option = "--sysfs-root" if self._meant.spec is None else "--machine"
        listed = ", ".join(ids[:_LISTED]) + (", …" if len(ids) > _LISTED else "")
        return f"{option}: not used by scenarios {listed}, which name their own topology"

    def topology(self) -> Topology:
        if self._machine is None:
            self._machine = self._meant.machine()
            check_devices(self._devices, self._machine)
        return Topology(machine=self._machine, devices=self._devices, memory_qos=self._memory_qos)


def _jobs(files: Sequence[str], hardware: _Hardware) -> list[Job]:
    """The scenarios of all files, and one more for the pods of all manifests."""
    jobs: list[Job] = []
    manifests: list[Field] = []
    for name in files:
        documents = read_fields(read_input(name), input_name(name))
        if not documents:
            raise FieldError(f"{input_name(name)}: is empty — write manifests or scenarios")
        for document in documents:
            if not is_scenario_file(document):
                manifests.append(document)
                continue
            parsed = parse_scenarios(document)
            _warn_of_misspelt(document, parsed)
            folder = Path() if name == "-" else Path(name).parent
            jobs.extend(_job(parsed, scenario, folder, hardware) for scenario in parsed.scenarios)
    if manifests:
        found = pods_of(manifests)
        for remark in found.remarks:
            click.echo(remark, err=True)
        if not found.pods and not found.remarks:
            names = ", ".join(dict.fromkeys(one.source for one in manifests))
            click.echo(f"{names}: nothing to place — write pods or scenarios", err=True)
        jobs.append(Job(pods_scenario(found.pods), hardware.topology))
    return jobs


def _warn_of_misspelt(document: Field, parsed: ScenarioFile) -> None:
    """Warnings about fields that nobody reads: what such a one expects is never asked."""
    for scenario, field, step in written_steps(document, parsed):
        for one in misspelt_fields(field, step):
            named = replace(one, message=f"{scenario.id}: {one.message}")
            click.echo(f"warning: {named.placed_text}", err=True)


def _job(parsed: ScenarioFile, scenario: Scenario, folder: Path, hardware: _Hardware) -> Job:
    if not scenario.topology:
        return Job(scenario, hardware.topology)
    table = parsed.topologies.get(scenario.topology)
    if table is None:
        known = ", ".join(parsed.topologies) or "none"
        raise FieldError(f"{scenario.where}: no topology {scenario.topology!r} — known: {known}")
    return Job(
        scenario, lambda: build_topology(table, lambda path: read_machine(str(folder / path)))
    )


def _chosen(jobs: list[Job], only: Sequence[str]) -> list[Job]:
    """The jobs to run: those a glob fits, or the only one whose id begins with the text."""
    ids = [job.scenario.id for job in jobs]
    wanted: set[str] = set()
    for pattern in only:
        fitting = [one for one in ids if fnmatch.fnmatchcase(one, pattern)]
        fitting = fitting or [one for one in ids if one.startswith(pattern)]
        if not fitting:
            known = ", ".join(ids) or "there are none"
            raise click.UsageError(f"--only {pattern!r} fits no scenario; known: {known}")
        if len(fitting) > 1 and not any(fnmatch.fnmatchcase(one, pattern) for one in fitting):
            listed = ", ".join(fitting)
            raise click.UsageError(f"--only {pattern!r} begins several ids; write one of: {listed}")
        wanted.update(fitting)
    return [job for job in jobs if not only or job.scenario.id in wanted]


def _run(
    job: Job, config: CheckedConfig, hardware: _Hardware, node: RunningNode | None, bar: ProgressBar
) -> ScenarioResult:
    name = job.scenario.topology or hardware.name
    topology = job.topology()
    return run_scenario(job.scenario, topology, config, name=name, node=node, track=bar.track)
