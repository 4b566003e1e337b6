"""Plan of Speed Select: classes of service of cpus, their limits, and what is switched on.

The one door of this room to the folder `speed_select`, opened only for machines that have Speed
Select: without the folder containers are placed on every other machine as ever. Source:
Documentation/admin-guide/pm/intel-speed-select.rst.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet
from ..configuration.config import Config, CpuClass
from .cpu_class import Clock


class ClosId(Struct, frozen=True):
    """One class of service of one power domain ("0/1": socket and domain)."""

    domain: str
    clos: int


class SpeedSelectPlan(Struct, frozen=True, kw_only=True):
    """The state that Speed Select is set to; what is not named stays as it was found."""

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
