"""What the kernel is told: from grants to cpusets and memory sets."""

from collections.abc import Iterator
from dataclasses import replace

from ...topology.sets.cpuset import CpuSet, NodeSet
from ..configuration.config import Config
from ..cpus.cpu_blocks import CpuBlocks
from ..cpus.smt import hide_siblings
from ..model.container import ContainerId
from ..model.decision import Change, Grant, Pinning
from ..model.request import CpuType
from ..pools.pool_tree import PoolId
from .cpu_ledger import Ledger


class Pinner:
    """Turns grants into pinnings, and remembers what the kernel was told about each container."""

    def __init__(self, ledger: Ledger, config: Config, cores: CpuBlocks) -> None:
        """`cores`: the online threads of every core."""
        self._ledger = ledger
        self._config = config
        self._cores = cores
        self._parents = [pool.parent for pool in ledger.tree.pools]
        self._reserved = ledger.tree.root.reserved.mask
        self._shared = self._effective()
        self._told: dict[ContainerId, Pinning] = {}
        self._marked: dict[ContainerId, None] = {}

    def told(self, container_id: ContainerId) -> Pinning | None:
        """What the kernel was told last; None for a container it was told nothing of."""
        return self._told.get(container_id)

    def note(self, container_id: ContainerId, pinning: Pinning) -> None:
        """The kernel has been told this."""
        self._told[container_id] = pinning

    def forget(self, container_id: ContainerId) -> None:
        """The container is gone, or holds nothing."""
        self._told.pop(container_id, None)
        self._marked.pop(container_id, None)

    def mark(self, container_id: ContainerId) -> None:
        """Something else than its pool's shared cpus changed for a container."""
        self._marked[container_id] = None

    def changes(self, subject: ContainerId | None = None) -> tuple[Change, ...]:
        """Who must be told something else than last time, and what; noted as told.

        `subject` is left out: its own pinning goes another way. O(pools + containers concerned).
        """
        concerned = self._marked
        self._marked = {}
        for pool_id in self._refresh():
            concerned |= dict.fromkeys(self._ledger.sharing(pool_id))
        if subject is not None:
            concerned.pop(subject, None)
        found: list[Change] = []
        for container_id in concerned:
            before = self._told[container_id]
            after = self.pinning(self._ledger.grants[container_id])
            if before != after:
                found.append(Change(container_id=container_id, before=before, after=after))
                self._told[container_id] = after
        return tuple(found)

    def drain(self) -> None:
        """Take the present state as told: nobody is updated for what changed until here.

        But for those who were told cpus that belong to another container: they have to leave them.
        """
        self._marked = {}
        for _ in self._refresh():
            pass
        grants = self._ledger.grants
        taken = 0
        for grant in grants.values():
            taken |= grant.exclusive.mask
        for container_id, grant in grants.items():
            told = self._told[container_id]
            if told.cpus is not None and told.cpus.mask & taken & ~grant.exclusive.mask:
                self._told[container_id] = replace(told, cpus=self.cpus(grant))

    def catch_up(self) -> tuple[Change, ...]:
        """Tell everybody on shared cpus which they are by now, whatever was told. O(grants)."""
        self._marked |= dict.fromkeys(self._ledger.grants)
        return self.changes()

    def _refresh(self) -> Iterator[PoolId]:
        """The pools whose shared cpus are others than at the last call. O(pools)."""
        before, self._shared = self._shared, self._effective()
        for pool_id, (old, new) in enumerate(zip(before, self._shared, strict=True)):
            if old != new:
                yield PoolId(pool_id)

    def _effective(self) -> list[int]:
        """Each pool's free sharable cpus; where there are none, those of the nearest ancestor.

        Writing an empty cpuset would change nothing in the kernel and leave a container on every
        cpu, those of exclusive containers too.
        """
        free = self._ledger.free_sharable
        found = list(free)
        found[-1] = free[-1] or self._reserved or self._ledger.tree.root.cpus.mask
        for pool_id in range(len(found) - 2, -1, -1):
            if not found[pool_id]:
                parent = self._parents[pool_id]
                assert parent is not None
                found[pool_id] = found[parent]
        return found

    def pinning(self, grant: Grant) -> Pinning:
        """What the kernel should be told about a container of this grant."""
        return Pinning(
            cpus=self.cpus(grant) if self._config.pin_cpu else None,
            mems=self._mems(grant),
        )

    def _mems(self, grant: Grant) -> NodeSet | None:
        if not self._config.pin_memory or grant.preserve_memory or not grant.memory:
            return None
        return grant.memory

    def cpus(self, grant: Grant) -> CpuSet | None:
        """The cpus a grant stands for, pinned or not; None where they are not ours to choose."""
        if grant.cpu_type is CpuType.PRESERVE:
            return None
        if grant.cpu_type is CpuType.RESERVED:
            mask = self._reserved or self._shared[-1]
        else:
            mask = grant.exclusive.mask
            if grant.has_shared_part:
                mask |= self._shared[grant.pool_id]
        if grant.hide_hyperthreads:
            mask = hide_siblings(mask, self._cores)
        return CpuSet(mask)
