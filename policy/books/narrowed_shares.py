"""Narrowed shares: grants that have not all sharable cpus of their pool, and what is owed to them.

A pool's own sums do not know on which of its cpus a share was promised, so exclusive cpus are not
taken from what these have left.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import reduce
from types import MappingProxyType
from typing import Final

from ...topology.sets.cpuset import CpuSet
from ..cpus.picker import CpuPicker
from ..model.container import ContainerId
from ..model.grant import Grant, PoolId
from ..pools.pool_tree import PoolTree

_CHANGES_MAX: Final = 32
"""After more changes everything is summed up anew."""


class NarrowedShares:
    """The narrowed grants of a ledger, and the cpus that they must keep."""

    def __init__(self, tree: PoolTree, picker: CpuPicker) -> None:
        self._tree = tree
        self._picker = picker
        self._shares: dict[ContainerId, tuple[int, int, PoolId]] = {}
        self._by_pool: dict[PoolId, int] = {}
        """Milli-cpus of those of a pool, where there are any."""
        self._asking: dict[PoolId, int] = {}
        """How many of a pool asked for nothing."""
        self._sums: dict[int, int] = {}
        """Milli-cpus by set of cpus, where there are any: many grants have the same set."""
        self._near: dict[int, Sequence[tuple[int, int]]] = {}
        """The sets with some cpus of a pool, and their milli-cpus, by pool id: as far as asked."""
        self._inside: dict[int, int] = {}
        """Milli-cpus of all sets in a set, that one among them, as when it was asked for last."""
        self._changes: dict[int, int] = {}
        """By which the sums are others since. Most of them are the same from one event to the next,
        and a machine has hundreds of sets."""
        self._are_others = False
        """Whether there may be other sets than when it was asked for last."""
        self._total_milli = 0
        self._beside: dict[ContainerId, tuple[CpuSet, ...]] = {}
        self._uses: dict[int, int] = {}
        """How many grants have a set, or need one to be shared on: they are many of the same."""
        self._owed: int | None = 0
        self._version = -1
        self._picks: dict[tuple[int, int], int] = {}
        """Cpus kept for sets when that was worked out last, by what was left of them and the count:
        it is worked out whenever anything is taken, mostly elsewhere."""
        self.stuck: Mapping[ContainerId, int] = MappingProxyType({})
        """Cpus on which the kernel runs containers that their runtime does not move: see
        `hold_stuck`."""
        self.stuck_cpus = 0
        """A mask of all of them: nobody gets them for itself, whoever else shares them."""
        self._spared: Collection[ContainerId] | None = None
        """Containers that asked for no cpu and are owed one all the same; None: all such ones."""

    def copy(self) -> "NarrowedShares":
        """A copy with the same grants, which change apart from these."""
        other = copy(self)
        other._shares, other._beside = dict(self._shares), dict(self._beside)
        other._by_pool, other._asking = dict(self._by_pool), dict(self._asking)
        # `dict` would put in one by one, and masks of cores have the same few hashes.
        other._sums, other._uses = self._sums.copy(), self._uses.copy()
        other._changes = dict(self._changes)
        return other

    def clear(self) -> None:
        """Forget all grants: one by one each of the many sets of each would be looked up."""
        self._shares, self._beside, self._by_pool, self._asking = {}, {}, {}, {}
        self._sums, self._uses, self._inside, self._changes = {}, {}, {}, {}
        self._near, self._picks = {}, {}
        self._total_milli, self._are_others, self._owed = 0, True, None

    def without(self, grant: Grant) -> "NarrowedShares":
        """A copy without one of them."""
        if grant.container_id not in self._shares:
            return self
        other = self.copy()
        other.drop(grant.container_id)
        return other

    @property
    def ids(self) -> Collection[ContainerId]:
        """The containers and pens whose grants are narrowed."""
        return self._shares.keys()

    @property
    def is_empty(self) -> bool:
        """Whether no grant is narrowed, or needs others on certain cpus, and nobody is stuck."""
        return not (self._shares or self._beside or self.stuck_cpus)

    def hold_stuck(self, stuck: Mapping[ContainerId, int]) -> None:
        """Owe cpus to those who share them while others run there whom no runtime takes away.

        `stuck`: the cpus of each of these as the kernel has them; instead of those before.
        """
        self.stuck, self._owed = stuck, None
        self.stuck_cpus = reduce(int.__or__, stuck.values(), 0)

    def of_pool(self, pool_id: PoolId) -> tuple[int, int]:
        """Milli-cpus of all that are narrowed in exactly a pool, and how many asked for none."""
        return self._by_pool.get(pool_id, 0), self._asking.get(pool_id, 0)

    @property
    def shares(self) -> Mapping[int, int]:
        """Milli-cpus by set of cpus, where there are any."""
        return self._sums

    @property
    def uses(self) -> Mapping[int, int]:
        """Numbers of those who need that a cpu of a set is shared, by set."""
        return self._uses if self._spared is None else dict.fromkeys(self._sets(), 1)

    def alone_without(self, cpus: int, free: int) -> Sequence[ContainerId]:
        """Containers beside whom nobody would share a cpu without these of the free ones."""
        left = free & ~cpus
        # Many containers need the same sets, one for each core of a machine.
        gone = {one for one in self._uses if one & cpus and not one & left}
        if not gone:
            return ()
        by_container = self._beside.items()
        return [one for one, sets in by_container if any([some.mask in gone for some in sets])]

    def add(self, grant: Grant) -> None:
        """Note a grant if it is narrowed, or needs that others go on sharing some cpus."""
        if grant.beside:
            self._use(self._beside.get(grant.container_id, ()), -1)
            self._beside[grant.container_id] = grant.beside
            self._use(grant.beside, 1)
            self._owed = None
        if grant.within is None or not grant.has_shared_part:
            return
        cpus = grant.within.mask & self._tree.pools[grant.pool_id].sharable.mask
        former = self._shares.get(grant.container_id)
        if former is not None:
            self._count(*former, -1)
        self._shares[grant.container_id] = cpus, grant.shared_milli, grant.pool_id
        self._count(cpus, grant.shared_milli, grant.pool_id, 1)
        self._owed = None

    def drop(self, container_id: ContainerId) -> None:
        """Forget a grant; unknown ids are ignored."""
        share = self._shares.pop(container_id, None)
        if share is not None:
            self._count(*share, -1)
        if beside := self._beside.pop(container_id, ()):
            self._use(beside, -1)
        if beside or share is not None:
            self._owed = None

    def _count(self, cpus: int, milli: int, pool_id: PoolId, sign: int) -> None:
        self._total_milli += sign * milli
        if milli:
            self._by_pool[pool_id] = self._by_pool.get(pool_id, 0) + sign * milli
        else:
            self._asking[pool_id] = self._asking.get(pool_id, 0) + sign
        # Copies have the former one.
        self._near = {}
        self._use_mask(cpus, sign)
        if self._inside and (change := self._changes.pop(cpus, 0) + sign * milli):
            self._changes[cpus] = change
        total = self._sums.pop(cpus, 0) + sign * milli
        if total:
            self._sums[cpus] = total

    def _use(self, sets: Iterable[CpuSet], sign: int) -> None:
        for one in sets:
            self._use_mask(one.mask, sign)

    def _use_mask(self, cpus: int, sign: int) -> None:
        before = self._uses.get(cpus, 0)
        if before + sign:
            self._uses[cpus] = before + sign
        else:
            del self._uses[cpus]
        if not before or not before + sign:
            self._are_others = True

    def spare_only(self, spared: Collection[ContainerId]) -> None:
        """Owe no cpu to those who asked for none, but for some."""
        self._spared = spared
        self._are_others = True
        self._owed = None

    def promised(self, cpus: int, counted: int, but: Grant | None = None) -> int:
        """Milli-cpus promised to those that have some of these cpus, not all in `counted`.

        `cpus`: -1 for all of them, in O(1).
        """
        if cpus == -1 and not counted and but is None:
            return self._total_milli
        near = self._sums_near(self._tree.holding(cpus) if cpus > 0 else self._tree.root.id)
        found = sum([milli for mask, milli in near if mask & cpus and mask & ~counted])
        if but is not None and but.has_shared_part and but.container_id in self._shares:
            mask, milli, _ = self._shares[but.container_id]
            found -= milli if mask & cpus and mask & ~counted else 0
        return found

    def _sums_near(self, pool_id: int) -> Sequence[tuple[int, int]]:
        """The sets, and milli-cpus, that have some cpus of a pool. O(those of the pool around)."""
        found = self._near.get(pool_id)
        if found is None:
            mask, around = self._tree.masks[pool_id], self._tree.ancestors[pool_id]
            some = self._sums_near(around[0]) if around else tuple(self._sums.items())
            found = [one for one in some if one[0] & mask] if around else some
            self._near[pool_id] = found
        return found

    def owed(self, free: int, version: int) -> int:
        """A mask of free cpus that are not to be taken: enough of each set for its grants.

        `version`: another number wherever `free` is another. O(1) where nothing changed, else
        O(sets of cpus x sets that changed).
        """
        if not (self._shares or self._beside or self.stuck_cpus):
            return 0
        if self._owed is None or self._version != version:
            self._owed, self._version = self._kept(free), version
        return self._owed

    def _kept(self, free: int) -> int:
        kept = self.stuck_cpus & free
        left = free ^ kept
        picks: dict[tuple[int, int], int] = {}
        # The small sets first: what is kept for them is kept for those around them, too.
        for cpus, milli in self._sums_inside(self._sets()).items():
            known = kept & cpus
            if known and milli <= 1000:
                # Most sets are of this kind, and there may be thousands.
                continue
            count = max(1, -(-milli // 1000)) - known.bit_count()
            if count > 0 and (here := left & cpus):
                key: tuple[int, int] = here, min(count, here.bit_count())
                taken = self._picks.get(key)
                if taken is None:
                    taken = self._picker.pick(*key) or 0
                picks[key] = taken
                kept |= taken
                left ^= taken
        self._picks = picks
        return kept

    def _sets(self) -> Collection[int]:
        """The sets of cpus of which some are kept."""
        if self._spared is None:
            return self._uses.keys()
        shares = [self._shares[one] for one in self._spared if one in self._shares]
        beside = [one.mask for some in self._beside.values() for one in some]
        return {*self._sums, *[cpus for cpus, _, _ in shares], *beside}

    def _sums_inside(self, sets: Iterable[int]) -> Mapping[int, int]:
        """The milli-cpus of all sets in each of some sets, of which the smallest comes first.

        O(sets x those that changed); sorted where there are others than before.
        """
        found = dict(self._inside) if len(self._changes) <= _CHANGES_MAX else {}
        for mask, more in self._changes.items():
            for cpus in [one for one in found if one & mask == mask] if mask else ():
                found[cpus] += more
        if self._are_others or not found:
            known, found = found, dict[int, int]()
            for _, cpus in sorted([(one.bit_count(), one) for one in sets]):
                milli = known.get(cpus)
                if milli is None:
                    near = self._sums_near(self._tree.holding(cpus))
                    milli = sum([other for mask, other in near if mask and not mask & ~cpus])
                found[cpus] = milli
        # Copies have the former ones.
        self._inside, self._changes = found, {}
        self._are_others = self._spared is not None
        return found
