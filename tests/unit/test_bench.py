"""The benchmarks run and say what they measured; how long anything takes is nobody's concern."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.bench.benchmarks import benchmarks
from tests.bench.figure import NAMES, Figure, Quantity, Record, write_json
from tests.bench.sizes import SMALL
from tests.bench.timings import Timings, percentile_ms

TINY = replace(SMALL, containers=12)


def test_every_figure_of_a_tiny_machine_is_written_in_order(tmp_path: Path) -> None:
    figures = [one.measure(samples=2) for one in benchmarks(TINY, TINY, TINY)]
    path = tmp_path / "bench.json"
    write_json(path, reversed(figures))
    records = msgspec.json.decode(path.read_bytes(), type=list[Record])
    assert tuple(one.name for one in records) == NAMES[: len(records)]
    assert NAMES[len(records)] == "create-container-added"
    for record in records:
        assert (record.unit, record.n) == ("ms", 2)
        assert 0 < record.p50 <= record.p99


def test_a_second_run_replaces_its_own_figures_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    write_json(path, [figure("create-container-added", 1), figure("decision-small", 2)])
    write_json(path, [figure("decision-small", 3)])
    records = msgspec.json.decode(path.read_bytes(), type=list[Record])
    assert [(one.name, one.p50) for one in records] == [
        ("decision-small", 3.0),
        ("create-container-added", 1.0),
    ]


def test_figures_of_other_plugins_come_last_and_stay(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    write_json(path, [figure("go-create-small", 1)])
    write_json(path, [Quantity("rss-small", "", "MiB", [30.0, 20.0, 40.0])])
    records = msgspec.json.decode(path.read_bytes(), type=list[Record])
    assert [(one.name, one.unit, one.p50, one.p99) for one in records] == [
        ("rss-small", "MiB", 30.0, 40.0),
        ("go-create-small", "ms", 1.0, 1.0),
    ]


@pytest.mark.parametrize(
    ("count", "percent", "expected"),
    [
        pytest.param(1, 99, 1.0, id="of one time that time"),
        pytest.param(2, 50, 1.0, id="the lower of two for the median"),
        pytest.param(100, 99, 99.0, id="the last but one of a hundred"),
        pytest.param(99, 99, 99.0, id="the last of fewer than a hundred"),
    ],
)
def test_percentiles_are_times_that_occurred(count: int, percent: int, expected: float) -> None:
    times = [number * 1_000_000 for number in range(count, 0, -1)]
    assert percentile_ms(times, percent) == expected


def test_a_row_shows_milliseconds() -> None:
    assert figure("decision-small", 2).row().split()[:3] == ["decision-small", "2.000", "2.000"]


def figure(name: str, milliseconds: int) -> Figure:
    return Figure(name, "", Timings(wall=[milliseconds * 1_000_000]))
