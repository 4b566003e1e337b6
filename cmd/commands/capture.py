"""`pinfold capture`: this machine's topology as a snapshot archive."""

import os
from pathlib import Path
from typing import Final

import click

from ...topology.made.snapshot import capture, pack
from ...topology.sysfs.sysfs_tree import open_tree
from ..report.path_type import PathType
from .options import control_option
from .output_file import write_whole

_CAPTURE_SECONDS: Final = 55.0
"""Less than the daemon keeps a silent connection for."""


@click.command()
@click.argument(
    "file",
    type=PathType(path_type=Path, dir_okay=False, remedy="name a file in a folder you can write"),
)
@click.option(
    "--sysfs-root",
    metavar="DIR|ARCHIVE",
    help="Capture the machine below DIR instead of this one.",
)
@click.option(
    "--running", is_flag=True, help="Have the running daemon capture the machine that it serves."
)
@control_option
def command(file: Path, sysfs_root: str | None, running: bool, control: Path | None) -> None:
    """Save the topology files of this machine in FILE (.tar.xz, .tar.gz or .tar).

    Other commands read it with --sysfs-root. It holds cpu, NUMA and device topology, /proc/cpuinfo
    and /proc/meminfo; no host name, address or kernel command line. No daemon is needed without
    --running.
    """
    if running and sysfs_root is not None:
        raise click.UsageError("--running and --sysfs-root exclude each other; give one")
    if running:
        # Imported here: a machine without a daemon has no use for it.
        from ..control.control_client import ControlClient

        content = ControlClient(control, _CAPTURE_SECONDS).capture(file.name)
        write_whole(file, content)
        machine, snapshot = capture(open_tree(os.fspath(file)))
    else:
        machine, snapshot = capture(open_tree(sysfs_root or "/"))
        content = pack(snapshot, file.name)
        write_whole(file, content)
    click.echo(
        f"{file}: {len(machine.online)} cpus, {len(machine.numa_nodes)} NUMA nodes, "
        f"{len(snapshot.files)} files, {len(content)} bytes"
    )
