"""The option that says which running daemon a command asks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def control_option(command: _Command) -> _Command:
    """A command's `--control`: `control`, the path of the daemon's socket, or None."""
    return click.option(
        "--control",
        metavar="PATH",
        type=click.Path(path_type=Path, readable=False),
        help="The daemon's control socket; /run/pinfold/control.sock or /var/lib/pinfold/"
        "control.sock by default.",
    )(command)
