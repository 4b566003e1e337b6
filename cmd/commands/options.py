"""Options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from click.decorators import FC

from ..report.path_type import PathType

control_option: Final = click.option(
    "--control",
    metavar="PATH",
    type=PathType(path_type=Path, remedy="name that of pinfoldd, or leave the option out"),
    help="The daemon's control socket; /run/pinfold/control.sock or /var/lib/pinfold/"
    "control.sock by default.",
)
"""A command's `--control`: `control`, the path of the daemon's socket, or None."""

config_option: Final = click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=PathType(),
    help="Configuration; built-in defaults.",
)
"""A command's `--config`: `config_path`, for `chosen_config`."""


def output_option(*kinds: str, meaning: str) -> Callable[[FC], FC]:
    """A command's `-o`, `--output` with the first of its kinds as default: `output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(kinds),
        default=kinds[0],
        show_default=True,
        help=meaning,
    )
