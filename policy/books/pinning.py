"""Pinnings of grants: the cpusets and memory sets that the kernel is told."""

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import ne, not_
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ...topology.model.machine import Level
from ...topology.sets.cpuset import CpuSet
from ..configuration.config import Config
from ..cpus.cpu_blocks import CpuBlocks
from ..model.container import ContainerId
from ..model.grant import Grant, PoolId
from ..model.pinning import Change, Pinning
from ..model.request import CpuType
from .cpu_ledger import Ledger
from .idle_cpus import IdleCpus

_NORMAL: Final = CpuType.NORMAL


class PoolCpus(Struct, frozen=True, kw_only=True):
    """The cpus that grants run on, pinned or not, at one moment."""

    shared: Sequence[CpuSet]
    """By pool id the cpus on which its shared grants run."""
    reserved: CpuSet
    """The cpus on which reserved grants run."""
    cores: CpuBlocks
    """The online threads of every core."""

    def of(self, grant: Grant) -> CpuSet | None:
        """The cpus a grant stands for; None where they are not ours to choose."""
        cpus = self.with_hidden(grant)
        if cpus is not None and grant.hide_hyperthreads:
            return CpuSet(self.cores.lowest_members(cpus.mask))
        return cpus

    def with_hidden(self, grant: Grant) -> CpuSet | None:
        """The cpus of a grant with the hyperthreads that are hidden from it."""
        if grant.cpu_type is CpuType.PRESERVE:
            return None
        if grant.cpu_type is CpuType.RESERVED:
            return self.reserved
        if grant.rest.mask and not grant.exclusive.mask:
            return grant.rest
        if not grant.exclusive.mask:
            # One set for all of a pool: they are many, and so are the cpus.
            return self._shared_of(grant)
        if grant.has_shared_part:
            return grant.exclusive | self._shared_of(grant)
        return grant.exclusive

    def _shared_of(self, grant: Grant) -> CpuSet:
        shared = self.shared[grant.pool_id]
        if grant.within is None:
            return shared
        # Of the reserved cpus it has those that are named; an empty cpuset would be everything to
        # the kernel.
        return shared & grant.within or self.reserved & grant.within or shared


class ToldSoFar(NamedTuple):
    """Pinnings that the kernel was told of all containers, and where they may differ by now."""

    told: Mapping[ContainerId, Pinning]
    marked: Mapping[ContainerId, None]
    masks: Sequence[int]
    """Of the cpus of each pool when anybody was told last."""
    pool_cpus: PoolCpus


class Pinner:
    """Turns grants into pinnings, and remembers what the kernel was told about each container."""

    def __init__(self, ledger: Ledger, config: Config, cores: CpuBlocks, idle: IdleCpus) -> None:
        """`cores`: the online threads of every core."""
        self._ledger = ledger
        self._idle = idle
        self._widened: dict[tuple[PoolId, Level, bool], CpuSet] = {}
        """Cpus of those who use idle ones, too: one set for all of a pool."""
        self._config = config
        self._cores = cores
        self._parents = [pool.parent for pool in ledger.tree.pools]
        self._reserved = ledger.tree.root.reserved
        self._ids = [pool.id for pool in ledger.tree.pools]
        self._masks = self._effective()
        pairs = zip(self._masks, ledger.tree.pools, strict=True)
        # One set for all that say the same.
        shared = [
            pool.sharable if pool.sharable.mask == one else CpuSet(one) for one, pool in pairs
        ]
        self._cpus = self._standing(shared)
        self._version = ledger.sharable_version
        self._told: dict[ContainerId, Pinning] = {}
        self.last_told: Mapping[ContainerId, Pinning] = self._told
        """Pinnings that the kernel was told last, by container, for as long as nothing changes."""
        self._marked: dict[ContainerId, None] = {}

    @property
    def pool_cpus(self) -> PoolCpus:
        """The cpus that grants run on since the last changes."""
        return self._cpus

    def once_taken(self, grant: Grant) -> CpuSet | None:
        """The cpus a grant will stand for once its own ones, which are shared so far, are its own.

        None where they are not ours to choose.
        """
        cpus = self.pool_cpus
        if grant.exclusive and grant.has_shared_part:
            shared = list(cpus.shared)
            shared[grant.pool_id] = CpuSet(self._ledger.share(grant.pool_id, grant.exclusive.mask))
            cpus = replace(cpus, shared=shared)
        return cpus.of(grant)

    @property
    def told_cpus(self) -> int:
        """A mask of all cpus that the kernel was told last. O(containers)."""
        mask = 0
        for told in self._told.values():
            if told.cpus is not None:
                mask |= told.cpus.mask
        return mask

    def told(self, container_id: ContainerId) -> Pinning | None:
        """The pinning that the kernel was told last; None where it was told nothing."""
        return self._told.get(container_id)

    def note(self, container_id: ContainerId, pinning: Pinning) -> None:
        """The kernel has been told this."""
        self._told[container_id] = pinning
        grant = self._ledger.grants.get(container_id)
        if grant is not None and grant.idle_level is not None:
            self._idle.know(container_id)

    def forget(self, container_id: ContainerId) -> None:
        """The container is gone, or holds nothing."""
        self._told.pop(container_id, None)
        self._marked.pop(container_id, None)
        self._idle.forget(container_id)

    def mark(self, container_id: ContainerId) -> None:
        """A container's pinning may differ by more than the shared cpus of its pool."""
        self._marked[container_id] = None

    def changes(self, subject: ContainerId | None = None) -> tuple[Change, ...]:
        """Changes since the kernel was told last; noted as told.

        `subject` is left out: its own pinning goes another way. O(pools + containers concerned).
        """
        concerned = self._marked
        self._marked = {}
        refreshed = self._refresh()
        for pool_id in refreshed:
            concerned |= dict.fromkeys(self._ledger.sharing(pool_id))
        if refreshed:
            concerned |= dict.fromkeys(self._idle.users)
        if not concerned:
            return ()
        pens = self._ledger.pens
        for pen_id in [one for one in concerned if one in pens]:
            del concerned[pen_id]
            concerned |= dict.fromkeys(self._ledger.members(pen_id))
        if subject is not None:
            concerned.pop(subject, None)
        found: list[Change] = []
        all_told, grants = self._told, self._ledger.grants
        # Most have plain shares: those of one pool with the same memory nodes have one pinning.
        of_shares: dict[tuple[PoolId, int, bool], Pinning] = {}
        # Those side by side mostly had one pinning, too: it is compared once.
        old: Pinning | None = None
        new: Pinning | None = None
        is_other = False
        for container_id in concerned:
            before, grant = all_told[container_id], grants[container_id]
            if (
                grant.within is None
                and not grant.exclusive.mask
                and grant.cpu_type is _NORMAL
                and grant.idle_level is None
                and not grant.rest.mask
                and not grant.hide_hyperthreads
            ):
                key = grant.pool_id, grant.memory.mask, grant.preserve_memory
                known = of_shares.get(key)
                after = of_shares[key] = self.pinning(grant) if known is None else known
            else:
                after = self.pinning(grant)
            if before is not old or after is not new:
                old, new, is_other = before, after, before != after
            if is_other:
                found.append(Change(container_id=container_id, before=before, after=after))
                all_told[container_id] = after
        return tuple(found)

    def drain(self) -> tuple[Change, ...]:
        """Take the present state as told: nobody is updated for what changed until here.

        But for those who were told cpus that belong to another container, or idle ones that a rule
        keeps them from: they have to leave them, and their changes are returned. So has who shares
        nothing those that are not its own: it is told of nothing that others get.
        """
        self._marked = {}
        self._refresh()
        grants, root = self._ledger.grants, self._ledger.tree.root
        found: list[Change] = []
        taken, anybodys = 0, root.sharable.mask | root.isolated.mask
        for grant in (*grants.values(), *self._ledger.pens.values()):
            taken |= grant.exclusive.mask
        for container_id, grant in grants.items():
            told = self._told[container_id]
            own = grant.exclusive if grant.exclusive else grant.rest
            if told.cpus is None:
                continue
            is_lent = grant.idle_level is not None and told.cpus.mask & ~self._usable(grant)
            given = anybodys if grant.has_own_cpus_alone else taken
            if is_lent or told.cpus.mask & given & ~own.mask:
                after = self._told[container_id] = replace(told, cpus=self._cpus_of(grant))
                found.append(Change(container_id=container_id, before=told, after=after))
        return tuple(found)

    def told_so_far(self) -> ToldSoFar:
        """Pinnings that were told until this moment, and those yet to be told. O(containers)."""
        return ToldSoFar(dict(self._told), self._marked.copy(), self._masks, self._cpus)

    def resume(self, so_far: ToldSoFar) -> None:
        """Go on from there: the same was told, and the same is yet to be told."""
        self._told.clear()
        self._told.update(so_far.told)
        self._marked, self._masks = dict(so_far.marked), list(so_far.masks)
        self._cpus, self._version = so_far.pool_cpus, -1
        self._widened.clear()

    def catch_up(self) -> tuple[Change, ...]:
        """Tell everybody on shared cpus which they are, whatever was told. O(grants)."""
        self._marked |= dict.fromkeys(self._ledger.grants)
        return self.changes()

    def _refresh(self) -> list[PoolId]:
        """The pools whose shared cpus are others than at the last call.

        O(pools) where anybody took sharable cpus or gave some back, else O(1).
        """
        if self._version == self._ledger.sharable_version:
            return []
        self._version = self._ledger.sharable_version
        before, self._masks = self._masks, self._effective()
        self._widened.clear()
        # In C, as a large machine has hundreds of pools, and the cpus of few are others.
        found = [*compress(self._ids, map(ne, before, self._masks))]
        shared = [*self._cpus.shared]
        for pool_id in found:
            shared[pool_id] = CpuSet(self._masks[pool_id])
        self._cpus = self._standing(shared)
        return found

    def _standing(self, shared: Sequence[CpuSet]) -> PoolCpus:
        return PoolCpus(
            shared=tuple(shared), reserved=self._reserved or shared[-1], cores=self._cores
        )

    def _effective(self) -> list[int]:
        """Masks of each pool's free sharable cpus; without any, those of the nearest ancestor.

        Writing an empty cpuset would change nothing in the kernel and leave a container on every
        cpu, those of exclusive containers too.
        """
        found = list(self._ledger.free_sharable)
        root = self._ledger.tree.root
        found[-1] = found[-1] or self._reserved.mask or root.cpus.mask
        # In C, as above: few pools of a large machine have no cpus left. Parents come first.
        for pool_id in reversed([*compress(self._ids, map(not_, found))]):
            parent = self._parents[pool_id]
            assert parent is not None
            found[pool_id] = found[parent]
        return found

    def pinning(self, grant: Grant) -> Pinning:
        """The pinning of a container of this grant."""
        has_mems = self._config.pin_memory and not grant.preserve_memory and grant.memory.mask
        cpus_of = self._cpus.of if grant.idle_level is None else self._cpus_of
        return Pinning(
            cpus=cpus_of(grant) if self._config.pin_cpu else None,
            mems=grant.memory if has_mems else None,
        )

    def _cpus_of(self, grant: Grant) -> CpuSet | None:
        """The cpus that a grant stands for, and the idle ones that its container may use."""
        cpus = self._cpus.of(grant)
        if grant.idle_level is None or cpus is None:
            return cpus
        level = self._idle.level_of(grant)
        if level is None:
            return cpus
        key = grant.pool_id, level, grant.hide_hyperthreads
        known = self._widened.get(key)
        if known is None:
            idle = self._cpus.shared[-1].mask & self._idle.around(grant.pool_id, level)
            mask = cpus.mask | idle
            wider = self._cores.lowest_members(mask) if grant.hide_hyperthreads else mask
            known = self._widened[key] = cpus if mask == cpus.mask else CpuSet(wider)
        return known

    def _usable(self, grant: Grant) -> int:
        """A mask of the cpus that a container may stay on, whatever became idle meanwhile."""
        cpus = self._cpus_of(grant)
        if cpus is None:
            return -1
        # A hyperthread that became idle may come before the one of its core that was told.
        mask = self._cores.covering(cpus.mask) if grant.hide_hyperthreads else cpus.mask
        # Reserved cpus are no idle ones: who is adopted on them was left nothing else.
        return mask | self._reserved.mask
