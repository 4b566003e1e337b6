"""How near two pools are, and the affinity of every pool to a newcomer's friends."""

from collections.abc import Mapping

from .pool import PoolId, PoolTree

# Closeness falls by 9/16 (three quarters, squared: up and down) with each level of the lowest pool
# that holds both; kept in integers by scaling with 16^height.
_NUMERATOR, _DENOMINATOR = 9, 16


class Closeness:
    """Closeness of pools by their lowest common pool, scaled by 16^height of the tree.

    `closeness(p, q) = (9/16)^h`, h the height of the lowest pool that holds both above the leaves.
    """

    def __init__(self, tree: PoolTree) -> None:
        """Precomputes one number per pool."""
        top = tree.root.height
        self.scale = _DENOMINATOR**top
        self._own = [
            _NUMERATOR**pool.height * _DENOMINATOR ** (top - pool.height) for pool in tree.pools
        ]
        self._parent = [-1 if pool.parent is None else int(pool.parent) for pool in tree.pools]
        self._size = len(tree.pools)

    def affinities(self, weights: Mapping[PoolId, int]) -> list[int]:
        """For each pool the sum over all pools q of weights[q] x closeness, scaled. O(pools).

        A friend in the subtree of a pool's ancestor a, but not in that of a's child on the way to
        the pool, is as near as a: so a child's sum is its parent's, with the weight of its own
        subtree moved from the parent's closeness to its own.
        """
        if not weights:
            return [0] * self._size
        inside = [0] * self._size
        for friend, weight in weights.items():
            inside[friend] += weight
        parent = self._parent
        for pool_id in range(self._size - 1):
            if inside[pool_id]:
                inside[parent[pool_id]] += inside[pool_id]
        own = self._own
        found = [0] * self._size
        found[-1] = inside[-1] * own[-1]
        for pool_id in range(self._size - 2, -1, -1):
            above = parent[pool_id]
            weight = inside[pool_id]
            found[pool_id] = found[above] + (weight * (own[pool_id] - own[above]) if weight else 0)
        return found
