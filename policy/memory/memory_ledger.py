"""All memory of one machine that is held, and by whom; offers for those who want some."""

from collections.abc import Mapping

from msgspec.structs import replace

from ...topology.model.machine import MemoryKind
from ...topology.sets.cpuset import NO_NODES, NodeSet
from ..model.container import ContainerId
from ..model.grant import Refusal
from .holdings import Holdings
from .memory_plan import Plan
from .memory_zones import Holding, Zone
from .observed_memory import MemoryLook, ObservedMemory
from .offers import MemoryRequest, Offer, StaleOfferError, holds_none, no_pages
from .zone_search import (
    begun,
    begun_alone,
    come_back,
    has_room_anywhere,
    plan_of,
    possible_starts,
    wider_zone,
)


class MemoryLedger(Holdings):
    """The ledger of memory: containers and the zones whose memory they hold.

    Offers are computed beside the holdings and change nothing. `commit`, `release`, `adopt` and
    `restore` change these in one step; each makes all outstanding offers stale.
    """

    def has_room(self, initial: Zone, size_bytes: int) -> bool:
        """Whether `offer` would give an initial zone at once; else ask it.

        For requests that want no huge pages.
        """
        if not initial.fits(size_bytes):
            return False
        observed = self.observed
        return observed is None or not observed.is_short(initial, size_bytes)

    def have_room(self, initials: tuple[Zone, ...], size_bytes: int) -> bool:
        """Whether `has_room` surely holds for all of some zones; False says nothing."""
        zones, observed = self.zones, self.observed
        is_free = observed is None or observed.have_room(initials, size_bytes)
        return is_free and zones.have_room(size_bytes)

    def offer(
        self, request: MemoryRequest, *, replaces: ContainerId | None = None
    ) -> Offer | Refusal:
        """The zone for a request, and who has to move for it; or why it cannot be.

        `replaces` names a container whose memory counts as free, and which the commit releases: the
        same container with other needs, which keeps its zone if it can, or its older instance.
        """
        one = request.container_id
        if one != replaces and one in self.holders:
            reason = f"memory: container {one!r} holds memory already — release it first"
            return Refusal(reason=reason)
        holding = self.holding(request)
        if isinstance(holding, Refusal):
            return holding
        leaving = self.holders.get(replaces) if replaces is not None else None
        initial = self.zones.zone(holding.initial)
        if leaving is None and not request.hugepage_bytes and self.has_room(initial, holding.size):
            return Offer(request=request, zone=initial.nodes, version=self.version)
        starts = possible_starts(self, holding, leaving)
        if not starts:
            return no_pages(request)
        if leaving is None and starts[0].fits(holding.size):
            return Offer(request=request, zone=starts[0].nodes, version=self.version)
        if has_room_anywhere(self, holding, leaving):
            for start in dict.fromkeys(starts):
                plan = begun(self, holding, leaving, start)
                if plan.resolve():
                    plan = begun_alone(self, holding, leaving, start, plan) or plan
                    return self._planned(plan, request, replaces)
        return self._no_room(holding)

    def offer_in(self, request: MemoryRequest, zone: NodeSet) -> Offer | None:
        """The offer of exactly these nodes, for which nobody moves; None where that cannot be."""
        holding, mask = self.holding(request), zone.mask
        if isinstance(holding, Refusal) or request.hugepage_bytes or not mask:
            return None
        if mask & ~self.nodes_of(request).with_memory:
            return None
        if not self.has_room(self.zones.zone(mask), holding.size):
            return None
        return Offer(request=request, zone=zone, version=self.version)

    def kept(self, request: MemoryRequest) -> Offer:
        """The zone a container has, for a request that changes nothing but its limit."""
        one = request.container_id
        return Offer(request=request, zone=self.zone_of(one), replaces=one, version=self.version)

    def realloc(
        self,
        container_id: ContainerId,
        nodes: NodeSet = NO_NODES,
        types: frozenset[MemoryKind] = frozenset(),
    ) -> Offer | Refusal:
        """A wider zone that has `nodes` and all kinds of `types` too: the end of a cold start.

        Without `types` a zone that gets nodes also gets the nearest of its own kinds. The same zone
        where it has all of that already.
        """
        holding = self.holders.get(container_id)
        if holding is None:
            return holds_none(container_id)
        old, open_nodes = holding.request, self.nodes_of(holding.request)
        zone = self.place_of(container_id).mask
        wider = zone | (nodes.mask & open_nodes.with_memory)
        kinds = open_nodes.kinds_mask(types)
        if kinds:
            wider |= open_nodes.expansion(wider, kinds & ~open_nodes.kinds(wider))
        elif wider != zone:
            wider |= open_nodes.expansion(wider, open_nodes.kinds(zone))
        request = replace(
            old,
            affinity=NodeSet(old.affinity.mask | (nodes.mask & self.nodes.known)),
            types=old.types | types if old.types else old.types,
        )
        return self._grown(holding, request, wider)

    def widen(self, container_id: ContainerId) -> Offer | Refusal:
        """A wider zone for a container whose nodes run out of memory.

        The next wider one with free memory, or all it may use where none has any. Its own kinds
        come first.
        """
        holding = self.holders.get(container_id)
        if holding is None:
            return holds_none(container_id)
        wider = wider_zone(self, holding)
        if wider is None:
            return Refusal(
                reason=f"memory: container {container_id!r} cannot use more than nodes"
                f" {self.zone_of(container_id)} — free memory there"
            )
        return self._grown(holding, holding.request, wider)

    def shrink(self, limit: int | None = None) -> Offer | None:
        """The way back for containers that were moved to wider zones, as far as there is room.

        At most `limit` containers: the most important first, then the smallest, then the oldest.
        Where free memory was observed, there must be plenty of it for all they may use. Containers
        with huge pages stay, as their pages would. None where nobody can return.
        """
        if not self.grown:
            return None
        plan, observed = plan_of(self), self.observed
        if observed is not None:
            observed = observed.copy()
        grown = [one for one in map(self.holders.get, self.grown) if one is not None]
        grown.sort(key=lambda one: (-one.request.priority, one.size, one.sequence))
        count = 0
        for holding in grown:
            if count == limit:
                break
            count += come_back(self, plan, holding, observed)
        return self._planned(plan) if count else None

    def pressed(self) -> tuple[ContainerId, ...]:
        """Containers whose nodes have hardly any free memory and that `widen` can help.

        The least important first, then the youngest. Empty before `observe`.
        """
        observed = self.observed
        if observed is None:
            return ()
        short = [zone for zone in self.zones.used() if observed.is_short(zone, 0)]
        users = [user for zone in short for user in zone.users.values()]
        users.sort(key=lambda user: (user.request.priority, -user.sequence))
        return tuple(user.id for user in users if wider_zone(self, user) is not None)

    def commit(self, offer: Offer) -> None:
        """Take an offer. Raises `StaleOfferError` where it was made before the last change."""
        if offer.version != self.version:
            raise StaleOfferError(
                f"memory: the offer is of version {offer.version}, the ledger of {self.version}"
                " — ask for another offer"
            )
        request = offer.request
        new = self.holding_in(request, offer.zone.mask) if request is not None else None
        if offer.replaces is not None and (new is None or new.id != offer.replaces):
            self.release(offer.replaces)
        for container_id, zone in offer.moves.items():
            holding = self.holders.get(container_id)
            assert holding is not None, "an offer of this version moves an unknown container"
            self.place(holding, zone.mask)
        if new is not None:
            self.place(new, offer.zone.mask)
        self.version += 1

    def release(self, container_id: ContainerId) -> None:
        """Give back what a container holds. Unknown ids change nothing."""
        if container_id in self.holders:
            self.drop(container_id)
            self.version += 1

    def adopt(self, request: MemoryRequest, zone: NodeSet) -> NodeSet:
        """Account a running container to exactly the nodes it has, even where that is too much.

        Returns them; without nodes it may have no memory of, or all it may where those are all.
        """
        usable = self.nodes_of(request).with_memory
        mask = zone.mask & usable or usable
        self.place_running(self.holding_in(request, mask), mask)
        self.version += 1
        return NodeSet(mask)

    def observe(self, free_bytes: Mapping[int, int]) -> None:
        """Consider the memory that is really free from here on, by node id.

        What a node can give without swapping or killing: MemFree, clean file pages, reclaimable
        slab. A zone that is short of it is avoided where another one is not, but nothing is refused
        for it: then the accounting decides.
        """
        self.observed = ObservedMemory(free_bytes)

    def last_look(self) -> MemoryLook | None:
        """The free memory that was last observed, and what was granted since; None before that."""
        return self.observed.look() if self.observed is not None else None

    def observe_like(self, look: MemoryLook | None) -> None:
        """Consider what another ledger of this machine last observed, until there is a new look."""
        self.observed = ObservedMemory.of(look) if look is not None else None

    def zone_of(self, container_id: ContainerId) -> NodeSet:
        """The nodes whose memory a container holds; empty for an unknown one."""
        return self.place_of(container_id).nodes if container_id in self.holders else NO_NODES

    def request_of(self, container_id: ContainerId) -> MemoryRequest | None:
        """The request of a container; None for an unknown one."""
        holding = self.holders.get(container_id)
        return holding.request if holding is not None else None

    def open_to(self, container_id: ContainerId) -> NodeSet:
        """The nodes whose memory a container may have; none for an unknown one."""
        holding = self.holders.get(container_id)
        return NodeSet(self.nodes_of(holding.request).with_memory) if holding else NO_NODES

    def capacity(self, zone: NodeSet) -> int | None:
        """Bytes of memory of a zone, without huge pages; None where a node's size is not known."""
        return self.nodes.size_bytes(zone)

    def usage(self, zone: NodeSet) -> int:
        """Bytes held of the zone and of all zones within it."""
        return self.zones.usage(zone.mask)

    def free(self, zone: NodeSet) -> int | None:
        """Capacity less usage, negative where overcommitted; None where the size is not known."""
        capacity = self.capacity(zone)
        return capacity - self.usage(zone) if capacity is not None else None

    def free_page_bytes(self, page_bytes: int, among: NodeSet | None = None) -> int:
        """Bytes left in huge pages of one size on some nodes or all; 0 where more are promised."""
        mask = self.nodes.with_memory if among is None else among.mask
        held = self.zones.promised_pages(mask, page_bytes)
        return page_bytes * max(0, self.nodes.page_count(mask, page_bytes) - held)

    def _planned(
        self, plan: Plan, request: MemoryRequest | None = None, replaces: ContainerId | None = None
    ) -> Offer:
        zone = plan.place(request.container_id) if request is not None else None
        return Offer(
            request=request,
            zone=zone.nodes if zone is not None else NO_NODES,
            moves={one: place.nodes for one, place in plan.moves().items()},
            replaces=replaces,
            version=self.version,
        )

    def _grown(self, holding: Holding, request: MemoryRequest, wider: int) -> Offer | Refusal:
        plan = plan_of(self, holding)
        source, target = self.place_of(holding.id), plan.zone(wider)
        plan.shift(holding, source, target)
        if source is not target and not plan.resolve():
            return self._no_room(holding)
        return self._planned(plan, request)

    def _no_room(self, holding: Holding) -> Refusal:
        nodes = NodeSet(self.nodes_of(holding.request).with_memory)
        return Refusal(
            reason=f"memory: {holding.size} bytes fit neither nodes {NodeSet(holding.initial)} nor"
            f" a wider zone (of nodes {nodes} {self.free(nodes)} are free) — ask for less"
        )
