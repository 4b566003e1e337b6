"""Overrides of what discovery found, from the environment variables operators know.

They are values: whoever has an environment (or a scenario's) passes its mapping in.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard, cast

from .caches import cache_bytes, cache_groups, in_order
from .cpuset import CpuSet, IdListError
from .errors import TopologyError
from .machine import Cache, CoreKind, Machine
from .traits import efficient_cpus

CACHES: Final = "OVERRIDE_SYS_CACHES"
CORE_CPUS: Final = "OVERRIDE_SYS_CORE_CPUS"
ATOM_CPUS: Final = "OVERRIDE_SYS_ATOM_CPUS"
CPUFREQ: Final = "OVERRIDE_SYS_CPUFREQ"

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
    """What replaces discovery's results; nothing by default."""

    caches: tuple[Cache, ...] = ()
    performance: CpuSet | None = None
    efficient: CpuSet | None = None
    frequencies: tuple[Range, ...] = field(default_factory=tuple[Range, ...])


def parse_overrides(environment: Mapping[str, str]) -> Overrides:
    """The overrides in an environment; other variables are ignored.

    Raises `TopologyError` that names the variable.
    """
    return Overrides(
        caches=_parse_caches(environment.get(CACHES, "")),
        performance=_cpus(CORE_CPUS, environment[CORE_CPUS]) if CORE_CPUS in environment else None,
        efficient=_cpus(ATOM_CPUS, environment[ATOM_CPUS]) if ATOM_CPUS in environment else None,
        frequencies=_parse_frequencies(environment.get(CPUFREQ, "")),
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
    for where, row in _rows(CACHES, text):
        level = row.get("level", 1)
        kind = row.get("kind", "")
        size = row.get("size", "0")
        cpusets = row.get("cpusets", [])
        if not _is_whole(level) or not isinstance(kind, str) or kind not in _TYPES:
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
                    cpus=_cpus(where, str(cpus)),
                    id=number,
                    size_bytes=size_bytes,
                )
            )
    return tuple(found)


def _parse_frequencies(text: str) -> tuple[Range, ...]:
    found: list[Range] = []
    for where, row in _rows(CPUFREQ, text):
        numbers = {key: row.get(key) for key in ("base", "min", "max")}
        if any(value is not None and not _is_whole(value) for value in numbers.values()):
            raise TopologyError(f"{where}: base, min and max are whole kHz — drop the others")
        found.append(
            Range(
                cpus=_cpus(where, str(row.get("cpus", ""))),
                base_khz=numbers["base"] or None,
                min_khz=numbers["min"] or None,
                max_khz=numbers["max"] or None,
            )
        )
    return tuple(found)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _rows(variable: str, text: str) -> list[tuple[str, dict[str, Any]]]:
    if not text.strip():
        return []
    try:
        document = json.loads(text)
    except ValueError as error:
        raise TopologyError(f"{variable}: {error} — it holds a JSON list of objects") from error
    if not isinstance(document, list):
        raise TopologyError(f"{variable}: not a list — it holds a JSON list of objects")
    rows: list[tuple[str, dict[str, Any]]] = []
    for position, row in enumerate(cast("list[object]", document)):
        if not isinstance(row, dict):
            raise TopologyError(f"{variable}[{position}]: {row!r} is not an object")
        rows.append((f"{variable}[{position}]", cast("dict[str, Any]", row)))
    return rows


def _cpus(where: str, text: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except IdListError as error:
        raise TopologyError(f"{where}: {error}") from error
