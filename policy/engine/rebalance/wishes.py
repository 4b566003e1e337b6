"""Wishes of containers at one moment: how much of them is met, and which are not met at all."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct, field

from ....topology.model.machine import Level
from ....topology.sets.cpuset import iter_bits
from ...model.container import Container, ContainerId
from ...pools.domains import Domains
from ...pools.pool_labels import pool_labels
from ...rules.podaffinity.label_selector import LabelSelector
from ...rules.podaffinity.rule_set import SpreadRule
from ...rules.podaffinity.term import container_labels
from ..snapshot import Snapshot
from .layers import Layer
from .placement_score import placement_objective, pools_of

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
    spreads = _uneven_spreads(snapshot, wishful)
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


def _uneven_spreads(snapshot: Snapshot, owners: Collection[ContainerId]) -> Mapping[Level, int]:
    """The number of preferred spread rules of some placed containers that do not hold, by level.

    O(containers x different rules of a namespace).
    """
    rules = [
        (snapshot.containers[one], rule, snapshot.supply.eligible(known.request).mask)
        for one in owners
        if (known := snapshot.classified.get(one)) is not None
        for rule in known.placement.spread
        if not rule.is_required and rule.selector is not None
    ]
    if not rules:
        return {}
    crowds = _Crowds(snapshot)
    return Counter(
        rule.level
        for owner, rule, eligible in rules
        if crowds.skew(owner, rule, eligible) > rule.max_skew
    )


class _Crowds:
    """The numbers of containers in the domains, as the rules of one snapshot count them.

    As in `Whereabouts`: who is in a pen is in all of it to those outside, and where it runs to
    those in it.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._domains = Domains(snapshot.machine, snapshot.supply.allowed)
        self._allowed = snapshot.supply.allowed.mask
        self._containers = snapshot.containers
        self._parts: dict[ContainerId, int] = {}
        self._reaches: dict[ContainerId, int] = {}
        self._labels: dict[ContainerId, Mapping[str, str]] = {}
        self._by_namespace: defaultdict[str, list[ContainerId]] = defaultdict(list)
        self._pens: dict[ContainerId, list[ContainerId]] = {}
        """By container all that are in its pen, itself included."""
        members: defaultdict[ContainerId, list[ContainerId]] = defaultdict(list)
        for one, grant in snapshot.grants.items():
            cpus = snapshot.cpus_of(one)
            # Nobody is on cpus that were lent while they are idle, as far as rules go.
            part = snapshot.tree.root.cpus if cpus is None else cpus - snapshot.idle_of(one) or cpus
            self._parts[one] = self._reaches[one] = part.mask
            if grant.pen is not None and (pen := snapshot.pens[grant.pen]).exclusive:
                self._reaches[one] = pen.exclusive.mask
                members[grant.pen].append(one)
                self._pens[one] = members[grant.pen]
            container = snapshot.containers[one]
            self._labels[one] = container_labels(container)
            self._by_namespace[container.pod.namespace].append(one)
        self._counted: dict[tuple[str, Level, LabelSelector], dict[int, int]] = {}

    def skew(self, owner: Container, rule: SpreadRule, eligible: int) -> int:
        """The containers in the fullest domain of an owner, less those in the emptiest one.

        `eligible`: a mask of the cpus that it may be granted.
        """
        assert rule.selector is not None
        others = dict(self._counts(owner.pod.namespace, rule.level, rule.selector))
        itself = rule.selector.matches(self._labels[owner.id])
        mates = [
            one
            for one in self._pens.get(owner.id, ())
            if one != owner.id
            and self._containers[one].pod.namespace == owner.pod.namespace
            and rule.selector.matches(self._labels[one])
        ]
        for one in (*mates, owner.id) if itself else mates:
            self._add(others, rule.level, self._reaches[one], -1)
        for one in mates:
            self._add(others, rule.level, self._parts[one], 1)
        own = self._domains.indexes(rule.level, (self._parts if mates else self._reaches)[owner.id])
        domains = self._domains.indexes(rule.level, eligible)
        others = {bit: count for bit, count in others.items() if bit & domains}
        # The owner comes to those that are there without it.
        most = max((count + itself for bit, count in others.items() if bit & own), default=0)
        return most - min(others.values(), default=0)

    def _add(self, counts: dict[int, int], level: Level, cpus: int, count: int) -> None:
        for bit in iter_bits(self._domains.indexes(level, cpus)):
            if 1 << bit in counts:
                counts[1 << bit] += count

    def _counts(self, namespace: str, level: Level, selector: LabelSelector) -> Mapping[int, int]:
        """The containers that are counted in each domain with cpus for anybody, by its bit."""
        known = self._counted.get((namespace, level, selector))
        if known is not None:
            return known
        masks = self._domains.masks(level)
        counts = {mask & -mask: 0 for mask in masks if mask & self._allowed}
        for one in self._by_namespace[namespace]:
            if selector.matches(self._labels[one]):
                self._add(counts, level, self._reaches[one], 1)
        self._counted[namespace, level, selector] = counts
        return counts
