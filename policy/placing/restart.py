"""Plans for containers that restart: the place they had, or the best one that is left."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..books.booking import Booking, grant_of
from ..books.books import Books
from ..books.named_cpus import can_spare
from ..books.promises import keeps_promises
from ..model.container import ContainerId
from ..model.grant import Dropped, Grant, Refusal
from ..model.last_place import LastPlace
from ..model.request import CpuType, Request
from .classifier import Classified
from .displacement import Displacement, Lost, lost_text
from .growth import held_back, kept_in
from .judging.judgement import Judgement
from .judging.restriction import Restriction, names_text
from .nearby import Nearby, reaches
from .openings.crowds import standing_cpus
from .openings.known_breaches import left_within, own_anew, staying
from .openings.narrowing import make_way
from .place_finder import ROOM_MADE
from .placer import Failure, Placement, Placer

RESTARTED: Final = "restarted"
"""What decides where a container is restarted, and gets the place that it had."""

MADE_WAY: Final = "made_way"
"""What decides where one gets others, as some share those by now who can be nowhere else."""

_LEFT_NONE: Final = "who asks for no CPU would be left none where rules hold:"


class RestartPlacer:
    """Plans grants from what a ledger has left, for containers that may have had a place before."""

    def __init__(
        self, books: Books, placer: Placer, classified: Mapping[ContainerId, Classified]
    ) -> None:
        """Reads the books, never changes them. `classified`: what residents ask for."""
        self._books = books
        self.displacement = Displacement(books, classified)
        """The containers that bookings would drive out."""
        self._placer = placer
        self._tree = books.tree
        self._ledger = books.ledger
        self._memory = books.pool_memory

    def plan(
        self,
        request: Request,
        weights: Mapping[ContainerId, int],
        judgement: Judgement | None,
        last: LastPlace | None,
        *,
        runs: bool = False,
    ) -> Placement | Failure:
        """The best grant for a container, or what it held before its restart.

        No rule between containers refuses one that `runs`: at worst some break.
        """
        placer = self._placer
        found = None
        if last is not None and last.grant.exclusive.mask & self._ledger.narrowed.stuck_cpus:
            # Another one is there that cannot be moved: as a newcomer, as long as there are others.
            last = None
        if last is not None:
            short = self._again_less(request, last, judgement) if last.is_awaited else None
            found = short or self._again(request, last, judgement)
        placement = found or self._anew(request, weights, judgement)
        if last is not None and found is None and isinstance(placement, Placement):
            placement = self._again_short(request, last, judgement, placement)
        if last is not None and isinstance(placement, Failure):
            placement = self.plan_back(request, last, judgement, placement)
        if runs and judgement is not None and isinstance(placement, Failure):
            yielding = placer.plan(request, weights, judgement.yielding())
            return yielding if isinstance(yielding, Placement) else placement
        return placement

    def _anew(
        self, request: Request, weights: Mapping[ContainerId, int], judgement: Judgement | None
    ) -> Placement | Failure:
        """The best grant for a container, as for a newcomer.

        Where it makes room no rule that insists may break by that: those who asked for no cpu keep
        one then where they are.
        """
        spared: dict[ContainerId, Lost] = {}
        placement = self._placer.plan(request, weights, judgement)
        while isinstance(placement, Placement) and placement.decided_by == ROOM_MADE:
            some = self.displacement.some_lost(placement.booking, judgement)
            if some is not None:
                ids = [*spared, *(one.container.id for one in some.lost)]
                without = self._placer.plan(request, weights, judgement, ids)
                if isinstance(without, Failure):
                    # Whoever else has to keep a cpu leaves no more.
                    return without.because_of(f"{_LEFT_NONE} {some.text}")
            lost = self.displacement.lost(placement.booking, judgement)
            if all(one.container.id in spared for one in lost):
                break
            spared |= {one.container.id: one for one in lost}
            placement = self._placer.plan(request, weights, judgement, spared)
        if spared and isinstance(placement, Failure):
            return placement.because_of(f"{_LEFT_NONE} {lost_text(tuple(spared.values()))}")
        return placement

    def _again(
        self, request: Request, last: LastPlace, judgement: Judgement | None
    ) -> Placement | None:
        """The grant that a container held before its restart; None where that is not free.

        Its rules are not judged again, but for those that keep it and others apart: who made way
        for it before does so again. One that may break, and did not hold there, keeps it from
        nothing.
        """
        within = last.grant.within
        found = self._again_within(request, last, judgement, None) if within is None else None
        if found is None and judgement is not None and request.needs_shared_cpu:
            # It was given more, perhaps, when others ended that are back by now.
            cpus = standing_cpus(last.grant, self._ledger)
            less = replace(last, is_awaited=True)
            for left in left_within(cpus, judgement.restrictions, last, self._books):
                found = self._again_within(request, less, judgement, CpuSet(left))
                if found is not None:
                    return found
        return found if within is None else self._again_within(request, last, judgement, within)

    def _again_within(
        self,
        request: Request,
        last: LastPlace,
        judgement: Judgement | None,
        within: CpuSet | None,
    ) -> Placement | None:
        """The place that it had, with a share of these cpus of its pool."""
        held, ledger = last.grant, self._ledger
        pool_id, own = held.pool_id, held.exclusive.mask
        memory = self._memory.choice(request)
        if held.cpu_type is request.cpu_type is CpuType.RESERVED:
            of_it = None if judgement is None else judgement.of_a_restart()
            again = self._placer.at_root(request, memory, of_it, stays=True)
            return again if isinstance(again, Placement) else None
        if held.cpu_type is CpuType.NORMAL and request.cpu_type is CpuType.RESERVED:
            # It found those full: what is left there by now is others', who ended with it.
            request = replace(request, cpu_type=CpuType.NORMAL)
        if not held.cpu_type is request.cpu_type is CpuType.NORMAL:
            return None
        sharable = own & ~held.isolated.mask
        count, is_free = sharable.bit_count(), not sharable & ~ledger.free_sharable[pool_id]
        is_free &= not own & ~sharable & ~ledger.free_isolated[pool_id]
        region = -1 if within is None else within.mask
        if own.bit_count() != request.exclusive or not is_free:
            return None
        shared = ledger.free_sharable[pool_id] & region & ~own if request.needs_shared_cpu else 0
        if (request.needs_shared_cpu and not shared) or isinstance(memory.zone(pool_id), Dropped):
            return None
        offer = memory.offer_back(held)
        grant = grant_of(request, pool_id, held.exclusive, held.isolated, offer)
        is_room = can_spare(sharable, pool_id, ledger)
        if request.shared_milli:
            room = ledger.room_within(pool_id, region) - 1000 * count
            is_room &= request.shared_milli <= room
        if is_room and not (ledger.narrowed.is_empty and region == -1):
            is_room = ledger.spare_cpus.can_take(own, shared, request.shared_milli)
        if request.needs_shared_cpu:
            grant = replace(grant, within=within)
        if not (is_room or keeps_promises(grant, ledger)):
            return None
        promised, grant = grant, grant if last.is_awaited else replace(grant, within=None)
        placement = Placement(booking=Booking(grant=grant, offer=offer), decided_by=RESTARTED)
        if judgement is None:
            return placement
        cpus = own | shared
        narrowed: Sequence[Grant] = ()
        rules = judgement.restrictions
        unmet = [one for one in rules if one.blockers and one.is_broken_by(cpus, pool_id)]
        if unmet:
            narrowed = self._make_way(grant, cpus, unmet, judgement, last)
            nearby = Nearby(unmet, cpus, own, self._books, reaches(narrowed, self._ledger))
            left = map(nearby.beside, filter(nearby.has_blockers, unmet))
            if not all(one.can_break and one.breaches <= last.breaches for one in left):
                return None
        is_kept = not narrowed or keeps_promises(promised, ledger, narrowed)
        if not (is_kept or (is_room and not ledger.spare_cpus.are_kept)):
            return None
        placement = self._kept(placement, judgement, cpus, narrowed)
        told = judgement.told_at(cpus, self._tree.around(pool_id, cpus))
        # Of rules that keep containers apart those are left that do not bind it.
        broken = self._near(told, cpus, own, reaches(narrowed, self._ledger))
        return replace(placement, broken=broken)

    def _make_way(
        self,
        grant: Grant,
        cpus: int,
        unmet: Sequence[Restriction],
        judgement: Judgement,
        last: LastPlace,
    ) -> Sequence[Grant]:
        """The grants of those that make way for one that is back on these cpus.

        Those beside whom rules did not hold then stay where they are. Others whom rules that may
        break keep apart from it may have stayed in its way, too.
        """
        wide, books = self._wide(grant, cpus, judgement), self._books
        left = staying(unmet, last, books)
        # Beside whom one of them did not hold makes way for the others alone.
        judgement = replace(judgement, own=own_anew(judgement.own, last))
        for firmly in (False, True) if any(one.can_break for one in unmet) else (False,):
            if found := make_way(judgement, wide, books, firmly=firmly, staying=left):
                return found
            found = make_way(judgement, wide, books, firmly=firmly, staying=left, anyway=True)
            if found and keeps_promises(grant, self._ledger, found):
                return found
        return ()

    def _wide(self, grant: Grant, cpus: int, judgement: Judgement) -> int:
        """These cpus of a container, and those of its pool that others give back to it."""
        if not grant.has_shared_part:
            return cpus
        kept = kept_in(judgement.of_growth(), grant, cpus, self._books)
        return cpus | standing_cpus(kept, self._ledger)

    def _again_short(
        self, request: Request, last: LastPlace, judgement: Judgement | None, found: Placement
    ) -> Placement:
        """The grant that a container held where it is as short of its wish as the one `found`."""
        if len(found.booking.grant.exclusive) != len(last.grant.exclusive):
            return found
        return self._again_less(request, last, judgement) or found

    def _again_less(
        self, request: Request, last: LastPlace, judgement: Judgement | None
    ) -> Placement | None:
        """The grant that a container held where that is less than it wishes."""
        count = len(last.grant.exclusive)
        for less in request.wishes[1:] if count < request.exclusive else ():
            if less.exclusive == count:
                return self._again(less, last, judgement)
        return None

    def _kept(
        self,
        placement: Placement,
        judgement: Judgement,
        cpus: int,
        narrowed: Sequence[Grant],
    ) -> Placement:
        """A place on these cpus, which may grow, and others to it, where no rule breaks by that.

        `narrowed`: the grants of those that make way for it.
        """
        booking, books = placement.booking, self._books
        grant, growing = booking.grant, judgement.of_growth()
        if grant.has_shared_part:
            grant = kept_in(growing, grant, cpus, books)
        lifted = (*narrowed, *held_back(judgement, grant, cpus, books, narrowed))
        return replace(placement, booking=replace(booking, grant=grant, lifted=lifted))

    def plan_back(
        self, request: Request, last: LastPlace, judgement: Judgement | None, failure: Failure
    ) -> Placement | Failure:
        """The grant that a container held before its restart, though that is too much today.

        Nothing but others' own cpus refuses it, and rules that keep containers apart, unless they
        are of residents beside whom they did not hold then either. And those that would break where
        others go who share its cpus by now: rather than that it has others. `failure`: why it is
        nowhere else.
        """
        held, root, ledger = last.grant, self._tree.root, self._ledger
        if held.pen is not None or not last.holds(request):
            return failure
        own = held.exclusive.mask
        taken = own & ~(ledger.free_sharable[root.id] | ledger.free_isolated[root.id])
        if held.cpu_type is CpuType.PRESERVE:
            own &= ~taken & (request.claimed or NO_CPUS).mask
        elif taken:
            return replace(failure, refusal=self._taken(failure.refusal, CpuSet(taken)))
        found = self._back_on(own, request, last, judgement, failure)
        if isinstance(found, Failure) or not own:
            return found
        lost = self.displacement.lost(found.booking, judgement)
        if not lost:
            return found
        if held.cpu_type is CpuType.PRESERVE:
            # It runs on them all the same.
            return self._back_on(0, request, last, judgement, failure)
        other = self._on_others(own, request, last, judgement, failure)
        if other is not None:
            return other
        had = f"{CpuSet(own)} that it had before its restart would have to leave them:"
        return failure.because_of(f"who shares the CPUs {had} {lost_text(lost)}")

    def _on_others(
        self,
        own: int,
        request: Request,
        last: LastPlace,
        judgement: Judgement | None,
        failure: Failure,
    ) -> Placement | None:
        """As many cpus of its pool as it had, of those that nobody needs; None without such."""
        ledger, pool_id, picker = self._ledger, last.grant.pool_id, self._books.picker
        free = ledger.free_sharable[pool_id] & ~ledger.owed
        if judgement is not None:
            free &= ~judgement.blocked
        kept = own & (free | ledger.free_isolated[pool_id])
        more = own.bit_count() - kept.bit_count()
        further = picker.extend(kept, free, more, request.priority, smt=request.smt)
        if further is None:
            return None
        found = self._back_on(kept | further, request, last, judgement, failure)
        if isinstance(found, Failure) or any(not one.can_break for one in found.broken):
            return None
        if self.displacement.lost(found.booking, judgement):
            return None
        booking, zone = found.booking, self._memory.choice(request).zone(pool_id)
        if keeps_promises(booking.grant, ledger, booking.lifted) and not isinstance(zone, Dropped):
            found = replace(found, objection="")
        return replace(found, decided_by=MADE_WAY)

    def _back_on(
        self,
        own: int,
        request: Request,
        last: LastPlace,
        judgement: Judgement | None,
        failure: Failure,
    ) -> Placement | Failure:
        """The grant of before its restart on these cpus, which nobody has for himself."""
        held, root, ledger, books = last.grant, self._tree.root, self._ledger, self._books
        if own and not root.reserved and not ledger.free_sharable[root.id] & ~own:
            # Somebody who asked for nothing must be able to run.
            return failure
        memory = self._memory.choice(request)
        zone = memory.zone(held.pool_id)
        is_short = isinstance(zone, Dropped)
        offer = memory.offer_again(held) if is_short else memory.offer_back(held)
        grant = replace(
            grant_of(request, held.pool_id, CpuSet(own), CpuSet(held.isolated.mask & own), offer),
            cpu_type=held.cpu_type,
            # One that kept its own cpus may have asked for more shares than it held.
            shared_milli=max(
                held.shared_milli - last.request.shared_milli + request.shared_milli, 0
            ),
            grown=held.grown,
        )
        found = failure.lineup.candidates()[held.pool_id] if failure.lineup else None
        missing = request.exclusive - own.bit_count()
        lack = f"{missing} of {request.exclusive} exclusive CPUs are missing"
        placement = Placement(
            booking=Booking(grant=grant, offer=offer),
            decided_by=RESTARTED,
            degraded=lack if missing > 0 else "",
            objection=str(found) if isinstance(found, Dropped) else failure.refusal.reason,
        )
        if judgement is None:
            return placement
        cpus = self._cpus_of(replace(grant, within=held.within))
        told = judgement.told_at(cpus, self._tree.around(held.pool_id, cpus))
        broken, narrowed = self._near(told, cpus, own, {}), tuple[Grant, ...]()
        if any(one.blockers for one in broken):
            narrowed = make_way(judgement, self._wide(grant, cpus, judgement), books)
            if narrowed and is_short:
                # They are not in its way any more.
                placement = replace(placement, objection=str(zone))
            broken = self._near(told, cpus, own, reaches(narrowed, self._ledger))
        exempt = judgement.passed_by(cpus)
        firm = [one for one in broken if one.blockers and not one.can_break and one not in exempt]
        if any(one.is_own or not one.breaches <= last.breaches for one in firm):
            return failure
        return self._kept(replace(placement, broken=broken), judgement, cpus, narrowed)

    def _near(
        self,
        told: Sequence[Restriction],
        cpus: int,
        own: int,
        seen: Mapping[ContainerId, int],
    ) -> tuple[Restriction, ...]:
        """The rules of some that break where these cpus are a container's; `seen`: see `Nearby`."""
        nearby = Nearby(told, cpus, own, self._books, seen)
        return tuple([one for one in told if one.closed_pools or nearby.has_blockers(one)])

    def _taken(self, refusal: Refusal, cpus: CpuSet) -> Refusal:
        """The refusal of a container whose own cpus of before its restart are others' by now."""
        find, grants = self._books.affinity.residents.container, self._ledger.grants.values()
        names = names_text([find(g.container_id) for g in grants if (g.exclusive or g.rest) & cpus])
        told = f"the CPUs {cpus} that it had before its restart are {names}'s"
        return replace(refusal, reason=f"{refusal.reason} — {told}")

    def _cpus_of(self, grant: Grant) -> int:
        """A mask of the cpus that a grant will stand for."""
        cpus = self._books.pinner.once_taken(grant)
        return self._placer.wherever(grant.container_id) if cpus is None else cpus.mask
