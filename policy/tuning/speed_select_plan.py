"""Plan of Speed Select: classes of service of cpus, their limits, and what is switched on.

The one door of this room to the folder `speed_select`, opened only for machines that have Speed
Select: without the folder containers are placed on every other machine as ever.
"""

from collections.abc import Mapping

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet
from ..configuration.config import Config
from .clos_plan import SpeedSelectPlan, is_speed_select, used_fields


def plan_speed_select(
    machine: Machine, config: Config, allowed: CpuSet, classes: Mapping[str, CpuSet]
) -> SpeedSelectPlan:
    """The plan for the classes in force; an empty one on machines without Speed Select. O(cpus)."""
    if not machine.speed_select or not any(map(is_speed_select, config.cpu_classes)):
        return SpeedSelectPlan()
    from .speed_select.planner import planned

    return planned(machine, config, allowed, classes)


def speed_select_warnings(machine: Machine, config: Config, allowed: CpuSet) -> tuple[str, ...]:
    """Warnings of Speed Select fields of a configuration that have no effect on this machine."""
    fields = used_fields(config)
    if not fields:
        return ()
    if not machine.speed_select:
        return (
            f"cpuClasses: {', '.join(fields)}: no effect, this machine shows no Speed Select"
            " — leave them out, or let the daemon have /dev/isst_interface",
        )
    from .speed_select.planner import warnings_of

    return tuple(warnings_of(machine, config, allowed))


def extended_resources(machine: Machine, config: Config, allowed: CpuSet) -> Mapping[str, int]:
    """Numbers of cpus that classes to be published could have, by the name of the resource."""
    if not machine.speed_select:
        return {}
    from .speed_select.extended_resources import published_amounts

    return published_amounts(machine, config, allowed)
