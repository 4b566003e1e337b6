"""Room of the pools: what each could still give, kept up to date where something changed."""

from collections.abc import Sequence
from copy import copy
from functools import reduce
from typing import NamedTuple

from msgspec import Struct

from ..pools.pool_tree import PoolTree


class Room(Struct, frozen=True, kw_only=True):
    """Cpus that every pool could still give, by pool id, at one moment."""

    shared_milli: tuple[int, ...]
    """Sharable milli-cpus, one less where the pool's subtree has a container that asked for none
    (it must not be the last one's cpu); negative where more was promised than there is."""
    grantable_milli: tuple[int, ...]
    """Milli-cpus that shared requests may still be promised: `shared_milli` without that one."""
    sliceable: tuple[int, ...]
    """Whole sharable cpus that can be taken without touching what any pool owes."""


class Owed(NamedTuple):
    """Free cpus of each pool, as mask and count, and its subtree's promises, by pool id."""

    free_sharable: list[int]
    free_count: list[int]
    shared_milli: list[int]
    zero_requests: list[int]

    def apart(self) -> "Owed":
        """Copies of these numbers, which change apart from them."""
        return Owed(*map(list, self))


class PoolRoom:
    """The room of every pool of a tree.

    It follows from each pool's own numbers, from what can be sliced below it and from what the
    pools above it allow.
    """

    def __init__(self, tree: PoolTree) -> None:
        """Every pool is stale at first: no room is measured yet."""
        pools = tree.pools
        self._parent = [-1 if pool.parent is None else int(pool.parent) for pool in pools]
        self._children = [pool.children for pool in pools]
        self._first = [pool.first for pool in pools]
        # cpus of a pool that are in none of its children: nobody below owes them.
        self.own = [
            reduce(
                lambda rest, child: rest & ~pools[child].cpus.mask, pool.children, pool.cpus.mask
            )
            for pool in pools
        ]
        self._slack = [0] * len(pools)
        """Milli-cpus a pool has left by its own numbers."""
        self._spare = [0] * len(pools)
        """The whole cpus it can give by its own numbers and those of the pools below."""
        self._cut = [0] * len(pools)
        """The number of cpus in its slice, whatever else it owes."""
        self._whole_alone = [0] * len(pools)
        self._whole = [0] * len(pools)
        """Whole cpus that the pool and all above it have left beside a last one that is owed."""
        self._grantable = [0] * len(pools)
        self._shared = [0] * len(pools)
        self._sliceable = [0] * len(pools)

    def copy(self) -> "PoolRoom":
        """A copy with the same numbers, which change apart from these."""
        other = copy(self)
        other._slack, other._spare = list(self._slack), list(self._spare)
        other._cut = list(self._cut)
        other._whole_alone, other._whole = list(self._whole_alone), list(self._whole)
        other._grantable, other._shared = list(self._grantable), list(self._shared)
        other._sliceable = list(self._sliceable)
        return other

    def measure(self, owed: Owed, stale: set[int]) -> Room:
        """The room after the numbers of some pools changed; with a pool, all above it are stale."""
        self._look_below(owed, stale)
        self._look_above(owed.zero_requests, stale)
        return Room(
            shared_milli=tuple(self._shared),
            grantable_milli=tuple(self._grantable),
            sliceable=tuple(self._sliceable),
        )

    def cut_within(self, pool_id: int, region: int, free: Sequence[int]) -> int:
        """A number of cpus that the slice of a pool has in a region at least.

        Whichever cpus the pools below keep for those they owe: they may all be in the region.
        `free`: by pool id the mask of its free sharable cpus, as it was when this was measured.
        """
        here = free[pool_id] & region
        if not here or here == free[pool_id]:
            return self._cut[pool_id] if here else 0
        found = (here & self.own[pool_id]).bit_count()
        for child in self._children[pool_id]:
            # Most are as they are, or have nothing there.
            part = free[child] & here
            if part:
                is_all = part == free[child]
                inside = self._cut[child] if is_all else self.cut_within(child, part, free)
                found += max(0, inside - max(0, self._cut[child] - self._spare[child]))
        return found

    def cuts_within(self, region: int, free: Sequence[int]) -> Sequence[int]:
        """`cut_within` of every pool at once. O(pools that have cpus in and out of the region)."""
        found, cut, spare, children = list(self._cut), self._cut, self._spare, self._children
        parted: list[int] = []
        # Not negative by this: of such a region to take a part takes three times as long.
        region &= free[-1]
        pending = [len(found) - 1]
        while pending:
            pool_id = pending.pop()
            here = free[pool_id] & region
            if not here:
                first = self._first[pool_id]
                found[first : pool_id + 1] = [0] * (pool_id + 1 - first)
            elif here != free[pool_id]:
                parted.append(pool_id)
                pending += children[pool_id]
        # Children have lower ids than their parents.
        for pool_id in sorted(parted):
            count = (free[pool_id] & region & self.own[pool_id]).bit_count()
            for child in children[pool_id]:
                if inside := found[child]:
                    kept = cut[child] - spare[child]
                    if kept <= 0:
                        count += inside
                    elif kept < inside:
                        count += inside - kept
            found[pool_id] = count
        return found

    def _look_below(self, owed: Owed, stale: set[int]) -> None:
        # Children have lower ids than their parents.
        for pool_id in sorted(stale):
            shared, zero = owed.shared_milli[pool_id], owed.zero_requests[pool_id] > 0
            slack = 1000 * owed.free_count[pool_id] - shared
            spare = (slack - zero) // 1000
            cut = owed.free_count[pool_id]
            if below := self._children[pool_id]:
                cut = (owed.free_sharable[pool_id] & self.own[pool_id]).bit_count()
                for child in below:
                    cut += self._spare[child]
                spare = min(spare, cut)
            self._cut[pool_id] = cut
            self._slack[pool_id] = slack
            self._spare[pool_id] = max(0, spare)
            # Who asked for nothing binds its own pool and those around it, and the pools beside
            # only where they would take the last cpu of all around both. Promised shares keep one
            # anyway.
            self._whole_alone[pool_id] = (slack - (zero and not shared)) // 1000

    def _look_above(self, zero_requests: Sequence[int], stale: set[int]) -> None:
        """From the root down, as far as something is another than before."""
        # Comparisons, as to call `min` takes three times as long, and each event comes by here.
        parents, children, spares = self._parent, self._children, self._spare
        slacks, alone = self._slack, self._whole_alone
        all_grantable, all_whole = self._grantable, self._whole
        pending = [len(parents) - 1]
        while pending:
            pool_id = pending.pop()
            grantable, whole = slacks[pool_id], alone[pool_id]
            parent = parents[pool_id]
            if parent >= 0:
                if all_grantable[parent] < grantable:
                    grantable = all_grantable[parent]
                if all_whole[parent] < whole:
                    whole = all_whole[parent]
            left = grantable - (zero_requests[pool_id] > 0)
            spare = left // 1000
            if whole < spare:
                spare = whole
            if spares[pool_id] < spare:
                spare = spares[pool_id]
            grantable_before, whole_before = all_grantable[pool_id], all_whole[pool_id]
            all_grantable[pool_id], all_whole[pool_id] = grantable, whole
            self._shared[pool_id] = left
            self._sliceable[pool_id] = spare if spare > 0 else 0
            if grantable == grantable_before and whole == whole_before:
                pending += stale.intersection(children[pool_id])
                continue
            # A pool below is limited by this one where it has as much, or would have more. Most
            # have less of their own.
            if grantable < grantable_before:
                grantable_before = grantable + 1
            if whole < whole_before:
                whole_before = whole + 1
            for one in children[pool_id]:
                has_more = all_grantable[one] >= grantable_before
                if has_more or all_whole[one] >= whole_before or one in stale:
                    pending.append(one)
