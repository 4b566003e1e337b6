"""The option that says how a command prints: for people, or as one JSON document for tools."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def output_option(*kinds: str, meaning: str) -> Callable[[_Command], _Command]:
    """A command's `-o`, `--output` with the first of its kinds as default: `output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(kinds),
        default=kinds[0],
        show_default=True,
        help=meaning,
    )
