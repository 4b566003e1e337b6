"""Slices: the sharable cpus of pools that may be taken at once, narrowed shares left aside."""

from collections.abc import Collection
from functools import reduce

from ...cpus.picker import CpuPicker
from ...pools.pool_tree import PoolTree
from ..pool_room import Owed


class Slices:
    """The slice of every pool, cut anew where something in its subtree changed."""

    def __init__(self, tree: PoolTree, picker: CpuPicker, own: list[int]) -> None:
        """`own`: by pool id a mask of its cpus that are in none of its children."""
        self._tree = tree
        self._picker = picker
        self._own = own
        self._slices: dict[int, int] = {}
        self._spares: dict[int, int] = {}
        """Both by pool, of those in whose subtrees nothing changed since they were cut."""

    def copy(self) -> "Slices":
        """A copy that knows the same slices, which are cut anew apart from these."""
        other = Slices(self._tree, self._picker, self._own)
        other._slices, other._spares = dict(self._slices), dict(self._spares)
        return other

    def of(self, pool_id: int, owed: Owed) -> int:
        """A mask of cpus of which any that the pool can spare may be taken at once.

        Every pool below keeps the cpus it owes its shared grants. `owed`: as it is now.
        """
        known = self._slices.get(pool_id)
        if known is None:
            known = self._slices[pool_id] = self._cut(pool_id, owed)
        return known

    def outdate(self, pools: Collection[int]) -> None:
        """The numbers of some pools changed: with each come all above it."""
        for pool_id in pools if self._slices or self._spares else ():
            self._slices.pop(pool_id, None)
            self._spares.pop(pool_id, None)

    def check(self, owed: Owed) -> None:
        """Assert that all slices are as they would be cut now."""
        fresh = Slices(self._tree, self._picker, self._own)
        assert all(fresh.of(pool_id, owed) == found for pool_id, found in self._slices.items())
        assert all(fresh._spared(one, owed) == found for one, found in self._spares.items())

    def _cut(self, pool_id: int, owed: Owed) -> int:
        free = owed.free_sharable[pool_id]
        pool = self._tree.pools[pool_id]
        owes = owed.shared_milli[pool_id] or owed.zero_requests[pool_id]
        if not pool.children or not owes:
            return free
        found = free & self._own[pool_id]
        return reduce(int.__or__, [self._spared(one, owed) for one in pool.children], found)

    def _spared(self, pool_id: int, owed: Owed) -> int:
        """The cpus a pool can give up all at once to somebody above it."""
        known = self._spares.get(pool_id)
        if known is None:
            known = self._spares[pool_id] = self._spare(pool_id, owed)
        return known

    def _spare(self, pool_id: int, owed: Owed) -> int:
        promised = owed.shared_milli[pool_id] + (owed.zero_requests[pool_id] > 0)
        spare = (1000 * owed.free_count[pool_id] - promised) // 1000
        if spare <= 0:
            return 0
        found = self.of(pool_id, owed)
        return found if found.bit_count() <= spare else self._picker.pick(found, spare) or 0
