"""Preferred spread rules that do not hold where their owners are."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from ....topology.model.machine import Level
from ....topology.sets.cpuset import iter_bits
from ...model.container import Container, ContainerId
from ...pools.domains import Domains
from ...rules.podaffinity.label_selector import LabelSelector
from ...rules.podaffinity.rule_set import SpreadRule
from ...rules.podaffinity.term import container_labels
from ..snapshot import Snapshot


def uneven_spreads(snapshot: Snapshot) -> Mapping[Level, int]:
    """The number of preferred spread rules that do not hold, by level.

    O(containers x different rules of a namespace).
    """
    rules = [
        (snapshot.containers[one], rule)
        for one in snapshot.grants
        if (known := snapshot.classified.get(one)) is not None
        for rule in known.placement.spread
        if not rule.is_required and rule.selector is not None
    ]
    if not rules:
        return {}
    crowds = _Crowds(snapshot)
    return Counter(rule.level for owner, rule in rules if crowds.skew(owner, rule) > rule.max_skew)


class _Crowds:
    """The numbers of containers in the domains, as the rules of one snapshot count them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._domains = Domains(snapshot.machine, snapshot.supply.allowed)
        self._usable = snapshot.supply.usable.mask
        self._presences: dict[ContainerId, int] = {}
        self._labels: dict[ContainerId, Mapping[str, str]] = {}
        self._by_namespace: defaultdict[str, list[ContainerId]] = defaultdict(list)
        for one in snapshot.grants:
            cpus = snapshot.cpus_of(one)
            # Nobody is on cpus that were lent while they are idle, as far as rules go.
            present = 0 if cpus is None else (cpus - snapshot.idle_of(one)).mask
            container = snapshot.containers[one]
            self._presences[one], self._labels[one] = present, container_labels(container)
            self._by_namespace[container.pod.namespace].append(one)
        self._counted: dict[tuple[str, Level, LabelSelector], dict[int, int]] = {}

    def skew(self, owner: Container, rule: SpreadRule) -> int:
        """The containers in the fullest domain of an owner, less those in the emptiest one."""
        assert rule.selector is not None
        counts = self._counts(owner.pod.namespace, rule.level, rule.selector)
        own = self._domains.indexes(rule.level, self._presences[owner.id])
        itself = rule.selector.matches(self._labels[owner.id])
        most = max((count for bit, count in counts.items() if bit & own), default=0)
        # The owner comes to those that are there without it.
        others = (count - (itself and bool(bit & own)) for bit, count in counts.items())
        return most - min(others, default=0)

    def _counts(self, namespace: str, level: Level, selector: LabelSelector) -> Mapping[int, int]:
        """The containers that are counted in each domain with usable cpus, by its bit."""
        known = self._counted.get((namespace, level, selector))
        if known is not None:
            return known
        masks = self._domains.masks(level)
        counts = {mask & -mask: 0 for mask in masks if mask & self._usable}
        for one in self._by_namespace[namespace]:
            if selector.matches(self._labels[one]):
                for bit in iter_bits(self._domains.indexes(level, self._presences[one])):
                    if 1 << bit in counts:
                        counts[1 << bit] += 1
        self._counted[namespace, level, selector] = counts
        return counts
