"""Wishes of containers at one moment: how much of them is met, and which are not met at all."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ...topology.model.machine import Level
from ..engine.rebalance.placement_score import placement_objective, pools_of
from ..engine.snapshot import Snapshot
from ..model.container import ContainerId
from ..model.grant import PoolId
from ..pools.pool_labels import pool_labels

AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"
POOL: Final = "pool"

WishKey = tuple[str, Level | None]
"""The kind of a wish and its level; None for weights and pools."""


class Wishes(Struct, frozen=True, kw_only=True):
    """The weights and preferred rules of running containers, as far as their places meet them."""

    satisfied: int
    """The satisfied weight, in units of 1/`scale`."""
    wished: int
    """What it would be if every wish were met wholly, whether or not that can be."""
    scale: int
    unmet: Mapping[WishKey, int]
    """Pairs of containers of which nothing is as wished, and wishes for pools that do not hold."""


def weigh_wishes(snapshot: Snapshot) -> Wishes:
    """The wishes of a snapshot's containers. O(containers + pairs x depth).

    Friends are as far from each other as the machine is wide where their wish is not met; those who
    avoid each other are as near as can be.
    """
    objective, pools = placement_objective(snapshot), pools_of(snapshot)
    satisfied = wished = 0
    unmet = Counter[WishKey]()
    for layer in objective.layers:
        for one, weights in layer.weights.items():
            for other, weight in weights.items():
                # Each pair once.
                if one >= other or one not in pools or other not in pools:
                    continue
                worth = layer.worth(weight, pools[one], pools[other])
                satisfied += weight * worth
                wished += weight * (layer.most if weight > 0 else layer.least)
                if layer.least < layer.most:
                    if weight > 0 and worth == layer.least:
                        unmet[AFFINITY, layer.level] += 1
                    elif weight < 0 and worth == layer.most:
                        unmet[ANTI_AFFINITY, layer.level] += 1
    if missed := _missed_pools(snapshot, pools):
        unmet[POOL, None] = missed
    return Wishes(satisfied=satisfied, wished=wished, scale=objective.scale, unmet=unmet)


def _missed_pools(snapshot: Snapshot, pools: Mapping[ContainerId, PoolId]) -> int:
    """The number of preferred rules about pools that do not hold where their containers are."""
    rules = [
        (pool_id, rule)
        for one, pool_id in pools.items()
        if (known := snapshot.classified.get(one)) is not None
        for rule in known.placement.pool_preferred
        if rule.term.expressions
    ]
    if not rules:
        return 0
    labels = pool_labels(snapshot.tree, snapshot.machine, snapshot.config)
    return sum(not rule.term.matches(labels[pool_id]) for pool_id, rule in rules)
