"""What was measured, as rows for people and for programs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.timings import Timings, percentile, percentile_ms

METRICS: Final = (
    "create",
    "stop",
    "update",
    "synchronize",
    "ready",
    "cpu-turnover",
    "cpu-turnover-read",
    "rss",
    "written",
    "updates-turnover",
    "restart-changes",
)
"""What is measured of a plugin at its runtime's end, in the order of the table."""

FLOOR_METRICS: Final = METRICS[: METRICS.index("rss") + 1]
"""What the floor has: it writes nothing and updates nobody."""

_DRIVEN: Final = (
    *("small", "medium", "wide", "large"),
    *("small-required", "medium-required", "large-required"),
)
"""The sizes at which plugins are driven."""

NAMES: Final = (
    "decision-small",
    "decision-medium",
    "decision-large",
    "decision-small-required",
    "decision-medium-required",
    "decision-large-required",
    "decision-unread",
    "decision-crowd",
    "affinity-product",
    "affinity-joint-keys",
    "affinity-patterns",
    "affinity-symmetric",
    "affinity-hostile",
    "discovery-256",
    "discovery-4096",
    "ttrpc-round-trip",
    "synchronize-1000",
    "hostile-annotations",
    "create-container-added",
    *(f"rebalance-{size}" for size in ("small", "medium", "large")),
    *(
        f"{way}-{size}"
        for way in ("way-arrival", "way-symmetric", "way-rebalanced", "way-exclusive")
        for size in ("small", "medium", "large")
    ),
    *(f"{metric}-{size}" for metric in METRICS for size in _DRIVEN),
    *(f"floor-{metric}" for metric in FLOOR_METRICS),
)
"""The figures of this project in the order they are written; those of others come after them."""

OUTPUT: Final = Path("bench.json")
"""Below the folder that make runs in."""

_BUDGETS: Final = {
    "decision-small": "p99 0.3",
    "decision-medium": "p99 1",
    "decision-large": "p99 5",
    "decision-small-required": "p99 0.3",
    "decision-medium-required": "p99 1",
    "decision-large-required": "p99 5",
    "decision-crowd": "cpu 20",
    "affinity-product": "cpu 20",
    "affinity-joint-keys": "cpu 20",
    "affinity-patterns": "cpu 20",
    "affinity-symmetric": "p99 5",
    "affinity-hostile": "cpu 20",
    "discovery-256": "100",
    "discovery-4096": "1000",
    "synchronize-1000": "300",
    "hostile-annotations": "20",
    "create-container-added": "p50 1",
    "rebalance-large": "10000",
}
"""In ms; docs/design.md."""

_ROW: Final = "{:<23}{:>10}{:>10}{:>10}{:>10}{:>9}{:>7}  {}"

HEADER: Final = _ROW.format("ms", "p50", "p99", "cpu p50", "cpu p99", "budget", "n", "")


@dataclass(frozen=True, slots=True)
class Figure:
    """The times of one thing."""

    name: str
    size: str
    timings: Timings

    def row(self) -> str:
        """A line below `HEADER`, in ms."""
        wall, cpu = self.timings.wall, self.timings.cpu
        times = [
            f"{percentile_ms(one, percent):.3f}" if one else "-"
            for one in (wall, cpu)
            for percent in (50, 99)
        ]
        return _ROW.format(
            self.name, *times, _BUDGETS.get(self.name, ""), len(wall), self.size
        ).rstrip()

    def record(self) -> "Record":
        """The figure as `bench.json` has it."""
        wall = self.timings.wall
        return Record(
            name=self.name,
            size=self.size,
            unit="ms",
            p50=percentile_ms(wall, 50),
            p99=percentile_ms(wall, 99),
            n=len(wall),
        )


@dataclass(frozen=True, slots=True)
class Quantity:
    """Amounts of one thing that are no times."""

    name: str
    size: str
    unit: str
    amounts: Sequence[float]

    def record(self) -> "Record":
        """The amounts as `bench.json` has them."""
        return Record(
            name=self.name,
            size=self.size,
            unit=self.unit,
            p50=round(percentile(self.amounts, 50), 4),
            p99=round(percentile(self.amounts, 99), 4),
            n=len(self.amounts),
        )


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One element of the list in `bench.json`."""

    name: str
    size: str
    unit: str
    p50: float
    p99: float
    n: int


def write_json(path: Path, figures: Iterable[Figure | Quantity]) -> None:
    """Write the figures, in place of those of the same names; others in the file stay.

    Not everything can be measured everywhere, so a file may come from several runs.
    """
    known = msgspec.json.decode(path.read_bytes(), type=list[Record]) if path.exists() else []
    records = {one.name: one for one in (*known, *(one.record() for one in figures))}
    names = (*NAMES, *(name for name in records if name not in NAMES))
    rows = [records[name] for name in names if name in records]
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
