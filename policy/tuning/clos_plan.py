"""Classes of service of Speed Select: which cpus are put into them, and what they are set to.

Source: Documentation/admin-guide/pm/intel-speed-select.rst.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

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
