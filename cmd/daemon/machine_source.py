"""The options that say which machine is meant: this one, a copy of /sys, or one line."""

import os

import click
from click.decorators import FC

from ...topology.model.machine import Machine
from ...topology.sysfs.discovery import read_machine
from ...topology.sysfs.overrides import override_machine, parse_overrides
from ..report.path_type import PathType


def machine_options(command: FC) -> FC:
    """The command with `--sysfs-root` and `--machine`: its parameters `sysfs_root`, `machine`."""
    sysfs_root = click.option(
        "--sysfs-root",
        metavar="DIR|ARCHIVE",
        type=PathType(remedy="give a directory or an archive"),
        help="Read sys/ and proc/ below DIR or in a snapshot archive instead of this machine's.",
    )
    machine = click.option(
        "--machine",
        metavar="SPEC",
        help="Use a made-up machine: 'socket:2 numa:2 core:2 thread:2 mem:2G'.",
    )
    return sysfs_root(machine(command))


def machine_of(sysfs_root: str | None, machine: str | None) -> Machine:
    """The machine the options mean; without any, the one this runs on.

    What the environment overrides of it is overridden. Raises `TopologyError`, and
    `click.UsageError` where both are given.
    """
    if sysfs_root is not None and machine is not None:
        raise click.UsageError("--sysfs-root and --machine exclude each other; give one")
    overrides = parse_overrides(os.environ)
    if machine is not None:
        # Imported here: a node's daemon reads its own machine.
        from ...topology.made.spec import machine_from_spec

        found = machine_from_spec(machine)
    else:
        found = read_machine("/" if sysfs_root is None else sysfs_root)
    return override_machine(found, overrides)


def live_root(sysfs_root: str | None, machine: str | None) -> str | None:
    """The folder where this machine's state of the moment can be read; None for one on paper."""
    if machine is not None:
        return None
    root = "/" if sysfs_root is None else sysfs_root
    return root if os.path.isdir(root) else None
