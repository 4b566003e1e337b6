"""`pinfold follow`: decisions of the running daemon as they are made."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from ....policy.model.criterion_words import words_of
from ...control.control_client import ControlClient
from ...control.documents import GRANT, FollowedDocument
from ...report.escaped_text import escaped
from ..options import control_option, output_option
from .document_text import ids_text, pin_text


@click.command()
@control_option
@output_option("text", "json", meaning="Sentences, or one JSON document a line for tools.")
def command(control: Path | None, output: str) -> None:
    """Show what is decided from now on, who moves for it, and which containers end.

    It goes on until Ctrl-C or the daemon's end.
    """
    for one in ControlClient(control).follow():
        if not one.event:
            continue
        if output == "json":
            click.echo(msgspec.json.encode(one, order="sorted"))
        else:
            click.echo("\n".join(map(escaped, _lines(one))))


def _lines(one: FollowedDocument) -> Iterator[str]:
    if one.dropped:
        yield f"{one.dropped} left out: they came faster than they were read"
    yield f"{one.at} {one.event} {one.container}{_outcome(one)}"
    for other in one.moved:
        yield f"  {other.container} moved from {pin_text(other.from_)} to {pin_text(other.to)}"


def _outcome(one: FollowedDocument) -> str:
    if one.result is None:
        return ""
    if one.result != GRANT:
        return f" refused: {one.decided_by}"
    place = f"cpus {ids_text(one.cpus)}, memory {ids_text(one.mems)}"
    return f" in {one.pool} on {place}: {words_of(one.decided_by)}"
