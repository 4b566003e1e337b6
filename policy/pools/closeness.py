"""How near two pools are, and the affinity of every pool to a newcomer's friends."""

from collections.abc import Mapping

from .pool_tree import PoolId, PoolTree

# Closeness falls by 9/16 (three quarters, squared: up and down) with each level of the lowest pool
# that holds both; kept in integers by scaling with 16^height.
_NUMERATOR, _DENOMINATOR = 9, 16


class Closeness:
    """Closeness of pools by their lowest common pool, scaled by 16^height of the tree.

    `closeness(p, q) = (9/16)^h`, h the height of the lowest pool that holds both above the leaves.

    A wide pool is far from everything inside it, which is right for a friend but not for an enemy:
    a container of the whole machine may run beside anybody. So where weights repel, a pool that
    holds q is as near to it as q is to itself.
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
        """For each pool the sum over all pools q of weights[q] x closeness, scaled. O(pools)."""
        found = [0] * self._size
        pull = {pool_id: weight for pool_id, weight in weights.items() if weight > 0}
        push = {pool_id: weight for pool_id, weight in weights.items() if weight < 0}
        if pull:
            found = self._attraction(pull)
        if push:
            found = [one + other for one, other in zip(found, self._repulsion(push), strict=True)]
        return found

    def _attraction(self, weights: Mapping[PoolId, int]) -> list[int]:
        """By the lowest common pool.

        A friend in the subtree of an ancestor a, but not in that of a's child on the way to the
        pool, is as near as a: so a child's sum is its parent's, with the weight of its own subtree
        moved from the parent's closeness to its own.
        """
        own, parent = self._own, self._parent
        inside = self._sums([weights.get(PoolId(pool_id), 0) for pool_id in range(self._size)])
        found = [0] * self._size
        found[-1] = inside[-1] * own[-1]
        for pool_id in range(self._size - 2, -1, -1):
            above = parent[pool_id]
            weight = inside[pool_id]
            found[pool_id] = found[above] + (weight * (own[pool_id] - own[above]) if weight else 0)
        return found

    def _repulsion(self, weights: Mapping[PoolId, int]) -> list[int]:
        """Enemies inside a pool at their own closeness, the others by the lowest common pool."""
        own, parent = self._own, self._parent
        by_pool = [weights.get(PoolId(pool_id), 0) for pool_id in range(self._size)]
        inside = self._sums(list(by_pool))
        near = self._sums([weight * one for weight, one in zip(by_pool, own, strict=True)])
        outside = [0] * self._size
        for pool_id in range(self._size - 2, -1, -1):
            above = parent[pool_id]
            outside[pool_id] = outside[above] + (inside[above] - inside[pool_id]) * own[above]
        return [one + other for one, other in zip(near, outside, strict=True)]

    def _sums(self, values: list[int]) -> list[int]:
        """The sum over each pool's subtree."""
        for pool_id in range(self._size - 1):
            if values[pool_id]:
                values[self._parent[pool_id]] += values[pool_id]
        return values
