"""Gauges in the form that Prometheus reads. Only for who serves them: its library is loaded."""

import importlib.metadata
import platform
import re
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from ..policy.gauges import Gauge

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

# What existing dashboards ask for: the names that the Go policy's exporter makes.
_NAMESPACE: Final = "nri"
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
    """The page of all gauges; `with_build`: which program it is, too."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once([*map(_family, gauges), *([_build()] if with_build else [])]))
    return generate_latest(registry)


class _Once(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _family(gauge: Gauge) -> Metric:
    family = GaugeMetricFamily(prometheus_name(gauge.name, gauge.unit), gauge.help)
    for sample in gauge.samples:
        labels = {_NO_NAME.sub("_", key): text for key, text in sample.labels.items()}
        family.add_sample(family.name, labels, sample.value)
    return family


def _build() -> Metric:
    family = InfoMetricFamily("pinfold_build", "Which Pinfold this is.")
    versions = {
        "version": importlib.metadata.version("pinfold"),
        "python": platform.python_version(),
    }
    family.add_metric([], versions)
    return family
