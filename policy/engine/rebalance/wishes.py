"""Wishes of containers at one moment: how much of them is met, and which are not met at all."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct, field

from ....topology.model.machine import Level
from ...model.container import ContainerId
from ...pools.pool_labels import pool_labels
from ..snapshot import Snapshot
from .layers import Layer
from .placement_score import placement_objective, pools_of
from .spread_wishes import uneven_spreads

AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"
SPREAD: Final = "spread"
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
    """Pairs of containers of which nothing is as wished; rules about pools, and of spread, that do
    not hold."""


class WishSum(Struct):
    """The sums over pairs of one layer.

    Friends are as far from each other as the machine is wide where their wish is not met; those who
    avoid each other are as near as can be.
    """

    layer: Layer
    satisfied: int = 0
    wished: int = 0
    unmet: Counter[WishKey] = field(default_factory=Counter[WishKey])

    def count(self, weight: int, first: int, second: int, times: int = 1) -> None:
        """Count a pair by the pools of the two; -1 times: no longer."""
        layer = self.layer
        worth, most, least = layer.worth(weight, first, second), layer.most, layer.least
        self.satisfied += times * weight * worth
        self.wished += times * weight * (most if weight > 0 else least)
        if worth == (least if weight > 0 else most) and least < most:
            self.unmet[AFFINITY if weight > 0 else ANTI_AFFINITY, layer.level] += times


def weigh_wishes(snapshot: Snapshot) -> Wishes:
    """The wishes of a snapshot's containers. O(containers + pairs x depth)."""
    objective, pools = placement_objective(snapshot), pools_of(snapshot.grants)
    sums = [WishSum(layer) for layer in objective.layers]
    for found in sums:
        for one, weights in found.layer.weights.items():
            for other, weight in weights.items():
                # Each pair once.
                if one < other and one in pools and other in pools:
                    found.count(weight, pools[one], pools[other])
    return summed(snapshot, sums, objective.scale, snapshot.grants)


def summed(
    snapshot: Snapshot, sums: list[WishSum], scale: int, wishful: Collection[ContainerId]
) -> Wishes:
    """The wishes that the sums over layers come to, with the snapshot's for pools and spread.

    `wishful`: the placed containers that may have rules about these.
    """
    unmet = Counter[WishKey]()
    for one in sums:
        unmet.update(one.unmet)
    unmet[POOL, None] = _missed_pools(snapshot, wishful)
    spreads = uneven_spreads(snapshot, wishful)
    unmet.update({(SPREAD, level): count for level, count in spreads.items()})
    return Wishes(
        satisfied=sum(one.satisfied for one in sums),
        wished=sum(one.wished for one in sums),
        scale=scale,
        unmet={key: count for key, count in unmet.items() if count},
    )


def _missed_pools(snapshot: Snapshot, wishful: Collection[ContainerId]) -> int:
    """The number of preferred rules about pools that do not hold where their containers are."""
    rules = [
        (snapshot.grants[one].pool_id, rule)
        for one in wishful
        if (known := snapshot.classified.get(one)) is not None
        for rule in known.placement.pool_preferred
        if rule.term.expressions
    ]
    if not rules:
        return 0
    labels = pool_labels(snapshot.tree, snapshot.machine, snapshot.config)
    return sum(not rule.term.matches(labels[pool_id]) for pool_id, rule in rules)
