"""`pinfold capture`: this machine's topology as a snapshot archive."""

from pathlib import Path

import click

from ...topology.made.machine_capture import capture
from ...topology.made.snapshot import pack
from ...topology.sysfs.sysfs_tree import open_tree
from .output_file import write_whole


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
    write_whole(file, content)
    click.echo(
        f"{file}: {len(machine.online)} cpus, {len(machine.numa_nodes)} NUMA nodes, "
        f"{len(snapshot.files)} files, {len(content)} bytes"
    )
