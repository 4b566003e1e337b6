"""Layers of an objective: weights of pairs of containers, and what it counts where the two are.

A layer says what one unit of weight is worth between two pools, and, for sums that are kept up to
date, which pools gain and lose when one of the two goes elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....topology.model.machine import Level
from ...model.container import ContainerId
from ...pools.domains import Domains
from ...pools.pool_tree import PoolTree

PairWeights = Mapping[ContainerId, Mapping[ContainerId, int]]
"""By container weights to others, never 0: the same in both directions."""

Steps = Sequence[tuple[int, int]]
"""Pools, and what to be inside of one is worth more, or less where negative, by unit of weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightLayer:
    """Weights that are worth the more the smaller the pool is in which two containers meet."""

    tree: PoolTree
    worths: tuple[int, ...]
    """By pool id: what it counts that two containers meet in this pool and in none inside it."""
    weights: PairWeights
    level: Level | None = None
    """No level: nearer is better."""

    @property
    def most(self) -> int:
        """The worth of a leaf."""
        return self.worths[0]

    @property
    def least(self) -> int:
        """The worth of the root."""
        return self.worths[-1]

    def worth(self, weight: int, first: int, second: int) -> int:
        """The worth of one unit of a weight between two pools. O(depth).

        A wide pool is far from what is inside it for a friend, and no refuge from an enemy: see
        `Closeness`. Here that holds whichever of the two is in the wide one.
        """
        pools = self.tree.pools
        inner, outer = (first, second) if first < second else (second, first)
        # Every pool has a higher id than those inside it.
        if weight < 0 and pools[outer].first <= inner:
            return self.worths[inner]
        while inner < pools[outer].first:
            parent = pools[outer].parent
            assert parent is not None, "the root holds every pool"
            outer = int(parent)
        return self.worths[outer]

    def steps(self, source: int, target: int) -> Steps:
        """The steps along the two ways to the root. O(depth)."""
        ancestors = self.tree.ancestors
        out = () if source < 0 else (source, *ancestors[source])
        into = (target, *ancestors[target])
        found = [(int(one), self._step(one)) for one in into if one not in out]
        found += [(int(one), -self._step(one)) for one in out if one not in into]
        return tuple(one for one in found if one[1])

    def refuges(self, source: int, target: int) -> Steps:
        """A wide pool with an enemy is as near to the leaves in it as these are to themselves."""
        found: list[tuple[int, int]] = []
        for pool_id, sign in ((source, -1), (target, 1)):
            if pool_id >= 0 and self.tree.pools[pool_id].children:
                leaf = self.tree.pools[pool_id].first
                found.append((pool_id, sign * (self.worths[leaf] - self.worths[pool_id])))
        return tuple(found)

    def pull(self, pool_id: int, other: int) -> int:
        """No pull of another pool on a container in one, beside what that is worth. O(1)."""
        return 0

    def _step(self, pool_id: int) -> int:
        parent = self.tree.pools[pool_id].parent
        return self.worths[pool_id] - (self.worths[parent] if parent is not None else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLayer:
    """Weights of rules at a level: worth all in one domain, and nothing in two.

    A domain need not be a pool: an L3 group may hold several NUMA nodes, and those of the tree's
    leaves have several cores. Two containers of a leaf that spans domains may come to be in one of
    them, and count as if chance decided.
    """

    tree: PoolTree
    domain_of: tuple[int, ...]
    """By pool id the number of the domain it lies in; -1 where it lies in several."""
    touched: tuple[int, ...]
    """By pool id the domains that it touches, as a mask."""
    scale: int
    tops: tuple[tuple[int, ...], ...]
    """By domain the widest pools inside it."""
    worths: tuple[int, ...]
    """By domain."""
    weights: PairWeights
    level: Level | None
    least: int = 0
    """The worth of two domains."""

    @classmethod
    def of(
        cls, tree: PoolTree, domains: Domains, level: Level, scale: int, weights: PairWeights
    ) -> "LevelLayer":
        """The layer of a level; `scale`: the worth of one unit in one domain."""
        numbers: dict[int, int] = {}
        domain_of: list[int] = []
        worths: list[int] = []
        touched = tuple([domains.indexes(level, pool.cpus.mask) for pool in tree.pools])
        for pool, indexes in zip(tree.pools, touched, strict=True):
            count = indexes.bit_count()
            key = indexes if count == 1 else -1 - pool.id
            if count != 1 and pool.children:
                domain_of.append(-1)
                continue
            if key not in numbers:
                numbers[key] = len(worths)
                worths.append(scale // max(count, 1))
            domain_of.append(numbers[key])
        tops: list[list[int]] = [[] for _ in worths]
        for pool in tree.pools:
            own = domain_of[pool.id]
            if own >= 0 and (pool.parent is None or domain_of[pool.parent] != own):
                tops[own].append(int(pool.id))
        return cls(
            tree=tree,
            domain_of=tuple(domain_of),
            touched=touched,
            scale=scale,
            tops=tuple(map(tuple, tops)),
            worths=tuple(worths),
            weights=weights,
            level=level,
        )

    @property
    def most(self) -> int:
        """The worth of a whole domain, or of the best of parts."""
        return max(self.worths, default=1)

    def worth(self, weight: int, first: int, second: int) -> int:
        """The worth of one unit of a weight between two pools. O(1)."""
        one, other = self.domain_of[first], self.domain_of[second]
        if one == other:
            # Two in a wide pool share all domains, as far as anybody knows.
            return self.worths[one] if one >= 0 else self.most * (weight < 0)
        inner, outer = (first, second) if first < second else (second, first)
        is_around = self.tree.pools[outer].first <= inner and self.domain_of[outer] < 0
        return self.worths[self.domain_of[inner]] if weight < 0 and is_around else 0

    def steps(self, source: int, target: int) -> Steps:
        """The steps of all pools of the two domains. O(pools of these)."""
        before = self.domain_of[source] if source >= 0 else -1
        after = self.domain_of[target]
        if before == after:
            return ()
        found = [(one, -self.worths[before]) for one in (self.tops[before] if before >= 0 else ())]
        found += [(one, self.worths[after]) for one in (self.tops[after] if after >= 0 else ())]
        return tuple(found)

    def refuges(self, source: int, target: int) -> Steps:
        """A wide pool with an enemy is as near to what is in it as that is to itself."""
        found: list[tuple[int, int]] = []
        for pool_id, sign in ((source, -1), (target, 1)):
            if pool_id < 0 or self.domain_of[pool_id] >= 0:
                continue
            for own, tops in zip(self.worths, self.tops, strict=True):
                inside = self.tree.pools[pool_id].first, pool_id
                found += [(one, sign * own) for one in tops if inside[0] <= one <= inside[1]]
        return tuple(found)

    def pull(self, pool_id: int, other: int) -> int:
        """The share of a pool's domains that the other one touches. O(1)."""
        own = self.touched[pool_id]
        return self.scale * (own & self.touched[other]).bit_count() // max(own.bit_count(), 1)


Layer = WeightLayer | LevelLayer
"""Weights of one kind. In both `most` and `least` are what one unit of weight can be worth, and -1
is a source from nowhere. `steps` are the change for a friend of a container that goes from one pool
to another, and `refuges` that for an enemy beside it: a wide pool is no refuge from those in it."""
