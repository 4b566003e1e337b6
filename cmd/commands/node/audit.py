"""`pinfold audit`: the running daemon's pins compared with what the kernel has."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from ...control.control_client import ControlClient
from ...control.documents import AuditDocument
from ...report.console import table_lines
from ..container_lines import natural_key
from ..json_text import json_text
from ..options import control_option, output_option
from .bound_threads import BoundThreads, ThreadAuditDocument, bound_threads
from .document_text import pin_text

_HEAD: Final = ("container", "intended", "kernel", "repaired", "likely")
_THREAD_HEAD: Final = ("container", "intended", "bound to", "threads")
_DRIFT: Final = 1


@click.command()
@control_option
@click.option(
    "--repair", is_flag=True, help="Have the runtime write again what differs, and look again."
)
@click.option(
    "--threads",
    "with_threads",
    is_flag=True,
    help="Show threads, too, that are bound to fewer cpus than their container has.",
)
@click.option("--sysfs-root", metavar="DIR", default="/", help="Read threads below DIR.")
@output_option("table", "json", meaning="A table for people or one JSON document for tools.")
def command(
    control: Path | None, repair: bool, with_threads: bool, sysfs_root: str, output: str
) -> None:
    """Compare the cpus and memory nodes of every running container with what the kernel has.

    Exits with 1 if a container has others than it should and was not repaired. The daemon does the
    same every ten seconds, and repairs. Threads are the program's own business: they are only
    shown.
    """
    root = Path(sysfs_root)
    # Of a folder that may not be looked into, pathlib would raise.
    if with_threads and not os.path.isdir(root / "proc"):
        raise click.UsageError(f"--sysfs-root {sysfs_root}: holds no proc/, where threads are")
    client = ControlClient(control)
    audit = client.audit(repair=repair)
    bound: tuple[BoundThreads, ...] | None = None
    if with_threads:
        bound = bound_threads(client.status(), root)
    if output == "json":
        # Without the option the document stays what it was.
        document = audit if bound is None else ThreadAuditDocument.of(audit, bound)
        click.echo(json_text(document))
    else:
        click.echo("\n".join([*_lines(audit), *_thread_lines(bound)]))
    if any(not one.repaired for one in audit.drift):
        raise click.exceptions.Exit(_DRIFT)


def _thread_lines(bound: tuple[BoundThreads, ...] | None) -> Iterator[str]:
    if bound is None:
        return
    if bound:
        yield ""
        rows = [(one.container, one.intended, one.cpus, str(one.threads)) for one in bound]
        yield from table_lines(_THREAD_HEAD, rows)
    yield f"threads bound to fewer cpus than their container has: {sum(b.threads for b in bound)}"


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
