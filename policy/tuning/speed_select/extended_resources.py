"""Extended resources of the node: how many cpus of a class of cpus the cluster could count on."""

from collections.abc import Mapping
from typing import Final

from ....topology.model.machine import Machine
from ....topology.sets.cpuset import CpuSet
from ...configuration.config import Config, PctPriority
from ..clos_plan import is_speed_select

RESOURCE_DOMAIN: Final = "cpuclass.resource-policy.nri.io"


def published_amounts(machine: Machine, config: Config, allowed: CpuSet) -> Mapping[str, int]:
    """Numbers of cpus that classes to be published could have, by the name of the resource.

    Of cpus with the high turbo there are only as many as the hardware warrants in each power
    domain. What containers hold at present does not matter.
    """
    high = _high_classes(machine, config)
    amounts: dict[str, int] = {}
    for one in config.cpu_classes:
        if not (one.publish_extended_resource and is_speed_select(one)):
            continue
        amount = len(allowed)
        if one.name in high:
            amount = sum(
                min(len(domain.cpus & allowed), domain.high_priority_cpus)
                for domain in machine.speed_select
                # Who only puts cpus into classes leaves SST-TF off where it is off.
                if one.pct_priority or domain.has_turbo_frequency
            )
        amounts[f"{RESOURCE_DOMAIN}/{one.name}"] = amount
    return amounts


def _high_classes(machine: Machine, config: Config) -> frozenset[str]:
    """The classes whose cpus get the high turbo.

    Where others set the limits, those of the class of service with the highest one.
    """
    ours = [one for one in config.cpu_classes if is_speed_select(one)]
    highest: dict[int, int] = {}
    for one in ours:
        if one.sst_clos_id is not None:
            for domain in machine.speed_select:
                _, khz = domain.clos_khz.get(one.sst_clos_id, (0, 0))
                highest[one.sst_clos_id] = max(khz, highest.get(one.sst_clos_id, 0))
    best = min((-khz, clos) for clos, khz in highest.items())[1] if any(highest.values()) else None
    return frozenset(
        one.name
        for one in ours
        if one.pct_priority is PctPriority.HIGH or (best is not None and one.sst_clos_id == best)
    )
