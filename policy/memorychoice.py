"""The memory a request would get from each pool, one look per distinct set of nodes."""

from typing import NamedTuple

from ..topology.cpuset import NodeSet
from ..topology.machine import MemoryKind
from .container import QosClass
from .decision import Grant, Refusal
from .memory import MemoryPriority, MemoryRequest, Offer
from .memoryledger import MemoryLedger
from .pool import PoolId, PoolTree
from .rank import Dropped
from .request import Request

_PRIORITIES = {
    QosClass.BEST_EFFORT: MemoryPriority.BEST_EFFORT,
    QosClass.BURSTABLE: MemoryPriority.BURSTABLE,
    QosClass.GUARANTEED: MemoryPriority.GUARANTEED,
}


class Zone(NamedTuple):
    """What matters of a memory zone for the rank of a pool."""

    mask: int
    node_count: int
    is_exact: bool
    """It has exactly the kinds of memory asked for."""
    is_below_limit: bool
    """The pool's memory of these kinds is smaller than the container's limit."""
    lacks_kind: bool
    """A kind asked for is not among the pool's nodes."""


class PoolMemory:
    """The memory nodes of every pool of a tree, by the kinds a request asks for."""

    def __init__(self, tree: PoolTree, ledger: MemoryLedger) -> None:
        """Reads the ledger, never changes it."""
        self._pools = tree.pools
        self._ledger = ledger
        self._affinities: dict[frozenset[MemoryKind], tuple[int, ...]] = {}
        self._everything = tuple(tree.root.memory_nodes.mask for _ in tree.pools)

    def choice(self, request: Request) -> "MemoryChoice":
        """The choice of memory for one request."""
        if request.preserve_memory:
            affinities = self._everything
        else:
            affinities = self._affinities_of(request.memory_kinds)
        return MemoryChoice(request, affinities, self._ledger)

    def _affinities_of(self, kinds: frozenset[MemoryKind]) -> tuple[int, ...]:
        known = self._affinities.get(kinds)
        if known is None:
            nodes = self._ledger.nodes
            wanted = nodes.of_kinds(nodes.kinds_mask(kinds)) or nodes.with_memory
            masks = [pool.memory_nodes.mask for pool in self._pools]
            known = tuple(mask & wanted or mask for mask in masks)
            self._affinities[kinds] = known
        return known


class MemoryChoice:
    """The zones one request would get; every distinct set of nodes is looked at once."""

    def __init__(self, request: Request, affinities: tuple[int, ...], ledger: MemoryLedger) -> None:
        """`affinities`: by pool id the mask of the nodes the request would start from."""
        self._request = request
        self._affinities = affinities
        self._ledger = ledger
        self._zones: dict[int, Zone | Dropped] = {}
        self._offers: dict[int, Offer] = {}

    def zone(self, pool_id: int) -> Zone | Dropped:
        """The zone the request would get from a pool, or why none."""
        affinity = self._affinities[pool_id]
        found = self._zones.get(affinity)
        if found is None:
            found = self._zones[affinity] = self._look(affinity)
        return found

    def offer(self, pool_id: PoolId) -> Offer:
        """The offer behind a zone. Only for pools that have one."""
        affinity = self._affinities[pool_id]
        known = self._offers.get(affinity)
        if known is not None:
            return known
        offer = self._ledger.offer(self._memory_request(affinity))
        assert isinstance(offer, Offer), (self._request.container_id, pool_id)
        return offer

    def resize(self, held: Grant) -> Offer | Refusal:
        """Another amount of memory for a container that has some, in the same place if it fits."""
        affinity = held.memory.mask or self._affinities[held.pool_id]
        return self._ledger.offer(self._memory_request(affinity), replaces=held.container_id)

    def request_at(self, pool_id: PoolId) -> MemoryRequest:
        """What is asked of the ledger for a pool."""
        return self._memory_request(self._affinities[pool_id])

    def _look(self, affinity: int) -> Zone | Dropped:
        request, ledger = self._request, self._ledger
        nodes = ledger.nodes
        kinds = nodes.kinds_mask(request.memory_kinds)
        mask = None
        if not request.hugepage_bytes:
            mask = ledger.quick_zone(affinity, kinds, request.memory_bytes)
        if mask is None:
            offer = ledger.offer(self._memory_request(affinity))
            if not isinstance(offer, Offer):
                return Dropped("memory", f"{request.memory_bytes} bytes", str(offer))
            self._offers[affinity] = offer
            mask = offer.zone.mask
        wanted = kinds & nodes.kinds_present or nodes.kinds(affinity)
        limit = request.memory_limit_bytes
        return Zone(
            mask=mask,
            node_count=mask.bit_count(),
            is_exact=request.preserve_memory or nodes.kinds(mask) == wanted,
            is_below_limit=limit is not None
            and limit != request.memory_bytes
            and not request.preserve_memory
            and nodes.capacity(affinity) < limit,
            lacks_kind=not request.preserve_memory and bool(wanted & ~nodes.kinds(affinity)),
        )

    def _memory_request(self, affinity: int) -> MemoryRequest:
        request = self._request
        priority = _PRIORITIES[request.qos]
        if request.preserve_memory:
            priority = MemoryPriority.PRESERVED
        return MemoryRequest(
            container_id=request.container_id,
            affinity=NodeSet(affinity),
            size_bytes=request.memory_bytes,
            types=request.memory_kinds,
            priority=priority,
            hugepage_bytes=request.hugepage_bytes,
        )
