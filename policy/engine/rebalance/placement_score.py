"""The satisfied weight of a placement: how much of what containers wish of each other it gives.

The sum over all pairs of containers of weight times closeness. A pair's weight is that of every
rule of either of them that matches the other, each rule once, so it does not depend on who came
first or on whose rules are symmetric: two placements of the same containers can be compared.
"""

from collections.abc import Mapping

from msgspec import Struct

from ...model.container import ContainerId
from ...model.grant import PoolId
from ...pools.closeness import Closeness
from ...pools.pool_tree import PoolTree
from ...rules.affinity_index import AffinityIndex
from ..snapshot import Snapshot


class WeightLayer(Struct, frozen=True, kw_only=True):
    """Weights of pairs of containers, and what one unit of weight is worth by where they meet."""

    worth: tuple[int, ...]
    """By pool id: what it counts that two containers meet in this pool and in none inside it."""
    weights: Mapping[ContainerId, Mapping[ContainerId, int]]
    """By container those to others, never 0: the same in both directions."""


class PlacementObjective(Struct, frozen=True, kw_only=True):
    """The worth of a placement of some containers: a sum over layers.

    A wish of another kind is another layer: a term at a level is worth one in the pools of that
    level and inside them, and nothing around them.
    """

    tree: PoolTree
    layers: tuple[WeightLayer, ...]
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
                        total += weight * self.worth(layer, weight, pool_id, pools[other])
        return total

    def worth(self, layer: WeightLayer, weight: int, first: PoolId, second: PoolId) -> int:
        """The worth of one unit of a weight between two pools. O(depth).

        A wide pool is far from what is inside it for a friend, and no refuge from an enemy: see
        `Closeness`. Here that holds whichever of the two is in the wide one.
        """
        pools = self.tree.pools
        inner, outer = (first, second) if first < second else (second, first)
        # Every pool has a higher id than those inside it.
        if weight < 0 and pools[outer].first <= inner:
            return layer.worth[inner]
        while inner < pools[outer].first:
            parent = pools[outer].parent
            assert parent is not None, "the root holds every pool"
            outer = parent
        return layer.worth[outer]


def placement_objective(snapshot: Snapshot) -> PlacementObjective:
    """The objective that the rules of all placed containers come to.

    Rules that take too many steps are given up, as when a container is placed.
    """
    closeness = Closeness(snapshot.tree)
    layer = WeightLayer(worth=tuple(closeness.own), weights=_pair_weights(snapshot))
    return PlacementObjective(tree=snapshot.tree, layers=(layer,), scale=closeness.scale)


def placement_score(snapshot: Snapshot) -> int:
    """The satisfied weight of the placement that a snapshot shows, scaled."""
    return placement_objective(snapshot).score(pools_of(snapshot))


def pools_of(snapshot: Snapshot) -> dict[ContainerId, PoolId]:
    """The pool of every placed container."""
    return {container_id: grant.pool_id for container_id, grant in snapshot.grants.items()}


def _pair_weights(snapshot: Snapshot) -> Mapping[ContainerId, Mapping[ContainerId, int]]:
    # Nobody's rules are in the index: a rule counts once, for the container that brought it.
    index = AffinityIndex()
    for container_id in snapshot.grants:
        index.add(snapshot.containers[container_id])
    found: dict[ContainerId, dict[ContainerId, int]] = {}
    for one in snapshot.grants:
        known = snapshot.classified.get(one)
        if known is None or not known.rules:
            continue
        for other, weight in index.weights(snapshot.containers[one], known.rules).items():
            found.setdefault(one, {})[other] = found.get(one, {}).get(other, 0) + weight
            found.setdefault(other, {})[one] = found.get(other, {}).get(one, 0) + weight
    return {
        one: {other: weight for other, weight in weights.items() if weight}
        for one, weights in found.items()
        if any(weights.values())
    }
