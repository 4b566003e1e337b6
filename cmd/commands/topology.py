"""`pinfold topology`: the machine as a tree or as JSON."""

import json

import click

from ...topology.drawing.machine_json import machine_document
from ...topology.drawing.machine_tree import machine_drawing
from ...topology.model.machine import Machine
from ..daemon.machine_source import machine_of, machine_options
from ..report.console import branch_lines
from .options import output_option


@click.command()
@machine_options
@output_option("tree", "json", meaning="A tree for people or one JSON document for tools.")
def command(sysfs_root: str | None, machine: str | None, output: str) -> None:
    """Show the machine: sockets, NUMA nodes, caches, cores, memory and devices."""
    found = machine_of(sysfs_root, machine)
    if output == "json":
        click.echo(json.dumps(machine_document(found), indent=2, ensure_ascii=False))
    else:
        click.echo(machine_text(found))


def machine_text(machine: Machine) -> str:
    """The machine as lines of text for people."""
    drawing = machine_drawing(machine)
    return "\n".join([*drawing.heading, *branch_lines(drawing.domains), *drawing.remarks])
