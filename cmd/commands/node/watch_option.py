"""The option that has a command show the same again and again, until it is interrupted."""

import time
from collections.abc import Callable, Iterable
from typing import Final

import click

from ...report.console import live_lines

PAUSE_SECONDS: Final = 2.0

watch_option: Final = click.option(
    "-w", "--watch", "is_watched", is_flag=True, help="Go on, until Ctrl-C; for terminals."
)
"""A command's `--watch`: `is_watched`."""


def watch(
    look: Callable[[], Iterable[str]],
    pause_seconds: float = PAUSE_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the lines of one look after the other in the same place, until Ctrl-C."""
    try:
        with live_lines() as show:
            while True:
                show(list(look()))
                sleep(pause_seconds)
    except KeyboardInterrupt:
        # That is how it ends.
        return
