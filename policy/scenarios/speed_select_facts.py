"""Facts of Speed Select for expectations: classes of service of cpus, limits, resources."""

import re
from collections.abc import Mapping
from typing import Final

from ...topology.model.machine import Machine
from ..engine.engine import Engine
from ..tuning.clos_plan import ClosId
from ..tuning.speed_select_plan import extended_resources
from .expressions.evaluator_tables import Function, Value
from .scenario_facts import set_ids

RESOURCES: Final = "extended_resources"

_NAMES: Final = ("clos", "clos_freq", RESOURCES)
_ASKED: Final = re.compile(rf"\b({'|'.join(_NAMES)})\b *[\[(]")


def not_simulated(expression: str, machine: Machine) -> str:
    """The reason an expression cannot be judged on this machine; empty where it can."""
    if machine.speed_select or not (asked := _ASKED.search(expression)):
        return ""
    return f"this machine has no Speed Select, so there is no {asked[1]}"


def published(engine: Engine | None) -> Mapping[str, Value]:
    """The amounts of extended resources by name."""
    if engine is None:
        return {}
    return dict(extended_resources(engine.machine, engine.config, engine.supply.allowed))


def speed_select_functions(engine: Engine | None) -> Mapping[str, Function]:
    """`clos` of cpus and `clos_freq` of a class of service, as set already or else as found."""

    def clos(cpus: Value) -> Value:
        wanted = set_ids(cpus)
        return frozenset[Value](one for cpu, one in _clos_of(engine).items() if cpu in wanted)

    def clos_freq(clos: Value) -> Value:
        if not isinstance(clos, int):
            raise TypeError("a class of service is a number")
        return _limits(engine, clos)

    return {"clos": clos, "clos_freq": clos_freq}


def _clos_of(engine: Engine | None) -> Mapping[int, int]:
    if engine is None:
        return {}
    found = {cpu: one for each in engine.machine.speed_select for cpu, one in each.clos_of.items()}
    return found | dict(engine.snapshot().occupancy().speed_select.clos_of)


def _limits(engine: Engine | None, clos: int) -> tuple[Value, Value]:
    """The limits in kHz; of the first power domain where they differ. 0 is an unknown one."""
    if engine is None:
        return 0, 0
    planned = engine.snapshot().occupancy().speed_select.limits
    for domain in engine.machine.speed_select:
        low, high = domain.clos_khz.get(clos, (0, 0))
        clock = planned.get(ClosId(domain.label, clos))
        if clock is not None:
            low = low if clock.min_khz is None else clock.min_khz
            high = high if clock.max_khz is None else clock.max_khz
        if low or high:
            return low, high
    return 0, 0
