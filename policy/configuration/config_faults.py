"""Checks of a configuration beyond its types: names that must exist, ranges, exclusions."""

from collections.abc import Callable, Generator, Iterator
from typing import Final

from ...topology.sets.cpuset import NO_CPUS, NO_NODES, CpuSet, IdListError
from ..text.errors import ConfigError
from ..text.glob import compile_glob
from ..text.quantity import (
    AllCpusBut,
    ByteQuantity,
    CpuAmount,
    CpuQuantity,
    MemoryAmount,
    OnlyCpus,
    OnlyNodes,
    QuantityError,
    parse_nanoseconds,
)
from ..text.yaml_document import Path
from .affinity_faults import affinity_faults
from .annotation_rule_faults import annotation_rule_faults
from .class_faults import (
    cpu_class_faults,
    load_class_faults,
    scheduling_class_faults,
)
from .config import Amounts, Config, MetricsExporter
from .endpoint import parse_endpoint
from .pool_label_names import MACHINE_LABELS
from .shape import Fault, range_faults

_MOVES_MAX: Final = 600


def find_faults(config: Config) -> list[Fault]:
    """Faults that make the configuration unusable on any machine, in the order of fields."""
    return [fault for check in _CHECKS for fault in check(config)]


def _resources(config: Config) -> Iterator[Fault]:
    available = reserved = None
    try:
        available = config.available_resources.cpu_amount
        if isinstance(available, CpuQuantity):
            yield Fault(
                ("availableResources", "cpu"),
                f"{config.available_resources.cpu!r} does not say which cpus — write"
                " 'cpuset:LIST' or 'exclude-cpuset:LIST'",
            )
        elif isinstance(available, OnlyCpus) and not available.cpus:
            yield Fault(("availableResources", "cpu"), "no cpus at all — name at least one")
    except ConfigError as error:
        yield Fault(("availableResources", "cpu"), str(error))
    try:
        reserved = config.reserved_resources.cpu_amount
        if reserved in (None, CpuQuantity(0), OnlyCpus(CpuSet())):
            yield Fault(
                ("reservedResources", "cpu"),
                "no cpu is reserved, and kube-system needs one — write at least '1'",
            )
    except ConfigError as error:
        yield Fault(("reservedResources", "cpu"), str(error))
    path: Path = ("reservedResources", "cpu")
    needs: tuple[Path, ...] = (("availableResources", "cpu"),)
    yield from (Fault(path, what, needs) for what in _unavailable(available, reserved))
    yield from _memory(config)


def _unavailable(available: CpuAmount | None, reserved: CpuAmount | None) -> Iterator[str]:
    """What is wrong with reserving cpus among the available ones, as far as that is known."""
    match available, reserved:
        case OnlyCpus(allowed), OnlyCpus(wanted) if outside := wanted - allowed:
            yield (
                f"cpus {outside} are not in availableResources.cpu ({allowed})"
                " — reserve available cpus"
            )
        case AllCpusBut(excluded), OnlyCpus(wanted) if outside := wanted & excluded:
            yield f"cpus {outside} are excluded by availableResources.cpu — reserve available cpus"
        case OnlyCpus(allowed), AllCpusBut(unwanted) if allowed and allowed <= unwanted:
            yield f"excludes all available cpus ({allowed}) — leave at least one to be reserved"
        case OnlyCpus(allowed), CpuQuantity(milli) if 0 < 1000 * len(allowed) < milli:
            count = -(-milli // 1000)
            yield f"{count} cpus are more than the {len(allowed)} available ones — reserve fewer"
        case _:
            pass


def _memory(config: Config) -> Iterator[Fault]:
    available = yield from _memory_amount("availableResources", config.available_resources)
    reserved = yield from _memory_amount("reservedResources", config.reserved_resources)
    path: Path = ("reservedResources", "memory")
    needs: tuple[Path, ...] = (("availableResources", "memory"),)
    if isinstance(available, ByteQuantity) and isinstance(reserved, ByteQuantity):
        # What is available counts what is reserved of it.
        if 0 < available.size_bytes <= reserved.size_bytes:
            yield Fault(
                path,
                f"{config.reserved_resources.memory} leaves nothing of availableResources.memory"
                f" ({config.available_resources.memory}) — reserve less",
                needs,
            )
        return
    if not isinstance(available, OnlyNodes) or not isinstance(reserved, OnlyNodes):
        return
    if outside := reserved.nodes - available.nodes:
        yield Fault(
            path,
            f"nodes {outside} are not in availableResources.memory ({available.nodes})"
            " — reserve available nodes",
            needs,
        )
    elif reserved.nodes == available.nodes:
        yield Fault(path, "leaves no memory for other containers — reserve fewer nodes", needs)


def _memory_amount(section: str, amounts: Amounts) -> Generator[Fault, None, MemoryAmount | None]:
    path: Path = (section, "memory")
    try:
        amount = amounts.memory_amount
    except QuantityError as error:
        yield Fault(path, str(error))
        return None
    if amount in (OnlyNodes(NO_NODES), OnlyCpus(NO_CPUS)):
        what = "nodes" if isinstance(amount, OnlyNodes) else "cpus"
        yield Fault(path, f"no {what} at all — name at least one")
        return None
    return amount


def _patterns(config: Config) -> Iterator[Fault]:
    for field, patterns in (
        ("reservedPoolNamespaces", config.reserved_pool_namespaces),
        ("controllableInterrupts", config.controllable_interrupts),
    ):
        for index, pattern in enumerate(patterns):
            yield from _glob((field, index), pattern)


def _pool_labels(config: Config) -> Iterator[Fault]:
    for index, labels in enumerate(config.pool_labels):
        path: Path = ("poolLabels", index)
        if (labels.pool is None) == (labels.cpus is None):
            yield Fault(path, "needs either pool or cpus — write one of them")
        if labels.pool is not None:
            yield from _glob((*path, "pool"), labels.pool)
        yield from _parsed((*path, "cpus"), CpuSet.parse, labels.cpus)
        for key in labels.labels:
            if key in MACHINE_LABELS or key.startswith(("memory.", "cpu.")):
                what = f"{key!r} is a label that the machine gives — choose another"
                yield Fault((*path, "labels", key), what)


def _instrumentation(config: Config) -> Iterator[Fault]:
    section = config.instrumentation
    if section.prometheus_export and section.metrics_exporter not in (
        None,
        MetricsExporter.PROMETHEUS,
    ):
        yield Fault(
            ("instrumentation", "prometheusExport"),
            f"excludes metricsExporter {section.metrics_exporter.value} — leave one of them out",
            (("instrumentation", "metricsExporter"),),
        )
    yield from _parsed(
        ("instrumentation", "httpEndpoint"), parse_endpoint, section.http_endpoint or None
    )
    for index, pattern in enumerate(section.metrics.enabled):
        yield from _glob(("instrumentation", "metrics", "enabled", index), pattern)
    for field, text in (
        ("reportPeriod", section.report_period),
        ("logExportPeriod", section.log_export_period),
    ):
        yield from _parsed(("instrumentation", field), parse_nanoseconds, text or None)
    yield from range_faults(
        ("instrumentation", "samplingRatePerMillion"),
        section.sampling_rate_per_million,
        0,
        1_000_000,
    )


def _moves(config: Config) -> Iterator[Fault]:
    section, path = config.during_execution, "duringExecution"
    yield from _parsed((path, "gracePeriod"), parse_nanoseconds, section.grace_period)
    yield from range_faults((path, "movesPerMinute"), section.moves_per_minute, 0, _MOVES_MAX)
    per_hour = config.rebalance.moves_per_hour
    yield from range_faults(("rebalance", "movesPerHour"), per_hour, 0, _MOVES_MAX)


def _parsed(path: Path, parse: Callable[[str], object], value: str | int | None) -> Iterator[Fault]:
    if value is None:
        return
    try:
        parse(str(value))
    except (ConfigError, IdListError) as error:
        yield Fault(path, str(error))


def _glob(path: Path, pattern: str) -> Iterator[Fault]:
    try:
        compile_glob(pattern)
    except ValueError as error:
        yield Fault(path, f"{pattern!r} is no pattern: {error} — close it or escape it with '\\'")


_CHECKS: Final[tuple[Callable[[Config], Iterator[Fault]], ...]] = (
    _resources,
    _patterns,
    _pool_labels,
    affinity_faults,
    load_class_faults,
    annotation_rule_faults,
    scheduling_class_faults,
    cpu_class_faults,
    _instrumentation,
    _moves,
)
