"""All grants and what is left: per-pool sums kept up to date with every grant and release.

Cpu sets are plain int masks here and milli-cpus plain ints: this is the hot path of a decision.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import reduce

from msgspec.structs import replace

from ...topology.sets.cpuset import NO_CPUS, CpuSet, NodeSet
from ..cpus.picker import CpuPicker
from ..model.container import ContainerId
from ..model.grant import Grant, PoolId
from ..model.request import CpuType
from ..pools.pool_tree import PoolTree
from .held_grants import HeldGrants
from .narrowed_shares import NarrowedShares
from .pool_room import Owed, PoolRoom, Room
from .spare.slices import Slices
from .spare.spare_cpus import SpareCpus


class Ledger:
    """Grants of cpus by container, with their sums by pool; only `add` and `drop` change it.

    Containers in a pen hold what the pen holds: it is counted once, for the pen.
    """

    def __init__(self, tree: PoolTree, picker: CpuPicker) -> None:
        """An empty ledger of these pools."""
        pools = tree.pools
        self.tree = tree
        self._picker = picker
        self.free_sharable = [pool.sharable.mask for pool in pools]
        free_count, zeros = [len(pool.sharable) for pool in pools], [0] * len(pools)
        self._sums = Owed(self.free_sharable, free_count, zeros, list(zeros))
        if not tree.root.reserved:
            # Somebody may come who asks for nothing: without reserved cpus the last one is theirs.
            self._sums.zero_requests[-1] = 1
        self.sharable_version = 0
        """Another number wherever `free_sharable` is another."""
        self.free_isolated = [pool.isolated.mask for pool in pools]
        self.neighbours = [0] * len(pools)
        """By pool id the number of grants of normal cpus in exactly each, without pens."""
        self._reserved_milli = 0
        self._grants = HeldGrants()
        self.grants: Mapping[ContainerId, Grant] = self._grants
        """Grants by container, oldest first."""
        self._pens = HeldGrants()
        self.pens: Mapping[ContainerId, Grant] = self._pens
        """Every pen, oldest first: what the containers in it hold together."""
        self._members: dict[ContainerId, dict[ContainerId, None]] = {}
        self._left = HeldGrants()
        self.left: Mapping[ContainerId, Grant] = self._left
        """What moved containers, and pens, have left and nobody may have yet: see `keep_left`."""
        # With what was held before the event at work; of no use in a copy.
        self.tables = self._grants, self._pens, self._left
        self._sharing: list[dict[ContainerId, Grant]] = [{} for _ in pools]
        self._pool_room = PoolRoom(tree)
        self._room: Room | None = None
        self._stale = set(range(len(pools)))
        """The pools whose numbers changed since the room was measured, and all above them."""
        self.narrowed = NarrowedShares(tree, picker)
        """The grants that have not all of their pool; only the ledger changes them."""
        self._spare_cpus: SpareCpus | None = None
        self._slices = Slices(tree, picker, self._pool_room.own)

    def members(self, pen_id: ContainerId) -> Collection[ContainerId]:
        """The containers with a grant in a pen, oldest first; none of another id."""
        return self._members.get(pen_id, {}).keys()

    def occupants(self, held_as: ContainerId) -> tuple[ContainerId, ...]:
        """The containers that have a grant together: those in a pen, else the one of this id."""
        return tuple(self._members.get(held_as, ())) or (held_as,)

    def counted(self, container_id: ContainerId) -> Grant:
        """The grant that is counted for a container or a pen: of a member that of its pen."""
        grant = self._grants.get(container_id)
        if grant is None:
            return self._pens[container_id]
        return grant if grant.pen is None else self._pens[grant.pen]

    def sharing(self, pool_id: PoolId) -> Mapping[ContainerId, Grant]:
        """The grants with a shared part in exactly this pool, pens among them."""
        return self._sharing[pool_id]

    @property
    def free_reserved_milli(self) -> int:
        """Milli-cpus of the reserved cpus that are not promised."""
        return 1000 * len(self.tree.root.reserved) - self._reserved_milli

    @property
    def room(self) -> Room:
        """The room of every pool. O(pools concerned) after a change, else O(1)."""
        if self._room is None or self._stale:
            self._room = self._pool_room.measure(self._sums, self._stale)
            self._stale = set[int]()
        return self._room

    @property
    def spare_cpus(self) -> SpareCpus:
        """The cpus that may be taken, beside narrowed shares, too."""
        if self._spare_cpus is None:
            self._spare_cpus = SpareCpus(self.tree, self._sums, self.narrowed)
        return self._spare_cpus

    def sliceable(self, pool_id: PoolId) -> int:
        """The number of cpus of `slice` that may be taken at once; as a rule it picks no slice."""
        count, owed = self.room.sliceable[pool_id], self.owed
        if not self.tree.masks[pool_id] & owed or self.cut_within(pool_id) >= count:
            return count
        return min(count, self.slice(pool_id).bit_count())

    def cut_within(self, pool_id: PoolId, region: int = -1) -> int:
        """A number of cpus of a region that `slice` has at least, as no cpus are picked for it."""
        _ = self.room
        return self._pool_room.cut_within(pool_id, region & ~self.owed, self.free_sharable)

    def cuts_within(self, region: int) -> Sequence[int]:
        """`cut_within` of every pool at once."""
        _ = self.room
        return self._pool_room.cuts_within(region & ~self.owed, self.free_sharable)

    def slice(self, pool_id: PoolId) -> int:
        """A mask of sharable cpus of a pool of which any `sliceable` may be taken at once.

        Every pool below keeps the cpus it owes its shared grants, narrowed ones included.
        """
        return self._slices.of(pool_id, self._sums) & ~self.owed

    def share(self, pool_id: PoolId, own: int = 0) -> int:
        """A mask of the cpus on which a share of a pool runs once some are taken, never none.

        Those of the nearest wider pool that has some left, at last the reserved ones.
        """
        for one in (pool_id, *self.tree.ancestors[pool_id]):
            if left := self.free_sharable[one] & ~own:
                return left
        root = self.tree.root
        return root.reserved.mask or root.cpus.mask

    def room_within(
        self,
        pool_id: PoolId,
        cpus: int,
        but: Grant | None = None,
        narrowed: NarrowedShares | None = None,
    ) -> int:
        """Milli-cpus that a share of a pool can still be promised on these of its cpus alone.

        `but`: a grant of this pool whose share counts as given back: that is more by its share in
        the pool and in all around it. `narrowed`: those of a trial, the same shares on fewer cpus.
        """
        room = self.room.grantable_milli[pool_id]
        if but is not None and but.has_shared_part:
            room += but.shared_milli
        free = self.free_sharable[pool_id]
        if not free & ~cpus:
            return room
        promised, counted, pools, masks = 0, 0, self.tree.pools, self.tree.masks
        pending = list(pools[pool_id].children)
        while pending:
            inner = pending.pop()
            if (here := masks[inner] & cpus) == masks[inner]:
                promised += self._sums.shared_milli[inner]
                counted |= here
            elif here:
                pending.extend(pools[inner].children)
        promised += (narrowed or self.narrowed).promised(free & cpus, counted, but)
        return min(room, 1000 * (free & cpus).bit_count() - promised)

    def promised_inside(self, pool_id: PoolId, *, is_rough: bool = False) -> int:
        """Milli-cpus at most that `room_within` counts as promised; `is_rough`: in O(children)."""
        below, milli = self.tree.pools[pool_id].children, self._sums.shared_milli
        inside = sum([milli[child] for child in below])
        return inside + self.narrowed.promised(-1 if is_rough else self.free_sharable[pool_id], 0)

    @property
    def owed(self) -> int:
        """Cpus that nobody may take, as narrowed shares or owners of rules need some of them."""
        return self.narrowed.owed(self.free_sharable[-1], self.sharable_version)

    def without_share(self, grant: Grant) -> "Ledger":
        """A ledger to ask, never to change, where a grant has given back its shared part."""
        ledger = self._measured_apart()
        if grant.has_shared_part:
            ledger.narrowed = self.narrowed.without(grant)
            # Of the cpus it is the same as this one.
            promises = self._sums.apart()[2:]
            ledger._sums = Owed(self.free_sharable, self._sums.free_count, *promises)
            ledger._promise(grant, -1)
            ledger.spare_cpus.resume(self.spare_cpus)
            ledger.spare_cpus.change(replace(grant, exclusive=NO_CPUS), is_added=False)
        return ledger

    def copy(self) -> "Ledger":
        """Another ledger with the same grants. O(pools + grants)."""
        ledger = self._measured_apart()
        ledger._sums = self._sums.apart()
        ledger.free_sharable = ledger._sums.free_sharable
        ledger.free_isolated = [*self.free_isolated]
        ledger.neighbours = list(self.neighbours)
        ledger.grants = ledger._grants = self._grants.copy()
        ledger.pens = ledger._pens = self._pens.copy()
        ledger._members = {pen: dict(members) for pen, members in self._members.items()}
        ledger.left = ledger._left = self._left.copy()
        ledger.narrowed = self.narrowed.copy()
        ledger._sharing = [dict(one) for one in self._sharing]
        ledger.spare_cpus.resume(self._spare_cpus)
        return ledger

    def spare_only(self, spared: Collection[ContainerId]) -> None:
        """Keep no cpu for those who asked for none, but for some; for a copy that is dropped."""
        asking = self._sums.zero_requests
        asking[:] = [0] * len(asking)
        for grant in map(self.counted, spared):
            for pool_id in (grant.pool_id, *self.tree.ancestors[grant.pool_id]):
                asking[pool_id] += not grant.shared_milli
        self._outdate(range(len(asking)))
        self.narrowed.spare_only(spared)
        self._spare_cpus = None

    def repool(self, grant: Grant) -> None:
        """Another pool for the shared part of a grant; its own cpus and memory stay."""
        self.drop(grant.container_id)
        self.add(grant)

    def add(self, grant: Grant) -> None:
        """Book a grant. O(pools of its subtree and above)."""
        assert grant.container_id not in self._grants, grant.container_id
        if grant.pen is not None:
            # Its pen has taken the cpus already.
            self._grants[grant.container_id] = grant
            self._members.setdefault(grant.pen, {})[grant.container_id] = None
            self._settle_pen(grant.pen)
            return
        (self._pens if grant.is_pen else self._grants)[grant.container_id] = grant
        self._book(grant, 1)
        self.narrowed.add(grant)
        if grant.exclusive.mask:
            self._exchange(grant, is_taken=True)
        if self._spare_cpus is not None:
            self._spare_cpus.change(grant, is_added=True)
        if grant.is_pen:
            self._settle_pen(grant.container_id)

    def drop(self, container_id: ContainerId) -> Grant | None:
        """Undo a grant; None for a container that has none. O(pools of its subtree and above)."""
        grant = self._grants.drop(container_id) or self._pens.drop(container_id)
        if grant is None:
            return None
        if grant.pen is not None:
            del self._members[grant.pen][container_id]
            if not self._members[grant.pen]:
                del self._members[grant.pen]
            self._settle_pen(grant.pen)
            return grant
        self._book(grant, -1)
        self.narrowed.drop(container_id)
        if grant.exclusive.mask:
            self._exchange(grant, is_taken=False)
        if self._spare_cpus is not None:
            self._spare_cpus.change(grant, is_added=False)
        return grant

    def keep_left(self, left: Grant) -> None:
        """Take the exclusive cpus of a grant for nobody: its container is somewhere else by now.

        Yet the kernel may not know it. They are free cpus, and there is room without them.
        """
        self.let_go(left.container_id)
        self._left[left.container_id] = left
        self._exchange(left, is_taken=True)
        if self._spare_cpus is not None:
            self._spare_cpus.change(left, is_added=True)

    def let_go(self, container_id: ContainerId) -> bool:
        """Free the cpus that a container or a pen has left; whether some were kept."""
        left = self._left.drop(container_id)
        if left is None:
            return False
        self._exchange(left, is_taken=False)
        if self._spare_cpus is not None:
            self._spare_cpus.change(left, is_added=False)
        return True

    def _exchange(self, grant: Grant, *, is_taken: bool) -> None:
        """Take the exclusive cpus of a grant from all pools that have some, or give them back."""
        own, isolated, touched = grant.exclusive.mask, grant.isolated.mask, self._touched(grant)
        self.sharable_version += 1
        self._outdate(touched)
        for pool_id in touched:
            pool, sharable = self.tree.pools[pool_id], self.free_sharable[pool_id]
            left = sharable & ~own if is_taken else sharable | own & pool.sharable.mask
            if left != sharable:
                self.free_sharable[pool_id] = left
                self._sums.free_count[pool_id] = left.bit_count()
            back = 0 if is_taken else isolated & pool.isolated.mask
            self.free_isolated[pool_id] = self.free_isolated[pool_id] & ~isolated | back

    def move_memory(self, container_id: ContainerId, zone: NodeSet) -> None:
        """Another memory zone for a grant; its cpus stay."""
        held = self._pens if container_id in self._pens else self._grants
        held.exchange(container_id, replace(held[container_id], memory=zone))
        if held is self._pens:
            self._settle_pen(container_id)
        grant = self.counted(container_id)
        if grant.has_shared_part:
            self._sharing[grant.pool_id][container_id] = grant
        self.narrowed.add(grant)

    def _settle_pen(self, pen_id: ContainerId) -> None:
        """Let the grants in a pen follow it, and one another's slices. O(members)."""
        pen = self._pens.get(pen_id)
        if pen is None:
            return
        members = [self._grants[one] for one in self._members.get(pen_id, ())]
        taken = reduce(int.__or__, [one.exclusive.mask for one in members], 0)
        rest = pen.exclusive - CpuSet(taken)
        for one in members:
            own = replace(one, pool_id=pen.pool_id, within=pen.within, memory=pen.memory, rest=rest)
            self._grants.exchange(one.container_id, own)

    def _book(self, grant: Grant, sign: int) -> None:
        if grant.cpu_type is CpuType.NORMAL:
            self.neighbours[grant.pool_id] += sign
        elif grant.cpu_type is CpuType.RESERVED:
            self._reserved_milli += sign * grant.shared_milli
            return
        if not grant.has_shared_part:
            return
        if sign > 0:
            self._sharing[grant.pool_id][grant.container_id] = grant
        else:
            del self._sharing[grant.pool_id][grant.container_id]
        self._promise(grant, sign)

    def _promise(self, grant: Grant, sign: int) -> None:
        milli, zero = sign * grant.shared_milli, 0 if grant.shared_milli else sign
        around = (grant.pool_id, *self.tree.ancestors[grant.pool_id])
        for pool_id in around:
            self._sums.shared_milli[pool_id] += milli
            self._sums.zero_requests[pool_id] += zero
        self._outdate(around)

    def _outdate(self, pools: Collection[int]) -> None:
        """The numbers of pools changed, and with each its room, its slice and those above it."""
        self._stale.update(pools)
        self._slices.outdate(pools)

    def _touched(self, grant: Grant) -> Collection[int]:
        """The pools that may have some of the exclusive cpus of a grant."""
        pool_id, tree = grant.pool_id, self.tree
        # Adopted cpus may lie outside the pool's own set, so the whole tree is looked at then.
        if grant.exclusive.mask & ~tree.masks[pool_id]:
            return range(len(tree.pools))
        return (*tree.subtree(pool_id), *tree.ancestors[pool_id])

    def _measured_apart(self) -> "Ledger":
        """A copy with numbers of its own of what is measured again."""
        ledger = copy(self)
        ledger._spare_cpus = None
        ledger._pool_room, ledger._stale = self._pool_room.copy(), set(self._stale)
        ledger._slices = self._slices.copy()
        return ledger

    def check(self) -> None:
        """Assert every invariant by recomputing all sums from the grants."""
        self.spare_cpus.check()
        fresh = Ledger(self.tree, self._picker)
        fresh.narrowed.hold_stuck(self.narrowed.stuck)
        for grant in (*self._pens.values(), *self._grants.values()):
            fresh.add(grant)
        for left in self._left.values():
            fresh.keep_left(left)
        assert (fresh._grants, fresh._reserved_milli) == (self._grants, self._reserved_milli)
        assert self._members.keys() == self._pens.keys()
        assert (fresh._sums, fresh.owed) == (self._sums, self.owed)
        assert (fresh.free_isolated, fresh.neighbours) == (self.free_isolated, self.neighbours)
        assert (self.free_sharable, fresh.room) == (self._sums.free_sharable, self.room)
        self._slices.check(fresh._sums)
        seen = 0
        for pen in self._pens.values():
            members = [self._grants[one] for one in self._members[pen.container_id]]
            slices = CpuSet(reduce(int.__or__, [one.exclusive.mask for one in members], 0))
            assert slices <= pen.exclusive, f"{pen.container_id}: a slice of no cpus of its pen"
            if pen.exclusive and not all(one.exclusive for one in members):
                assert pen.exclusive - slices, f"{pen.container_id}: nothing to share"
            assert not seen & (pen.exclusive - slices).mask, f"{pen.container_id}: granted twice"
            seen |= (pen.exclusive - slices).mask
        for grant in (*self._grants.values(), *self._left.values()):
            assert not seen & grant.exclusive.mask, f"{grant.container_id}: cpu granted twice"
            seen |= grant.exclusive.mask
