"""All memory of one machine that is held, and by whom; offers for those who want some."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from ...topology.model.machine import MemoryKind
from ...topology.sets.cpuset import NO_NODES, NodeSet
from ..model.container import ContainerId
from ..model.grant import Refusal
from .held_memory import HeldMemory
from .holdings import Holdings
from .memory_nodes import ALL_KINDS, MemoryNodes
from .memory_plan import Plan
from .memory_zones import Holding, Zone
from .observed_memory import MemoryLook, ObservedMemory
from .offers import MemoryPriority, MemoryRequest, Offer, StaleOfferError, holds_none, no_pages


class MemoryLedger:
    """The ledger of memory: containers and the zones whose memory they hold.

    Offers are computed beside the ledger and change nothing. `commit`, `release`, `adopt` and
    `restore` change it in one step; each makes all outstanding offers stale.
    """

    def __init__(self, nodes: MemoryNodes) -> None:
        self.nodes = nodes
        self.version = 0
        self._held = Holdings(nodes)

    def initial_zone(
        self, affinity: int, types: frozenset[MemoryKind], may_use_reserved: bool
    ) -> Zone | None:
        """The zone of a request that is not strict while memory is plenty; None if there is none.

        `affinity`: a mask of nodes. The zone stays the same for the life of the ledger.
        """
        return self._held.initial_zone(affinity, types, may_use_reserved)

    def has_room(self, initial: Zone, size_bytes: int) -> bool:
        """Whether `offer` would give an initial zone at once; else ask it.

        For requests that want no huge pages.
        """
        if not initial.fits(size_bytes):
            return False
        observed = self._held.observed
        return observed is None or not observed.is_short(initial, size_bytes)

    def have_room(self, initials: Iterable[Zone], size_bytes: int) -> bool:
        """Whether `has_room` surely holds for all of some zones; False says nothing."""
        zones, observed = self._held.zones, self._held.observed
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
        if one != replaces and self._held.find(one) is not None:
            reason = f"memory: container {one!r} holds memory already — release it first"
            return Refusal(reason=reason)
        holding = self._held.holding(request)
        if isinstance(holding, Refusal):
            return holding
        leaving = self._held.find(replaces) if replaces is not None else None
        initial = self._held.zones.zone(holding.initial)
        if leaving is None and not request.hugepage_bytes and self.has_room(initial, holding.size):
            return Offer(request=request, zone=initial.nodes, version=self.version)
        starts = self._starts(holding, leaving)
        if not starts:
            return no_pages(request)
        if leaving is None and starts[0].fits(holding.size):
            return Offer(request=request, zone=starts[0].nodes, version=self.version)
        if self._has_room(holding, leaving):
            for start in dict.fromkeys(starts):
                plan = self._begun(holding, leaving, start)
                if plan.resolve():
                    plan = self._alone(holding, leaving, start, plan) or plan
                    return self._planned(plan, request, replaces)
        return self._no_room(holding)

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
        holding = self._held.find(container_id)
        if holding is None:
            return holds_none(container_id)
        old, open_nodes = holding.request, self._held.nodes_of(holding.request)
        zone = self._held.zone_of(container_id).mask
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
        holding = self._held.find(container_id)
        if holding is None:
            return holds_none(container_id)
        wider = self._wider(holding)
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
        if not self._held.grown:
            return None
        plan, observed = self._plan(), self._held.observed
        if observed is not None:
            observed = observed.copy()
        grown = [one for one in map(self._held.find, self._held.grown) if one is not None]
        grown.sort(key=lambda one: (-one.request.priority, one.size, one.sequence))
        count = 0
        for holding in grown:
            if count == limit:
                break
            count += self._return(plan, holding, observed)
        return self._planned(plan) if count else None

    def pressed(self) -> tuple[ContainerId, ...]:
        """Containers whose nodes have hardly any free memory and that `widen` can help.

        The least important first, then the youngest. Empty before `observe`.
        """
        observed = self._held.observed
        if observed is None:
            return ()
        short = [zone for zone in self._held.zones.used() if observed.is_short(zone, 0)]
        users = [user for zone in short for user in zone.users.values()]
        users.sort(key=lambda user: (user.request.priority, -user.sequence))
        return tuple(user.id for user in users if self._wider(user) is not None)

    def commit(self, offer: Offer) -> None:
        """Take an offer. Raises `StaleOfferError` where it was made before the last change."""
        if offer.version != self.version:
            raise StaleOfferError(
                f"memory: the offer is of version {offer.version}, the ledger of {self.version}"
                " — ask for another offer"
            )
        held, request = self._held, offer.request
        new = held.holding_in(request, offer.zone.mask) if request is not None else None
        if offer.replaces is not None and (new is None or new.id != offer.replaces):
            self.release(offer.replaces)
        for container_id, zone in offer.moves.items():
            holding = held.find(container_id)
            assert holding is not None, "an offer of this version moves an unknown container"
            held.place(holding, zone.mask)
        if new is not None:
            held.place(new, offer.zone.mask)
        self.version += 1

    def release(self, container_id: ContainerId) -> None:
        """Give back what a container holds. Unknown ids change nothing."""
        if self._held.find(container_id) is not None:
            self._held.drop(container_id)
            self.version += 1

    def adopt(self, request: MemoryRequest, zone: NodeSet) -> NodeSet:
        """Account a running container to exactly the nodes it has, even where that is too much.

        Returns them; without nodes it may have no memory of, or all it may where those are all.
        """
        usable = self._held.nodes_of(request).with_memory
        mask = zone.mask & usable or usable
        self._held.adopt(self._held.holding_in(request, mask), mask)
        self.version += 1
        return NodeSet(mask)

    def observe(self, free_bytes: Mapping[int, int]) -> None:
        """Consider the memory that is really free from here on, by node id.

        What a node can give without swapping or killing: MemFree, clean file pages, reclaimable
        slab. A zone that is short of it is avoided where another one is not, but nothing is refused
        for it: then the accounting decides.
        """
        self._held.observed = ObservedMemory(free_bytes)

    def last_look(self) -> MemoryLook | None:
        """The free memory that was last observed, and what was granted since; None before that."""
        return self._held.observed.look() if self._held.observed is not None else None

    def observe_like(self, look: MemoryLook | None) -> None:
        """Consider what another ledger of this machine last observed, until there is a new look."""
        self._held.observed = ObservedMemory.of(look) if look is not None else None

    def snapshot(self) -> HeldMemory:
        """The memory held by all containers. Cost O(containers)."""
        return self._held.state()

    def restore(self, state: HeldMemory) -> None:
        """Hold again what was held at a snapshot of this ledger, and nothing else."""
        self._held.restore(state)
        self.version += 1

    def zone_of(self, container_id: ContainerId) -> NodeSet:
        """The nodes whose memory a container holds; empty for an unknown one."""
        if self._held.find(container_id) is None:
            return NO_NODES
        return self._held.zone_of(container_id).nodes

    def request_of(self, container_id: ContainerId) -> MemoryRequest | None:
        """The request of a container; None for an unknown one."""
        holding = self._held.find(container_id)
        return holding.request if holding is not None else None

    def open_to(self, container_id: ContainerId) -> NodeSet:
        """The nodes whose memory a container may have; none for an unknown one."""
        holding = self._held.find(container_id)
        return NodeSet(self._held.nodes_of(holding.request).with_memory) if holding else NO_NODES

    def capacity(self, zone: NodeSet) -> int | None:
        """Bytes of memory of a zone, without huge pages; None where a node's size is not known."""
        return self.nodes.size_bytes(zone)

    def usage(self, zone: NodeSet) -> int:
        """Bytes held of the zone and of all zones within it."""
        return self._held.zones.usage(zone.mask)

    def free(self, zone: NodeSet) -> int | None:
        """Capacity less usage, negative where overcommitted; None where the size is not known."""
        capacity = self.capacity(zone)
        return capacity - self.usage(zone) if capacity is not None else None

    def free_page_bytes(self, page_bytes: int, among: NodeSet | None = None) -> int:
        """Bytes left in huge pages of one size on some nodes or all; 0 where more are promised."""
        mask = self.nodes.with_memory if among is None else among.mask
        held = self._held.zones.promised_pages(mask, page_bytes)
        return page_bytes * max(0, self.nodes.page_count(mask, page_bytes) - held)

    def check(self) -> None:
        """Assert that all sums and indices are what a fresh count says. For tests."""
        self._held.check()

    def _plan(self, asking: Holding | None = None) -> Plan:
        return Plan(self.nodes, self._held.zones, asking.id if asking is not None else None)

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

    def _starts(self, holding: Holding, leaving: Holding | None) -> list[Zone]:
        """Where a container could begin; the best first, each with its huge pages.

        The zone it has, the nearest one with enough memory really free, the nearest one at all.
        """
        zones, observed, pages = self._held.zones, self._held.observed, holding.pages()
        given_back = (self._held.zone_of(leaving.id).mask, leaving.pages()) if leaving else None
        kinds = self._usable_kinds(holding)
        starts: list[Zone] = []
        if leaving is not None and leaving.id == holding.id:
            own = self._held.zone_of(leaving.id)
            is_around = not holding.initial & ~own.mask and not own.kinds & ~kinds
            held = leaving.pages()
            is_no_more = all(count <= held.get(size, 0) for size, count in pages.items())
            if is_around and (is_no_more or zones.has_pages(own.mask, pages, given_back)):
                starts.append(own)
        nearest: Zone | None = None
        for mask in self._ladder(holding, holding.initial):
            if not zones.has_pages(mask, pages, given_back):
                continue
            zone = zones.zone(mask)
            nearest = nearest or zone
            if observed is None or not observed.is_short(zone, holding.size):
                starts.append(zone)
                break
        return [*starts, nearest] if nearest is not None else starts

    def _begun(self, holding: Holding, leaving: Holding | None, start: Zone) -> Plan:
        plan = self._plan(holding)
        if leaving is not None:
            plan.shift(leaving, self._held.zone_of(leaving.id), None)
        plan.shift(holding, None, start)
        return plan

    def _alone(
        self, holding: Holding, leaving: Holding | None, start: Zone, plan: Plan
    ) -> Plan | None:
        # A wider zone for the newcomer alone, where a plan moves several, none less important.
        # Others move rather than that it gets other kinds of memory.
        moved = [self._held.find(one) for one in plan.moves()]
        own = holding.request.priority
        if holding.request.keeps_near or len(moved) < 2:
            return None
        if any(one is not None and one.request.priority < own for one in moved):
            return None
        nodes = self._held.nodes_of(holding.request)
        for mask in nodes.ladder(start.mask, start.kinds):
            alone = self._begun(holding, leaving, self._held.zones.zone(mask))
            if alone.is_settled():
                return alone
        return None

    def _has_room(self, holding: Holding, leaving: Holding | None) -> bool:
        # Asked first: moving containers around cannot help a machine that is full.
        need = holding.size - (leaving.size if leaving is not None else 0)
        nodes = self._held.nodes_of(holding.request)
        free = nodes.capacity(nodes.with_memory) - self._held.bound_to(nodes)
        return need <= 0 or need <= free

    def _grown(self, holding: Holding, request: MemoryRequest, wider: int) -> Offer | Refusal:
        plan = self._plan(holding)
        source, target = self._held.zone_of(holding.id), plan.zone(wider)
        plan.shift(holding, source, target)
        if source is not target and not plan.resolve():
            return self._no_room(holding)
        return self._planned(plan, request)

    def _wider(self, holding: Holding) -> int | None:
        if holding.request.priority >= MemoryPriority.PRESERVED:
            return None
        observed, zones = self._held.observed, self._held.zones
        zone = self._held.zone_of(holding.id)
        rungs = list(self._ladder(holding, zone.mask))[1:]
        if observed is not None:
            for mask in rungs:
                if not observed.is_short(zones.zone(mask), 0):
                    return mask
            return rungs[-1] if rungs else None
        return rungs[0] if rungs else None

    def _return(self, plan: Plan, holding: Holding, observed: ObservedMemory | None) -> bool:
        if holding.pages():
            return False
        zone = self._held.zone_of(holding.id)
        for mask in self._ladder(holding, holding.initial):
            if mask == zone.mask or mask & ~zone.mask:
                return False
            target = plan.zone(mask)
            if observed is not None and not observed.is_calm(target, holding.most):
                continue
            if plan.fits(holding.size, zone, target):
                plan.shift(holding, zone, target)
                if observed is not None:
                    observed.grant(holding.id, target, holding.most)
                return True
        return False

    def _ladder(self, holding: Holding, zone: int) -> Iterator[int]:
        """A zone, then wider and wider ones that a container may have."""
        nodes = self._held.nodes_of(holding.request)
        return nodes.ladder(zone, self._usable_kinds(holding))

    def _usable_kinds(self, holding: Holding) -> int:
        return holding.kinds if holding.request.is_strict else ALL_KINDS

    def _no_room(self, holding: Holding) -> Refusal:
        nodes = NodeSet(self._held.nodes_of(holding.request).with_memory)
        return Refusal(
            reason=f"memory: {holding.size} bytes fit neither nodes {NodeSet(holding.initial)} nor"
            f" a wider zone (of nodes {nodes} {self.free(nodes)} are free) — ask for less"
        )
