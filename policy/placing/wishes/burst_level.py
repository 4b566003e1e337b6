"""Burst levels of containers with rules: how wide one without a cpu limit may still spread."""

from collections.abc import Sequence
from typing import Final

from ....topology.model.machine import Level
from ...model.cpu_preference import BurstLevel
from ...rules.affinity_rule import AffinityRule
from ...rules.podaffinity.rule_set import PlacementRules

_NARROWEST_FIRST: Final = tuple(reversed(BurstLevel))
_OF_LEVEL: Final = {
    Level.SYSTEM: BurstLevel.SYSTEM,
    Level.SOCKET: BurstLevel.PACKAGE,
    Level.DIE: BurstLevel.DIE,
    Level.NUMA: BurstLevel.NUMA,
    Level.L3: BurstLevel.L3_CACHE,
    Level.CLUSTER: BurstLevel.L2_CACHE,
    Level.CORE: BurstLevel.CORE,
}


def burst_level(
    level: BurstLevel, rules: Sequence[AffinityRule], placement: PlacementRules
) -> BurstLevel:
    """The level to burst in: none so wide that the container's own rules could not hold there.

    A wide container is near to nobody, and those that come to join it spread as it does. So with
    weights that count for those who come later, too, it waits for them in one of the tightest
    pools, and with rules at levels in one domain of each.
    """
    if any(rule.is_symmetric or rule.is_mutual for rule in rules):
        return _NARROWEST_FIRST[0]
    wanted = [one.term.level for one in placement.required]
    wanted += [one.term.level for one in placement.preferred]
    wanted += [one.level for one in placement.spread]
    return min([level, *(_OF_LEVEL[one] for one in wanted)], key=_NARROWEST_FIRST.index)


def awaits_friends(rules: Sequence[AffinityRule]) -> bool:
    """Whether weights of a container's own draw those who come later to it, too."""
    return any((rule.is_symmetric or rule.is_mutual) and rule.weight > 0 for rule in rules)
