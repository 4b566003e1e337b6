"""Containers with a common pen: the pen is placed as one request, and they get parts of it."""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..books.books import Books
from ..model.container import Container, ContainerId
from ..model.grant import Grant
from ..model.request import CpuType, Request
from ..pens.pen_bookings import PenBookings
from ..pens.pen_name import PenName, is_outside, pen_by_numbers, pod_pen, wished_pen
from ..pens.pen_planner import PenPlanner
from ..pens.pen_rules import firm_rules, heed_in_pen, kept_out
from ..pens.pen_slices import (
    fitting_slice,
    no_slice_problem,
    slice_again,
    slice_size,
    unheeded_cold_start,
    unheeded_wish,
)
from ..placing.classifier import Classified, Classifier
from ..placing.judging.judge import Judge
from ..placing.judging.judgement import Judgement
from ..placing.judging.restriction import Restriction
from ..placing.placer import Failure, Placement
from ..placing.resizer import RESIZED
from ..placing.restart import RESTARTED, RestartPlacer
from ..text.errors import Problem
from .decision import Decision, refused, with_objection
from .pen_sizes import PenSizes
from .roster import Roster
from .unmet.unmet_rules import UnmetRules

PEN: Final = "pen"
"""What decides where the pen of a container is there already."""
PEN_RETURNED: Final = "pen returned"
"""What decides where it is back, and the container was not in it before."""


class Penning:
    """The containers that have a pen, and what they ask for; the last one who leaves ends it."""

    def __init__(
        self,
        books: Books,
        roster: Roster,
        judge: Judge,
        placer: RestartPlacer,
        unmet: UnmetRules,
        classifier: Classifier,
    ) -> None:
        self.books = books
        self.roster = roster
        self._judge = judge
        self.unmet = unmet
        self.sizes = PenSizes(books, roster, classifier)
        planner = PenPlanner(books, judge.is_bound, placer.displacement)
        self.bookings = PenBookings(books, placer, planner)

    def name_of(self, container: Container, classified: Classified) -> PenName | None:
        """The pen that a container belongs in; None where it has a place of its own."""
        if classified.request.cpu_type not in (CpuType.NORMAL, CpuType.PEN):
            return None
        wished, pod = wished_pen(container, classified.preferences), container.pod
        if wished is not None:
            return wished
        if self.bookings.knows(pod):
            return None if is_outside(container) else pod_pen(pod)
        if (size := self.roster.size_of(container.pod)) is None:
            return None
        return pen_by_numbers(container, self.sizes.residents(container), size)

    def place(self, container: Container, classified: Classified, *, runs: bool) -> Decision | None:
        """The grant of a known container in its pen, booked; None where it has none.

        A refusal books nothing. No rule between containers refuses one that `runs`.
        """
        name = self.name_of(container, classified)
        if name is None:
            return None
        pen, made = self.books.ledger.pens.get(name.id), None
        if pen is None:
            made = self._begin(name, container, classified, runs=runs)
        else:
            back = self.roster.place_in(name.id, container)
            if request := self.sizes.changed_request(name, pen, container):
                pen = self.bookings.as_left(pen, back)
            if not runs:
                made = kept_out(container, classified, pen, self._judge, self.books, back)
            if made is None and request:
                judgements = self.judged(container, classified, pen)
                made = self.bookings.resize(pen, request, judgements, back, runs=runs)
        if isinstance(made, Failure):
            self.books.withdraw(container.id)
            return refused(container.id, made, classified.problems)
        problems = with_objection(classified.problems, container, made)
        # It may ask for a place near its memory, which is no wish for later.
        own = self.roster.classified[container.id].request
        classified = structs.replace(classified, request=own, problems=problems)
        return self._joined(name, container, classified, made if pen is None else None)

    def has_place_of(self, container: Container) -> bool:
        """Whether a container had a place before, and its pen, if any, may be there again."""
        last, ledger = self.roster.remembered_place(container), self.books.ledger
        if last is None or last.pen is None or last.pen.container_id in ledger.pens:
            return last is not None
        return not last.pen.exclusive.mask & ~(ledger.free_sharable[-1] | ledger.free_isolated[-1])

    def enter(
        self, pen_id: ContainerId, container: Container, classified: Classified, own: CpuSet
    ) -> None:
        """Book a container in a pen, with these cpus of it for itself, and note what it is."""
        request = self.bookings.enter(pen_id, container.id, classified.request, own)
        self.roster.add(container, structs.replace(classified, request=request))
        self.note_grant(container.id)

    def note_grant(self, container_id: ContainerId) -> None:
        """Note in its decision what a container in a pen has by now."""
        grant = self.books.ledger.grants[container_id]
        self.roster.note_grant(grant, self.books.tree.pools[grant.pool_id].name)

    def left(self, pen: Grant, gone: Grant) -> None:
        """A container has left a pen: it shrinks if that counts, and ends after the last one."""
        ledger = self.books.ledger
        members = ledger.members(pen.container_id)
        if not members:
            self.bookings.remember(pen)
            return
        if gone.exclusive:
            self.unmet.note_shifted(members)
        known = self.roster.classified
        is_cold = known[gone.container_id].request.cold_start_ns and not any(
            known[one].request.cold_start_ns for one in members
        )
        if is_cold and not self.books.has_dram(pen.memory):
            # Nobody is left who would end it.
            self.books.end_cold_start(pen.container_id)
        other = self.roster.containers[next(iter(members))]
        classified, pen = known[other.id], ledger.pens[pen.container_id]
        name = self.name_of(other, classified)
        if name is not None and (request := self.sizes.changed_request(name, pen, other)):
            if pen.exclusive and request.total_milli > 1000 * len(pen.exclusive):
                # Who is back is to find it where rules about that one let it be.
                request = structs.replace(request, exclusive=len(pen.exclusive), shared_milli=0)
            self.bookings.resize(pen, request, self.judged(other, classified, pen))
            self.unmet.note_moved(pen.container_id)

    def _begin(
        self, name: PenName, container: Container, classified: Classified, *, runs: bool
    ) -> Placement | Failure:
        """A new pen, around the containers of the pod that hold something already."""
        residents = () if name.is_group else self.sizes.residents(container)
        back = self.roster.place_in(name.id, container)
        made = None
        if residents:
            made = self._enclose(name, container, classified, *residents, runs=runs)
        if made is not None and (back is None or isinstance(made, Placement)):
            return made
        request = self.sizes.request_of(name, container, (container,))
        request = structs.replace(request, hints=classified.request.hints)
        judgement = self._judge.judge(container, classified.placement, request)
        weights = self.books.affinity.affinities(container, classified.rules).weights
        made = self.bookings.begin(request, weights, judgement, back)
        if isinstance(made, Placement):
            for one in residents:
                self._take_in(one, made.booking.grant)
        return made

    def _take_in(self, resident: Container, pen: Grant) -> None:
        """Let a resident that shares cpus share those of its pod's pen instead, if it may be there.

        Its part is in the pod's size, and others are short of room.
        """
        known = self.roster.classified[resident.id]
        if self.books.ledger.grants[resident.id].exclusive:
            return
        if kept_out(resident, known, pen, self._judge, self.books, None) is None:
            self.enter(pen.container_id, resident, known, NO_CPUS)

    def _enclose(
        self,
        name: PenName,
        container: Container,
        classified: Classified,
        *residents: Container,
        runs: bool,
    ) -> Placement | Failure:
        request = self.sizes.request_of(name, container, (*residents, container))
        held = [self.books.ledger.grants[one.id] for one in residents]
        self.unmet.note_shifted(one.id for one in residents)
        judgements = self.judged(container, classified, *held)
        firm = () if runs else self._firm(container, classified, request, held)
        back = self.roster.place_in(name.id, container)
        made = self.bookings.enclose(request, held, judgements, firm, back, runs=runs)
        if isinstance(made, Placement):
            for one, grant in zip(residents, held, strict=True):
                known = self.roster.classified[one.id]
                is_own = bool(made.booking.grant.exclusive)
                count = slice_size(name, one, known, self.roster.size_of(one.pod)) if is_own else 0
                own = grant.exclusive if count == len(grant.exclusive) else NO_CPUS
                self.enter(name.id, one, known, own)
                if not own and (problem := unheeded_wish(one, is_group=name.is_group)):
                    self.roster.note_problem(one.id, problem)
            heed_in_pen(judgements, name.id, self.books)
            self.share_some(name.id)
        return made

    def _firm(
        self,
        container: Container,
        classified: Classified,
        request: Request,
        residents: Sequence[Grant],
    ) -> Sequence[Restriction]:
        """The rules that must hold in a pen that begins for a container, around residents."""
        judge, books, roster = self._judge, self.books, self.roster
        found = [*firm_rules(container, classified, request, residents, judge, books)]
        for one in (grant.container_id for grant in residents):
            resident, known = roster.containers[one], roster.classified[one]
            held = firm_rules(resident, known, request, residents, judge, books)
            cpus, pool_id = books.reach(one), books.pool_around(one)
            # As far as they hold where it is.
            found += [rule for rule in held if not rule.is_broken_by(cpus, pool_id)]
        return found

    def _joined(
        self,
        name: PenName,
        container: Container,
        classified: Classified,
        begun: Placement | None,
    ) -> Decision:
        """A container with its part of a pen that has room for it."""
        books, problems = self.books, classified.problems
        pen = books.ledger.pens[name.id]
        size = self.roster.size_of(container.pod)
        count = slice_size(name, container, classified, size) if pen.exclusive else 0
        back = self.roster.place_in(name.id, container) if count else None
        is_back = bool(count) and self.roster.remembered_place(container) is not None
        awaited = self.roster.awaited_slices(container) if is_back else NO_CPUS
        request, picker = classified.request, books.picker
        own = fitting_slice(books.ledger, pen, count, request, picker, awaited)
        if back is not None:
            own = slice_again(books.ledger, pen, own, back.grant, awaited)
        if len(own) < count:
            problems = (*problems, no_slice_problem(container, count, pen))
        elif not count and (problem := unheeded_wish(container, is_group=name.is_group)):
            problems = (*problems, problem)
        cold_start_ns = classified.request.cold_start_ns
        if cold_start_ns and books.has_dram(pen.memory):
            problems = (*problems, unheeded_cold_start(container, is_group=name.is_group))
            cold_start_ns = 0
        self.enter(name.id, container, classified, own)
        problems = (*problems, *self.share_some(name.id))
        grant = books.ledger.grants[container.id]
        # Where the pen came to be of what another one of its pod has, it is there for that one.
        why = PEN if begun is None or begun.decided_by == RESIZED else begun.decided_by
        if why == RESTARTED and self.roster.remembered_place(container) is None:
            why = PEN_RETURNED
        decision = Decision(
            container_id=container.id,
            result=grant,
            pool=books.tree.pools[grant.pool_id].name,
            lineup=begun.lineup if begun is not None else None,
            decided_by=why,
            scheduling=classified.scheduling,
            classes=classified.classes,
            cold_start_ns=cold_start_ns,
            problems=problems,
        )
        judgement = self._judge.judge(container, classified.placement, classified.request)
        if judgement is None:
            return decision
        heed_in_pen((judgement,), name.id, books)
        # Others are told later what is theirs now: in the pen, or where they make way for it.
        self.unmet.note_displaced((container.id,))
        return decision

    def judged(
        self, container: Container, classified: Classified, *held: Grant
    ) -> Sequence[Judgement]:
        """Judgements about a container and about all who are in its pen, or are residents."""
        others = [
            (self.roster.containers[one], self.roster.classified[one])
            for each in held
            for one in self.books.ledger.occupants(each.container_id)
            if one != container.id
        ]
        everybody = ((container, classified), *others)
        found = (self._judge.judge(one, known.placement, known.request) for one, known in everybody)
        return tuple(one for one in found if one is not None)

    def share_some(self, pen_id: ContainerId) -> tuple[Problem, ...]:
        """Leave a cpu to share where somebody shares; the problem of whose it was alone."""
        sliced = self.bookings.crowded(pen_id)
        if sliced is None:
            return ()
        self.unmet.note_shifted(self.books.ledger.members(pen_id))
        container = self.roster.containers[sliced.container_id]
        classified = self.roster.classified[container.id]
        pen = self.books.ledger.pens[pen_id]
        problem = no_slice_problem(container, len(sliced.exclusive), pen)
        self.books.ledger.drop(container.id)
        self.enter(pen_id, container, classified, NO_CPUS)
        self.roster.note_problem(container.id, problem)
        return (problem,)
