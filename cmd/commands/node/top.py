"""`pinfold top`: what pools and containers use of what they were granted."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from ....topology.drawing.machine_tree import bytes_text
from ....topology.model.machine import Machine
from ...control.control_client import ControlClient
from ...daemon.machine_source import machine_of
from ...kernel.cgroup_usage import read_usages
from ...report.console import table_lines
from ..json_text import json_text
from ..options import control_option, output_option
from .status import bar
from .usage_document import ContainerUsage, UsageDocument, usage_document
from .watch_option import watch, watch_option

_POOL_HEAD: Final = ("pool", "use", "cpus", "granted", "used", "throttled", "waiting")
_HEAD: Final = (
    *("container", "pool", "cpus", "granted", "used"),
    *("throttled", "waiting", "memory", "remote"),
)


@click.command()
@control_option
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.05, max=60),
    default=1.0,
    show_default=True,
    help="Measure for so long.",
)
@click.option("--sysfs-root", metavar="DIR", default="/", help="Read sys/ and proc/ below DIR.")
@watch_option
@output_option("table", "json", meaning="Tables for people or one JSON document for tools.")
def command(
    control: Path | None, seconds: float, sysfs_root: str, is_watched: bool, output: str
) -> None:
    """Show what pools and containers use of what they were granted, most first.

    Throttled: by the container's limit; waiting: some task had no cpu (both of the time, of a pool
    that of the container with most); remote: memory on other NUMA nodes than those of its cpus.
    """
    client, machine = ControlClient(control), machine_of(sysfs_root, None)

    def look() -> UsageDocument:
        return _usage(client, Path(sysfs_root), machine, seconds)

    if output == "json":
        click.echo(json_text(look()))
    elif is_watched:
        # It measures as long as another one would pause.
        watch(lambda: _lines(look()), pause_seconds=0)
    else:
        click.echo("\n".join(_lines(look())))


def _usage(client: ControlClient, root: Path, machine: Machine, seconds: float) -> UsageDocument:
    status = client.status()
    ids = [one.id for one in status.containers]
    begun, before = time.monotonic(), read_usages(root, ids)
    time.sleep(seconds)
    after, ended = read_usages(root, ids), time.monotonic()
    return usage_document(status, before, after, ended - begun, machine)


def _lines(usage: UsageDocument) -> Iterator[str]:
    yield from table_lines(
        _POOL_HEAD,
        [
            (
                one.name,
                bar(one.used_milli or 0, one.granted_milli),
                one.cpus or "-",
                f"{one.granted_milli}m",
                _milli(one.used_milli),
                _percent(one.throttled_ratio),
                _percent(one.waiting_ratio),
            )
            for one in usage.pools
        ],
    )
    yield ""
    ordered = sorted(usage.containers, key=lambda one: (-(one.used_milli or 0), one.container))
    yield from table_lines(_HEAD, [_row(one) for one in ordered])


def _row(one: ContainerUsage) -> tuple[str, ...]:
    return (
        one.container,
        one.pool,
        "any" if one.cpus is None else one.cpus,
        f"{one.granted_milli}m",
        _milli(one.used_milli),
        _percent(one.throttled_ratio),
        _percent(one.waiting_ratio),
        "?" if one.memory_bytes is None else bytes_text(one.memory_bytes),
        _percent(one.remote_ratio),
    )


def _milli(used: int | None) -> str:
    return "?" if used is None else f"{used}m"


def _percent(ratio: float | None) -> str:
    return "?" if ratio is None else f"{round(100 * ratio)}%"
