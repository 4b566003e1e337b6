"""`pinfold capture`: this machine's topology as a snapshot archive."""

import contextlib
import os
from pathlib import Path

import click

from ...topology.made.machine_capture import capture
from ...topology.made.snapshot import pack
from ...topology.sets.base_errors import PinfoldError
from ...topology.sysfs.sysfs_tree import open_tree


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--sysfs-root",
    metavar="DIR|ARCHIVE",
    default="/",
    help="Capture the machine below DIR instead of this one.",
)
def command(file: Path, sysfs_root: str) -> None:
    """Save the topology files of this machine in FILE (.tar.xz, .tar.gz or .tar).

    Other commands read it with --sysfs-root. It holds cpu, NUMA and device topology, /proc/cpuinfo
    and /proc/meminfo; no host name, address or kernel command line.
    """
    machine, snapshot = capture(open_tree(sysfs_root))
    content = pack(snapshot, file.name)
    write_archive(file, content)
    click.echo(
        f"{file}: {len(machine.online)} cpus, {len(machine.numa_nodes)} NUMA nodes, "
        f"{len(snapshot.files)} files, {len(content)} bytes"
    )


def write_archive(file: Path, content: bytes) -> None:
    """Write a whole file or none: no half an archive stays behind. Raises `PinfoldError`."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        reason = (error.strerror or str(error)).lower()
        raise PinfoldError(f"{file}: {reason} — name a file in a folder you can write") from error
