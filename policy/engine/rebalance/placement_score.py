"""The satisfied weight of a placement: how much of what containers wish of each other it gives.

The sum over all pairs of containers of weight times closeness. A pair's weight is that of every
rule of either of them that matches the other, each rule once, so it does not depend on who came
first or on whose rules are symmetric: two placements of the same containers can be compared.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct

from ....topology.model.machine import Level
from ...model.container import ContainerId
from ...model.grant import Grant, PoolId
from ...pools.closeness import Closeness
from ...pools.domains import Domains
from ...pools.pool_tree import PoolTree
from ...rules.affinity_index import AffinityIndex
from ...rules.podaffinity.term_selection import select_term
from ..snapshot import Snapshot
from .layers import Layer, LevelLayer, PairWeights, WeightLayer


class PlacementObjective(Struct, frozen=True, kw_only=True):
    """The worth of a placement of some containers: a sum over layers.

    Weights without a level are one layer, and preferred rules at each level another one.
    """

    tree: PoolTree
    layers: tuple[Layer, ...]
    scale: int
    """The worth of one unit of weight that is fully satisfied."""

    @property
    def is_empty(self) -> bool:
        """Whether nobody wishes anything: all placements are equal then."""
        return not any(layer.weights for layer in self.layers)

    def score(self, pools: Mapping[ContainerId, PoolId]) -> int:
        """The satisfied weight, scaled, with every container in its pool. O(pairs x depth).

        Containers without a pool count for nothing.
        """
        total = 0
        for layer in self.layers:
            for one, weights in layer.weights.items():
                if one not in pools:
                    continue
                pool_id = pools[one]
                for other, weight in weights.items():
                    # Each pair once.
                    if one < other and other in pools:
                        total += weight * layer.worth(weight, pool_id, pools[other])
        return total


def placement_objective(
    snapshot: Snapshot, about: Collection[ContainerId] | None = None
) -> PlacementObjective:
    """The objective that the rules of all placed containers come to.

    `about`: that of the pairs alone which these are in, in much less time. Rules that take too many
    steps are given up, as when a container is placed.
    """
    tree, closeness = snapshot.tree, Closeness(snapshot.tree)
    everybody = _index(snapshot, snapshot.grants)
    few = None if about is None else _index(snapshot, about)

    def others_of(container_id: ContainerId) -> AffinityIndex:
        return everybody if few is None or container_id in (about or ()) else few

    weights = _pair_weights(snapshot, others_of)
    layers: list[Layer] = [WeightLayer(tree=tree, worths=tuple(closeness.own), weights=weights)]
    if by_level := _level_weights(snapshot, others_of):
        domains = Domains(snapshot.machine, snapshot.supply.allowed)
        layers += [
            LevelLayer.of(tree, domains, level, closeness.scale, found)
            for level, found in by_level.items()
        ]
    return PlacementObjective(tree=tree, layers=tuple(layers), scale=closeness.scale)


def pools_of(grants: Mapping[ContainerId, Grant]) -> dict[ContainerId, PoolId]:
    """The pool of every placed container."""
    return {container_id: grant.pool_id for container_id, grant in grants.items()}


_OthersOf = Callable[[ContainerId], AffinityIndex]
"""By the owner of rules the containers that they may be about."""


def _index(snapshot: Snapshot, container_ids: Iterable[ContainerId]) -> AffinityIndex:
    """An index in which nobody's rules are: one counts once, for the container that brought it."""
    index = AffinityIndex()
    for container_id in container_ids:
        index.add(snapshot.containers[container_id])
    return index


def _pair_weights(snapshot: Snapshot, others_of: _OthersOf) -> PairWeights:
    """The weights of rules without a level."""
    found = _Pairs()
    for one in snapshot.grants:
        known = snapshot.classified.get(one)
        if known is None or not known.rules:
            continue
        index, container = others_of(one), snapshot.containers[one]
        for other, weight in index.weights(container, known.rules).items():
            found.add(one, other, weight)
    return found.weights()


def _level_weights(snapshot: Snapshot, others_of: _OthersOf) -> Mapping[Level, PairWeights]:
    """The weights of preferred rules between containers, by their level."""
    found: dict[Level, _Pairs] = {}
    for one in snapshot.grants:
        known, residents = snapshot.classified.get(one), others_of(one).residents
        for rule in known.placement.preferred if known is not None else ():
            pairs = found.setdefault(rule.term.level, _Pairs())
            places = select_term(residents, snapshot.containers[one], rule.term)
            for other in residents.ids(places):
                pairs.add(one, other, rule.weight)
    return {level: found[level].weights() for level in Level if level in found}


class _Pairs:
    """Sums of weights of pairs, the same in both directions."""

    def __init__(self) -> None:
        self._found: dict[ContainerId, dict[ContainerId, int]] = {}

    def add(self, one: ContainerId, other: ContainerId, weight: int) -> None:
        for first, second in ((one, other), (other, one)):
            own = self._found.setdefault(first, {})
            own[second] = own.get(second, 0) + weight

    def weights(self) -> PairWeights:
        return {
            one: {other: weight for other, weight in weights.items() if weight}
            for one, weights in self._found.items()
            if any(weights.values())
        }
