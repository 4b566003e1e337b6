"""What plugins take at their runtime's end, beside the floor and the goals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.figure import METRICS, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """The goals at one size; docs/design.md."""

    create_floors: int
    """The half of all creations, as a multiple of the floor's."""
    cpu_floors: int
    """The cpu time of a turnover, as a multiple of the floor's."""
    resident_mib: int
    ready_ms: int | None


GOALS: Final[Mapping[str, Goals]] = {
    "small": Goals(create_floors=3, cpu_floors=3, resident_mib=32, ready_ms=300),
    "medium": Goals(create_floors=4, cpu_floors=4, resident_mib=40, ready_ms=300),
    "wide": Goals(create_floors=6, cpu_floors=5, resident_mib=50, ready_ms=None),
    "large": Goals(create_floors=8, cpu_floors=7, resident_mib=80, ready_ms=1000),
}

_REQUIRED: Final = "-required"
"""What rules are made of changes no goal."""

SPREAD_MAX: Final = 3
"""The slowest creation of a hundred, as a multiple of the half."""

_COMPARED: Final = (
    *("create", "stop", "update", "synchronize"),
    *("cpu-turnover", "cpu-turnover-read"),
)
"""What the floor is worth a comparison in."""

_ROW: Final = "{:<21}{:<12}{:>11}{:>11}{:>9}{:>9}  {}"

HEADER: Final = _ROW.format("", "", "p50", "p99", "x floor", "p99/p50", "goal")


def comparison(size: str, measured: Mapping[str, Mapping[str, Record]]) -> Iterator[str]:
    """The lines of a table below `HEADER`: the plugins' records by name and metric."""
    floor = measured.get("floor", {})
    for metric in METRICS:
        for plugin, records in measured.items():
            record = records.get(metric)
            if record is not None and (plugin != "floor" or metric in _COMPARED):
                yield _row(
                    plugin,
                    metric,
                    record,
                    floor.get(metric),
                    GOALS.get(size.removesuffix(_REQUIRED)),
                ).rstrip()


def multiple(amount: float, of: float) -> str:
    """How many times one amount is the other; "-" of nothing."""
    return f"{amount / of:.1f}" if of > 0 else "-"


def _row(
    plugin: str, metric: str, record: Record, floor: Record | None, goals: Goals | None
) -> str:
    is_compared = floor is not None and metric in _COMPARED
    return _ROW.format(
        f"{metric} {record.unit}" if record.unit in ("ms", "MiB", "KiB") else metric,
        plugin,
        f"{record.p50:.3f}",
        f"{record.p99:.3f}",
        multiple(record.p50, floor.p50) if floor is not None and is_compared else "",
        multiple(record.p99, record.p50) if metric in _COMPARED else "",
        "" if goals is None or plugin == "floor" else "; ".join(_goals(metric, goals)),
    )


def _goals(metric: str, goals: Goals) -> Sequence[str]:
    match metric:
        case "create":
            return f"<= {goals.create_floors} x floor", f"p99 <= {SPREAD_MAX} x p50"
        case "cpu-turnover":
            return (f"<= {goals.cpu_floors} x floor",)
        case "rss":
            return (f"<= {goals.resident_mib} MiB",)
        case "ready" if goals.ready_ms is not None:
            return (f"<= {goals.ready_ms} ms",)
        case "restart-changes":
            return ("0",)
        case _:
            return ()
