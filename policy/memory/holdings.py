"""Holders of memory and their zones: the state of a memory ledger, and every change of it."""

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from ...topology.model.machine import MemoryKind
from ...topology.sets.cpuset import NodeSet
from ..model.container import ContainerId
from ..model.grant import Refusal
from .held_memory import HeldMemory
from .memory_nodes import MemoryNodes
from .memory_zones import Holding, Zone, Zones
from .observed_memory import ObservedMemory
from .offers import MemoryRequest

_MASK_OF: Final[Callable[[Zone], int]] = attrgetter("mask")


class Holdings:
    """All containers with memory, their zones, and the sums that follow."""

    def __init__(self, nodes: MemoryNodes) -> None:
        self.nodes = nodes
        self.zones = Zones(nodes)
        self.observed: ObservedMemory | None = None
        self.grown: dict[ContainerId, None] = {}
        """Containers that hold more nodes than they would with plenty of memory."""
        self.holders: dict[ContainerId, Holding] = {}
        """Holdings by container; nobody else changes them."""
        self.version: int = 0
        """Another number after each change."""
        self._zone_of: dict[ContainerId, Zone] = {}
        self._sequence = 0
        self._starts: dict[tuple[int, frozenset[MemoryKind], bool, bool], tuple[int, int]] = {}
        """Kinds and initial zones by what decides them, as masks: most requests are alike there."""
        self._latest: Holding | None = None
        """The newcomer that was made ready last: an offer is made of it, and then taken."""

    def place_of(self, container_id: ContainerId) -> Zone:
        """The zone of a container. Raises `KeyError` for an unknown one."""
        return self._zone_of[container_id]

    def nodes_of(self, request: MemoryRequest) -> MemoryNodes:
        """The nodes whose memory a request may have."""
        return self.nodes if request.may_use_reserved else self.nodes.ordinary

    def bound_to(self, nodes: MemoryNodes) -> int:
        """Bytes of all that can be nowhere but on these nodes, however containers move."""
        if nodes is self.nodes:
            return self.zones.usage(nodes.with_memory)
        return sum(one.size for one in self.holders.values() if self.nodes_of(one.request) is nodes)

    def holding(self, request: MemoryRequest) -> Holding | Refusal:
        """A request made ready: its kinds and its initial zone; or why there is none."""
        latest = self._latest
        if latest is not None and latest.request is request and latest.sequence == self._sequence:
            return latest
        kinds, initial = self._start(
            request.affinity.mask, request.types, request.may_use_reserved, request.is_strict
        )
        if not initial:
            return self._no_zone(request)
        ready = self._make(request, kinds, initial)
        self._latest = None if request.container_id in self.holders else ready
        return ready

    def _start(
        self, affinity: int, types: frozenset[MemoryKind], may_use_reserved: bool, is_strict: bool
    ) -> tuple[int, int]:
        """The kinds of memory and the initial zone of a request, as masks; 0 where it has none."""
        key = affinity, types, may_use_reserved, is_strict
        known = self._starts.get(key)
        if known is None:
            nodes = self.nodes.open_to(may_use_reserved)
            kinds = nodes.kinds_mask(types)
            initial = nodes.initial_zone(affinity, kinds, is_strict)
            kinds = kinds & nodes.kinds_present or nodes.kinds(initial)
            known = self._starts[key] = kinds, initial
        return known

    def holding_in(self, request: MemoryRequest, mask: int) -> Holding:
        """A request made ready for exactly this zone, where it has no zone of its own."""
        ready = self.holding(request)
        if isinstance(ready, Holding):
            return ready
        return self._make(request, self.nodes_of(request).kinds(mask), mask)

    def initial_zone(
        self, affinity: int, types: frozenset[MemoryKind], may_use_reserved: bool
    ) -> Zone | None:
        """The zone of a request that is not strict while memory is plenty; None if there is none.

        `affinity`: a mask of nodes. The zone stays the same for the life of the ledger.
        """
        _, mask = self._start(affinity, types, may_use_reserved, is_strict=False)
        return self.zones.zone(mask) if mask else None

    def place(self, holding: Holding, mask: int) -> None:
        """Put a container into a zone, out of the one it was in; a new one is the youngest."""
        one, zone = holding.request.container_id, self.zones.zone(mask)
        known = self.holders.get(one)
        is_back = False
        if known is not None:
            before = self._zone_of[one]
            is_back = mask != before.mask and not mask & ~before.mask
            self.zones.take(known, before)
        self.zones.put(holding, zone)
        self.holders[one] = holding
        self._zone_of[one] = zone
        self._sequence = max(self._sequence, holding.sequence + 1)
        if _has_grown(holding, mask):
            self.grown[one] = None
        else:
            self.grown.pop(one, None)
        if self.observed is None:
            return
        if known is None:
            self.observed.begin(one, zone, holding.request.size_bytes)
        else:
            # Who goes back to fewer nodes brings along what it uses of the others.
            more = holding.most if is_back else holding.size - known.size
            self.observed.grant(one, zone, more)

    def place_running(self, holding: Holding, mask: int) -> None:
        """Put a container into the zone it runs in: its use shows in the free memory already."""
        observed, self.observed = self.observed, None
        try:
            self.place(holding, mask)
        finally:
            self.observed = observed

    def drop(self, container_id: ContainerId) -> None:
        """Release all that a container holds."""
        holding = self.holders.pop(container_id)
        self.zones.take(holding, self._zone_of.pop(container_id))
        self.grown.pop(container_id, None)
        if self.observed is not None:
            self.observed.release(container_id)

    def snapshot(self) -> HeldMemory:
        """The memory held by all containers. Cost O(containers)."""
        sums = self.zones.sums()
        return HeldMemory(
            nodes=self.nodes,
            # Container by container in C: each look at the policy waits for it.
            holders=tuple(self.holders.values()),
            zones=tuple(map(_MASK_OF, self._zone_of.values())),
            sequence=self._sequence,
            sums=sums,
            wide=tuple([one for mask, one in sums.items() if mask & (mask - 1)]),
        )

    def restore(self, state: HeldMemory) -> None:
        """Hold again what was held at a snapshot of this ledger, and nothing else."""
        for container_id in tuple(self.holders):
            self.drop(container_id)
        for holding, mask in state.holdings:
            self.place_running(holding, mask)
        self._sequence = state.sequence
        self.version += 1

    def check(self) -> None:
        """Assert that all sums and indices are what a fresh count says. For tests."""
        self.zones.check()
        assert list(self.holders) == list(self._zone_of)
        for one, zone in self._zone_of.items():
            holding = self.holders[one]
            assert zone.users.get(one) is holding, f"{one}: not a user of its zone"
            assert (one in self.grown) == _has_grown(holding, zone.mask)
            assert holding.sequence < self._sequence
            assert not zone.mask & ~self.nodes_of(holding.request).with_memory
        assert len(self.holders) == sum(len(zone.users) for zone in self.zones.used())

    def _make(self, request: MemoryRequest, kinds: int, initial: int) -> Holding:
        known = self.holders.get(request.container_id)
        sequence = self._sequence if known is None else known.sequence
        return Holding(request=request, kinds=kinds, initial=initial, sequence=sequence)

    def _no_zone(self, request: MemoryRequest) -> Refusal:
        affinity = request.affinity
        unknown = NodeSet(affinity.mask & ~self.nodes.known)
        if not affinity:
            what = "no node to be near to — name at least one node with memory"
        elif unknown:
            what = f"no such node: {unknown} — the nodes are {NodeSet(self.nodes.known)}"
        else:
            types = ", ".join(sorted(kind.value for kind in request.types))
            what = f"the machine lacks usable memory of type {types!r} — ask for another type"
        return Refusal(reason=f"memory: {what}")


def _has_grown(holding: Holding, mask: int) -> bool:
    return mask != holding.initial and not holding.initial & ~mask
