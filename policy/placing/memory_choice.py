"""The memory a request would get from each pool, one look per distinct set of nodes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ...topology.drawing.machine_tree import bytes_text
from ...topology.model.machine import MemoryKind
from ...topology.sets.cpuset import NodeSet
from ..memory import memory_zones as held
from ..memory.memory_ledger import MemoryLedger
from ..memory.offers import MemoryPriority, MemoryRequest, Offer
from ..model.container import QosClass
from ..model.decision import Grant, Refusal
from ..model.request import CpuType, Request
from ..pools.pool_tree import PoolId, PoolTree
from .hint_demand import hinted_memory
from .rank import Dropped, Zone

_PRIORITIES = {
    QosClass.BEST_EFFORT: MemoryPriority.BEST_EFFORT,
    QosClass.BURSTABLE: MemoryPriority.BURSTABLE,
    QosClass.GUARANTEED: MemoryPriority.GUARANTEED,
}

_ANY_KIND: Final = frozenset[MemoryKind]()


class _Nodes(NamedTuple):
    """What never changes about the nodes a request starts from."""

    affinity: int
    initial: held.Zone | None
    """What a request gets that fits at once."""
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
        hinted = hinted_memory(request) if request.hints else 0
        key = (types, hinted, _may_use_reserved(request))
        start = self._starts.get(key)
        if start is None:
            start = self._starts[key] = self._start(*key)
        return MemoryChoice(request, start, self._ledger)

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
        return _Start(
            wanted=tuple(targets),
            nodes=tuple(
                _Nodes(
                    affinity=one,
                    initial=self._ledger.initial_zone(one, kinds, may_use_reserved),
                    capacity=nodes.capacity(one),
                    lacks_kind=bool(target & ~nodes.kinds(one)),
                    is_foreign=not one & wanted,
                )
                for one, target in zip(distinct, targets, strict=True)
            ),
            of_pool=tuple(distinct.index(one) for one in affinities),
        )


def _may_use_reserved(request: Request) -> bool:
    # Where preserved memory is, nobody knows: it may be on reserved nodes as well.
    return request.preserve_memory or request.cpu_type is CpuType.RESERVED


class MemoryChoice:
    """The zones one request would get; every distinct set of nodes is looked at once."""

    def __init__(self, request: Request, start: _Start, ledger: MemoryLedger) -> None:
        self._request = request
        self._start = start
        self._ledger = ledger
        self._offers: dict[int, Offer] = {}

    def zones(self) -> Sequence[Zone | Dropped]:
        """By pool id the zone the request would get, or why none. O(pools)."""
        found = [self._look(index) for index in range(len(self._start.nodes))]
        return [found[index] for index in self._start.of_pool]

    def zone(self, pool_id: PoolId) -> Zone | Dropped:
        """The zone the request would get from one pool, or why none."""
        return self._look(self._start.of_pool[pool_id])

    def offer(self, pool_id: PoolId) -> Offer:
        """The offer behind a zone. Only for pools that have one.

        A container whose memory is spread gets all nodes instead, where those have room.
        """
        if self._request.spreads_memory:
            spread = self._ledger.offer(self.request_at(pool_id))
            if isinstance(spread, Offer):
                return spread
        affinity = self._affinity(pool_id)
        known = self._offers.get(affinity)
        if known is not None:
            return known
        offer = self._ledger.offer(self._memory_request(affinity))
        assert isinstance(offer, Offer), (self._request.container_id, pool_id)
        return offer

    def resize(self, held: Grant) -> Offer | Refusal | None:
        """Another amount of memory for a container that has some, in the same place if it fits.

        None where it asks for what it has. Another limit alone moves nobody.
        """
        ledger = self._ledger
        known = ledger.request_of(held.container_id)
        if known is None:
            return ledger.offer(self.request_at(held.pool_id), replaces=held.container_id)
        # The kinds too: a cold start that is over does not begin again.
        request = replace(self._memory_request(known.affinity.mask), types=known.types)
        if (request.size_bytes, request.hugepage_bytes) != (known.size_bytes, known.hugepage_bytes):
            return ledger.offer(request, replaces=held.container_id)
        return None if request.limit_bytes == known.limit_bytes else ledger.kept(request)

    def request_at(self, pool_id: PoolId) -> MemoryRequest:
        """What is asked of the ledger for a pool, or for the root where memory is spread."""
        root = PoolId(len(self._start.of_pool) - 1)
        return self._memory_request(
            self._affinity(root if self._request.spreads_memory else pool_id)
        )

    def _affinity(self, pool_id: PoolId) -> int:
        return self._start.nodes[self._start.of_pool[pool_id]].affinity

    def _look(self, index: int) -> Zone | Dropped:
        request, ledger = self._request, self._ledger
        nodes = self._start.nodes[index]
        initial = nodes.initial
        if (
            initial is not None
            and not request.hugepage_bytes
            and ledger.has_room(initial, request.memory_bytes)
        ):
            mask = initial.mask
        else:
            offer = ledger.offer(self._memory_request(nodes.affinity))
            if not isinstance(offer, Offer):
                return self._no_memory()
            self._offers[nodes.affinity] = offer
            mask = offer.zone.mask
        if request.preserve_memory:
            return Zone(mask, mask.bit_count(), True, False, False)
        limit = request.memory_limit_bytes
        return Zone(
            mask=mask,
            node_count=mask.bit_count(),
            is_exact=not nodes.is_foreign and ledger.nodes.kinds(mask) == self._start.wanted[index],
            is_below_limit=limit is not None
            and limit != request.memory_bytes
            and nodes.capacity < limit,
            lacks_kind=nodes.lacks_kind,
        )

    def _no_memory(self) -> Dropped:
        """The same words for every pool: a zone can be widened to all nodes, so all are full."""
        usable = self._ledger.nodes.open_to(_may_use_reserved(self._request))
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

    def _memory_request(self, affinity: int) -> MemoryRequest:
        request = self._request
        priority, types = _PRIORITIES[request.qos], request.memory_kinds
        if request.preserve_memory:
            # Where its memory is, nobody knows: it counts against all nodes.
            priority, types = MemoryPriority.PRESERVED, _ANY_KIND
        return MemoryRequest(
            container_id=request.container_id,
            affinity=NodeSet(affinity),
            size_bytes=request.memory_bytes,
            limit_bytes=request.memory_limit_bytes or 0,
            types=types,
            priority=priority,
            keeps_near=request.is_strict,
            is_spread=request.spreads_memory,
            may_use_reserved=_may_use_reserved(request),
            hugepage_bytes=request.hugepage_bytes,
        )
