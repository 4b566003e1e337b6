"""Classes of cpus: which class each cpu is in, and the clocks and idle states that follow.

Nothing here touches a cpu: the daemon writes what follows to sysfs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...topology.model.machine import Cpu, Machine
from ...topology.sets.base_errors import quoted
from ...topology.sets.cpuset import CpuSet
from ..annotations.annotations import Scope
from ..annotations.preferences import Preferences
from ..configuration.config import Config, CpuClass
from ..model.container import Container, QosClass
from ..pools.supply import Supply
from ..text.errors import Problem
from ..text.quantity import NamedFrequency, parse_khz
from ..text.suggestion import suggestion
from .exclusive_remedy import exclusive_remedy

_SPOKEN: Final[Mapping[NamedFrequency, str]] = {
    NamedFrequency.MIN: "lowest",
    NamedFrequency.BASE: "base",
    NamedFrequency.TURBO: "highest",
}


class CpuSettings(Struct, frozen=True, kw_only=True):
    """Settings of a cpu; None (or no state) leaves one as it was found."""

    governor: str | None = None
    epp: str | None = None
    min_khz: int | None = None
    max_khz: int | None = None
    disabled_cstates: tuple[str, ...] = ()


class Clock(Struct, frozen=True, kw_only=True):
    """A range of frequencies in kHz: what an uncore clock can do, or is held to."""

    min_khz: int | None = None
    max_khz: int | None = None


def cpu_class_wish(
    container: Container, preferences: Preferences, exclusive: int, config: Config
) -> tuple[str | None, tuple[Problem, ...]]:
    """The class of a container's exclusive cpus, None for the shared one; and what is wrong.

    `exclusive`: how many cpus it gets for itself. A class can be understood and yet not be had:
    that refuses who asks for itself alone, and whoever asks for a class nobody knows. Wider
    annotations are passed over where they cannot apply.
    """
    chosen = preferences.cpu_class
    if chosen is None:
        return (config.default_exclusive_cpu_class if exclusive else None), ()
    names = [one.name for one in config.cpu_classes]
    where = f"{chosen.key} of {container.path}"
    if not names:
        what, fix = "this node has no cpu classes", "configure cpuClasses or leave it out"
        return None, (Problem(where=where, what=what, fix=fix),)
    qos = container.pod.qos
    what, is_fatal = f"CPU class {quoted(chosen.value)} invalid", chosen.scope is Scope.CONTAINER
    if qos is not QosClass.GUARANTEED:
        what += f" for non-Guaranteed QoS class {qos.value}"
        fix = "set limits equal to requests"
    elif chosen.value not in names:
        what, is_fatal = f"unknown CPU class {quoted(chosen.value)}", True
        fix = suggestion(chosen.value, tuple(names))
    elif not exclusive:
        what += " without exclusive CPUs"
        fix = exclusive_remedy(container, preferences)
    else:
        return chosen.value, ()
    if not is_fatal:
        return None, ()
    return None, (Problem(where=where, what=what, fix=fix, is_fatal=True),)


def classes_in_force(
    config: Config, supply: Supply, exclusive: Iterable[tuple[CpuSet, str | None]]
) -> Mapping[str, CpuSet]:
    """The cpus of every class that has some, in the order of the configuration.

    `exclusive`: sets of granted cpus and their class. All other usable cpus are in the class of the
    shared pool, reserved ones in theirs. Without pinning containers run anywhere, so no grant
    changes a class then.
    """
    if not config.cpu_classes or config.shared_pool_cpu_class is None:
        return {}
    shared = config.shared_pool_cpu_class
    cpus: dict[str, CpuSet] = {one.name: CpuSet() for one in config.cpu_classes}
    cpus[shared] = supply.allowed - supply.reserved
    reserved = config.reserved_pool_cpu_class or shared
    cpus[reserved] |= supply.reserved
    for granted, name in exclusive:
        if config.pin_cpu and name in cpus:
            cpus = {one: held - granted for one, held in cpus.items()}
            cpus[name] |= granted
    return {name: held for name, held in cpus.items() if held}


def cpu_settings(
    machine: Machine, config: Config, classes: Mapping[str, CpuSet]
) -> tuple[Mapping[int, CpuSettings], tuple[str, ...]]:
    """The settings of every cpu that is in a class, by its id; and what cannot be had."""
    settings: dict[int, CpuSettings] = {}
    unknown: dict[tuple[str, NamedFrequency], None] = {}
    by_name = {one.name: one for one in config.cpu_classes}
    for socket in machine.sockets:
        here = {name: held & socket.cpus for name, held in classes.items()}
        present = {name: held for name, held in here.items() if held}
        top = max((by_name[name].turbo_priority for name in present), default=0)
        for name, held in present.items():
            one = by_name[name]
            # Turbo is a budget of the whole package: only the most important present get it.
            has_turbo = one.turbo_priority == top
            for cpu in held:
                found, missing = _settings(one, machine.cpus[cpu], has_turbo=has_turbo)
                settings[cpu] = found
                unknown.update(dict.fromkeys((name, frequency) for frequency in missing))
    # Not which cpus: they change with every container, and the reason does not.
    warnings = [
        f"cpu class {name!r}: the {_SPOKEN[frequency]} frequency of its cpus is not known, so it"
        f" is not set — write a number instead of {frequency.value!r}"
        for name, frequency in unknown
    ]
    return settings, tuple(warnings)


def uncore_clocks(
    machine: Machine,
    config: Config,
    classes: Mapping[str, CpuSet],
    limits: Mapping[str, Clock],
) -> tuple[Mapping[str, Clock], tuple[str, ...]]:
    """Uncore clocks by die ("0/0"): each is held to the most that any class there asks for.

    `limits`: what each clock can do, empty where the machine lets nobody set them.
    """
    limited = [
        one
        for one in config.cpu_classes
        if not (one.uncore_min_freq is None and one.uncore_max_freq is None)
    ]
    asking = [one for one in limited if one.name in classes]
    if not asking:
        return {}, ()
    if not limits:
        # Of all of them: which ones have cpus changes with every container.
        names = ", ".join(repr(one.name) for one in limited)
        return {}, (
            f"cpu classes {names}: this machine's uncore frequencies cannot be set"
            " — load the driver intel_uncore_frequency, or leave the limits out",
        )
    clocks: dict[str, Clock] = {}
    for die in machine.dies:
        limit = limits.get(die.label)
        present = [one for one in asking if classes[one.name] & die.cpus]
        if limit is None or not present:
            continue
        low = _greatest(_khz_of_clock(one.uncore_min_freq, limit) for one in present)
        high = _greatest(_khz_of_clock(one.uncore_max_freq, limit) for one in present)
        if low is not None and high is not None:
            high = max(low, high)
        clocks[die.label] = Clock(min_khz=low, max_khz=high)
    return clocks, ()


def suitable_cpus(name: str | None, config: Config, machine: Machine) -> CpuSet:
    """The cpus that can reach every frequency a class gives as a number; all, for no class."""
    one = next((known for known in config.cpu_classes if known.name == name), None)
    if one is None:
        return machine.online
    parsed = [parse_khz(value) for value in (one.min_freq, one.max_freq) if value is not None]
    wanted = max((khz for khz in parsed if isinstance(khz, int)), default=0)
    return CpuSet.collect(
        cpu.id for cpu in machine.cpus.values() if cpu.max_khz is None or cpu.max_khz >= wanted
    )


def khz_of(value: str | int | None, named: Callable[[NamedFrequency], int | None]) -> int | None:
    """Kilohertz of a frequency in the configuration; `named` knows those that have names."""
    if value is None:
        return None
    parsed = parse_khz(value)
    return parsed if isinstance(parsed, int) else named(parsed)


def misfits(free: Sequence[int], count: int, suitable: CpuSet) -> tuple[int, ...]:
    """Misfits by pool id: 1 where fewer than `count` of its free cpus (masks) suit. O(pools).

    Empty where all pools are alike, so that nothing depends on it.
    """
    column = tuple(int((mask & suitable.mask).bit_count() < count) for mask in free)
    return column if len(set(column)) > 1 else ()


def _settings(
    one: CpuClass, cpu: Cpu, *, has_turbo: bool
) -> tuple[CpuSettings, list[NamedFrequency]]:
    missing: list[NamedFrequency] = []

    def named(name: NamedFrequency) -> int | None:
        found = _khz_of_name(name, cpu, has_turbo=has_turbo)
        if found is None:
            missing.append(name)
        return found

    epp = one.energy_performance_preference
    settings = CpuSettings(
        governor=one.freq_governor,
        epp=None if epp is None else str(epp),
        min_khz=khz_of(one.min_freq, named),
        max_khz=khz_of(one.max_freq, named),
        disabled_cstates=one.disabled_cstates,
    )
    return settings, missing


def _khz_of_name(name: NamedFrequency, cpu: Cpu, *, has_turbo: bool) -> int | None:
    match name:
        case NamedFrequency.MIN:
            return cpu.min_khz
        case NamedFrequency.BASE:
            return cpu.base_khz
        case NamedFrequency.TURBO:
            # Drivers without a base frequency cannot hold anybody below turbo by that name.
            return cpu.max_khz if has_turbo or cpu.base_khz is None else cpu.base_khz


def _khz_of_clock(value: str | int | None, limit: Clock) -> int | None:
    # An uncore clock has two ends and nothing named in between.
    return khz_of(
        value, lambda name: limit.min_khz if name is NamedFrequency.MIN else limit.max_khz
    )


def _greatest(values: Iterator[int | None]) -> int | None:
    return max((one for one in values if one is not None), default=None)
