"""Spare cpus: which may be taken so that all who share the others find what they were promised.

Where every share has all of its pool, the pools' own numbers say so. Beside shares that are
narrowed it depends on which cpus are kept for whom, which is chosen anew for each question.
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from ...cpus.cpu_blocks import lowest_bits
from ...model.grant import Grant
from ...pools.pool_tree import PoolTree
from ..narrowed_shares import NarrowedShares
from ..pool_room import Owed
from .kept_cpus import KeptCpus

_TOO_LITTLE: Final = -1
"""Less than was asked for, whatever it is."""


class SpareCpus:
    """The spare cpus beside the promises of one moment."""

    def __init__(self, tree: PoolTree, owed: Owed, narrowed: NarrowedShares) -> None:
        """Reads the promises when it is asked first."""
        self._tree = tree
        self._owed, self._narrowed = owed, narrowed
        self._sharable = tree.root.sharable.mask
        self._kept: KeptCpus | None = None
        self._version = 0
        """Another number after each change."""
        self._fresh: tuple[int, KeptCpus] | None = None
        """The cpus that are kept where nothing was asked yet, and the version then."""
        self._found: dict[int, int] = {}
        """As many cpus as were asked for and found, by those asked about."""
        self._short: dict[tuple[int, int], tuple[int, bool]] = {}
        """Fewer cpus than were asked for, by those asked about and how many; whether they are as
        many as there are. Asked again, it would be as dear as before."""
        self._granted: dict[tuple[int, int, int], int] = {}
        """Milli-cpus that were said to be left of some cpus, by how many of them are taken and how
        many milli-cpus were asked for."""
        self._origin: tuple[SpareCpus, int] | None = None
        """The spare cpus of which this is a copy, until it is asked first; their version then."""
        self._changes: list[tuple[Grant, bool]] = []
        """Grants added or dropped since."""

    @property
    def sure(self) -> int:
        """A mask of cpus that may be taken all at once. O(sets of cpus) when first asked."""
        return self._keeping.spare & ~self._narrowed.stuck_cpus

    @property
    def are_kept(self) -> bool:
        """Whether there is room for all promises."""
        return not self._keeping.short_milli

    def change(self, grant: Grant, *, is_added: bool) -> None:
        """Note that a grant was added to the books, or taken from them."""
        kept = self._kept
        self._version += 1
        if self._found:
            self._found = {}
        if self._short:
            self._short = {}
        if self._granted:
            self._granted = {}
        if kept is None:
            if self._origin is not None:
                self._changes.append((grant, is_added))
            return
        if self._narrowed.is_empty:
            # Nobody asks.
            self._kept = None
            return
        kept.effort = 0
        own, milli = grant.exclusive.mask & self._sharable, grant.shared_milli
        if kept.short_milli or (is_added and own & ~kept.spare):
            self._kept = None
            return
        if own:
            if is_added:
                kept.take(own)
            else:
                kept.give(own)
        for one in grant.beside:
            kept.ask(one.mask, 1 if is_added else -1)
        if not grant.has_shared_part:
            return
        cpus, within = self._tree.pools[grant.pool_id].sharable.mask, grant.within
        if within is not None:
            cpus &= within.mask
        if milli:
            if is_added:
                kept.add(cpus, milli)
            else:
                kept.drop(cpus, milli)
        if within is not None or not milli:
            kept.ask(cpus, 1 if is_added else -1)

    def rest(self) -> None:
        """An event is over: the next one's questions may look at as much again."""
        self._short = {}
        if self._granted:
            self._granted = {one: left for one, left in self._granted.items() if left >= one[2]}
        if self._kept is not None:
            self._kept.effort = 0

    def restart(self) -> None:
        """Choose anew which cpus are kept, whatever was asked before."""
        self._kept = self._origin = None
        self._version += 1
        self._changes, self._found, self._short, self._granted = [], {}, {}, {}

    def resume(self, origin: "SpareCpus | None") -> None:
        """Start, when asked first, from what is kept beside the same promises elsewhere."""
        if origin is None:
            return
        if origin._origin is None:
            self._origin = origin, origin._version
        else:
            # No chains: each would hold all those before it.
            self._origin, self._changes = origin._origin, list(origin._changes)

    def once_narrowed(self, grants: Iterable[tuple[Grant, Grant]]) -> "SpareCpus":
        """The spare cpus once shared grants have other parts of their pools, and nothing else has.

        `grants`: those before, each with the one after. O(sets of cpus) when asked first, where a
        copy of the ledger takes as long as it has pools and grants.
        """
        narrowed = self._narrowed.copy()
        other = SpareCpus(self._tree, self._owed, narrowed)
        other.resume(self)
        for before, after in grants:
            narrowed.drop(before.container_id)
            narrowed.add(after)
            other.change(before, is_added=False)
            other.change(after, is_added=True)
        return other

    def check(self) -> None:
        """Assert that what was noted of changes is what the promises say."""
        if self._kept is not None:
            self._kept.check(self._anew())

    def settled(self, cpus: int, count: int) -> int:
        """Cpus as of `takeable`, whatever was asked before. O(sets of cpus) when first asked.

        But where so many are not found otherwise, those that were: a place is chosen by them.
        """
        if self._fresh is None or self._fresh[0] != self._version:
            self._fresh = self._version, self._anew()
        found = self._fresh[1].spared_apart(cpus, count)
        known = self._found.get(cpus, 0)
        return known if found.bit_count() < count <= known.bit_count() else found

    def takeable(self, cpus: int, count: int, *, or_fewer: bool = True) -> int:
        """A mask of some of these cpus that may be taken all at once: so many if there are.

        `or_fewer`: as many as there are where there are not so many. That takes longer to tell.

        So many are not always found where there are: which cpus are kept meanwhile decides it. So
        what was answered is answered again, until the promises are others.
        """
        if (found := self._found.get(cpus, 0)).bit_count() >= count > 0:
            return found
        known = self._short.get((cpus, count))
        if known is not None and (known[1] or not or_fewer):
            return known[0]
        found = self._keeping.spared(cpus, count, or_fewer=or_fewer)
        if found.bit_count() < count:
            self._short[cpus, count] = found, or_fewer
        elif count > self._found.get(cpus, 0).bit_count():
            self._found[cpus] = found
        return found

    def can_take(self, own: int, cpus: int = 0, milli: int = 0) -> bool:
        """Whether these very cpus may be taken, and a share of others be promised besides."""
        own &= self._owed.free_sharable[-1]
        if own & ~self._keeping.spared(own, own.bit_count()):
            return False
        return self._grants(own, cpus, milli)

    def grants(self, cpus: int, count: int, milli: int) -> bool:
        """Whether a share of these cpus may get so much, once so many of them are taken.

        What was answered is answered again; see `takeable`.
        """
        key = cpus, count, milli
        left = self._granted.get(key)
        if left is None:
            own, is_sure = self._taken_first(cpus, count, milli)
            is_left = is_sure or (own.bit_count() >= count and self._grants(own, cpus, milli))
            left = self._granted[key] = milli if is_left else _TOO_LITTLE
        return left >= milli

    def grantable(self, cpus: int, count: int, milli: int) -> int:
        """Milli-cpus up to so many that a share of these cpus may get, once so many are taken.

        What was answered is answered again; see `takeable`.
        """
        key = cpus, count, milli
        known = self._granted.get(key)
        if known is not None and known != _TOO_LITTLE:
            return known
        own, is_sure = self._taken_first(cpus, count, milli)
        left = milli if is_sure else 0
        if not is_sure and own.bit_count() >= count:
            left = self._grantable(own, cpus, milli)
        if known is not None:
            left = min(left, milli - 1)
        self._granted[key] = left
        return left

    def _taken_first(self, cpus: int, count: int, milli: int) -> tuple[int, bool]:
        """The cpus taken before a share gets so much; or whether it does beside any of them."""
        if 1000 * ((cpus & self.sure).bit_count() - count) >= milli:
            return 0, True
        return lowest_bits(self._keeping.spared(cpus, count), count), False

    def grantable_beside(self, own: int, cpus: int, milli: int) -> int:
        """Milli-cpus up to so many that a share of some cpus may get beside these very ones."""
        return self._grantable(own & self.sure, cpus, milli) if self.can_take(own) else 0

    def _grants(self, own: int, cpus: int, milli: int) -> bool:
        cpus &= self._owed.free_sharable[-1]
        if not milli or 1000 * (cpus & self.sure & ~own).bit_count() >= milli:
            return True
        return self._keeping.grants(own, cpus, milli)

    def _grantable(self, own: int, cpus: int, milli: int) -> int:
        cpus &= self._owed.free_sharable[-1]
        if not milli or 1000 * (cpus & self.sure & ~own).bit_count() >= milli:
            return milli
        return self._keeping.grantable(own, cpus, milli)

    def sliceable_up_to(self, wanted: int, counts: Sequence[int]) -> Sequence[int]:
        """The cpus of each pool that may be taken, where these are fewer than counted, and wanted.

        Of those with fewer than wanted nothing is looked at.
        """
        found, free, sure = list(counts), self._owed.free_sharable, self._counts
        for pool_id in compress(range(len(found)), map(wanted.__le__, counts)):
            if sure[pool_id] < wanted:
                left = self.takeable(free[pool_id], wanted).bit_count()
                found[pool_id] = left if left < wanted else counts[pool_id]
        return found

    def grantable_up_to(
        self, milli: int, taken: Sequence[int], left: Sequence[int]
    ) -> Sequence[int]:
        """The milli-cpus that a share of each pool may get, where less is left than wanted.

        `taken`: so many cpus of each are taken besides. Of those with less nothing is looked at.
        """
        found, free = list(left), self._owed.free_sharable
        sure, whole = self._counts, -(-milli // 1000)
        for pool_id in compress(range(len(found)), map(milli.__le__, left)):
            if sure[pool_id] < whole + taken[pool_id]:
                more = self.grantable(free[pool_id], taken[pool_id], milli)
                found[pool_id] = more if more < milli else left[pool_id]
        return found

    @property
    def _counts(self) -> Sequence[int]:
        """Of each pool the number of cpus that may be taken at once for sure."""
        free = self._owed.free_sharable
        return list(map(int.bit_count, map(self.sure.__and__, free)))

    @property
    def _keeping(self) -> KeptCpus:
        if self._kept is None and self._origin is not None:
            (origin, version), self._origin = self._origin, None
            if origin._version == version:
                self._kept = origin._keeping.copy()
                for grant, is_added in self._changes:
                    self.change(grant, is_added=is_added)
            self._changes = []
        if self._kept is None:
            self._kept = self._anew()
        return self._kept

    def _anew(self) -> KeptCpus:
        """O(pools + sets of cpus)."""
        free, _, shared, zero = self._owed
        narrowed = self._narrowed
        shares, asking, pools = dict(narrowed.shares), dict(narrowed.uses), self._tree.pools
        for pool_id in compress(range(len(shared)), map(int.__or__, shared, zero)):
            pool = pools[pool_id]
            milli, count = narrowed.of_pool(pool.id)
            milli = shared[pool_id] - milli - sum([shared[one] for one in pool.children])
            count = zero[pool_id] - count - sum([zero[one] for one in pool.children])
            cpus = pool.sharable.mask
            if milli:
                shares[cpus] = shares.get(cpus, 0) + milli
            if count > 0:
                asking[cpus] = asking.get(cpus, 0) + count
        found = KeptCpus(free[-1], shares, asking)
        found.fixed = narrowed.stuck_cpus
        return found
