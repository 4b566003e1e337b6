"""`python -m tests.bench`: everything that can be measured anywhere, in some minutes.

A process of its own: the garbage collector has the daemon's objects to look at, and no test
runner's.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from pinfold.topology.sets.base_errors import PinfoldError
from tests.bench.benchmarks import benchmarks
from tests.bench.figure import HEADER, OUTPUT, Figure, Quantity, write_json
from tests.bench.placements import PLACED_SIZES, PLACEMENT_HEADER, measure_placements
from tests.bench.plugins import comparison
from tests.bench.plugins.plugin_command import floor_command, parse_plugin, pinfold_command
from tests.bench.plugins.plugin_process import PluginEndedError
from tests.bench.plugins.samples import Samples, floor_figures
from tests.bench.plugins.socket_rounds import (
    PAUSE_MILLISECONDS,
    RESTARTS,
    TURNOVERS,
    measure_plugins,
)
from tests.bench.population import UNREAD_PERCENT
from tests.bench.sizes import SIZES

SOCKET_CONDITIONS = """\
From the runtime's end of the unix socket, each plugin as a process with everything switched on; a
turnover is one stop and the creations after it. The plugins take turns on the same machine, and
everybody sleeps for {pause} ms between two calls. In half of the rounds somebody reads the metrics
once a second: the cpu of their turnovers is that of pages, too (cpu-turnover-read).
"""

ENGINE_CONDITIONS = f"""\
The parts alone. Garbage is collected as in the daemon, between events. Half of the pods have
affinity rules; {UNREAD_PERCENT} of 100 pods are of a workload that is new to the policy, the others
are replicas.
"""

PLACEMENT_CONDITIONS = """\
The satisfied weight of the same containers, as the share of the way from an even spread, which
knows no rules, to the best that a patient search finds: on arrival, on arrival with symmetric
rules, after a rebalance that leaves exclusive cpus alone (to the best that does), and after one
that does not.
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--size",
    "names",
    multiple=True,
    type=click.Choice([size.name for size in SIZES]),
    help="Measure plugins at this size alone (repeatable).",
)
@click.option("--turnovers", default=TURNOVERS, show_default=True, type=click.IntRange(1))
@click.option("--restarts", default=RESTARTS, show_default=True, type=click.IntRange(1))
@click.option(
    "--pause",
    default=PAUSE_MILLISECONDS,
    show_default=True,
    type=click.IntRange(0),
    metavar="MS",
    help="Before each call of a turnover; 0: the plugin gets no time to itself.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="NAME=COMMAND",
    help="Drive another NRI plugin as well (repeatable). In COMMAND {socket} is the runtime's"
    " socket, {root} the folder with the machine's sys/ and proc/, {scratch} a folder of its own"
    " that has a pinfold.yaml, {port} where its metrics are read.",
)
@click.option("--parts/--no-parts", default=True, help="Measure the parts of Pinfold alone, too.")
@click.option(
    "--placements/--no-placements", default=True, help="Measure how good placements are, too."
)
@click.option(
    "--output",
    default=OUTPUT,
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the figures here, in place of those of the same names.",
)
def main(
    names: tuple[str, ...],
    turnovers: int,
    restarts: int,
    pause: int,
    plugins: tuple[str, ...],
    parts: bool,
    placements: bool,
    output: Path,
) -> None:
    """Measure Pinfold at its runtime's end of the socket, beside the floor; then its parts."""
    try:
        driven = [floor_command(), pinfold_command(), *map(parse_plugin, plugins)]
    except PinfoldError as error:
        raise click.UsageError(str(error)) from error
    print(SOCKET_CONDITIONS.format(pause=pause))
    measured: list[Samples] = []
    for size in SIZES:
        if names and size.name not in names:
            continue
        try:
            found = measure_plugins(size, driven, turnovers, restarts, pause)
        except PluginEndedError as error:
            raise click.ClickException(str(error)) from error
        _print_comparison(size.text, found)
        measured += found
        write_json(output, (one for samples in found for one in samples.figures().values()))
    write_json(output, floor_figures(measured))
    if parts:
        write_json(output, _measure_parts())
    if placements:
        write_json(output, _measure_placements())


def _print_comparison(text: str, found: Sequence[Samples]) -> None:
    print(f"{found[0].size.name}: {text}\n{comparison.HEADER}")
    records = {samples.plugin: samples.records() for samples in found}
    for line in comparison.comparison(found[0].size.name, records):
        print(line)
    for samples in found:
        if samples.plugin != "floor":
            print(samples.counts())
    print(flush=True)


def _measure_parts() -> Iterable[Figure]:
    print(ENGINE_CONDITIONS)
    print(HEADER)
    figures: list[Figure] = []
    for benchmark in benchmarks():
        figures.append(benchmark.measure())
        print(figures[-1].row(), flush=True)
    return figures


def _measure_placements() -> Iterable[Figure | Quantity]:
    print(f"\n{PLACEMENT_CONDITIONS}\n{PLACEMENT_HEADER}")
    figures: list[Figure | Quantity] = []
    for size, seeds in PLACED_SIZES:
        found = measure_placements(size, seeds)
        print(found.row(), flush=True)
        figures += found.figures()
    return figures


if __name__ == "__main__":
    main(prog_name="python -m tests.bench")
