"""Gauges in the form that Prometheus reads. Only for who serves them: its library is loaded."""

import platform
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import compress
from operator import attrgetter, ne
from typing import Final, cast

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import (
    floatToGoString,  # pyright: ignore[reportUnknownVariableType]  # it tells no types
)

from ...nri.dispatch.pacer import ALONE, Pacer
from ...policy.engine.gauges.gauge import Gauge
from ...policy.engine.gauges.value_runs import ValueRuns
from ..report.version import VERSION
from .process_metrics import ProcessMetrics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

# What existing dashboards ask for: the names that the Go policy's exporter makes.
_NAMESPACE: Final = "nri"
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9:_]+")
_number: Final = cast(Callable[[float], str], floatToGoString)
_ZERO: Final = _number(0.0)
_SERIES_OF: Final[Callable[[Sample], tuple[str, Mapping[str, str]]]] = attrgetter("name", "labels")
_VALUE_OF: Final[Callable[[Sample], float]] = attrgetter("value")
_LINES_AT_ONCE: Final = 64
_ESCAPED: Final = re.compile(r'[\\\n"]')
"""Characters of values of labels that the library writes in another way."""
_MARK: Final = "\x01"
_PLAIN_BELOW: Final = 1_000_000
"""From here on the library writes numbers in another way than Python."""


@cache
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

    A large machine has thousands of series, and the library takes nine tenths of a page's time for
    their names and labels. It writes one line of each kind, and all others are made after that.
    """

    def __init__(self, pacer: Pacer = ALONE) -> None:
        self._pacer = pacer
        self._lock = threading.Lock()
        self._families: dict[tuple[str, str], _Family] = {}
        """By name and description."""
        self._process: ProcessMetrics | None = None

    def page(
        self,
        gauges: Iterable[Gauge],
        families: Iterable[Metric | Gauge] = (),
        *,
        with_build: bool,
        with_process: bool,
    ) -> bytes:
        """The page of all gauges, then of a few families; gauges among these have whole names.

        `with_build`: which program it is; `with_process`: how it fares.

        Takes its time, for a whole thread: others have a turn every now and then.
        """
        with self._lock:
            known, self._families = self._families, {}
            parts: list[bytes] = []
            for gauge in self._pacer.among(gauges):
                name = prometheus_name(gauge.name, gauge.unit)
                family = self._family(known, GaugeMetricFamily(name, gauge.help))
                parts.append(family.text_of_gauge(gauge))
            for one in self._pacer.among(families):
                if isinstance(one, Gauge):
                    family = self._family(known, GaugeMetricFamily(one.name, one.help))
                    parts.append(family.text_of_gauge(one))
                else:
                    parts.append(self._family(known, one).text_of_metric(one))
            if with_build:
                parts.append(_build())
            if with_process:
                self._process = self._process or ProcessMetrics()
                for metric in self._process.collect():
                    parts.append(self._family(known, metric).text_of_metric(metric))
            return b"".join(parts)

    def _family(self, known: "Mapping[tuple[str, str], _Family]", metric: Metric) -> "_Family":
        key = (metric.name, metric.documentation)
        family = self._families[key] = known.get(key) or _Family(metric, self._pacer)
        return family


class _Family:
    """A family's part of each page; kept as long as its series are the same ones."""

    def __init__(self, metric: Metric, pacer: Pacer) -> None:
        """`metric`: says of which name, type and description it is."""
        self._about = (metric.name, metric.documentation, metric.type)
        self._name = metric.name
        self._pacer = pacer
        self._head = self._formatted([])
        self._labels: Sequence[object] = ()
        """The names and labels of all series, in whatever form they came."""
        self._form = _plain(self._head)
        """All lines, with room for their values: thousands of them would not be near each other."""
        self._values: Sequence[float] = ()
        self._written: tuple[bytes, ...] = ()
        """The last page's values."""

    def text_of_gauge(self, gauge: Gauge) -> bytes:
        """The lines of the values of a gauge, in their order."""
        if gauge.labels is not self._labels and gauge.labels != self._labels:
            self._learn(
                (self._name, {_label(key): text for key, text in one.items()})
                for one in gauge.labels
            )
            self._labels = gauge.labels
        return self._lines(gauge.values)

    def text_of_metric(self, metric: Metric) -> bytes:
        """The lines of the samples of a family of the library."""
        labels = list(map(_SERIES_OF, metric.samples))
        if labels != self._labels:
            self._learn(labels)
            self._labels = labels
        return self._lines(list(map(_VALUE_OF, metric.samples)))

    def _lines(self, values: Sequence[float]) -> bytes:
        if values != self._values:
            self._written, self._values = tuple(self._texts(values)), values
        return self._form % self._written

    def _texts(self, values: Sequence[float]) -> Iterable[bytes]:
        if isinstance(values, ValueRuns):
            return values.spread(_texts_of(values.values))
        if len(values) != len(self._values):
            return _texts_of(values)
        # Most values were on the last page, too.
        changed = list(compress(range(len(values)), map(ne, values, self._values)))
        written = list(self._written)
        for index, text in zip(changed, _texts_of([values[one] for one in changed]), strict=True):
            written[index] = text
        return written

    def _learn(self, series: Iterable[tuple[str, Mapping[str, str]]]) -> None:
        """`series`: names with labels."""
        forms: dict[tuple[str, ...], str] = {}
        whole = bytearray(_plain(self._head))
        for number, (name, labels) in enumerate(series):
            if not number % _LINES_AT_ONCE:
                self._pacer.rest()
            if _ESCAPED.search("".join(labels.values())):
                line = self._format(name, labels)
            else:
                key = (name, *labels)
                form = forms.get(key)
                if form is None:
                    form = forms[key] = self._line_form(name, labels)
                line = form % labels
            whole += _plain(line.encode())
            whole += b"%b\n"
        self._form, self._values, self._written = bytes(whole), (), ()

    def _line_form(self, name: str, labels: Iterable[str]) -> str:
        """A line as the library writes it, with room for the values of the labels."""
        names = {one: f"{_MARK}{number}{_MARK}" for number, one in enumerate(labels)}
        line = self._format(name, names).replace("%", "%%")
        for one, mark in names.items():
            line = line.replace(mark, f"%({one})s")
        return line

    def _format(self, name: str, labels: Mapping[str, str]) -> str:
        """The line of one series without its value, as the library writes it."""
        text = self._formatted([Sample(name, dict(labels), 0.0)])
        return text.removeprefix(self._head).decode().removesuffix(f"{_ZERO}\n")

    def _formatted(self, samples: list[Sample]) -> bytes:
        metric = Metric(*self._about)
        metric.samples = samples
        return _formatted(_Only(metric))


class _Only(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _plain(text: bytes) -> bytes:
    """A text in a form, which stays as it is."""
    return text.replace(b"%", b"%%")


def _texts_of(values: Sequence[float]) -> Iterator[bytes]:
    """Each value as the library writes it. Many are the same, which is written once."""
    texts = {one: _text_of(one) for one in set(values)}
    return map(texts.__getitem__, values)


def _text_of(value: float) -> bytes:
    """A value as the library writes it, which takes it five times as long."""
    # Added to nothing, nothing loses its sign: of two zeros one would be kept for both.
    text = repr(float(value)) if 1 <= value < _PLAIN_BELOW else _number(value + 0.0)
    return text.encode()


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
    versions = {
        "version": VERSION,
        # What a build adds to the version, as in 1.0+g1a2b3c4.
        "revision": VERSION.partition("+")[2] or "unknown",
        "python": platform.python_version(),
    }
    family.add_metric([], versions)
    return _formatted(_Only(family))
