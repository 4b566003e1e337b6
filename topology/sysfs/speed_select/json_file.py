"""Speed Select as JSON: what operators write into OVERRIDE_SST, and what snapshots keep."""

import json
from typing import Any

from ...model.machine import SocketId, SpeedSelect
from ...sets.base_errors import TopologyError
from ...sets.cpuset import CpuSet
from ..json_row import JsonRow, parse_row

_ORDERED = "ordered"
_PRIORITIES = ("", _ORDERED, "proportional")
_MAX_CLOS = 16
"""TPMI has four bits for a class of service; hardware has four classes."""


def parse_speed_select(where: str, text: str) -> tuple[SpeedSelect, ...]:
    """The power domains a document describes, by socket and number; `where` is named in errors.

    A package without `punits` is one domain; what a punit leaves out is as in its package. Unknown
    keys are ignored: other programs keep more in the same document. Raises `TopologyError`.
    """
    document = parse_row(where, text)
    if not document.flag("supported"):
        return ()
    clos_count = document.whole("clos_count", 4) or 4
    if clos_count > _MAX_CLOS:
        raise TopologyError(f"{where}: clos_count: {clos_count} — at most {_MAX_CLOS}")
    found: dict[tuple[int, int], SpeedSelect] = {}
    taken = CpuSet()
    for package in document.rows("packages"):
        for punit in package.rows("punits") or [JsonRow(package.where, {"id": 0})]:
            domain = _domain(package, punit, clos_count)
            if domain.cpus & taken:
                both = domain.cpus & taken
                raise TopologyError(f"{punit.where}: cpus {both} again — list each cpu once")
            key = domain.socket, domain.domain
            if key in found:
                raise TopologyError(f"{punit.where}: id again — give each its own")
            taken |= domain.cpus
            found[key] = domain
    return tuple(found[key] for key in sorted(found))


def speed_select_text(domains: tuple[SpeedSelect, ...]) -> str:
    """A document that `parse_speed_select` reads as these domains. Equal ones give equal texts."""
    packages: dict[int, dict[str, Any]] = {}
    for domain in domains:
        package = packages.setdefault(domain.socket, {"id": domain.socket, "punits": []})
        package["punits"].append(_punit(domain))
    document = {
        "supported": bool(domains),
        "clos_count": max((domain.clos_count for domain in domains), default=4),
        "packages": list(packages.values()),
    }
    return json.dumps(document, indent=1) + "\n"


def _domain(package: JsonRow, punit: JsonRow, clos_count: int) -> SpeedSelect:
    def source(key: str) -> JsonRow:
        return punit if punit.has(key) else package

    number = punit.whole("id", 0)
    cpus = source("cpus").cpus("cpus")
    if not cpus:
        raise TopologyError(f"{punit.where}: no cpus — write them as in '0-7'")
    priority = source("cp_priority").text("cp_priority")
    if priority not in _PRIORITIES:
        raise TopologyError(f"{punit.where}: cp_priority: {priority!r} — ordered or proportional")
    # The largest number is what there is room for; the guaranteed one is what can be relied on.
    room = source("max_hp_cpus").whole("max_hp_cpus", 0)
    guaranteed = source("guaranteed_hp_cpus").whole("guaranteed_hp_cpus", 0)
    # Out of reset every cpu is in class 0.
    clos_of = dict.fromkeys(cpus, 0)
    clos_khz: dict[int, tuple[int, int]] = {}
    for row in source("clos").rows("clos"):
        clos = row.whole("id")
        if clos >= clos_count:
            raise TopologyError(f"{row.where}: id: {clos} — clos_count is {clos_count}")
        clos_of.update(dict.fromkeys(row.cpus("cpus") & cpus, clos))
        if row.has("min_freq") or row.has("max_freq"):
            clos_khz[clos] = row.whole("min_freq", 0), row.whole("max_freq", 0)
    return SpeedSelect(
        socket=SocketId(package.whole("id")),
        domain=number,
        cpus=cpus,
        supports_turbo_frequency=source("tf_supported").flag("tf_supported"),
        supports_core_power=source("cp_supported").flag("cp_supported"),
        has_turbo_frequency=source("tf_enabled").flag("tf_enabled"),
        has_core_power=source("cp_enabled").flag("cp_enabled"),
        clos_count=clos_count,
        clos_order=tuple(range(clos_count)) if priority == _ORDERED else (),
        clos_of=clos_of,
        clos_khz=clos_khz,
        base_frequency_cpus=source("bf_cpus").cpus("bf_cpus") & cpus,
        high_priority_cpus=guaranteed or room,
    )


def _punit(domain: SpeedSelect) -> dict[str, Any]:
    classes = sorted({*domain.clos_khz, *domain.clos_of.values()})
    return {
        "id": domain.domain,
        "cpus": str(domain.cpus),
        "tf_supported": domain.supports_turbo_frequency,
        "tf_enabled": domain.has_turbo_frequency,
        "cp_supported": domain.supports_core_power,
        "cp_enabled": domain.has_core_power,
        "cp_priority": _ORDERED if domain.clos_order else "proportional",
        "bf_cpus": str(domain.base_frequency_cpus),
        "max_hp_cpus": domain.high_priority_cpus,
        "clos": [_clos(domain, clos) for clos in classes],
    }


def _clos(domain: SpeedSelect, clos: int) -> dict[str, Any]:
    cpus = CpuSet.collect(cpu for cpu, one in domain.clos_of.items() if one == clos)
    row: dict[str, Any] = {"id": clos, "cpus": str(cpus)}
    if clos in domain.clos_khz:
        row["min_freq"], row["max_freq"] = domain.clos_khz[clos]
    return row
