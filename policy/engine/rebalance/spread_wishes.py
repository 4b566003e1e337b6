"""Preferred spread rules that do not hold where their owners are."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from ....topology.model.machine import Level
from ....topology.sets.cpuset import iter_bits
from ...model.container import Container, ContainerId
from ...pools.domains import Domains
from ...rules.podaffinity.label_selector import LabelSelector
from ...rules.podaffinity.rule_set import SpreadRule
from ...rules.podaffinity.term import container_labels
from ..snapshot import Snapshot


def uneven_spreads(snapshot: Snapshot, owners: Collection[ContainerId]) -> Mapping[Level, int]:
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
