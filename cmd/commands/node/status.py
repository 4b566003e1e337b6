"""`pinfold status`: pools and containers of the running daemon, as intended and as they are."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from ....policy.model.criterion_words import moved_text, words_of
from ....topology.sets.cpuset import CpuSet
from ...control.control_client import ControlClient
from ...control.documents import (
    ContainerDocument,
    PoolDocument,
    RefusalsDocument,
    StatusDocument,
)
from ...report.console import table_lines
from ...report.escaped_text import escaped
from ..container_lines import natural_key
from ..json_text import json_text
from ..options import control_option, output_option
from .document_text import ids_text, pin_text
from .watch_option import watch, watch_option

_BAR_WIDTH: Final = 10
_REFUSALS_SHOWN: Final = 3
_REASON_CHARACTERS: Final = 160
"""Enough for what is short, or the first rule; `explain` has all of it."""
_POOL_HEAD: Final = ("pool", "use", "cpus", "exclusive", "shared", "free", "memory", "containers")
_CONTAINER_HEAD: Final = ("container", "pool", "kind", "cpus", "memory", "kernel", "reason")


@click.command()
@control_option
@watch_option
@output_option("table", "json", meaning="Tables for people or one JSON document for tools.")
def command(control: Path | None, is_watched: bool, output: str) -> None:
    """Show the pools and containers of this node's daemon, and whether the kernel agrees."""
    client = ControlClient(control)
    if output == "json":
        click.echo(status_text(client.status()))
    elif is_watched:
        watch(lambda: status_lines(client.status()))
    else:
        click.echo("\n".join(status_lines(client.status())))


def status_text(document: StatusDocument) -> str:
    """The status as one sorted JSON text, without what only other commands need of it."""
    found = msgspec.to_builtins(document)
    for one in found["containers"]:
        del one["granted_milli"]
        for name in ("idle", "placed_in"):
            if not one[name]:
                del one[name]
    return json_text(found)


def bar(part: int, whole: int) -> str:
    """A bar that shows how much of something is in use.

    >>> bar(3500, 4000)
    '█████████·'
    """
    share = 0 if whole <= 0 else min(max(part, 0), whole) * _BAR_WIDTH
    full = -(-share // whole) if share else 0
    return "█" * full + "·" * (_BAR_WIDTH - full)


def status_lines(status: StatusDocument) -> Iterator[str]:
    """The tables for people, line by line."""
    runtime = status.runtime
    name = f"{runtime.name} {runtime.version}".strip() or "none so far"
    state = "connected" if runtime.connected else "not connected"
    yield escaped(f"runtime: {name} ({runtime.kind}), {state}")
    yield from (escaped(f"problem: {one}") for one in status.problems)
    if status.config_fault:
        # How to mend it is long, and in the log.
        fault = status.config_fault.partition(" — ")[0]
        yield escaped(f"problem: {fault}; the old configuration stays in force, see the log")
    for fault in (status.state_fault, status.history_fault):
        if fault:
            yield escaped(f"problem: {fault}")
    yield ""
    yield from table_lines(_POOL_HEAD, [_pool_row(one) for one in status.pools])
    yield ""
    ordered = sorted(status.containers, key=lambda one: natural_key(one.container))
    yield from table_lines(_CONTAINER_HEAD, [_container_row(one) for one in ordered])
    for one in ordered:
        yield from (escaped(f"problem: {one.container}: {problem}") for problem in one.problems)
    if status.refusals is not None:
        yield from map(escaped, _refusal_lines(status.refusals))
    drifted = [one for one in status.containers if one.drift]
    if drifted:
        yield f"{len(drifted)} not as intended: see 'pinfold audit'"


def _refusal_lines(refusals: RefusalsDocument) -> Iterator[str]:
    """How many containers were refused, and the last few with the beginning of the reason."""
    yield f"refused since the start: {refusals.count}; see 'pinfold explain'"
    for one in refusals.last[:_REFUSALS_SHOWN]:
        reason = one.reason
        if len(reason) > _REASON_CHARACTERS:
            reason = f"{reason[:_REASON_CHARACTERS]}…"
        yield f"  {one.container} at {one.at}: {reason}"


def _pool_row(pool: PoolDocument) -> Sequence[str]:
    whole = 1000 * len(CpuSet.parse(pool.cpus))
    return (
        pool.name,
        bar(whole - pool.free_milli, whole),
        pool.cpus or "-",
        pool.exclusive or "-",
        f"{pool.shared_milli}m",
        f"{pool.free_milli}m",
        pool.mems or "-",
        str(len(pool.containers)),
    )


def _container_row(one: ContainerDocument) -> Sequence[str]:
    kernel = "unknown"
    if one.kernel is not None:
        kernel = pin_text(one.kernel) if one.drift else "the same"
    return (
        one.container,
        one.pool,
        f"{one.kind} + idle" if one.idle else one.kind,
        ids_text(one.intended.cpus),
        ids_text(one.intended.mems),
        kernel,
        moved_text(one.placed_in, one.pool) if one.placed_in else words_of(one.decided_by),
    )
