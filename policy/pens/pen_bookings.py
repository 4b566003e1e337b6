"""Pens in the books: begun, put round what runs, resized, and containers in them."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ...topology.sets.cpuset import NO_CPUS, NO_NODES, CpuSet
from ..books.books import Books
from ..model.container import ContainerId, Pod
from ..model.grant import Grant, Refusal
from ..model.last_place import LastPlace
from ..model.request import CpuType, Request
from ..placing.growth import rules_text
from ..placing.judging.judgement import Judgement
from ..placing.judging.restriction import Restriction
from ..placing.placer import Failure, Placement
from ..placing.restart import RestartPlacer
from .pen_name import pod_pen
from .pen_planner import PenPlanner
from .pen_rules import allowed_in_pen, heed_in_pen, kept_from
from .pen_slices import rest_of, shrunk_pen

_LAST_MAX: Final = 256


class PenBookings:
    """The pens of some books, changed there in one step each."""

    def __init__(self, books: Books, placer: RestartPlacer, planner: PenPlanner) -> None:
        self._books = books
        self._placer = placer
        self._planner = planner
        self._last: dict[ContainerId, Grant] = {}
        """Pens that ended, the oldest forgotten first: who is restarted finds its cpus again."""

    def begin(
        self,
        request: Request,
        weights: Mapping[ContainerId, int],
        judgement: Judgement | None,
        back: LastPlace | None,
    ) -> Placement | Failure:
        """A new pen, placed like a container with this request, or where it was before.

        `back`: the place of the container that it is for, where it was in this pen and asks for
        what it had. Of anybody else the rules are judged as of any newcomer.
        """
        pen, last = self._last.get(request.container_id), None
        if pen is not None and back is not None and back.pen is not None:
            # It may have been another one that ended last, and asked for more or less.
            request = _of_its_kind(back.pen, request)
            pen = self._part_of(back, request.exclusive) or pen
        if pen is not None:
            last = LastPlace(grant=pen, request=_as_before(request, pen))
            if back is not None:
                last = replace(last, request=request, breaches=back.breaches)
        broken = self._broken_at(pen, judgement) if pen is not None and back is None else ()
        found = self._placer.plan(request, weights, judgement, None if broken else last)
        if broken and isinstance(found, Failure) and all(one.can_break for one in broken):
            found = self._placer.plan(request, weights, judgement, last)
        if isinstance(found, Placement):
            self._last.pop(request.container_id, None)
            self._take(found)
        return found

    def _part_of(self, back: LastPlace, count: int) -> Grant | None:
        """The pen of before with so many of its own cpus; None where it had fewer."""
        picker, pen = self._books.picker, back.pen
        if pen is None:
            return None
        enough = next((one for one in back.pen_cpus if len(one) >= count), pen.exclusive)
        own = picker.pick(enough.mask, count)
        if own is None:
            return None
        isolated = self._books.tree.root.isolated & CpuSet(own)
        return replace(pen, exclusive=CpuSet(own), isolated=isolated)

    def _broken_at(self, pen: Grant, judgement: Judgement | None) -> Sequence[Restriction]:
        """The rules of a newcomer that would not hold where a pen was that has ended."""
        if judgement is None:
            return ()
        cpus = (self._books.pinner.pool_cpus.of(pen) or NO_CPUS).mask
        return [one for one in judgement.own if one.is_broken_by(cpus, pen.pool_id)]

    def enclose(
        self,
        request: Request,
        residents: Sequence[Grant],
        judgements: Sequence[Judgement],
        firm: Sequence[Restriction] = (),
        back: LastPlace | None = None,
        *,
        runs: bool = False,
    ) -> Placement | Failure:
        """A new pen of what some containers hold, and of more beside it where that is not enough.

        They hold nothing afterwards, and are to `enter` it; on failure they hold what they held.
        `judgements`: what rules say of those who will be in it. `firm`: the rules that must hold
        on its cpus, of and about the container that it begins for. `back`: the place of that one,
        where it was in this pen before and asks for what it had. `runs`: that one cannot be refused
        for any rule.
        """
        books = self._books
        allowed = allowed_in_pen(judgements, residents, books)
        ledger, memory = books.ledger, books.memory
        held, look = memory.snapshot(), memory.last_look()
        for one in residents:
            ledger.drop(one.container_id)
            memory.release(one.container_id)
        pen = self._around(residents, request)
        request = replace(request, exclusive=max(request.exclusive, len(pen.exclusive)))
        ledger.add(pen)
        planner = self._planner
        placement = planner.plan_apart(pen, request, allowed, judgements, firm, runs=runs)
        if pen.exclusive and isinstance(placement, Failure) and back and back.pen:
            # Their own cpus are a part of the pod's: the rest is as much of what it had before.
            regrown = planner.regrown(pen, back.pen, request, allowed, placement)
            if len(regrown.booking.grant.exclusive) >= request.exclusive:
                placement = regrown
        if isinstance(placement, Placement):
            pool_id = placement.booking.grant.pool_id
            is_closed = any(pool_id in one.closed_pools for one in firm)
            if request.exclusive and (is_closed or not pen.exclusive):
                placement = planner.at_its_cpus(placement, judgements, firm)
            begun = placement.booking.grant
            placement = kept_from("would begin", firm, begun, books, back) or placement
        if isinstance(placement, Placement):
            books.take(placement.booking)
            return placement
        ledger.drop(pen.container_id)
        for one in residents:
            ledger.add(one)
        # As old as they were, and with what they were seen to use.
        memory.restore(held)
        memory.observe_like(look)
        return placement

    def resize(
        self,
        pen: Grant,
        request: Request,
        judgements: Sequence[Judgement] = (),
        back: LastPlace | None = None,
        *,
        runs: bool = False,
    ) -> Placement | Failure:
        """Another size for a pen of the same kind; no slice is taken, and what is shared stays.

        `judgements`: what rules say of those who are in it; they go on holding, whoever grows next.
        `back`: the place of a container that comes back to it, and asks for what it had. `runs`: it
        is for one that cannot be refused for any rule.
        """
        books, ledger = self._books, self._books.ledger
        request = _of_its_kind(pen, request)
        kept = shrunk_pen(ledger, pen, request.exclusive, books.picker)
        if isinstance(kept, Refusal):
            return Failure(refusal=kept)
        allowed = allowed_in_pen(judgements, (pen,), books)
        then = None if back is None else back.pen
        before, planner = NO_CPUS if then is None else then.exclusive, self._planner
        for one in () if back is None else back.pen_cpus:
            if len(pen.exclusive | before) < request.exclusive:
                before = one
        placement = planner.plan(kept, request, allowed, judgements, before, runs=runs)
        if isinstance(placement, Failure):
            if then is None:
                cpus = books.pinner.pool_cpus.of(pen) or NO_CPUS
                told = rules_text(judgements, cpus.mask, pen.pool_id, books)
                return placement.because_of(told) if told else placement
            placement = planner.regrown(kept, then, request, allowed, placement)
        elif kept is not pen:
            placement = planner.as_shrunk(pen, placement, request)
        books.take(placement.booking)
        books.pinner.mark(pen.container_id)
        heed_in_pen(judgements, pen.container_id, books)
        return placement

    def as_left(self, pen: Grant, back: LastPlace | None) -> Grant:
        """A shared pen on those cpus of its pool alone that it had as a container left it.

        That one is back. The pen may be on more by now, where rules about that one alone had kept
        it from them. To be resized: it stays so narrow only where a rule wants it.
        """
        then = None if back is None else back.pen
        if then is None or then.within is None or pen.exclusive or pen.pool_id != then.pool_id:
            return pen
        within = then.within if pen.within is None else then.within & pen.within
        is_there = within.mask & self._books.ledger.free_sharable[pen.pool_id]
        return replace(pen, within=within) if is_there else pen

    @staticmethod
    def fits(pen: Grant, request: Request) -> bool:
        """Whether a pen is as large as a request for it asks."""
        asked = _of_its_kind(pen, request)
        has = len(pen.exclusive), pen.shared_milli, pen.memory_bytes
        return has == (asked.exclusive, asked.shared_milli, asked.memory_bytes)

    def move(self, placement: Placement) -> None:
        """Another place for a pen; nobody is in it meanwhile, and all are to `enter` it again."""
        self._take(placement)
        self._books.pinner.mark(placement.booking.grant.container_id)

    def enter(
        self, pen_id: ContainerId, container_id: ContainerId, request: Request, own: CpuSet
    ) -> Request:
        """Book a container in a pen, with these cpus for itself; its request as it counts there.

        In place of what it held outside.
        """
        pen = self._books.ledger.pens[pen_id]
        if self._books.ledger.drop(container_id) is not None:
            self._books.memory.release(container_id)
        grant = Grant(
            container_id=container_id,
            pool_id=pen.pool_id,
            cpu_type=CpuType.PEN,
            pen=pen_id,
            exclusive=own,
            isolated=own & pen.isolated,
            memory=pen.memory,
            preserve_memory=request.preserve_memory,
            hide_hyperthreads=request.hide_hyperthreads,
            within=pen.within,
        )
        self._books.ledger.add(grant)
        self._books.pinner.mark(pen_id)
        return replace(
            request, cpu_type=CpuType.PEN, exclusive=len(own), shared_milli=0, fallback=None
        )

    def crowded(self, pen_id: ContainerId) -> Grant | None:
        """The youngest slice of a pen in which somebody has nothing to share; None in any other."""
        ledger = self._books.ledger
        pen = ledger.pens[pen_id]
        members = [ledger.grants[one] for one in ledger.members(pen_id)]
        sliced = [one for one in members if one.exclusive]
        if not pen.exclusive or rest_of(ledger, pen) or len(sliced) == len(members):
            return None
        return sliced[-1]

    def knows(self, pod: Pod) -> bool:
        """Whether there is a pen of a pod, or was one that has ended."""
        pens, ended = self._books.ledger.pens, self._last
        # As a rule there never was a pen, and none has to be named.
        return bool(pens or ended) and ((pen_id := pod_pen(pod).id) in pens or pen_id in ended)

    def remember(self, pen: Grant) -> None:
        """Remember a pen that has ended, for the next one of its name."""
        self._last[pen.container_id] = pen
        if len(self._last) > _LAST_MAX:
            del self._last[next(iter(self._last))]

    def ended(self) -> Mapping[ContainerId, Grant]:
        """The pens that have ended and are remembered, by id."""
        return dict(self._last)

    def remember_only(self, ended: Mapping[ContainerId, Grant]) -> None:
        """Remember these pens, and none that ended besides."""
        self._last = dict(ended)

    def _take(self, placement: Placement) -> None:
        booking = placement.booking
        self._books.take(replace(booking, grant=replace(booking.grant, is_pen=True)))

    def _around(self, residents: Sequence[Grant], request: Request) -> Grant:
        """A pen of what containers held, with their memory."""
        tree = self._books.tree
        exclusive, cpus, zone = NO_CPUS, NO_CPUS, NO_NODES
        for one in residents:
            zone |= one.memory
            exclusive |= one.exclusive if request.exclusive else NO_CPUS
            cpus |= tree.pools[one.pool_id].cpus
        pool_id = residents[0].pool_id
        if any(one.pool_id != pool_id for one in residents):
            pool_id = tree.smallest_holding(cpus).id
        shared_milli = 0 if request.exclusive else sum([one.shared_milli for one in residents])
        pen = Grant(
            container_id=request.container_id,
            is_pen=True,
            pool_id=pool_id,
            exclusive=exclusive,
            isolated=exclusive & tree.root.isolated,
            shared_milli=shared_milli,
            memory_bytes=request.memory_bytes,
            preserve_memory=request.preserve_memory,
            hide_hyperthreads=request.hide_hyperthreads,
            within=residents[0].within if len(residents) == 1 else None,
        )
        return replace(pen, memory=self._books.adopt_memory(request, pen, zone))


def _of_its_kind(pen: Grant, request: Request) -> Request:
    """A request for whole cpus where a pen has own ones, and for a share where it has none."""
    if not pen.exclusive:
        return request.as_shared()
    whole = max(-(-request.total_milli // 1000), 1)
    return replace(request, exclusive=whole, shared_milli=0)


def _as_before(request: Request, pen: Grant) -> Request:
    """The request of a pen that asked for what it had, and otherwise for the same as this one."""
    return replace(
        request,
        exclusive=len(pen.exclusive),
        shared_milli=pen.shared_milli,
        memory_bytes=pen.memory_bytes,
    )
