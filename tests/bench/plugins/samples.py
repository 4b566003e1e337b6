"""What plugins were measured at, and the figures made of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tests.bench.figure import FLOOR_METRICS, METRICS, Figure, Quantity, Record
from tests.bench.plugins.driven_node import DrivenNode
from tests.bench.plugins.plugin_command import FLOOR, PINFOLD
from tests.bench.sizes import Size
from tests.bench.timings import Timings

_TIMED: Final = {
    "create": "CreateContainer",
    "stop": "StopContainer",
    "update": "UpdateContainer",
}

_UNITS: Final = {
    "rss": "MiB",
    "written": "KiB",
    "updates-turnover": "updates",
    "restart-changes": "containers",
}
"""Of what is no time; the others are in ms. Written bytes and updates are those of a turnover."""


_ALL_SIZES: Final = "the wire alone, constant answers, all sizes"


@dataclass(slots=True)
class Samples:
    """What one plugin was measured at, at one size: nanoseconds, or amounts in their own unit."""

    plugin: str
    size: Size
    times: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    amounts: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    refusals: int = 0
    unpinned: int = 0
    """Creations that were answered without cpus, as by a deadline that was missed."""
    unasked: int = 0
    """Calls by which the plugin asked for updates by itself."""
    scrapes: int = 0
    """How often its metrics were read."""

    def take(self, node: DrivenNode) -> None:
        """What the node has noted since it began."""
        for metric, method in _TIMED.items():
            self.times[metric] = list(node.runtime.pace.times[method])
        self.refusals, self.unpinned = node.refusals, node.unpinned
        self.unasked, self.scrapes = node.runtime.unsolicited, node.scraper.scrapes

    def note_time(self, metric: str, nanoseconds: int) -> None:
        """Add one time."""
        self.times.setdefault(metric, []).append(nanoseconds)

    def note(self, metric: str, amount: float) -> None:
        """Add one amount that is no time."""
        self.amounts.setdefault(metric, []).append(amount)

    def figures(self) -> Mapping[str, Figure | Quantity]:
        """Everything by metric, in the order of the table."""
        text, found = self.size.text, dict[str, Figure | Quantity]()
        for metric in FLOOR_METRICS if self.plugin == FLOOR else METRICS:
            name = figure_name(self.plugin, metric, self.size.name)
            if times := self.times.get(metric):
                found[metric] = Figure(name, text, Timings(wall=times))
            elif amounts := self.amounts.get(metric):
                found[metric] = Quantity(name, text, _UNITS[metric], amounts)
        return found

    def records(self) -> Mapping[str, Record]:
        """The figures as they are written, by metric."""
        return {metric: figure.record() for metric, figure in self.figures().items()}

    def counts(self) -> str:
        """What was counted while the turnovers were measured."""
        return (
            f"{self.plugin}: {self.refusals} refused, {self.unpinned} created without cpus,"
            f" {self.unasked} calls for updates between answers, metrics read {self.scrapes} times"
        )


def floor_figures(measured: Iterable[Samples]) -> Iterable[Figure | Quantity]:
    """The floor's figures, those of all sizes together: it does not know how large they are."""
    pooled: Samples | None = None
    for samples in measured:
        if samples.plugin != FLOOR:
            continue
        pooled = pooled or Samples(FLOOR, samples.size)
        for metric, times in samples.times.items():
            pooled.times.setdefault(metric, []).extend(times)
        for metric, amounts in samples.amounts.items():
            pooled.amounts.setdefault(metric, []).extend(amounts)
    return (
        ()
        if pooled is None
        else (replace(one, size=_ALL_SIZES) for one in pooled.figures().values())
    )


def figure_name(plugin: str, metric: str, size: str) -> str:
    """The name of a figure in `bench.json`; Pinfold's own have no name in front."""
    if plugin == FLOOR:
        return f"{FLOOR}-{metric}"
    return f"{metric}-{size}" if plugin == PINFOLD else f"{plugin}-{metric}-{size}"
