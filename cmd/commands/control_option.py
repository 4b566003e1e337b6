"""The option that says which running daemon a command asks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..report.path_type import PathType

_Command = TypeVar("_Command", bound=Callable[..., Any])


def control_option(command: _Command) -> _Command:
    """A command's `--control`: `control`, the path of the daemon's socket, or None."""
    return click.option(
        "--control",
        metavar="PATH",
        type=PathType(path_type=Path, remedy="name that of pinfoldd, or leave the option out"),
        help="The daemon's control socket; /run/pinfold/control.sock or /var/lib/pinfold/"
        "control.sock by default.",
    )(command)
