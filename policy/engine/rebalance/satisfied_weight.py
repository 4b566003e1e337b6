"""The satisfied weight of one snapshot after the other, kept up to date between them."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, filterfalse
from typing import Final

from msgspec import Struct, field

from ....topology.model.machine import Level
from ...model.container import Container, ContainerId
from ...model.grant import Grant, PoolId
from ...placing.classifier import Classified
from ...pools.closeness import Closeness
from ...pools.domains import Domains
from ...pools.pool_tree import PoolTree
from ...rules.affinity_index import AffinityIndex
from ...rules.podaffinity.rule_set import PreferredTerm
from ...rules.podaffinity.term import Term
from ...rules.podaffinity.term_selection import instances, select_included
from ...rules.residents import Residents
from ..snapshot import Snapshot, changed_ids
from .layers import Layer, LevelLayer, WeightLayer
from .wishes import Wishes, WishSum, summed, weigh_wishes


class SatisfiedWeight:
    """The satisfied weight of snapshots, in the unit of weights. For one thread.

    The same as `placement_objective` makes of each, which looks at all pairs of containers: here
    only those of containers that came, went or moved since the snapshot before are looked at.
    """

    def __init__(self) -> None:
        self._tree: PoolTree | None = None
        self._scale = 1
        self._pools: dict[ContainerId, PoolId] = {}
        """Of every container that counts."""
        self._wishful: set[ContainerId] = set()
        """Counted containers with rules about pools, or about how they are spread."""
        # Of the snapshot before: of a thousand containers few are others in the next one.
        self._containers: Mapping[ContainerId, Container] = {}
        self._classified: Mapping[ContainerId, Classified] = {}
        self._grants: Mapping[ContainerId, Grant] = {}
        self._index = AffinityIndex()
        self._owners = _TermOwners()
        self._sums: dict[Level | None, _Sum] = {}
        """By level; None: of rules without one."""
        self._unbounded: set[ContainerId] = set()
        """Containers about which rules took too many steps: which of them count depends on what
        they are tried with."""

    def wishes(self, snapshot: Snapshot, pause: Callable[[], None] = lambda: None) -> Wishes:
        """The wishes of a snapshot's containers.

        O(containers + different rules + pairs of those that changed). `pause` is called often.
        """
        if snapshot.tree is not self._tree:
            self._begin(snapshot)
        # After a fault in between, the next one begins anew: who was dropped is to be added again.
        self._tree = None
        grants, pools = snapshot.grants, self._pools
        gone = self._gone(snapshot)
        for container_id in gone:
            pause()
            self._drop(container_id)
        changed = list(changed_ids(self._grants, grants, grants))
        moved = [
            one for one in changed if pools.get(one, grants[one].pool_id) != grants[one].pool_id
        ]
        for container_id in moved:
            pause()
            self._move(container_id, grants[container_id].pool_id)
        news = [
            one for one in dict.fromkeys((*changed, *gone)) if one in grants and one not in pools
        ]
        for container_id in news:
            pause()
            self._add(snapshot, container_id)
        self._add_levels(snapshot, news, pause)
        pause()
        self._tree = snapshot.tree
        self._containers, self._classified = snapshot.containers, snapshot.classified
        self._grants = grants
        if self._unbounded:
            return weigh_wishes(snapshot)
        return summed(
            snapshot, [one.sum for one in self._sums.values()], self._scale, self._wishful
        )

    def _gone(self, snapshot: Snapshot) -> list[ContainerId]:
        """Containers that are not placed any more, or of which something was said anew."""
        known = self._pools
        # Container by container in C, as in `changed_ids`.
        found = chain(
            filterfalse(snapshot.grants.__contains__, known),
            changed_ids(self._containers, snapshot.containers, known),
            changed_ids(self._classified, snapshot.classified, known),
        )
        return list(dict.fromkeys(found))

    def _begin(self, snapshot: Snapshot) -> None:
        tree, closeness = snapshot.tree, Closeness(snapshot.tree)
        self._pools, self._wishful = {}, set()
        self._containers, self._classified, self._grants = {}, {}, {}
        self._index, self._unbounded = AffinityIndex(), set()
        self._owners = _TermOwners()
        layer = WeightLayer(tree=tree, worths=tuple(closeness.own), weights={})
        self._sums = {None: _Sum(layer)}
        self._scale = closeness.scale

    def _drop(self, container_id: ContainerId) -> None:
        self._unbounded.discard(container_id)
        self._wishful.discard(container_id)
        self._index.remove(container_id)
        self._owners.remove(container_id)
        for one in self._sums.values():
            one.drop(container_id, self._pools)
        del self._pools[container_id]

    def _move(self, container_id: ContainerId, pool_id: PoolId) -> None:
        for one in self._sums.values():
            one.move(container_id, self._pools, pool_id)
        self._pools[container_id] = pool_id

    def _add(self, snapshot: Snapshot, container_id: ContainerId) -> None:
        """Know a container, with the pairs of rules without a level."""
        container = snapshot.containers[container_id]
        known = snapshot.classified.get(container_id)
        own_rules = () if known is None else known.rules
        self._pools[container_id] = snapshot.grants[container_id].pool_id
        found = self._index.affinities(container, own_rules)
        if not found.is_whole:
            self._unbounded.add(container_id)
        # As symmetric ones they are found by who comes later: here a rule counts, whoever comes.
        rules = [replace(rule, is_symmetric=True) for rule in own_rules]
        self._index.add(container, rules)
        # At once: the next one would look through all those that are not filed.
        self._index.file()
        if known is not None:
            self._owners.add(container, known.placement.preferred)
            if known.placement.pool_preferred or known.placement.spread:
                self._wishful.add(container_id)
        self._sums[None].add(container_id, found.weights, self._pools)

    def _add_levels(
        self, snapshot: Snapshot, news: Sequence[ContainerId], pause: Callable[[], None]
    ) -> None:
        """Add the pairs of rules at levels of which one container is new."""
        residents = self._index.residents
        fresh = 0
        for container_id in news:
            fresh |= residents.place(container_id)
        found: dict[Level, dict[ContainerId, dict[ContainerId, int]]] = {}
        pairs_of = self._owners.pairs(residents, fresh, pause) if fresh else ()
        for level, one, other, weight in pairs_of:
            first, second = (one, other) if one < other else (other, one)
            weights = found.setdefault(level, defaultdict(dict))[first]
            weights[second] = weights.get(second, 0) + weight
        for level, pairs in found.items():
            if level not in self._sums:
                self._sums[level] = _Sum(self._layer(snapshot, level))
            for one, weights in pairs.items():
                pause()
                self._sums[level].add(one, weights, self._pools)

    def _layer(self, snapshot: Snapshot, level: Level) -> Layer:
        domains = Domains(snapshot.machine, snapshot.supply.allowed)
        return LevelLayer.of(snapshot.tree, domains, level, self._scale, {})


class _Sum:
    """The sum over all pairs of one layer, and the weights that it is made of."""

    def __init__(self, layer: Layer) -> None:
        self.sum: Final = WishSum(layer)
        self._weights: defaultdict[ContainerId, dict[ContainerId, int]] = defaultdict(dict)
        """By container; a pair is in it twice."""

    def add(
        self,
        one: ContainerId,
        weights: Mapping[ContainerId, int],
        pools: Mapping[ContainerId, PoolId],
    ) -> None:
        """Add the pairs of a container that were not known."""
        for other, weight in weights.items():
            if weight:
                self._weights[one][other] = self._weights[other][one] = weight
                self.sum.count(weight, pools[one], pools[other])

    def drop(self, one: ContainerId, pools: Mapping[ContainerId, PoolId]) -> None:
        """Forget a container's pairs."""
        for other, weight in self._weights.pop(one, {}).items():
            self.sum.count(weight, pools[one], pools[other], -1)
            del self._weights[other][one]

    def move(self, one: ContainerId, pools: Mapping[ContainerId, PoolId], pool_id: PoolId) -> None:
        """Have a container's pairs count for another pool than that in `pools`."""
        for other, weight in self._weights.get(one, {}).items():
            self.sum.count(weight, pool_id, pools[other])
            self.sum.count(weight, pools[one], pools[other], -1)


_Key = tuple[Term, str, str]
"""A term, and what it depends on of its owner: uid and id of the pod, or the namespace alone."""


class _Alike(Struct):
    """Owners whose terms are about the same containers."""

    owner: Container
    """Any of them."""
    term: Term
    weights: dict[ContainerId, int] = field(default_factory=dict[ContainerId, int])
    """By owner."""


class _TermOwners:
    """The owners that are there. For one thread."""

    def __init__(self) -> None:
        self._alike: Final[dict[_Key, _Alike]] = {}
        self._keys: Final[dict[ContainerId, list[_Key]]] = {}

    def add(self, owner: Container, rules: tuple[PreferredTerm, ...]) -> None:
        """Add the rules of an owner that has none so far."""
        if not rules:
            return
        keys = self._keys[owner.id] = []
        for rule in rules:
            term, pod = rule.term, owner.pod
            key = (term, pod.uid, pod.id) if term.is_pod_scope else (term, pod.namespace, "")
            alike = self._alike.get(key)
            if alike is None:
                alike = self._alike[key] = _Alike(owner, term)
            alike.weights[owner.id] = alike.weights.get(owner.id, 0) + rule.weight
            keys.append(key)

    def remove(self, owner_id: ContainerId) -> None:
        """Forget an owner; unknown ids change nothing."""
        for key in self._keys.pop(owner_id, ()):
            alike = self._alike.get(key)
            if alike is not None:
                alike.weights.pop(owner_id, None)
                if not alike.weights:
                    del self._alike[key]

    def pairs(
        self, residents: Residents, fresh: int, pause: Callable[[], None]
    ) -> Iterator[tuple[Level, ContainerId, ContainerId, int]]:
        """Pairs of an owner and a container that its rules are about, with their weight.

        Of two residents, at least one of which is among the `fresh` places. A pair may come several
        times, and with either of the two first.
        O(different rules + owners of those that have pairs + pairs).
        """
        for alike in self._alike.values():
            pause()
            places = select_included(residents, alike.owner, alike.term)
            if not places:
                continue
            for owner_id, weight in alike.weights.items():
                is_fresh = bool(fresh & residents.place(owner_id))
                others = places if is_fresh else places & fresh
                if others:
                    others &= ~instances(residents, residents.container(owner_id))
                for other in residents.ids(others):
                    yield alike.term.level, owner_id, other, weight
