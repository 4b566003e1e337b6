"""`pinfold audit`: the running daemon's pins compared with what the kernel has."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from ...control.control_client import ControlClient
from ...control.control_option import control_option
from ...control.documents import AuditDocument
from ...report.console import table_lines
from ..container_lines import natural_key
from ..output_option import output_option
from .status import json_text, pin_text

_HEAD: Final = ("container", "intended", "kernel", "repaired", "likely")
_DRIFT: Final = 1


@click.command()
@control_option
@click.option(
    "--repair", is_flag=True, help="Have the runtime write again what differs, and look again."
)
@output_option("table", "json", meaning="A table for people or one JSON document for tools.")
def command(control: Path | None, repair: bool, output: str) -> None:
    """Compare the cpus and memory nodes of every running container with what the kernel has.

    Exits with 1 if a container has others than it should and was not repaired. The daemon does the
    same every ten seconds, and repairs.
    """
    audit = ControlClient(control).audit(repair=repair)
    click.echo(json_text(audit) if output == "json" else "\n".join(_lines(audit)))
    if any(not one.repaired for one in audit.drift):
        raise click.exceptions.Exit(_DRIFT)


def _lines(audit: AuditDocument) -> Iterator[str]:
    if audit.drift:
        rows = [
            (
                one.container,
                pin_text(one.intended),
                pin_text(one.kernel),
                "yes" if one.repaired else "no",
                one.likely,
            )
            for one in sorted(audit.drift, key=lambda one: natural_key(one.container))
        ]
        yield from table_lines(_HEAD, rows)
    repaired = sum(one.repaired for one in audit.drift)
    yield f"containers: {audit.containers}, drift: {len(audit.drift)}, repaired: {repaired}"
