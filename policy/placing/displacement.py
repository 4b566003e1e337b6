"""Displacement: residents that others' own cpus drive out of theirs, and the rules lost by that.

Tried on a copy of the ledger, in which those without a cpu of their pool find another place the way
they do once the cpus are taken.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ...topology.sets.cpuset import CpuSet
from ..books.booking import Booking
from ..books.books import Books
from ..model.container import Container, ContainerId
from ..model.grant import Grant
from ..model.pinning import Pinning
from .classifier import Classified
from .growth import homeless, is_homeless, wider_place
from .judging.judge import Judge
from .judging.restriction import Restriction


class Lost(Struct, frozen=True):
    """A resident that is driven out, and its rules, and those about it, that break by that."""

    container: Container
    rules: Sequence[Restriction]


class Displacement:
    """Looks ahead to whom a booking would drive out; it changes nothing."""

    def __init__(self, books: Books, classified: Mapping[ContainerId, Classified]) -> None:
        """Reads the books. `classified`: what residents ask for."""
        self._books = books
        self._classified = classified

    def lost(self, booking: Booking) -> Sequence[Lost]:
        """The residents for which rules that insist break by a booking; those hold so far.

        Of rules ignored during execution those alone that keep containers apart: the others are for
        who arrives, and who is left no cpu of its pool comes home later. O(pools + grants + grants
        driven out), and each of these is judged up to three times.
        """
        books = self._books
        if not books.standing.rules:
            return ()
        after = copy(books)
        after.ledger = books.ledger.copy()
        for one in booking.lifted:
            after.ledger.repool(one)
        after.ledger.repool(booking.grant)
        before = books.ledger.counted
        driven_out = [
            one for one in homeless(after) if not is_homeless(before(one.container_id), books)
        ]
        if not driven_out:
            return ()
        judge = Judge(after, books.config)
        for grant in driven_out:
            if not grant.is_pen:
                # A pen stays with its pool, and is where everybody is who is left nothing there.
                self._settle(grant, judge, after)
        members = [
            one
            for grant in driven_out
            for one in (after.ledger.members(grant.container_id) or (grant.container_id,))
            if one in self._classified
        ]
        after.pinner = copy(books.pinner)
        told = {one: Pinning(cpus=_cpus_left(one, after)) for one in members}
        after.pinner.last_told = {**books.pinner.last_told, **told}
        return [one for one in map(partial(self._looked_at, after), members) if one.rules]

    def _settle(self, grant: Grant, judge: Judge, after: Books) -> None:
        """Let a resident have the place that it finds, if rules say anything of it."""
        known = self._classified.get(grant.container_id)
        if known is None:
            return
        container = after.affinity.residents.container(grant.container_id)
        judgement = judge.judge(container, known.placement, known.request, has_pulls=False)
        found = None if judgement is None else wider_place(judgement, grant, after)
        if found is not None:
            after.ledger.repool(found)

    def _looked_at(self, after: Books, container_id: ContainerId) -> Lost:
        """A resident, with the rules that insist and break where it is afterwards."""
        broken, held = self._broken(container_id, after), list[Restriction]()
        if broken:
            before = {one.name for one in self._broken(container_id, self._books)}
            held = [one for one in broken if one.name not in before]
        return Lost(self._books.affinity.residents.container(container_id), held)

    def _broken(self, container_id: ContainerId, books: Books) -> Sequence[Restriction]:
        known, cpus = self._classified[container_id], books.reach(container_id)
        container = books.affinity.residents.container(container_id)
        judge = Judge(books, books.config)
        judgement = judge.judge(container, known.placement, known.request, has_pulls=False)
        if judgement is None:
            return ()
        told = replace(judgement, passed=()).told_at(cpus, books.pool_around(container_id))
        return [one for one in told if not one.can_break and (one.blockers or one.is_lasting)]


def _cpus_left(container_id: ContainerId, books: Books) -> CpuSet:
    """The cpus that a shared resident has; of a full pool those that it is lent."""
    grant, ledger = books.ledger.counted(container_id), books.ledger
    shared = ledger.share(grant.pool_id)
    if grant.within is None:
        return CpuSet(shared)
    reserved = ledger.tree.root.reserved.mask
    return CpuSet(shared & grant.within.mask or reserved & grant.within.mask or shared)
