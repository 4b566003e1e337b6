"""Plans of grants that fit requests: pool, cpus and memory; a plan changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...topology.sets.cpuset import NO_NODES, CpuSet
from ..books.booking import Booking
from ..books.books import Books
from ..books.cpu_ledger import Ledger
from ..hints.hint_score import scores
from ..memory.memory_choice import MemoryChoice, ZoneSummary
from ..memory.offers import Offer
from ..model.container import ContainerId
from ..model.grant import Dropped, Grant, PoolId, Refusal
from ..model.request import CpuType, Request
from ..pools.closeness import Closeness
from ..tuning.cpu_class import misfits
from .hint_demand import pick_by_hints, reserved_objection, suitable_cpus
from .lifting import Lift, make_room
from .lineup import Lineup
from .pool_choice import Chooser, Facts

ROOM_MADE: Final = "room_made"
"""What decides where shared containers had to be lifted into a wider pool first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A booking to be made, and how it was chosen."""

    booking: Booking
    lineup: Lineup | None = None
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """No placement, and what was looked at."""

    refusal: Refusal
    lineup: Lineup | None = None


class Placer:
    """Plans grants from what a ledger has left."""

    def __init__(self, books: Books, chooser: Chooser) -> None:
        """Reads the books, never changes them."""
        self._tree = books.tree
        self._ledger = books.ledger
        self._memory = books.pool_memory
        self._picker = books.picker
        self._chooser = chooser
        self._closeness = Closeness(books.tree)

    def plan(self, request: Request, weights: Mapping[ContainerId, int]) -> Placement | Failure:
        """The best grant for a request.

        `weights` is the affinity of the container to those present.
        """
        memory = self._memory.choice(request)
        if request.cpu_type is CpuType.RESERVED and not self._tree.root.reserved:
            request = replace(request, cpu_type=CpuType.NORMAL)
        if request.cpu_type is not CpuType.NORMAL:
            return self._at_root(request, memory)
        facts = Facts(
            memory=memory,
            affinities=self._affinities(weights),
            hints=scores(self._tree, request.hints) if request.hints else (),
            misfits_class=self._misfits(request),
        )
        ranking = self._chooser.rank(request, self._ledger, facts)
        winner, decided_by = ranking.winner, ranking.decided_by
        ledger = self._ledger
        lifted: tuple[Grant, ...] = ()
        if winner is None:
            lift = self._make_room(request, memory)
            if lift is None:
                refusal = Refusal(reason=self._reason(request, ranking.lineup))
                return Failure(refusal=refusal, lineup=ranking.lineup)
            winner, decided_by = lift.pool_id, ROOM_MADE
            ledger, lifted = lift.ledger, lift.lifted
        exclusive, isolated = self._take(request, winner, ledger)
        offer = memory.offer(winner)
        grant = self._grant(request, winner, exclusive, isolated, offer)
        return Placement(
            booking=Booking(grant=grant, offer=offer, lifted=lifted),
            lineup=ranking.lineup,
            decided_by=decided_by,
        )

    def _make_room(self, request: Request, memory: MemoryChoice) -> Lift | None:
        if request.is_strict:
            return None
        zones = memory.zones()
        pools = [pool.id for pool in self._tree.pools if isinstance(zones[pool.id], ZoneSummary)]
        return make_room(request, self._ledger, tuple(pools))

    def plan_anyway(self, request: Request) -> Placement:
        """A grant for a container that runs and fits nowhere: a share of all sharable cpus.

        Of the reserved ones where those serve it. It may use the memory of all nodes.
        """
        root = self._tree.root
        grant = Grant(
            container_id=request.container_id,
            pool_id=root.id,
            cpu_type=request.cpu_type,
            shared_milli=request.total_milli,
            memory=root.memory_nodes,
            memory_bytes=request.memory_bytes,
            preserve_memory=request.preserve_memory,
            hide_hyperthreads=request.hide_hyperthreads,
        )
        return Placement(booking=Booking(grant=grant), decided_by="runs already")

    def _at_root(self, request: Request, memory: MemoryChoice) -> Placement | Failure:
        """Reserved and preserved containers: the root pool, and nothing can refuse them cpus.

        A reserved request larger than what is left of the reserved cpus runs on the sharable ones,
        where those have room.
        """
        root = self._tree.root.id
        if (
            request.cpu_type is CpuType.RESERVED
            and request.shared_milli > self._ledger.free_reserved_milli
            and request.shared_milli <= self._ledger.room.grantable_milli[root]
        ):
            request = replace(request, cpu_type=CpuType.NORMAL)
        zone = memory.zone(root)
        objection: Dropped | None = zone if isinstance(zone, Dropped) else None
        if objection is None and request.cpu_type is CpuType.RESERVED:
            objection = reserved_objection(request, self._tree.root.reserved)
        if objection is not None:
            return Failure(refusal=Refusal(reason=f"{self._tree.root.name}: {objection}"))
        offer = memory.offer(root)
        grant = self._grant(request, root, CpuSet(), CpuSet(), offer)
        booking = Booking(grant=grant, offer=offer)
        return Placement(booking=booking, decided_by=f"{request.cpu_type.value} cpus")

    def _misfits(self, request: Request) -> Sequence[int]:
        if request.class_cpus is None or not request.exclusive:
            return ()
        return misfits(self._ledger.free_sharable, request.exclusive, request.class_cpus)

    def _affinities(self, weights: Mapping[ContainerId, int]) -> list[int]:
        by_pool: dict[PoolId, int] = {}
        for container_id, weight in weights.items():
            friend = self._ledger.grants.get(container_id)
            if friend is not None:
                by_pool[friend.pool_id] = by_pool.get(friend.pool_id, 0) + weight
        return self._closeness.affinities(by_pool)

    def _take(self, request: Request, pool_id: PoolId, ledger: Ledger) -> tuple[CpuSet, CpuSet]:
        """The exclusive cpus of a feasible pool, and which of them are isolated."""
        count = request.exclusive
        if not count:
            return CpuSet(), CpuSet()
        isolated = ledger.free_isolated[pool_id]
        is_isolated = request.wants_isolated and isolated.bit_count() >= count
        free = isolated if is_isolated else ledger.slice(pool_id)
        free = suitable_cpus(request, free, count)
        picked = pick_by_hints(request, free, self._picker)
        if picked is None:
            picked = self._picker.pick(free, count, request.priority, request.smt)
        # The pool was found feasible with these numbers: fewer cpus would be our own fault.
        assert picked is not None, (request.container_id, pool_id)
        return CpuSet(picked), CpuSet(picked) if is_isolated else CpuSet()

    def _grant(
        self,
        request: Request,
        pool_id: PoolId,
        exclusive: CpuSet,
        isolated: CpuSet,
        offer: Offer | None,
    ) -> Grant:
        return Grant(
            container_id=request.container_id,
            pool_id=pool_id,
            cpu_type=request.cpu_type,
            exclusive=exclusive,
            isolated=isolated,
            shared_milli=request.shared_milli,
            memory=NO_NODES if offer is None else offer.zone,
            memory_bytes=request.memory_bytes,
            preserve_memory=request.preserve_memory,
            hide_hyperthreads=request.hide_hyperthreads,
            is_strict=request.is_strict,
        )

    def _reason(self, request: Request, lineup: Lineup) -> str:
        """Every pool's reason, pools with the same one together, widest pools first."""
        pools_by_reason: dict[str, list[str]] = {}
        for pool, found in zip(self._tree.pools[::-1], lineup.candidates()[::-1], strict=True):
            pools_by_reason.setdefault(str(found), []).append(pool.name)
        reasons = "; ".join(
            f"{', '.join(pools)}: {reason}" for reason, pools in pools_by_reason.items()
        )
        return f"no pool has room for {request.describe()} — {reasons}"
