"""The benchmark of placements runs, and says how far along the way each of them is."""

from dataclasses import replace

from tests.bench.figure import NAMES
from tests.bench.placements import PLACED_SIZES, PLACEMENT_HEADER, measure_placements
from tests.bench.sizes import SMALL


def test_every_way_of_a_tiny_machine_is_measured() -> None:
    ways = measure_placements(replace(SMALL, containers=50), range(1, 2), patient_steps=2000)
    assert len(ways.row().split()) > len(PLACEMENT_HEADER.split()) - 2
    for way, percents in ways.percents.items():
        assert percents, way
        assert max(percents) <= 100
    pairs = zip(ways.percents["arrival"], ways.percents["exclusive"], strict=True)
    assert all(arrival <= after for arrival, after in pairs)


def test_every_figure_has_its_place_in_the_file() -> None:
    sizes = {size.name for size, _ in PLACED_SIZES}
    wanted = {f"rebalance-{size}" for size in sizes} | {f"way-arrival-{size}" for size in sizes}
    assert wanted <= set(NAMES)
