"""Plans of pens: their size next to what they have, where rules of those in them go on to hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..books.booking import Booking
from ..books.books import Books
from ..memory.offers import Offer
from ..model.container import ContainerId
from ..model.grant import Grant
from ..model.request import Request
from ..placing.displacement import Displacement
from ..placing.growth import closed_pools
from ..placing.judging.judgement import Judgement
from ..placing.judging.restriction import Restriction
from ..placing.lifting import make_room
from ..placing.placer import Failure, Placement
from ..placing.resizer import Resizer
from ..placing.restart import RESTARTED


class PenPlanner:
    """Plans sizes of pens from what the books have left."""

    def __init__(
        self,
        books: Books,
        is_bound: Callable[[ContainerId], bool],
        displacement: Displacement,
    ) -> None:
        """`is_bound`: whether rules hold a container or a pen where it is."""
        self._books = books
        self._displacement = displacement
        self._is_bound = is_bound
        self._resizer = Resizer(books)

    def plan(
        self,
        pen: Grant,
        request: Request,
        allowed: int | None,
        judgements: Sequence[Judgement],
        back: CpuSet = NO_CPUS,
        *,
        runs: bool = False,
    ) -> Placement | Failure:
        """A size for a pen where rules of those in it go on to hold, at first those that may break.

        `allowed`: a mask of the cpus that rules between containers leave to it. `back`: what it had
        before, and has again where that is free. `runs`: it is for one that no rule can refuse.
        """
        closed = closed_pools(judgements, pen.pool_id, firmly=False)
        placement = self._next_to(pen, request, allowed, back, closed)
        if isinstance(placement, Failure) and closed:
            firm = closed_pools(judgements, pen.pool_id, firmly=True)
            if firm != closed:
                placement = self._next_to(pen, request, allowed, back, firm)
        if isinstance(placement, Failure) and runs:
            return self._next_to(pen, request, None)
        return placement

    def plan_apart(
        self,
        pen: Grant,
        request: Request,
        allowed: int | None,
        judgements: Sequence[Judgement],
        firm: Sequence[Restriction],
        *,
        runs: bool = False,
    ) -> Placement | Failure:
        """A size for a pen that begins, with its own cpus where rules hold, as far as possible."""
        forbidden = 0
        for one in firm:
            forbidden |= one.forbidden
        apart = ~forbidden if allowed is None else allowed & ~forbidden
        if request.exclusive and pen.pool_id in _closed_by(firm):
            for region in self._open_regions(pen, firm):
                placement = self.plan(pen, request, apart & region, judgements)
                if isinstance(placement, Placement):
                    return placement
        if request.exclusive and forbidden:
            placement = self.plan(pen, request, apart, judgements)
            if isinstance(placement, Placement):
                return placement
        return self.plan(pen, request, allowed, judgements, runs=runs)

    def _open_regions(self, pen: Grant, firm: Sequence[Restriction]) -> Iterator[int]:
        """Masks of the pools from which no rule keeps a pen; those around it first. O(pools)."""
        tree, closed = self._books.tree, _closed_by(firm)
        for pool_id in dict.fromkeys((*tree.ancestors[pen.pool_id], *range(len(tree.pools)))):
            if pool_id not in closed and not pen.exclusive.mask & ~tree.masks[pool_id]:
                yield tree.masks[pool_id]

    def regrown(
        self, pen: Grant, then: Grant, request: Request, allowed: int | None, failure: Failure
    ) -> Placement:
        """The size that a pen had when a container left it that is back, as far as is nobody's own.

        And as nobody is driven out for whom a rule that insists would break by that. `failure`: why
        the pen cannot grow otherwise.
        """
        found = self._as_then(pen, then, request, allowed, failure)
        for spared in (self._books.ledger.owed, -1):
            if not self._displacement.lost(found.booking):
                break
            others = ~spared if allowed is None else allowed & ~spared
            found = self._as_then(pen, then, request, others, failure)
        return found

    def _as_then(
        self, pen: Grant, then: Grant, request: Request, allowed: int | None, failure: Failure
    ) -> Placement:
        books, root = self._books, self._books.tree.root
        sharable, isolated = (
            books.ledger.free_sharable[root.id],
            books.ledger.free_isolated[root.id],
        )
        own = pen.exclusive.mask
        if missing := max(request.exclusive - len(pen.exclusive), 0) if own else 0:
            free = (sharable | isolated) & (-1 if allowed is None else allowed)
            more = then.exclusive.mask & ~own & free
            more = books.picker.pick(more, min(missing, more.bit_count())) or 0
            # Somebody who asked for nothing must be able to run.
            own |= more if root.reserved or sharable & ~more else 0
        offer = books.pool_memory.choice(request).resize_anyway(pen)
        grant = replace(
            pen,
            exclusive=CpuSet(own),
            isolated=CpuSet(own) & root.isolated,
            shared_milli=max(min(then.shared_milli, request.shared_milli), pen.shared_milli),
            memory=offer.zone if offer is not None else pen.memory,
            memory_bytes=request.memory_bytes,
        )
        return Placement(
            booking=Booking(grant=grant, offer=offer),
            decided_by=RESTARTED,
            objection=failure.refusal.reason,
        )

    def as_shrunk(self, pen: Grant, placement: Placement, request: Request) -> Placement:
        """A smaller pen, with memory near the cpus that it keeps."""
        booking = placement.booking
        offer = self._resizer.resized_memory(pen, request, booking.grant.exclusive)
        if not isinstance(offer, Offer):
            return placement
        grant = replace(booking.grant, memory=offer.zone)
        return replace(placement, booking=replace(booking, grant=grant, offer=offer))

    def at_its_cpus(
        self, placement: Placement, judgements: Sequence[Judgement], firm: Sequence[Restriction]
    ) -> Placement:
        """A pen in the smallest pool around its own cpus in which the same rules hold.

        And those that insist, where there is such a pool.
        """
        tree, grant = self._books.tree, placement.booking.grant
        held = closed_pools(judgements, grant.pool_id, firmly=False)
        pool = tree.smallest_holding(grant.exclusive)
        around = [one for one in (pool.id, *tree.ancestors[pool.id]) if one not in held]
        closed = _closed_by(firm)
        pool_id = next((one for one in around if one not in closed), around[0])
        grant = replace(grant, pool_id=pool_id)
        return replace(placement, booking=replace(placement.booking, grant=grant))

    def _next_to(
        self,
        pen: Grant,
        request: Request,
        allowed: int | None,
        back: CpuSet = NO_CPUS,
        closed: Mapping[int, str] = MappingProxyType({}),
    ) -> Placement | Failure:
        """A size for a pen next to what it has; shared containers are lifted where that helps.

        As for any container: what the kubelet counts as fitting is not refused for our counting.
        `closed`: pools that it must not come to, with the rules that say so.
        """
        placement = self._resizer.plan(pen, request, allowed, closed, back.mask)
        more = request.exclusive - len(pen.exclusive)
        if isinstance(placement, Placement) or more <= 0:
            return placement
        ledger = self._books.ledger
        missing = replace(request, exclusive=more, shared_milli=0)
        is_bound = self._is_bound if self._books.standing.rules else None
        around = pen.pool_id, *ledger.tree.ancestors[pen.pool_id]
        pools = tuple(one for one in around if one not in closed)
        lift = make_room(missing, ledger, pools, is_bound)
        if lift is None:
            return placement
        before = [ledger.counted(one.container_id) for one in lift.lifted]
        for one in lift.lifted:
            ledger.repool(one)
        lifted = self._resizer.plan(pen, request, allowed, closed, back.mask)
        for one in before:
            ledger.repool(one)
        if isinstance(lifted, Failure):
            return placement
        return replace(lifted, booking=replace(lifted.booking, lifted=lift.lifted))


def _closed_by(rules: Sequence[Restriction]) -> frozenset[int]:
    """The pools that some rules keep a pen from."""
    return frozenset[int]().union(*(one.closed_pools for one in rules))
