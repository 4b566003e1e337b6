"""Pages of gauges: what is kept of one changes nothing on the next."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pinfold.cmd.metrics.exposition import Exposition
from pinfold.policy.engine.gauges.gauge import Gauge
from pinfold.policy.engine.gauges.value_runs import ValueRuns
from tests.gauge_samples import GaugeSample, samples

NAMES = ("a", "many_created", "zone.with-dots")
TEXTS = st.text('abs%0. }\\"\n\r\u2028', max_size=4)
LABELS = st.dictionaries(st.sampled_from(("zone", "cpu.id")), TEXTS, max_size=2)
VALUES = (
    st.integers(-(2**70), 2**70)
    | st.floats().map(lambda value: value + 0.0)
    | st.sampled_from((0, 0.5, 1e7, float("inf"), float("nan")))
)
SAMPLES = st.lists(
    st.builds(GaugeSample, LABELS, VALUES),
    unique_by=lambda one: tuple(sorted(one.labels.items())),
    max_size=4,
)


def gauge(name: str, some: Sequence[GaugeSample]) -> Gauge:
    labels, values = [one.labels for one in some], [one.value for one in some]
    return Gauge(name=name, unit="", help="Many\n\\ %s.", group="any", labels=labels, values=values)


class Library(Collector):
    """The same gauges, formatted by the library alone."""

    def __init__(self, gauges: Sequence[Gauge]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        for one in self._gauges:
            name = f"nri_{one.name}".replace(".", "_").replace("-", "_")
            family = GaugeMetricFamily(name, one.help)
            for labels, value in samples(one):
                told = {key.replace(".", "_"): text for key, text in labels.items()}
                # The library writes a zero with its sign.
                family.add_sample(name, told, value + 0.0)
            yield family


def by_the_library(gauges: Sequence[Gauge]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Library(gauges))
    return generate_latest(registry)


GAUGES = st.builds(gauge, st.sampled_from(NAMES), SAMPLES)
PAGES = st.lists(st.lists(GAUGES, max_size=3), max_size=3)


@given(PAGES)
def test_every_page_is_as_the_library_alone_formats_it(pages: list[list[Gauge]]) -> None:
    exposition = Exposition()
    for gauges in pages:
        page = exposition.page(gauges, with_build=False, with_process=False)
        assert page == by_the_library(gauges)


@given(st.lists(st.tuples(st.booleans(), st.lists(VALUES, min_size=3, max_size=3)), max_size=5))
def test_runs_of_values_are_written_as_so_many_values(
    pages: list[tuple[bool, list[float]]],
) -> None:
    exposition = Exposition()
    for are_runs, values in pages:
        told = [*values[:1], *values[1:2] * 2, *values[2:]]
        plain = gauge("a", [GaugeSample({"n": str(one)}, value) for one, value in enumerate(told)])
        given = replace(plain, values=ValueRuns(values, [1, 2, 1])) if are_runs else plain
        page = exposition.page([given], with_build=False, with_process=False)
        assert page == by_the_library([plain])


def test_later_pages_have_the_values_of_their_time() -> None:
    exposition = Exposition()

    def page(*values: float) -> list[bytes]:
        told = [GaugeSample({"n": str(number)}, value) for number, value in enumerate(values)]
        content = exposition.page([gauge("a", told)], with_build=False, with_process=False)
        return content.splitlines()[2:]

    assert page(1, 2) == [b'nri_a{n="0"} 1.0', b'nri_a{n="1"} 2.0']
    assert page(3) == [b'nri_a{n="0"} 3.0']
    assert page(4, 0, 0) == [b'nri_a{n="0"} 4.0', b'nri_a{n="1"} 0.0', b'nri_a{n="2"} 0.0']


@pytest.mark.parametrize("values", [(-0.0,), (0.0, -0.0), (-0.0, 0.0)])
def test_nothing_is_written_without_a_sign(values: Sequence[float]) -> None:
    told = [GaugeSample({"n": str(number)}, value) for number, value in enumerate(values)]
    page = Exposition().page([gauge("a", told)], with_build=False, with_process=False)
    assert [line.split()[1] for line in page.splitlines()[2:]] == [b"0.0"] * len(values)


def test_the_lines_of_thousands_of_series_stay_in_their_order() -> None:
    many = gauge("a", [GaugeSample({"cpu.id": str(number)}, number % 7) for number in range(1300)])
    exposition = Exposition()
    for _ in range(2):
        page = exposition.page([many], with_build=False, with_process=False)
        assert page == by_the_library([many])
