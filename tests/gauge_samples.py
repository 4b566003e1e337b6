"""Samples of gauges: each value with its labels."""

from collections.abc import Mapping
from typing import NamedTuple

from pinfold.policy.engine.gauges.gauge import Gauge


class GaugeSample(NamedTuple):
    labels: Mapping[str, str]
    value: float


def samples(gauge: Gauge) -> tuple[GaugeSample, ...]:
    return tuple(map(GaugeSample, gauge.labels, gauge.values))
