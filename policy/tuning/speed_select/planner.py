"""Intel Speed Select by classes of cpus: who is in which class of service, and with which limits.

Managed (`pctPriority`): we set the limits of two classes of service and switch the features on.
Association only (`sstClosID`): somebody else did so, and cpus are only put into classes.
Source: Documentation/admin-guide/pm/intel-speed-select.rst.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from ....topology.model.machine import Cpu, Machine, SpeedSelect
from ....topology.sets.cpuset import CpuSet
from ...configuration.config import Config, CpuClass, PctPriority
from ...text.quantity import NamedFrequency
from ..clos_plan import ClosId, SpeedSelectPlan, is_speed_select, used_fields
from ..cpu_class import Clock, khz_of

_HIGH_CLOS: Final = 0
_LOW_CLOS: Final = 3
"""With ordered priority the lower number is served first; SST-TF raises the turbo of 0 and 1."""


def planned(
    machine: Machine, config: Config, allowed: CpuSet, classes: Mapping[str, CpuSet]
) -> SpeedSelectPlan:
    """The plan that follows from the classes in force. O(cpus).

    Cpus of classes without a class of service go, in managed mode, where the class of low priority
    goes: in class of service 0 each of them would count as one of the few with the high turbo. With
    no such class, and in association only mode, they stay where they were found.
    """
    ours = [one for one in config.cpu_classes if is_speed_select(one)]
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
                limits[ClosId(domain.label, clos_of_class[one.name] or 0)] = clock
    return SpeedSelectPlan(
        clos_of=clos_of,
        limits=limits,
        core_power=tuple(one.label for one in managed),
        turbo_frequency=tuple(one.label for one in managed if one.supports_turbo_frequency),
    )


def warnings_of(machine: Machine, config: Config, allowed: CpuSet) -> Iterator[str]:
    """Warnings of what a configuration asks of Speed Select and this machine's cannot do."""
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
    lacking = [one.label for one in machine.speed_select if not one.supports_core_power]
    if lacking:
        yield (
            f"{where}: {', '.join(used_fields(config))}: no effect in power domains"
            f" {', '.join(lacking)}, which have no SST-CP — enable it in the firmware"
        )
    domains = _domains(machine, allowed)
    for one in ours:
        beyond = [each.label for each in domains if _clos(one, each) is None]
        if beyond:
            yield (
                f"{where}: sstClosID {one.sst_clos_id} of {one.name!r} is no class of service of"
                f" power domains {', '.join(beyond)} — write a lower one"
            )
    idle = [one.label for one in domains if not one.has_core_power]
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

    def named(name: NamedFrequency) -> int | None:
        found = _khz_of_name(name, cpus)
        if found is None:
            unknown.add(name)
        return found

    low = khz_of(one.min_freq if one.pct_min_freq is None else one.pct_min_freq, named)
    high = khz_of(one.max_freq if one.pct_max_freq is None else one.pct_max_freq, named)
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
