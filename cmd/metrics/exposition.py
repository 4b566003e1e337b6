"""Gauges in the form that Prometheus reads. Only for who serves them: its library is loaded."""

import importlib.metadata
import platform
import re
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from ...policy.engine.gauges import Gauge

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

# What existing dashboards ask for: the names that the Go policy's exporter makes.
_NAMESPACE: Final = "nri"
_SAMPLES_AT_ONCE: Final = 64
_PAUSE_SECONDS: Final = 0.00005
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9:_]+")


def prometheus_name(name: str, unit: str) -> str:
    """The name of an instrument: dots become underscores, and its unit is the last word.

    Units that Prometheus does not know are taken as they are. Source: OpenTelemetry, Prometheus and
    OpenMetrics compatibility, "Metric Metadata".

    >>> prometheus_name("policy.cpu.allocation", "milli-cores")
    'nri_policy_cpu_allocation_milli_cores'
    """
    return _NO_NAME.sub("_", "_".join(filter(None, (_NAMESPACE, name, unit))))


def exposition(gauges: Iterable[Gauge], *, with_build: bool) -> bytes:
    """The page of all gauges; `with_build`: which program it is, too.

    Takes its time, for a whole thread: others have a turn every now and then.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(gauges, with_build))
    return generate_latest(registry)


class _Once(Collector):
    def __init__(self, gauges: Iterable[Gauge], with_build: bool) -> None:
        self._gauges = gauges
        self._with_build = with_build

    def collect(self) -> Iterator[Metric]:
        yield from map(_family, self._gauges)
        if self._with_build:
            yield _build()


class _Unhurried(list[Sample]):
    """Samples with pauses in between.

    A thread that computes keeps Python's lock for 5 ms at a time, and a container's start passes it
    on several times: thousands of samples without a pause would hold it up for far too long.
    """

    def __iter__(self) -> Iterator[Sample]:
        for number, sample in enumerate(super().__iter__()):
            if number % _SAMPLES_AT_ONCE == 0:
                time.sleep(_PAUSE_SECONDS)
            yield sample


def _family(gauge: Gauge) -> Metric:
    family = GaugeMetricFamily(prometheus_name(gauge.name, gauge.unit), gauge.help)
    family.samples = _Unhurried(
        Sample(family.name, {_label(key): text for key, text in one.labels.items()}, one.value)
        for one in gauge.samples
    )
    return family


@cache
def _label(name: str) -> str:
    return _NO_NAME.sub("_", name)


def _build() -> Metric:
    family = InfoMetricFamily("pinfold_build", "Which Pinfold this is.")
    versions = {
        "version": importlib.metadata.version("pinfold"),
        "python": platform.python_version(),
    }
    family.add_metric([], versions)
    return family
