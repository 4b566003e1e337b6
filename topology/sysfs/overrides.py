"""Overrides of what discovery found, from the environment variables operators know.

They are values: whoever has an environment (or a scenario's) passes its mapping in.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from ..model.machine import Cache, CoreKind, Machine, MemoryKind, SpeedSelect
from ..sets.base_errors import TopologyError
from ..sets.cpuset import CpuSet
from .caches import cache_bytes, cache_groups, in_order
from .cpu_traits import efficient_cpus
from .json_row import is_whole, parse_cpus, parse_row, parse_rows
from .speed_select_source import given_speed_select, on_cpus

CACHES: Final = "OVERRIDE_SYS_CACHES"
CORE_CPUS: Final = "OVERRIDE_SYS_CORE_CPUS"
ATOM_CPUS: Final = "OVERRIDE_SYS_ATOM_CPUS"
CPUFREQ: Final = "OVERRIDE_SYS_CPUFREQ"
MEMORY_TYPE: Final = "OVERRIDE_SYS_MEMORY_TYPE"

_TYPES: Final = {"d": "Data", "i": "Instruction", "u": "Unified", "": "Unified"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The frequencies put on some cpus, in kHz; None leaves one unknown."""

    cpus: CpuSet
    base_khz: int | None = None
    min_khz: int | None = None
    max_khz: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values that replace discovery's results; none by default."""

    caches: tuple[Cache, ...] = ()
    performance: CpuSet | None = None
    efficient: CpuSet | None = None
    frequencies: tuple[Range, ...] = field(default_factory=tuple[Range, ...])
    memory_kinds: Mapping[int, MemoryKind] = field(default_factory=dict[int, MemoryKind])
    """By the id of a NUMA node."""
    speed_select: tuple[SpeedSelect, ...] | None = None
    """Replaces what the hardware says, with nothing where it is empty."""


def parse_overrides(environment: Mapping[str, str]) -> Overrides:
    """The overrides in an environment; other variables are ignored.

    Raises `TopologyError` that names the variable.
    """
    return Overrides(
        caches=_parse_caches(environment.get(CACHES, "")),
        performance=_cpus_in(environment, CORE_CPUS),
        efficient=_cpus_in(environment, ATOM_CPUS),
        frequencies=_parse_frequencies(environment.get(CPUFREQ, "")),
        memory_kinds=_parse_memory_kinds(environment.get(MEMORY_TYPE, "")),
        speed_select=given_speed_select(environment),
    )


def override_machine(machine: Machine, overrides: Overrides) -> Machine:
    """The machine with the overrides in force; cache groups and core kinds follow them."""
    changes: dict[str, Any] = {}
    if overrides.caches:
        caches = _merge_caches(machine, overrides.caches)
        changes["caches"] = caches
        changes["l2_groups"] = cache_groups(caches, 2)
        changes["l3_groups"] = cache_groups(caches, 3)
    warnings: list[str] = []
    if overrides.memory_kinds:
        changes["numa_nodes"] = tuple(
            dataclasses.replace(node, kind=overrides.memory_kinds.get(node.id, node.kind))
            for node in machine.numa_nodes
        )
        unknown = [node for node in overrides.memory_kinds if node not in machine.node_by_id]
        warnings.extend(f"{MEMORY_TYPE}: no NUMA node {node} here — ignored" for node in unknown)
    if overrides.speed_select is not None:
        changes["speed_select"] = on_cpus(overrides.speed_select, machine.online)
    cpus = dict(machine.cpus)
    if overrides.performance is not None or overrides.efficient is not None:
        efficient = efficient_cpus(
            lambda where, what: warnings.append(f"{where}: {what}"),
            machine.online,
            machine.cores,
            overrides.performance,
            overrides.efficient or CpuSet(),
        )
        for number, cpu in cpus.items():
            kind = CoreKind.EFFICIENT if number in efficient else CoreKind.PERFORMANCE
            cpus[number] = dataclasses.replace(cpu, kind=kind)
    for one in overrides.frequencies:
        for number in one.cpus & machine.online:
            cpus[number] = dataclasses.replace(
                cpus[number], base_khz=one.base_khz, min_khz=one.min_khz, max_khz=one.max_khz
            )
    return dataclasses.replace(
        machine, cpus=cpus, warnings=(*machine.warnings, *warnings), **changes
    )


def _merge_caches(machine: Machine, given: tuple[Cache, ...]) -> tuple[Cache, ...]:
    """The given caches, and the discovered ones of the cpus no given cache mentions."""
    mentioned = CpuSet()
    for cache in given:
        mentioned |= cache.cpus
    found = [dataclasses.replace(one, cpus=one.cpus & machine.online) for one in given]
    found.extend(dataclasses.replace(one, cpus=one.cpus - mentioned) for one in machine.caches)
    return in_order(one for one in found if one.cpus)


def _parse_caches(text: str) -> tuple[Cache, ...]:
    found: list[Cache] = []
    # Ids count up per level and type over all cpusets, in the order they are listed.
    counts: dict[tuple[int, str], int] = {}
    for one in parse_rows(CACHES, text):
        where, row = one.where, one.values
        level = row.get("level", 1)
        kind = row.get("kind", "")
        size = row.get("size", "0")
        cpusets = row.get("cpusets", [])
        if not is_whole(level) or not isinstance(kind, str) or kind not in _TYPES:
            raise TopologyError(f"{where}: bad level or kind — level is a number, kind d, i or u")
        size_bytes = cache_bytes(str(size))
        if size_bytes is None:
            raise TopologyError(f"{where}: {size!r} is not a size — write it as in '16M'")
        if not isinstance(cpusets, list):
            raise TopologyError(f"{where}: cpusets is not a list — write it as in ['0-3', '4-7']")
        level = max(level, 1)
        for cpus in cast("list[object]", cpusets):
            number = counts.get((level, _TYPES[kind]), 0)
            counts[level, _TYPES[kind]] = number + 1
            found.append(
                Cache(
                    level=level,
                    type=_TYPES[kind],
                    cpus=parse_cpus(where, str(cpus)),
                    id=number,
                    size_bytes=size_bytes,
                )
            )
    return tuple(found)


def _parse_frequencies(text: str) -> tuple[Range, ...]:
    found: list[Range] = []
    for one in parse_rows(CPUFREQ, text):
        where, row = one.where, one.values
        numbers = {key: row.get(key) for key in ("base", "min", "max")}
        if any(value is not None and not is_whole(value) for value in numbers.values()):
            raise TopologyError(f"{where}: base, min and max are whole kHz — drop the others")
        found.append(
            Range(
                cpus=parse_cpus(where, str(row.get("cpus", ""))),
                base_khz=numbers["base"] or None,
                min_khz=numbers["min"] or None,
                max_khz=numbers["max"] or None,
            )
        )
    return tuple(found)


def _parse_memory_kinds(text: str) -> Mapping[int, MemoryKind]:
    if not text.strip():
        return {}
    found: dict[int, MemoryKind] = {}
    for node, kind in parse_row(MEMORY_TYPE, text).values.items():
        if not (node.isascii() and node.isdigit() and len(node) < 6):
            raise TopologyError(f"{MEMORY_TYPE}: {node!r} is no NUMA node — name it as in '2'")
        known = {one.value: one for one in MemoryKind}
        if not isinstance(kind, str) or kind.lower() not in known:
            names = ", ".join(known).upper()
            raise TopologyError(f"{MEMORY_TYPE}[{node}]: {kind!r} is no type — one of {names}")
        found[int(node)] = known[kind.lower()]
    return found


def _cpus_in(environment: Mapping[str, str], variable: str) -> CpuSet | None:
    return parse_cpus(variable, environment[variable]) if variable in environment else None
