"""`pinfold topology`: the machine as a tree or as JSON."""

import json

import click

from ...topology.drawing.machine_json import machine_document
from ...topology.drawing.machine_tree import draw_machine
from ..daemon.machine_source import machine_of, machine_options


@click.command()
@machine_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["tree", "json"]),
    default="tree",
    show_default=True,
    help="A tree for people or one JSON document for tools.",
)
def command(sysfs_root: str | None, machine: str | None, output: str) -> None:
    """Show the machine: sockets, NUMA nodes, caches, cores, memory and devices."""
    found = machine_of(sysfs_root, machine)
    if output == "json":
        click.echo(json.dumps(machine_document(found), indent=2, ensure_ascii=False))
    else:
        click.echo(draw_machine(found))
