"""Series of domains: what is kept of a machine from page to page, and how its parts are counted."""

import pytest

from pinfold.cmd.metrics.domain_gauges import DomainGauges, fragmentation
from pinfold.policy.engine.engine import Engine
from pinfold.topology.sets.cpuset import CpuSet
from tests.gauge_samples import GaugeSample, samples
from tests.unit.policy.engine.ruled_pods import container_of, engine_of, placed


def told(series: DomainGauges, engine: Engine) -> list[tuple[str, GaugeSample]]:
    families = series.families(engine.snapshot())
    return [(family.name, one) for family in families for one in samples(family)]


def test_series_are_of_the_machine_of_each_snapshot_and_of_those_who_run_then() -> None:
    series, small = DomainGauges(), engine_of("socket:1 numa:2 core:4 mem:4G")
    empty = told(series, small)
    placed(small, container_of("db", 2))
    full = told(series, small)
    assert full == told(DomainGauges(), small) != empty
    large = engine_of("socket:2 numa:2 core:4 mem:8G")
    assert told(series, large) == told(DomainGauges(), large) != full
    assert told(series, small) == full


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        pytest.param("0-7", 0, id="all is free"),
        pytest.param("", 0, id="nothing is free"),
        pytest.param("0-3", 0, id="one domain is whole"),
        pytest.param("0-1,4-5", 1, id="every domain is broken"),
        pytest.param("0-5", 2 / 6, id="one of two is broken"),
    ],
)
def test_fragmentation_is_the_share_of_free_cpus_in_broken_domains(
    free: str, expected: float
) -> None:
    halves = {"0": CpuSet.parse("0-3"), "1": CpuSet.parse("4-7")}
    assert fragmentation(CpuSet.parse(free).mask, halves, 0xFF) == expected
