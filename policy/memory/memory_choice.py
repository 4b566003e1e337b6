"""The memory a request would get from each pool, one look per distinct set of nodes."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from ...topology.drawing.machine_tree import bytes_text
from ...topology.model.machine import MemoryKind
from ...topology.sets.cpuset import NodeSet
from ..model.container import QosClass
from ..model.grant import Dropped, Grant, PoolId, Refusal
from ..model.hint import HintOrigin
from ..model.request import CpuType, Request
from ..pools.pool_masks import Pools, grades
from ..pools.pool_tree import PoolTree
from .memory_ledger import MemoryLedger
from .memory_zones import Zone
from .offers import MemoryPriority, MemoryRequest, Offer

_PRIORITIES = {
    QosClass.BEST_EFFORT: MemoryPriority.BEST_EFFORT,
    QosClass.BURSTABLE: MemoryPriority.BURSTABLE,
    QosClass.GUARANTEED: MemoryPriority.GUARANTEED,
}

_ANY_KIND: Final = frozenset[MemoryKind]()


class _Nodes(NamedTuple):
    """What never changes about the nodes a request starts from."""

    affinity: NodeSet
    initial: Zone | None
    """What a request gets that fits at once."""
    usual: "ZoneSummary"
    """The properties of that, where no limit is greater than the memory there is."""
    capacity: int
    lacks_kind: bool
    """A kind asked for is not among them."""
    is_foreign: bool
    """None of the kinds asked for is among them, and elsewhere there is some."""


class _Start(NamedTuple):
    """Where requests for some kinds of memory start in every pool."""

    wanted: tuple[int, ...]
    """For each of `nodes` the kinds a zone should have."""
    nodes: tuple[_Nodes, ...]
    """Each distinct set of nodes once."""
    of_pool: tuple[int, ...]
    """By pool id the index into `nodes`."""
    initial: tuple[Zone, ...]
    """The initial zones of `nodes`; empty where not all have one."""
    usual: "tuple[ZoneSummary, ...]"
    """By pool id the zone where a request fits at once everywhere."""
    usual_node_grades: tuple[Pools, ...]
    """The pools by the number of nodes in these zones, fewest first."""
    is_usual_exact: bool
    """Whether all of these are of exactly the kinds asked for, and no pool lacks one."""
    capacity_min: int
    """The smallest capacity among `nodes`."""
    may_use_reserved: bool


class ZoneSummary(NamedTuple):
    """Properties of the memory zone a pool would give, as far as they rank it."""

    mask: int
    node_count: int
    is_exact: bool = True
    """It has exactly the kinds of memory asked for."""
    is_below_limit: bool = False
    """The pool's memory of these kinds is smaller than the container's limit."""
    lacks_kind: bool = False
    """A kind asked for is not among the pool's nodes."""


class PoolMemory:
    """The memory nodes of every pool of a tree, by the kinds a request asks for."""

    def __init__(self, tree: PoolTree, ledger: MemoryLedger) -> None:
        """Reads the ledger, never changes it."""
        self._pools = tree.pools
        self._ledger = ledger
        self._starts: dict[tuple[frozenset[MemoryKind] | None, int, bool], _Start] = {}

    def choice(self, request: Request) -> "MemoryChoice":
        """The choice of memory for one request."""
        types = None if request.preserve_memory else request.memory_kinds
        hinted = _hinted_nodes(request) if request.hints else 0
        # Where preserved memory is, nobody knows: it may be on reserved nodes as well.
        may_use_reserved = request.preserve_memory or request.cpu_type is CpuType.RESERVED
        key = (types, hinted, may_use_reserved)
        start = self._starts.get(key)
        if start is None:
            start = self._starts[key] = self._start(*key)
        return MemoryChoice(request, start, self._ledger, request.spreads_memory)

    def _start(
        self, types: frozenset[MemoryKind] | None, hinted: int, may_use_reserved: bool
    ) -> _Start:
        """Preserved memory (None) may be anywhere; else the pool's nodes of the types wanted.

        The `hinted` nodes alone, where a pool has all of them and they are of exactly these types.
        Who may use reserved memory has it in the root pool.
        """
        nodes = self._ledger.nodes.open_to(may_use_reserved)
        kinds = 0 if types is None else nodes.kinds_mask(types)
        wanted = nodes.of_kinds(kinds) or nodes.with_memory
        masks = [pool.memory_nodes.mask for pool in self._pools]
        masks[-1] |= nodes.with_memory & ~self._ledger.nodes.ordinary.with_memory
        if types is None:
            masks = [masks[-1]] * len(masks)
        affinities = [mask & wanted or mask for mask in masks]
        if hinted and nodes.kinds(hinted) == kinds & nodes.kinds_present:
            pairs = zip(masks, affinities, strict=True)
            affinities = [one if hinted & ~mask else hinted for mask, one in pairs]
        distinct = list(dict.fromkeys(affinities))
        targets = [kinds & nodes.kinds_present or nodes.kinds(one) for one in distinct]
        starts: list[_Nodes] = []
        for one, target in zip(distinct, targets, strict=True):
            initial = self._ledger.initial_zone(one, types or _ANY_KIND, may_use_reserved)
            is_foreign, lacks_kind = not one & wanted, bool(target & ~nodes.kinds(one))
            mask = initial.mask if initial is not None else 0
            is_exact = not is_foreign and self._ledger.nodes.kinds(mask) == target
            usual = ZoneSummary(mask, mask.bit_count(), is_exact, lacks_kind=lacks_kind)
            if types is None:
                usual = ZoneSummary(mask, mask.bit_count())
            starts.append(
                _Nodes(
                    affinity=NodeSet(one),
                    initial=initial,
                    usual=usual,
                    capacity=nodes.capacity(one),
                    lacks_kind=lacks_kind,
                    is_foreign=is_foreign,
                )
            )
        of_pool = tuple(distinct.index(one) for one in affinities)
        initials = tuple(one.initial for one in starts if one.initial is not None)
        usual_by_pool = tuple([starts[index].usual for index in of_pool])
        return _Start(
            wanted=tuple(targets),
            nodes=tuple(starts),
            of_pool=of_pool,
            initial=initials if len(initials) == len(starts) else (),
            usual=usual_by_pool,
            usual_node_grades=grades([one.node_count for one in usual_by_pool]),
            is_usual_exact=all(one.usual.is_exact and not one.usual.lacks_kind for one in starts),
            capacity_min=min(one.capacity for one in starts),
            may_use_reserved=may_use_reserved,
        )


def _hinted_nodes(request: Request) -> int:
    """The nodes of the devices the kubelet gave, where memory goes by them; else none."""
    if not request.pick_by_hints:
        return 0
    mask = 0
    for hint in request.hints:
        if hint.origin is HintOrigin.POD_RESOURCES:
            mask |= hint.numa_nodes.mask
    return mask


class MemoryChoice(Struct):
    """The zones one request would get; every distinct set of nodes is looked at once."""

    _request: Request
    _start: _Start
    _ledger: MemoryLedger
    _is_spread: bool
    _offers: dict[int, Offer] = field(default_factory=dict[int, Offer])
    """By the mask of the nodes to be near to."""
    _roomy_version: int | None = None
    """The version of the ledger at which the initial zones of all nodes were seen to have room."""

    def zones(self) -> Sequence[ZoneSummary | Dropped]:
        """Zones by pool id: the one the request would get, or why none. O(pools)."""
        request, start = self._request, self._start
        limit, size = request.memory_limit_bytes, request.memory_bytes
        if (
            start.initial
            and not request.hugepage_bytes
            and (limit is None or limit in (size, 0) or limit <= start.capacity_min)
            and self._ledger.have_room(start.initial, size)
        ):
            self._roomy_version = self._ledger.version
            return start.usual
        found = [self._look(index) for index in range(len(self._start.nodes))]
        return [found[index] for index in self._start.of_pool]

    def are_usual(self, zones: Sequence[ZoneSummary | Dropped]) -> TypeGuard[Sequence[ZoneSummary]]:
        """Whether these are the zones of a request that fits at once, and nothing ranks them."""
        return zones is self._start.usual and self._start.is_usual_exact

    @property
    def usual_node_grades(self) -> Sequence[Pools]:
        """All pools by the number of nodes in the zones of such a request, fewest first."""
        return self._start.usual_node_grades

    def zone(self, pool_id: PoolId) -> ZoneSummary | Dropped:
        """The zone the request would get from one pool, or why none."""
        return self._look(self._start.of_pool[pool_id])

    def offer(self, pool_id: PoolId) -> Offer:
        """The offer behind a zone. Only for pools that have one.

        A container whose memory is spread gets all nodes instead, where those have room.
        """
        ledger, start = self._ledger, self._start
        if self._roomy_version == ledger.version:
            nodes = start.nodes[start.of_pool[-1 if self._is_spread else pool_id]]
            assert nodes.initial is not None, "room was seen in the initial zones of all nodes"
            request = self._memory_request(nodes.affinity)
            return Offer(request=request, zone=nodes.initial.nodes, version=ledger.version)
        if self._is_spread:
            spread = ledger.offer(self.request_at(pool_id))
            if isinstance(spread, Offer):
                return spread
        affinity = start.nodes[start.of_pool[pool_id]].affinity
        known = self._offers.get(affinity.mask)
        if known is not None:
            return known
        offer = ledger.offer(self._memory_request(affinity))
        assert isinstance(offer, Offer), (self._request.container_id, pool_id)
        return offer

    def offer_back(self, held: Grant) -> Offer:
        """The offer in the pool that a container had before its restart: the same nodes if it may.

        As long as those have room, and it does not need fewer of them, as it asks for less. A cold
        start begins anew, and what is spread goes everywhere.
        """
        found, request = self.offer(held.pool_id), self._request
        if found.zone == held.memory or found.request is None or self._is_spread:
            return found
        if request.cold_start_ns or request.preserve_memory:
            return found
        if request.memory_bytes < held.memory_bytes and found.zone <= held.memory:
            return found
        return self._ledger.offer_in(found.request, held.memory) or found

    def offer_again(self, held: Grant) -> Offer:
        """The memory that a container had before its restart, though that is too much today."""
        wanted, ledger = self.request_at(held.pool_id), self._ledger
        usable = ledger.nodes.open_to(wanted.may_use_reserved).with_memory
        nodes = held.memory.mask
        if wanted.is_spread:
            kinds = ledger.nodes.of_kinds(ledger.nodes.kinds_mask(wanted.types))
            nodes |= wanted.affinity.mask & kinds
        zone = NodeSet(nodes & usable or usable)
        return Offer(request=wanted, zone=zone, version=ledger.version)

    def resize(self, held: Grant) -> Offer | Refusal | None:
        """Another amount of memory for a container that has some, in the same place if it fits.

        None where it asks for what it has. Another limit alone moves nobody.
        """
        ledger = self._ledger
        known = ledger.request_of(held.container_id)
        if known is None:
            return ledger.offer(self.request_at(held.pool_id), replaces=held.container_id)
        request = self._request_after(known)
        if (request.size_bytes, request.hugepage_bytes) != (known.size_bytes, known.hugepage_bytes):
            return ledger.offer(request, replaces=held.container_id)
        return None if request.limit_bytes == known.limit_bytes else ledger.kept(request)

    def follow(self, held: Grant, pool_id: PoolId) -> Offer | Refusal | None:
        """An offer for a container whose exclusive cpus are chosen anew in a pool: near to these.

        Where memory is short there it keeps nodes that it has, and those with its huge pages
        anyway: these do not move.
        """
        ledger, known = self._ledger, self._ledger.request_of(held.container_id)
        wanted = self.request_at(pool_id)
        wanted = wanted if known is None else replace(wanted, types=known.types)
        near = ledger.initial_zone(wanted.affinity.mask, wanted.types, wanted.may_use_reserved)
        if near is None or not near.mask & ~held.memory.mask:
            return self.resize(held)
        if not wanted.hugepage_bytes:
            found = ledger.offer(wanted, replaces=held.container_id)
            if isinstance(found, Offer):
                return found
        found = self.resize(held) or ledger.kept(wanted)
        if isinstance(found, Refusal):
            return found
        return replace(found, request=wanted, zone=found.zone | near.nodes)

    def resize_anyway(self, held: Grant) -> Offer | None:
        """An offer for a resized container, its nodes of now included where there is no room."""
        found, known = self.resize(held), self._ledger.request_of(held.container_id)
        if known is None or not isinstance(found, Refusal):
            return None if isinstance(found, Refusal) else found
        return self._ledger.kept(self._request_after(known))

    def request_at(self, pool_id: PoolId) -> MemoryRequest:
        """The request to the ledger for a pool, or for the root where memory is spread."""
        index = self._start.of_pool[-1 if self._is_spread else pool_id]
        return self._memory_request(self._start.nodes[index].affinity)

    def _request_after(self, known: MemoryRequest) -> MemoryRequest:
        # The kinds too: a cold start that is over does not begin again.
        return replace(self._memory_request(known.affinity), types=known.types)

    def _look(self, index: int) -> ZoneSummary | Dropped:
        request, ledger = self._request, self._ledger
        nodes = self._start.nodes[index]
        initial = nodes.initial
        if (
            initial is not None
            and not request.hugepage_bytes
            and ledger.has_room(initial, request.memory_bytes)
        ):
            if request.memory_limit_bytes in (None, request.memory_bytes):
                return nodes.usual
            mask = initial.mask
        else:
            offer = ledger.offer(self._memory_request(nodes.affinity))
            if not isinstance(offer, Offer):
                return self._no_memory()
            self._offers[nodes.affinity.mask] = offer
            mask = offer.zone.mask
        if request.preserve_memory:
            return ZoneSummary(mask, mask.bit_count())
        limit = request.memory_limit_bytes
        return ZoneSummary(
            mask=mask,
            node_count=mask.bit_count(),
            is_exact=not nodes.is_foreign and ledger.nodes.kinds(mask) == self._start.wanted[index],
            is_below_limit=limit is not None
            and limit != request.memory_bytes
            and nodes.capacity < limit,
            lacks_kind=nodes.lacks_kind,
        )

    def _no_memory(self) -> Dropped:
        """The reason of every pool: a zone can be widened to all nodes, so all are full."""
        usable = self._ledger.nodes.open_to(self._start.may_use_reserved)
        nodes = NodeSet(usable.with_memory)
        for size, wanted in sorted(self._request.hugepage_bytes.items()):
            left = self._ledger.free_page_bytes(size, nodes)
            if wanted > left:
                available = f"{bytes_text(left)} on nodes {nodes}" if left else "none"
                return Dropped(f"huge pages of {bytes_text(size)}", bytes_text(wanted), available)
        free = self._ledger.free(nodes)
        available = "unknown" if free is None else bytes_text(max(free, 0))
        return Dropped(
            "memory", bytes_text(self._request.memory_bytes), f"{available} on nodes {nodes}"
        )

    def _memory_request(self, affinity: NodeSet) -> MemoryRequest:
        request = self._request
        priority, types = _PRIORITIES[request.qos], request.memory_kinds
        if request.preserve_memory:
            # Where its memory is, nobody knows: it counts against all nodes.
            priority, types = MemoryPriority.PRESERVED, _ANY_KIND
        return MemoryRequest(
            container_id=request.container_id,
            affinity=affinity,
            size_bytes=request.memory_bytes,
            limit_bytes=request.memory_limit_bytes or 0,
            types=types,
            priority=priority,
            keeps_near=request.is_strict,
            is_spread=self._is_spread,
            may_use_reserved=self._start.may_use_reserved,
            hugepage_bytes=request.hugepage_bytes,
        )
