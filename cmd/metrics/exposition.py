"""Gauges in the form that Prometheus reads. Only for who serves them: its library is loaded."""

import importlib.metadata
import platform
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, cast

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import (
    floatToGoString,  # pyright: ignore[reportUnknownVariableType]  # it tells no types
)

from ...policy.engine.gauges import Gauge
from ...policy.engine.gauges import Sample as Value
from .process_figures import ProcessFigures

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

# What existing dashboards ask for: the names that the Go policy's exporter makes.
_NAMESPACE: Final = "nri"
_SAMPLES_AT_ONCE: Final = 64
_LINES_AT_ONCE: Final = 512
_PAUSE_SECONDS: Final = 0.00005
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9:_]+")
_number: Final = cast(Callable[[float], str], floatToGoString)
_ZERO: Final = _number(0.0)


def prometheus_name(name: str, unit: str) -> str:
    """The name of an instrument: dots become underscores, and its unit is the last word.

    Units that Prometheus does not know are taken as they are. Source: OpenTelemetry, Prometheus and
    OpenMetrics compatibility, "Metric Metadata".

    >>> prometheus_name("policy.cpu.allocation", "milli-cores")
    'nri_policy_cpu_allocation_milli_cores'
    """
    return _NO_NAME.sub("_", "_".join(filter(None, (_NAMESPACE, name, unit))))


class Exposition:
    """Pages of gauges, one after the other. For several threads, which wait for each other.

    A large machine has thousands of series, and to format their names and labels takes nine tenths
    of a page's time. The library does that once for each; of later pages it formats the values.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._families: dict[tuple[str, str, str], _Family] = {}
        self._process: ProcessFigures | None = None

    def page(
        self,
        gauges: Iterable[Gauge],
        families: Iterable[Metric] = (),
        *,
        with_build: bool,
        with_process: bool,
    ) -> bytes:
        """The page of all gauges, then of a few families.

        `with_build`: which program it is; `with_process`: how it fares.

        Takes its time, for a whole thread: others have a turn every now and then.
        """
        with self._lock:
            known, self._families = self._families, {}
            parts: list[bytes] = []
            for gauge in gauges:
                key = (gauge.name, gauge.unit, gauge.help)
                self._families[key] = family = known.get(key) or _Family(gauge)
                parts.append(family.text(gauge.samples))
            parts.extend(_formatted(_Only(family)) for family in families)
            if with_build:
                parts.append(_build())
            if with_process:
                self._process = self._process or ProcessFigures()
                parts.append(_formatted(self._process))
            return b"".join(parts)


class _Family:
    """A gauge's part of each page. Series that are not on a page are forgotten."""

    def __init__(self, gauge: Gauge) -> None:
        self._name = prometheus_name(gauge.name, gauge.unit)
        self._help = gauge.help
        self._head = self._format([])
        self._series: dict[tuple[str, ...], str] = {}
        """By the names and then the texts of labels what comes before a value."""

    def text(self, values: Sequence[Value]) -> bytes:
        """The lines of these values, in their order."""
        series, lines = self._series, [self._head]
        numbers: dict[float, str] = {}
        for start in range(0, len(values), _LINES_AT_ONCE):
            if len(values) >= _SAMPLES_AT_ONCE:
                time.sleep(_PAUSE_SECONDS)
            part = values[start : start + _LINES_AT_ONCE]
            keys = [(*one.labels, *one.labels.values()) for one in part]
            self._learn(
                {key: one for key, one in zip(keys, part, strict=True) if key not in series}
            )
            for key, one in zip(keys, part, strict=True):
                number = numbers.get(one.value)
                if number is None:
                    # Many cpus have the same one.
                    number = numbers[one.value] = _number(one.value)
                lines.append(f"{series[key]} {number}\n")
        if len(series) > len(values):
            kept = ((*one.labels, *one.labels.values()) for one in values)
            self._series = {key: series[key] for key in kept}
        return "".join(lines).encode()

    def _learn(self, values: Mapping[tuple[str, ...], Value]) -> None:
        if values:
            text = self._format([one.labels for one in values.values()])
            # Not `splitlines`: the library escapes this one of the characters that end a line.
            lines = text.removeprefix(self._head).split("\n")
            for key, line in zip(values, lines[:-1], strict=True):
                self._series[key] = line.removesuffix(f" {_ZERO}")

    def _format(self, labels: Iterable[Mapping[str, str]]) -> str:
        """The family with a zero for each set of labels."""
        family = GaugeMetricFamily(self._name, self._help)
        family.samples = _Unhurried(
            Sample(family.name, {_label(key): text for key, text in one.items()}, 0.0)
            for one in labels
        )
        return _formatted(_Only(family)).decode()


class _Only(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


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


def _formatted(collector: Collector) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


@cache
def _label(name: str) -> str:
    return _NO_NAME.sub("_", name)


@cache
def _build() -> bytes:
    family = InfoMetricFamily("pinfold_build", "Which Pinfold this is.")
    version = importlib.metadata.version("pinfold")
    versions = {
        "version": version,
        # What a build adds to the version, as in 1.0+g1a2b3c4.
        "revision": version.partition("+")[2] or "unknown",
        "python": platform.python_version(),
    }
    family.add_metric([], versions)
    return _formatted(_Only(family))
