"""Plugins driven in turns on one machine, so that a slow minute hits all of them."""

import gc
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.bench.plugins.driven_node import DrivenNode
from tests.bench.plugins.plugin_command import FLOOR, PINFOLD, PluginCommand
from tests.bench.plugins.plugin_process import PluginEndedError
from tests.bench.plugins.samples import Samples
from tests.bench.sizes import Size
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

TURNOVERS: Final = 300
RESTARTS: Final = 3
PAUSE_MILLISECONDS: Final = 3
"""Before each call of a turnover: less than a real runtime takes from one to the next."""
_TURNOVERS_PER_ROUND: Final = 50
_RESIZES_PER_ROUND: Final = 20
_WARM_UP: Final = 10
_LINGER_SECONDS: Final = 1.2
"""After the turnovers of a round: what is put off for so long counts as well."""

Driven = list[tuple[DrivenNode, Samples]]


def measure_plugins(
    size: Size,
    plugins: Sequence[PluginCommand],
    turnovers: int = TURNOVERS,
    restarts: int = RESTARTS,
    pause_milliseconds: int = PAUSE_MILLISECONDS,
) -> list[Samples]:
    """What each plugin takes at one size.

    One that cannot stand the machine is told of on standard error and left out, but for Pinfold
    and the floor: they raise `PluginEndedError`.
    """
    with tempfile.TemporaryDirectory(prefix="pinfold-bench-") as folder, ExitStack() as nodes:
        root = Path(folder) / "machine"
        root.mkdir()
        _write_machine(size, root)
        driven: list[tuple[DrivenNode, Samples]] = []
        for number, plugin in enumerate(plugins):
            node = DrivenNode(plugin, size, root, Path(folder) / plugin.name, number)
            with _left_out(driven, node.name):
                nodes.enter_context(node)
                node.start()
                node.fill()
                for _ in range(min(_WARM_UP, turnovers)):
                    node.turn()
                node.resize()
                node.settle()
                node.begin()
                driven.append((node, Samples(node.name, size)))
        _turn_over(driven, turnovers, pause_milliseconds / 1000)
        for node, samples in driven:
            samples.take(node)
        for number in range(restarts):
            for node, samples in _in_turn(driven, number):
                with _left_out(driven, node.name):
                    _restart(node, samples)
    return [samples for _, samples in driven]


def _write_machine(size: Size, root: Path) -> None:
    """Its tree, with memory of which nothing is used: there is something to watch."""
    nodes = tuple(replace(one, free_bytes=one.memory_bytes) for one in size.machine.numa_nodes)
    write_tree(machine_snapshot(replace(size.machine, numa_nodes=nodes)), str(root))


def _turn_over(driven: Driven, turnovers: int, pause_seconds: float) -> None:
    # Two at least: one in which metrics are read, and one in which they are not.
    most = min(_TURNOVERS_PER_ROUND, -(-turnovers // 2))
    for number, first in enumerate(range(0, turnovers, most)):
        for node, samples in _in_turn(driven, number):
            is_read = _is_read(number)
            with _left_out(driven, node.name), _turn_of(node, pause_seconds, is_read=is_read):
                _one_round(node, samples, min(most, turnovers - first), is_read=is_read)


def _is_read(number: int) -> bool:
    """Whether metrics are read in a round: in every second one, of either order of plugins."""
    return (number + 1) // 2 % 2 == 1


def _one_round(node: DrivenNode, samples: Samples, count: int, *, is_read: bool) -> None:
    cpu, written = node.process.cpu_ns(), node.process.written_bytes()
    updates = node.updates()
    for _ in range(count):
        node.turn()
    node.settle(_LINGER_SECONDS)
    cpu, written = node.process.cpu_ns() - cpu, node.process.written_bytes() - written
    updates = node.updates() - updates
    # A page takes as long as several turnovers, and comes by the clock: every 15 to 60 s as a rule.
    samples.note_time("cpu-turnover-read" if is_read else "cpu-turnover", cpu // count)
    samples.note("written", written / count / (1 << 10))
    samples.note("updates-turnover", updates / count)
    samples.note("rss", node.process.resident_bytes() / (1 << 20))
    for _ in range(_RESIZES_PER_ROUND):
        node.resize()
    node.settle()


def _restart(node: DrivenNode, samples: Samples) -> None:
    before = node.pinnings()
    node.stop()
    node.runtime.pace.times.clear()
    samples.note_time("ready", node.start())
    samples.note_time("synchronize", sum(node.runtime.pace.times["Synchronize"]))
    node.settle()
    after = node.pinnings()
    samples.note("restart-changes", sum(after[one] != cpus for one, cpus in before.items()))


@contextmanager
def _turn_of(node: DrivenNode, pause_seconds: float, *, is_read: bool) -> Generator[None]:
    """Nothing but this plugin is busy, and no garbage of ours is collected meanwhile."""
    gc.collect()
    gc.disable()
    if is_read:
        node.scraper.begin()
    node.runtime.pace.pause_seconds = pause_seconds
    try:
        yield
    finally:
        node.runtime.pace.pause_seconds = 0
        node.scraper.pause()
        gc.enable()


@contextmanager
def _left_out(driven: Driven, name: str) -> Generator[None]:
    """Where a plugin of somebody else's ends, the others go on."""
    try:
        yield
    except PluginEndedError as error:
        if name in (PINFOLD, FLOOR):
            raise
        driven[:] = [one for one in driven if one[0].name != name]
        print(f"{name}: left out: {error}", file=sys.stderr)


def _in_turn(driven: Driven, number: int) -> Driven:
    """All of them, in another order each time: nobody always comes after the same one.

    Of three, six turns are all six orders. Turned about only, with none reversed, one of them
    would mostly come after the floor, and what it reads from memory would be colder.
    """
    first = number % len(driven) if driven else 0
    order = [*driven[first:], *driven[:first]]
    return order[::-1] if number % 2 else order
