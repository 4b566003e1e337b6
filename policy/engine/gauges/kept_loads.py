"""Loads of cpus, pools and memory nodes, kept up to date from one snapshot to the next."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ....topology.model.machine import Machine
from ....topology.sets.cpuset import bit_runs
from ...model.container import ContainerId
from ...model.grant import Grant
from ...model.pinning import Pinning
from ...model.request import CpuType
from ..snapshot import Snapshot, changed_ids
from .value_runs import ValueRuns

_FRACTION_BITS: Final = 30
"""Of shares of cpus, which are summed as integers: so differences leave no remainder."""
_WHOLE: Final = 1 << _FRACTION_BITS


class PoolLoads(Struct, frozen=True):
    """Loads of exactly each pool, those inside it left out. By pool id."""

    containers: Sequence[int]
    """Containers placed there."""
    sharing: Sequence[int]
    """Placed containers that run on sharable or reserved cpus."""
    promised_milli: Sequence[int]
    """Milli-cpus promised to these; reserved cpus count for the root, wherever a grant is."""


def pool_loads(snapshot: Snapshot) -> PoolLoads:
    """The loads of all pools in one snapshot. O(containers + pools)."""
    loads = KeptLoads(snapshot.machine, len(snapshot.tree.pools))
    loads.follow(snapshot)
    return loads.pool_loads(snapshot)


class KeptLoads:
    """The loads in one snapshot after the other, of one pool tree and machine. For one thread.

    Those of containers alone are looked at to which something happened in between.
    """

    def __init__(self, machine: Machine, pools: int) -> None:
        """`pools`: their number."""
        self._online = machine.online.mask
        self._grants: Mapping[ContainerId, Grant] = {}
        self._told: Mapping[ContainerId, Pinning] = {}
        self._held: dict[ContainerId, _Held] = {}
        self._unsure: set[ContainerId] = set()
        """Containers that were told no cpus: theirs change while they stay as they are."""
        self._containers = [0] * pools
        self._sharing = [0] * pools
        self._promised_milli = [0] * pools
        self.nodes: Final = Counter[int]()
        """By mask of memory nodes the number of containers that may use exactly these."""
        self._users: dict[int, tuple[int, int]] = {}
        """By mask of cpus: how many containers run on exactly these, and their milli-cpus."""
        # Differences at the ends of each run of cpus, whose sums are the values: sets have few
        # runs, and a thousand containers on thousands of cpus would be millions of additions.
        length = self._online.bit_length() + 1
        self._parts, self._counts = [0] * length, [0] * length

    def follow(self, snapshot: Snapshot, pause: Callable[[], None] = lambda: None) -> None:
        """Take over what changed. O(containers + runs of cpusets that changed).

        `pause` is called often.
        """
        grants, told = snapshot.grants, snapshot.pinnings
        gone = self._grants.keys() - grants.keys()
        news = {
            *changed_ids(self._grants, grants, grants),
            *changed_ids(self._told, told, grants),
        }
        self._grants, self._told = grants, told
        held, moved = self._held, dict[int, list[int]]()
        for container_id in (*gone, *news, *(self._unsure - news - gone)):
            pause()
            before, grant = held.get(container_id), grants.get(container_id)
            after = None if grant is None else self._look(snapshot, grant, before)
            # As a rule only the shared cpus of its pool are others than before.
            if before is None or after is None or not before.is_placed_as(after):
                self._place(before, -1)
                self._place(after, 1)
            if before is not None:
                _count(moved, before, -1)
            if after is None:
                del held[container_id]
            else:
                held[container_id] = after
                _count(moved, after, 1)
        self._unsure -= gone
        for mask, (count, milli) in moved.items():
            pause()
            if mask:
                self._use(mask, count, milli)

    def pool_loads(self, snapshot: Snapshot) -> PoolLoads:
        """The loads of the pools in the snapshot that was followed last. O(pools + pens)."""
        promised = list(self._promised_milli)
        for pen in snapshot.pens.values():
            if pen.cpu_type is CpuType.RESERVED:
                promised[-1] += pen.shared_milli
            elif pen.has_shared_part:
                promised[pen.pool_id] += pen.shared_milli
        return PoolLoads(list(self._containers), list(self._sharing), promised)

    def allocated_milli(self) -> ValueRuns:
        """The milli-cpus asked for of each cpu; by cpu."""
        found = ValueRuns.of_steps(self._parts)
        return ValueRuns([one / _WHOLE for one in found.values], found.lengths)

    def container_counts(self) -> ValueRuns:
        """The number of containers that may run on each cpu; by cpu."""
        return ValueRuns.of_steps(self._counts)

    def _look(self, snapshot: Snapshot, grant: Grant, before: "_Held | None") -> "_Held":
        container_id = grant.container_id
        told = snapshot.pinnings.get(container_id)
        # Masks: whether a set is empty is asked by a call of Python.
        cpus = 0 if told is None or told.cpus is None else told.cpus.mask
        nodes = 0 if told is None or told.mems is None else told.mems.mask
        if cpus:
            self._unsure.discard(container_id)
        else:
            self._unsure.add(container_id)
            known = snapshot.cpus_of(container_id)
            cpus = 0 if known is None else known.mask
        return _Held(
            grant=grant,
            cpus=cpus,
            milli=before.milli if before is not None and before.grant is grant else _milli(grant),
            # Where preserved memory is, nobody knows.
            nodes=0 if grant.preserve_memory else nodes or grant.memory.mask,
        )

    def _place(self, held: "_Held | None", times: int) -> None:
        """Count what a container has but cpus; -1 times: no longer."""
        if held is None:
            return
        grant = held.grant
        pool_id = grant.pool_id
        self._containers[pool_id] += times
        if grant.cpu_type is CpuType.RESERVED:
            self._sharing[pool_id] += times
            self._promised_milli[-1] += times * grant.shared_milli
        elif grant.has_shared_part:
            self._sharing[pool_id] += times
            self._promised_milli[pool_id] += times * grant.shared_milli
        if held.nodes:
            self.nodes[held.nodes] += times
            if not self.nodes[held.nodes]:
                # There are many sets of nodes, of which few are in use at a time.
                del self.nodes[held.nodes]

    def _use(self, mask: int, count: int, milli: int) -> None:
        """So many more containers, with so many milli-cpus, run on exactly these cpus."""
        old_count, old_milli = self._users.pop(mask, (0, 0))
        if old_count + count:
            self._users[mask] = (old_count + count, old_milli + milli)
        size = mask.bit_count()
        part = _part(old_milli + milli, size) - _part(old_milli, size)
        if part or count:
            parts, counts = self._parts, self._counts
            for first, end in bit_runs(mask & self._online):
                parts[first] += part
                parts[end] -= part
                counts[first] += count
                counts[end] -= count


class _Held(Struct, frozen=True, kw_only=True, gc=False):
    grant: Grant
    cpus: int
    """A mask; 0 where nobody knows."""
    milli: int
    """The milli-cpus that it asked for."""
    nodes: int
    """A mask, likewise."""

    def is_placed_as(self, other: "_Held") -> bool:
        """Whether it differs from another one in the cpus on which it runs, at most."""
        return self.grant is other.grant and self.nodes == other.nodes


def _count(moved: dict[int, list[int]], held: _Held, times: int) -> None:
    """Count a container, and its milli-cpus, among those of its mask; -1 times: no longer."""
    # In a list that is changed: to look up a mask of thousands of cpus takes longer than the rest.
    found = moved.get(held.cpus)
    if found is None:
        found = moved[held.cpus] = [0, 0]
    found[0] += times
    found[1] += times * held.milli


def _milli(grant: Grant) -> int:
    """The milli-cpus that a container asked for."""
    return 1000 * grant.exclusive.mask.bit_count() + grant.shared_milli


def _part(milli: int, cpus: int) -> int:
    return (milli << _FRACTION_BITS) // cpus
