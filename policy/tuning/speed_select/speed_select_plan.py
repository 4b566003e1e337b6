"""Intel Speed Select by classes of cpus: who is in which class of service, and with which limits.

Managed (`pctPriority`): we set the limits of two classes of service and switch the features on.
Association only (`sstClosID`): somebody else did so, and cpus are only put into classes.
Source: Documentation/admin-guide/pm/intel-speed-select.rst.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ....topology.model.machine import Cpu, Machine, SpeedSelect
from ....topology.sets.cpuset import CpuSet
from ...configuration.config import Config, CpuClass, PctPriority
from ...text.quantity import NamedFrequency, parse_khz
from ..cpu_class import Clock

_HIGH_CLOS: Final = 0
_LOW_CLOS: Final = 3
"""With ordered priority the lower number is served first; SST-TF raises the turbo of 0 and 1."""


@dataclass(frozen=True, slots=True)
class ClosId:
    """One class of service of one power domain ("0/1": socket and domain)."""

    domain: str
    clos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSelectPlan:
    """What Speed Select is set to; what is not named stays as it was found."""

    clos_of: Mapping[int, int] = field(default_factory=dict[int, int])
    """Class of service by cpu id."""
    limits: Mapping[ClosId, Clock] = field(default_factory=dict[ClosId, Clock])
    core_power: tuple[str, ...] = ()
    """Domains where SST-CP must be enabled, with ordered priority."""
    turbo_frequency: tuple[str, ...] = ()
    """Domains where SST-TF must be enabled."""


def is_speed_select(one: CpuClass) -> bool:
    """Whether a class of cpus says which class of service they are in."""
    return one.pct_priority is not None or one.sst_clos_id is not None


def domain_label(domain: SpeedSelect) -> str:
    """The name of a power domain: "0/1", its socket and its number there."""
    return f"{domain.socket}/{domain.domain}"


def plan_speed_select(
    machine: Machine, config: Config, allowed: CpuSet, classes: Mapping[str, CpuSet]
) -> SpeedSelectPlan:
    """What follows from the classes in force; nothing on machines without Speed Select. O(cpus).

    Cpus of classes without a class of service go, in managed mode, where the class of low priority
    goes: in class of service 0 each of them would count as one of the few with the high turbo. With
    no such class, and in association only mode, they stay where they were found.
    """
    ours = [one for one in config.cpu_classes if is_speed_select(one)]
    if not ours:
        return SpeedSelectPlan()
    is_managed = any(one.pct_priority for one in ours)
    clos_of: dict[int, int] = {}
    limits: dict[ClosId, Clock] = {}
    managed: list[SpeedSelect] = []
    for domain in _domains(machine, allowed):
        clos_of_class = {one.name: _clos(one, domain) for one in ours}
        low = [one.name for one in ours if one.pct_priority is PctPriority.LOW]
        rest = clos_of_class[low[0]] if low else None
        wanted = {
            cpu: clos
            for name, held in classes.items()
            if (clos := clos_of_class.get(name, rest)) is not None
            for cpu in held & domain.cpus
        }
        clos_of.update(_whole_cores(wanted, machine, domain))
        if is_managed:
            managed.append(domain)
            for one in ours:
                clock, _ = _limits(one, domain, machine)
                limits[ClosId(domain_label(domain), clos_of_class[one.name] or 0)] = clock
    return SpeedSelectPlan(
        clos_of=clos_of,
        limits=limits,
        core_power=tuple(domain_label(one) for one in managed),
        turbo_frequency=tuple(domain_label(one) for one in managed if one.supports_turbo_frequency),
    )


def speed_select_warnings(machine: Machine, config: Config, allowed: CpuSet) -> tuple[str, ...]:
    """What the Speed Select fields of a configuration cannot do on this machine."""
    fields = used_fields(config)
    if not fields:
        return ()
    if not machine.speed_select:
        return (
            f"cpuClasses: {', '.join(fields)}: no effect, this machine shows no Speed Select"
            " — leave them out, or let the daemon have /dev/isst_interface",
        )
    return tuple(_warnings(machine, config, allowed))


def used_fields(config: Config) -> tuple[str, ...]:
    """The Speed Select fields that some class of cpus sets, by their names in a configuration."""
    present: Mapping[str, Callable[[CpuClass], object]] = {
        "pctPriority": lambda one: one.pct_priority is not None,
        "sstClosID": lambda one: one.sst_clos_id is not None,
        "pctMinFreq": lambda one: one.pct_min_freq is not None,
        "pctMaxFreq": lambda one: one.pct_max_freq is not None,
        "publishExtendedResource": lambda one: one.publish_extended_resource,
    }
    return tuple(
        name for name, is_set in present.items() if any(is_set(one) for one in config.cpu_classes)
    )


def _warnings(machine: Machine, config: Config, allowed: CpuSet) -> Iterator[str]:
    where = "cpuClasses"
    ours = [one for one in config.cpu_classes if is_speed_select(one)]
    published = [one.name for one in ours if one.publish_extended_resource]
    if published:
        yield (
            f"{where}: publishExtendedResource of {', '.join(published)}: nothing is published by"
            " this version — 'pinfold pools -o json' has the amounts"
        )
    priorities = {one.pct_priority for one in ours}
    if PctPriority.HIGH in priorities and PctPriority.LOW not in priorities:
        yield (
            f"{where}: pctPriority high without low: other cpus may stay in class of service"
            f" {_HIGH_CLOS} and count as high — give the class of shared cpus pctPriority low"
        )
    lacking = [domain_label(one) for one in machine.speed_select if not one.supports_core_power]
    if lacking:
        yield (
            f"{where}: {', '.join(used_fields(config))}: no effect in power domains"
            f" {', '.join(lacking)}, which have no SST-CP — enable it in the firmware"
        )
    domains = _domains(machine, allowed)
    for one in ours:
        beyond = [domain_label(each) for each in domains if _clos(one, each) is None]
        if beyond:
            yield (
                f"{where}: sstClosID {one.sst_clos_id} of {one.name!r} is no class of service of"
                f" power domains {', '.join(beyond)} — write a lower one"
            )
    idle = [domain_label(one) for one in domains if not one.has_core_power]
    if idle and any(one.sst_clos_id is not None for one in ours):
        yield (
            f"{where}: sstClosID has no effect while SST-CP is off, as in power domains"
            f" {', '.join(idle)} — run 'intel-speed-select core-power enable'"
        )
    unknown = {
        (one.name, name)
        for domain in domains
        for one in ours
        if one.pct_priority
        for name in _limits(one, domain, machine)[1]
    }
    for name, frequency in sorted(unknown, key=str):
        yield (
            f"{where}: the {frequency.value} frequency for the class of service of {name!r} is not"
            " known, so it is not set — write a number as pctMinFreq or pctMaxFreq"
        )


def _domains(machine: Machine, allowed: CpuSet) -> list[SpeedSelect]:
    """The power domains that can do anything for us; the cpus of others are not ours to change."""
    return [one for one in machine.speed_select if one.supports_core_power and one.cpus & allowed]


def _clos(one: CpuClass, domain: SpeedSelect) -> int | None:
    """The class of service of a class in a domain; None where the domain has no such class."""
    match one.pct_priority:
        case PctPriority.HIGH:
            return _HIGH_CLOS
        case PctPriority.LOW:
            return min(_LOW_CLOS, domain.clos_count - 1)
        case None:
            clos = one.sst_clos_id
            return clos if clos is not None and clos < domain.clos_count else None


def _whole_cores(
    wanted: Mapping[int, int], machine: Machine, domain: SpeedSelect
) -> Iterator[tuple[int, int]]:
    """Threads of a core share its class of service: the preferred one of theirs counts for all."""
    for cpu in wanted:
        core = machine.core_of[cpu] & domain.cpus
        best = min(wanted[one] for one in core if one in wanted)
        for one in core:
            yield one, best


def _limits(
    one: CpuClass, domain: SpeedSelect, machine: Machine
) -> tuple[Clock, set[NamedFrequency]]:
    """The limits of the class of service of a managed class, and the frequencies nobody knows.

    Named ones are what the hardware can do: `turboPriority` has no say here.
    """
    cpus = [machine.cpus[cpu] for cpu in domain.cpus & machine.online]
    unknown: set[NamedFrequency] = set()

    def khz(value: str | int | None) -> int | None:
        if value is None:
            return None
        parsed = parse_khz(value)
        if isinstance(parsed, int):
            return parsed
        found = _khz_of_name(parsed, cpus)
        if found is None:
            unknown.add(parsed)
        return found

    low = khz(one.min_freq if one.pct_min_freq is None else one.pct_min_freq)
    high = khz(one.max_freq if one.pct_max_freq is None else one.pct_max_freq)
    if low is not None and high is not None:
        low = min(low, high)
    return Clock(min_khz=low, max_khz=high), unknown


def _khz_of_name(name: NamedFrequency, cpus: list[Cpu]) -> int | None:
    """What every cpu of a domain keeps to, and for turbo what the best of them reaches."""
    match name:
        case NamedFrequency.MIN:
            return min((one.min_khz for one in cpus if one.min_khz), default=None)
        case NamedFrequency.BASE:
            return min((one.base_khz for one in cpus if one.base_khz), default=None)
        case NamedFrequency.TURBO:
            return max((one.max_khz for one in cpus if one.max_khz), default=None)
