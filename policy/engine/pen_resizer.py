"""Resizes of containers in pens, and of whole pods, whose pens are as large as these say."""

from msgspec import structs

from ...topology.sets.cpuset import NO_CPUS
from ..model.container import Container, Pod, Resources
from ..model.grant import Grant, Refusal
from ..pens.pen_name import PenName, pod_pen
from ..pens.pen_slices import Slice, resized_slice, shrunk_slice, slice_size
from ..pens.pod_numbers import resized_with, shows_pod
from ..placing.classifier import Classified
from ..placing.placer import Failure, Placement
from ..placing.resizer import RESIZED
from .decision import Decision, left_as_it_was
from .penning import Penning


class PenResizer:
    """Another size for pens and the parts of them that containers have."""

    def __init__(self, pens: Penning) -> None:
        self._pens, self._sizes, self._bookings = pens, pens.sizes, pens.bookings
        self._books, self._roster, self._unmet = pens.books, pens.roster, pens.unmet

    def resize(self, container: Container, classified: Classified) -> Decision:
        """Other resources for a container in a pen; a refusal leaves it what it had."""
        books, container_id = self._books, container.id
        ledger, held = books.ledger, books.ledger.grants[container_id]
        pen, known = ledger.pens[held.held_as], self._roster.containers[container_id]
        if pen.exclusive:
            self._unmet.note_shifted(ledger.members(pen.container_id))
        name = self._pens.name_of(container, classified) or PenName(pen.container_id)
        size = None if name.is_group else self._roster.size_of(known.pod)
        carries = size is not None and shows_pod(size, known)
        if size is not None and carries and (larger := resized_with(size, known, container)):
            refusal = self.resize_pod(container.pod, larger)
            if refusal is not None:
                return self._refused(held, refusal)
            pen = ledger.pens[pen.container_id]
        count = slice_size(name, container, classified, self._roster.size_of(container.pod))
        count = 0 if carries or not pen.exclusive else count
        request, is_counted = classified.request, self._sizes.is_counted(name, container)
        if is_counted:
            # A pen that shrinks keeps its slices, so this one shrinks first.
            smaller = shrunk_slice(held, min(count, len(held.exclusive)), request, books.picker)
            ledger.repool(structs.replace(held, exclusive=smaller.exclusive, grown=smaller.grown))
            self._roster.containers[container_id] = container
            judgements = self._pens.judged(container, classified, pen)
            made = self._bookings.resize(pen, self._sizes.request_of(name, container), judgements)
            if isinstance(made, Failure):
                self._roster.containers[container_id] = known
                ledger.repool(held)
                return self._refused(held, made.refusal)
        pen, now = ledger.pens[pen.container_id], ledger.grants[container_id]
        own = resized_slice(ledger, pen, now, count, request, books.picker)
        if isinstance(own, Refusal):
            if not is_counted:
                return self._refused(held, own)
            own = Slice()
        ledger.drop(container_id)
        self._pens.enter(pen.container_id, container, classified, own.exclusive)
        ledger.repool(structs.replace(ledger.grants[container_id], grown=own.grown))
        self._pens.share_some(pen.container_id)
        return structs.replace(
            self._roster.decisions[container_id],
            result=ledger.grants[container_id],
            decided_by=RESIZED,
            lineup=None,
            problems=classified.problems,
        )

    def resize_pod(self, pod: Pod, size: Resources) -> Refusal | None:
        """Another size for a pod, and its pen if it has one; a refusal leaves what it had.

        What was asked for is noted: the same question again changes nothing, and the old size once
        more undoes it.
        """
        key, ledger = pod.uid or pod.id, self._books.ledger
        before = self._roster.pod_sizes.get(key)
        self._roster.note_size(pod, size)
        name = pod_pen(pod)
        pen = ledger.pens.get(name.id)
        if pen is None:
            return None
        member = self._roster.containers[next(iter(ledger.members(name.id)))]
        classified = self._roster.classified[member.id]
        held = [ledger.grants[one] for one in ledger.members(name.id)]
        # Some were resized before their pod was, and had seemed to have cpus of their own.
        known = self._roster.containers
        sliced = [o for o in held if o.exclusive and shows_pod(size, known[o.container_id])]
        request = self._sizes.request_of(name, member)
        if size == before and not sliced and self._bookings.fits(pen, request):
            return None
        self._unmet.note_shifted(ledger.members(name.id))
        for one in sliced:
            ledger.repool(structs.replace(one, exclusive=NO_CPUS))
        made = self._bookings.resize(pen, request, self._pens.judged(member, classified, pen))
        if isinstance(made, Placement):
            self._pens.share_some(name.id)
            for one in held:
                self._pens.note_grant(one.container_id)
            return None
        for one in held:
            ledger.repool(one)
        if before is None:
            del self._roster.pod_sizes[key]
        else:
            self._roster.pod_sizes[key] = before
        return made.refusal

    def _refused(self, held: Grant, refusal: Refusal) -> Decision:
        problems = self._roster.classified[held.container_id].problems
        return left_as_it_was(held, Failure(refusal=refusal), self._books, problems)
