"""Idle fields: those that are accepted and have no effect."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from ..text.yaml_document import Path, mapping_of
from .affinity_faults import pool_label_keys
from .class_faults import idle_nices
from .config import Config, MetricsExporter
from .endpoint import collector_address, is_traced
from .idle_rules import idle_rules
from .pool_label_names import FLAG_LABEL, MACHINE_LABELS, MEASURED_LABELS
from .shape import Fault, name_advice

_NOT_HERE: Final = "this version does not implement it; leave it out"
_NO_LOG_EXPORT: Final = "logs go to the journal or standard error alone; leave it out"
_RESCTRL: Final = "cache classes are set up in resctrl; containers are only put into them"

IDLE_FIELDS: Final[Mapping[Path, str]] = {
    ("agent", "nodeResourceTopology"): _NOT_HERE,
    ("dra",): "no devices are published; name classes of cpus in annotations",
    ("control", "rdt", "options"): _RESCTRL,
    ("control", "rdt", "partitions"): _RESCTRL,
    ("control", "rdt", "force"): _RESCTRL,
    ("control", "cpu"): "write cpuClasses instead",
    ("log", "debug"): "write 'level: debug' instead",
    ("log", "source"): _NOT_HERE,
    ("log", "klog"): _NOT_HERE,
    ("instrumentation", "metrics", "polled"): "metrics are computed when somebody asks for them",
    ("instrumentation", "reportPeriod"): "metrics are served, never sent",
    ("instrumentation", "logExporter"): _NO_LOG_EXPORT,
    ("instrumentation", "logExportPeriod"): _NO_LOG_EXPORT,
}
"""Fields that existing configurations have and that nothing reads, with what to do instead."""


def find_idle_fields(config: Config) -> list[Fault]:
    """The fields that differ from their default and have no effect, with what to do."""
    values, defaults = msgspec.to_builtins(config), msgspec.to_builtins(Config())
    idle = (
        Fault(path, f"accepted, but has no effect — {advice}")
        for path, advice in IDLE_FIELDS.items()
        if _value_at(values, path) != _value_at(defaults, path)
    )
    return [
        *idle,
        *idle_nices(config),
        *_idle_export(config),
        *_idle_traces(config),
        *_unknown_pool_labels(config),
        *idle_rules(config),
    ]


def _unknown_pool_labels(config: Config) -> Iterator[Fault]:
    """Labels in rules of profiles that no pool of any machine has."""
    known = (
        *MACHINE_LABELS,
        *MEASURED_LABELS,
        *(key for one in config.pool_labels for key in one.labels),
    )
    for index, profile in enumerate(config.profiles):
        section = profile.added_affinity.pool_affinity
        for at, key in pool_label_keys(section) if section is not None else ():
            if key not in known and not key.startswith(FLAG_LABEL):
                path = ("profiles", index, "addedAffinity", "poolAffinity", *at)
                yield Fault(path, f"no pool has a label {key!r} — {name_advice(key, known)}")


def _idle_export(config: Config) -> Iterator[Fault]:
    section = config.instrumentation
    is_pushed = section.metrics_exporter in (MetricsExporter.OTLP_HTTP, MetricsExporter.OTLP_GRPC)
    if is_pushed:
        advice = "metrics are served, never sent; write prometheus"
    elif section.http_endpoint:
        return
    else:
        advice = "set instrumentation.httpEndpoint, where metrics are to be served"
    for field, is_set in (
        ("metricsExporter", section.metrics_exporter is not None),
        ("prometheusExport", section.prometheus_export),
    ):
        if is_set:
            path = ("instrumentation", field)
            yield Fault(path, f"accepted, but has no effect — {advice}")


def _idle_traces(config: Config) -> Iterator[Fault]:
    section = config.instrumentation
    collector, rate = section.tracing_collector, section.sampling_rate_per_million
    if is_traced(section) or not (collector or rate):
        return
    if not collector:
        field, advice = "samplingRatePerMillion", "name a tracingCollector: 'otlp-grpc://HOST:PORT'"
    elif collector_address(collector) is None:
        field, advice = "tracingCollector", "traces are sent by gRPC alone: 'otlp-grpc://HOST:PORT'"
    else:
        field, advice = "tracingCollector", "set samplingRatePerMillion, 1000000 for all traces"
    yield Fault(("instrumentation", field), f"accepted, but has no effect — {advice}")


def _value_at(value: object, path: Path) -> object:
    for step in path:
        value = (mapping_of(value) or {}).get(str(step))
    return value
