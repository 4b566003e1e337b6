"""Closeness of pools, and the affinity of every pool to a newcomer's friends."""

from bisect import insort
from collections.abc import Mapping

from ..model.grant import PoolId
from .pool_tree import PoolTree

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
        self.own = [
            _NUMERATOR**pool.height * _DENOMINATOR ** (top - pool.height) for pool in tree.pools
        ]
        """Closeness of two containers of one pool, by pool id; scaled."""
        self._parent = [-1 if pool.parent is None else int(pool.parent) for pool in tree.pools]
        self._first = [int(pool.first) for pool in tree.pools]

    def affinities(self, weights: Mapping[PoolId, int]) -> list[int]:
        """For each pool the sum over all pools q of weights[q] x closeness, scaled.

        Pools with no friend or enemy inside are as near to all of them as the pool above is, so
        only those that have some are looked at. O(pools), with next to no work for most.
        """
        pull, push, near = self._inside(weights)
        found = [0] * len(self.own)
        attraction: dict[int, int] = {-1: 0}
        repulsion: dict[int, int] = {-1: 0}
        # Parents have higher ids than their children.
        for pool_id in sorted(push, reverse=True):
            above = self._parent[pool_id]
            own, own_above = self.own[pool_id], self.own[above] if above >= 0 else 0
            # A friend in the subtree of an ancestor, but not in that of its child on the way to the
            # pool, is as near as the ancestor: so a pool's sum is its parent's, with the weight of
            # its own subtree moved from the parent's closeness to its own.
            pulled = attraction[above] + pull[pool_id] * (own - own_above)
            # So are enemies outside the pool; those inside count at their own closeness.
            outside = push.get(above, 0) - push[pool_id]
            pushed = repulsion[above] + outside * own_above
            attraction[pool_id], repulsion[pool_id] = pulled, pushed
            first = self._first[pool_id]
            found[first:pool_id] = [pulled + pushed + push[pool_id] * own] * (pool_id - first)
            found[pool_id] = pulled + pushed + near[pool_id]
        return found

    def _inside(
        self, weights: Mapping[PoolId, int]
    ) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        """By pools with any of the weights in their subtree, the sums of those there.

        Of the positive ones, of the negative ones, and of these times their own closeness.
        """
        pull, push, near = dict[int, int](), dict[int, int](), dict[int, int]()
        for pool_id, weight in weights.items():
            repelled = weight if weight < 0 else 0
            pull[pool_id], push[pool_id] = weight - repelled, repelled
            near[pool_id] = repelled * self.own[pool_id]
        # Parents have higher ids than their children: a pool has all of its own when it is next.
        pending = sorted(pull)
        for inside in pending:
            above = self._parent[inside]
            if above < 0:
                continue
            if above in pull:
                pull[above] += pull[inside]
                push[above] += push[inside]
                near[above] += near[inside]
            else:
                pull[above], push[above], near[above] = pull[inside], push[inside], near[inside]
                insort(pending, above)
        return pull, push, near
