"""Faults of classes of cpus, of scheduling and of loads, whatever the machine."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ..model.container import QosClass
from ..text.quantity import NamedFrequency, QuantityError, parse_khz
from ..text.yaml_document import Path
from .config import Config, CpuClass, IoClass, SchedulingClass, SchedulingPolicy
from .shape import Fault, name_advice, name_faults, range_faults

_Frequency = str | int | None
_RANKS: Final[Mapping[NamedFrequency, int]] = {
    NamedFrequency.MIN: 0,
    NamedFrequency.BASE: 1,
    NamedFrequency.TURBO: 2,
}
_UNCORE_RANKS: Final = {**_RANKS, NamedFrequency.BASE: 2}
"""An uncore clock has two ends and nothing named in between."""
_REALTIME: Final = frozenset({SchedulingPolicy.FIFO, SchedulingPolicy.RR})
_NANOSECONDS_MIN: Final = 1024
_NANOSECONDS_MAX: Final = 2**63 - 1


def cpu_class_faults(config: Config) -> Iterator[Fault]:
    """The faults of classes of cpus, and of what names them."""
    names = [one.name for one in config.cpu_classes]
    yield from _unique("cpuClasses", names)
    for index, one in enumerate(config.cpu_classes):
        yield from _cpu_class(("cpuClasses", index), one)
    if names and config.shared_pool_cpu_class is None:
        yield Fault(
            ("sharedPoolCPUClass",),
            f"cpuClasses need the class of shared cpus — write one of {', '.join(names)}",
            _naming("cpuClasses", names),
        )
    # Operators look for these words: they are those of the Go policy, in its quotes.
    for field, name, what in (
        ("sharedPoolCPUClass", config.shared_pool_cpu_class, "shared CPU class"),
        ("reservedPoolCPUClass", config.reserved_pool_cpu_class, "reserved CPU class"),
        (
            "defaultExclusiveCPUClass",
            config.default_exclusive_cpu_class,
            "default exclusive CPU class",
        ),
    ):
        if name is not None and name not in names:
            text = f'unknown {what} "{repr(name)[1:-1]}"'
            yield _unknown((field,), text, name, names, "cpuClasses")
    managed = [one.name for one in config.cpu_classes if one.pct_priority is not None]
    for index, one in enumerate(config.cpu_classes):
        path: Path = ("cpuClasses", index)
        if managed and one.sst_clos_id is not None:
            yield Fault(
                (*path, "sstClosID"),
                f"cannot be mixed with pctPriority (class {managed[0]!r}) — use one of the two",
            )
        if one.pct_priority is not None and any(
            before.pct_priority is one.pct_priority for before in config.cpu_classes[:index]
        ):
            yield Fault(
                (*path, "pctPriority"),
                f"a second class of priority {one.pct_priority.value} — one of each is possible",
            )


def scheduling_class_faults(config: Config) -> Iterator[Fault]:
    """The faults of classes of scheduling, and of what names them."""
    names = [one.name for one in config.scheduling_classes]
    yield from _unique("schedulingClasses", names)
    for index, one in enumerate(config.scheduling_classes):
        yield from _scheduling_class(("schedulingClasses", index), one)
    for namespace, name in config.namespace_scheduling_classes.items():
        path: Path = ("namespaceSchedulingClasses", namespace)
        yield from _known(path, name, names, "schedulingClasses")
    accepted = [qos.value for qos in QosClass]
    for qos, name in config.pod_qos_scheduling_classes.items():
        path = ("podQoSSchedulingClasses", qos)
        if qos.lower() not in [one.lower() for one in accepted]:
            yield Fault(path, f"unknown QoS class {qos!r} — {name_advice(qos, accepted)}")
        yield from _known(path, name, names, "schedulingClasses")


def load_class_faults(config: Config) -> Iterator[Fault]:
    """The faults of classes of loads."""
    yield from _unique("loadClasses", [one.name for one in config.load_classes])


def idle_nices(config: Config) -> Iterator[Fault]:
    """Nice values of classes that have no effect: no kernel heeds them."""
    for index, one in enumerate(config.scheduling_classes):
        if one.nice and one.effective_nice is None:
            what = f"accepted, but has no effect — policy {one.policy.value} has no nice value"
            yield Fault(("schedulingClasses", index, "nice"), f"{what}; leave it out")


def _cpu_class(path: Path, one: CpuClass) -> Iterator[Fault]:
    """The faults of the class at a path."""
    yield from _limits(path, ("minFreq", one.min_freq), ("maxFreq", one.max_freq), _RANKS)
    yield from _limits(
        path,
        ("uncoreMinFreq", one.uncore_min_freq),
        ("uncoreMaxFreq", one.uncore_max_freq),
        _UNCORE_RANKS,
    )
    managed = ("pctMinFreq", one.pct_min_freq), ("pctMaxFreq", one.pct_max_freq)
    yield from _limits(path, *managed, _RANKS)
    if one.pct_priority is None:
        for name, value in managed:
            if value is not None:
                yield Fault((*path, name), "needs a pctPriority — write high or low there")
    yield from _empty_names(path, one)
    if one.turbo_priority < 0:
        yield Fault((*path, "turboPriority"), f"{one.turbo_priority} is negative — write 0 or more")
    yield from range_faults((*path, "sstClosID"), one.sst_clos_id, 0, 3)
    if one.publish_extended_resource and one.pct_priority is None and one.sst_clos_id is None:
        yield Fault(
            (*path, "publishExtendedResource"),
            "only Speed Select classes are published — write pctPriority, or leave it out",
        )


def _limits(
    path: Path,
    low: tuple[str, _Frequency],
    high: tuple[str, _Frequency],
    ranks: Mapping[NamedFrequency, int],
) -> Iterator[Fault]:
    found: list[int | NamedFrequency] = []
    for name, value in (low, high):
        if value is None:
            continue
        try:
            found.append(parse_khz(value))
        except QuantityError as error:
            yield Fault((*path, name), str(error))
    is_wrong = False
    match found:
        case [int(least), int(most)]:
            is_wrong = least > most
        case [NamedFrequency() as lower, NamedFrequency() as upper]:
            is_wrong = ranks[lower] > ranks[upper]
        case _:
            # How a name compares with a number depends on the machine.
            pass
    if is_wrong:
        yield Fault((*path, low[0]), f"{low[1]} is above {high[0]} {high[1]} — swap them")


def _empty_names(path: Path, one: CpuClass) -> Iterator[Fault]:
    advice = "is empty — name one, or leave it out"
    for field, value in (
        ("freqGovernor", one.freq_governor),
        ("energyPerformancePreference", one.energy_performance_preference),
    ):
        if isinstance(value, str) and not value.strip():
            yield Fault((*path, field), advice)
    for index, name in enumerate(one.disabled_cstates):
        if not name.strip():
            yield Fault((*path, "disabledCstates", index), advice)


def _scheduling_class(path: Path, one: SchedulingClass) -> Iterator[Fault]:
    """The faults of the class at a path that every kernel refuses. Source: sched(7)."""
    policy = one.policy.value
    if one.policy in _REALTIME:
        if one.priority is None:
            yield Fault(path, f"policy {policy} needs a priority — write priority: 1 to 99")
        yield from range_faults((*path, "priority"), one.priority, 1, 99)
    elif one.priority:
        yield Fault((*path, "priority"), f"policy {policy} has no priority — leave it out")
    yield from range_faults((*path, "nice"), one.nice, -20, 19)
    # Source: ioprio_set(2).
    yield from range_faults((*path, "ioPriority"), one.io_priority, 0, 7)
    if one.io_priority is not None and one.io_class in (None, IoClass.NONE):
        yield Fault((*path, "ioPriority"), "needs an ioClass — write rt, be or idle there")
    times = {"runtime": one.runtime, "deadline": one.deadline, "period": one.period}
    if one.policy is SchedulingPolicy.DEADLINE:
        yield from _deadline(path, times)
    else:
        for name, value in times.items():
            if value:
                yield Fault((*path, name), f"policy {policy} has no {name} — leave it out")


def _deadline(path: Path, times: Mapping[str, int | None]) -> Iterator[Fault]:
    """Runtime, deadline and period: none above the next. A period of 0 is the deadline."""
    is_fine = True
    for name, value in times.items():
        if value or name == "period":
            faults = list(
                range_faults((*path, name), value or None, _NANOSECONDS_MIN, _NANOSECONDS_MAX)
            )
        else:
            faults = [Fault(path, f"policy deadline needs a {name} — write {name} in nanoseconds")]
        is_fine = is_fine and not faults
        yield from faults
    known = [(name, value) for name, value in times.items() if value]
    if is_fine:
        for (name, value), (next_name, limit) in pairwise(known):
            if value > limit:
                yield Fault((*path, name), f"{value} is above {next_name} {limit} — write less")


def _unique(field: str, names: Sequence[str]) -> Iterator[Fault]:
    for index, name in enumerate(names):
        yield from name_faults((field, index), name, names[:index], "class")


def _known(path: Path, name: str, names: Sequence[str], field: str) -> Iterator[Fault]:
    """A fault where no class of a field's list has this name."""
    if name not in names:
        yield _unknown(path, f"unknown class {name!r}", name, names, field)


def _unknown(path: Path, what: str, name: str, names: Sequence[str], field: str) -> Fault:
    advice = name_advice(name, names) if names else "define it first, there are no classes"
    return Fault(path, f"{what} — {advice}", _naming(field, names))


def _naming(field: str, names: Sequence[str]) -> tuple[Path, ...]:
    """Paths of the values that the names of the classes in a list follow from."""
    return ((field,), *((field, index, "name") for index in range(len(names))))
