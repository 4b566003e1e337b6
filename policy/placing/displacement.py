"""Displacement: residents that others' own cpus drive out of theirs, and the rules lost by that.

Tried on a copy of the ledger, in which those without a cpu of their pool find another place the way
they do once the cpus are taken.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...topology.sets.cpuset import CpuSet
from ..books.booking import Booking
from ..books.books import Books
from ..configuration.config import OnUnsatisfiable
from ..model.container import Container, ContainerId
from ..model.grant import Grant
from ..model.pinning import Pinning
from ..rules.podaffinity.rule_set import PlacementRules
from .classifier import Classified
from .departures import Needed
from .growth import homeless, is_homeless, wider_place
from .judging.judge import Judge
from .judging.judgement import Judgement
from .judging.restriction import TOLD_MAX, Restriction
from .judging.rule_look import RuleLook

_LOOKS_MAX: Final = 96
"""So many of those driven out are looked at in all trials of one refusal."""
_LOOKS_OF_ONE: Final = 8
"""A look costs at least as much as one at so many."""


_SOME: Final = TOLD_MAX
"""Of very many these are looked at first: where there is no place as long as they stay, nobody need
know of the others."""


class Lost(Struct, frozen=True):
    """A resident that is driven out, and its rules, and those about it, that break by that."""

    container: Container
    rules: Sequence[Restriction]


class SomeLost(Struct, frozen=True):
    """Residents of very many that are driven out, some who surely lose by it, and all of them."""

    lost: Sequence[Lost]
    driven_out: Sequence[Container]

    @property
    def text(self) -> str:
        """The rules that would break for these, and who could make room, for people."""
        others = {one.container.id: one.container for one in self.lost}
        others |= {one.id: one for one in self.driven_out}
        return _text(self.lost, tuple(others.values()), "and maybe more rules")


def lost_text(lost: Sequence[Lost]) -> str:
    """The rules that would break for residents, and who could make room, for people."""
    return _text(lost, [one.container for one in lost])


def _text(lost: Sequence[Lost], others: Sequence[Container], unknown: str = "") -> str:
    broken = {rule.name: rule.unmet_text for one in lost for rule in one.rules}
    told = list(broken.values())[:TOLD_MAX]
    if unknown:
        told.append(unknown)
    elif more := len(broken) - len(told):
        told.append(f"and {more} more rules")
    return f"{'; '.join(told)} — to make room, stop or move {Needed.SOME.text(others)}"


class Displacement:
    """Looks ahead to whom a booking would drive out; it changes nothing."""

    def __init__(self, books: Books, classified: Mapping[ContainerId, Classified]) -> None:
        """Reads the books. `classified`: what residents ask for."""
        self._books = books
        self._classified = classified

    def lost(self, booking: Booking, judgement: Judgement | None = None) -> Sequence[Lost]:
        """The residents for which rules that insist break by a booking; those hold so far.

        `judgement`: about the newcomer that it is for. A pen that begins counts as that one's own.
        Of rules ignored during execution those alone that keep containers apart, or spread them:
        the others are for who arrives, and who is left no cpu of its pool comes home later.
        O(pools + grants + grants driven out), and each of these is judged up to three times.
        """
        if not self._books.standing.rules:
            return ()
        after, driven_out = self.driven_out(booking, judgement)
        return self.lost_of(driven_out, after) if driven_out else ()

    def some_lost(self, booking: Booking, judgement: Judgement | None) -> SomeLost | None:
        """Residents of `lost`, some of them, where very many are driven out; None without such.

        Wherever those go that are driven out as well.
        """
        standing = self._books.standing
        if not standing.rules:
            return None
        after, driven_out = self.driven_out(booking, judgement)
        if len(driven_out) <= _LOOKS_MAX:
            return None
        firm = [one for one in driven_out if _insists(standing.of(one.container_id))]
        some = firm[:: -(-len(firm) // _SOME)] if firm else []
        members = self._members(driven_out, after)
        lost = self.lost_of(some, after, frozenset(members)) if some else ()
        return SomeLost(lost, list(members.values())) if lost else None

    def driven_out(
        self, booking: Booking, judgement: Judgement | None
    ) -> tuple[Books, Sequence[Grant]]:
        """Books in which a booking is made, and those that have no cpu of their pool any more."""
        books, after = self._books, copy(self._books)
        after.ledger = books.ledger.copy()
        for one in booking.lifted:
            after.ledger.repool(one)
        newcomer = None if judgement is None else judgement.newcomer
        grant = booking.grant
        after.ledger.repool(grant if newcomer is None else replace(grant, container_id=newcomer))
        return after, [one for one in homeless(after) if self._had_some(one.container_id)]

    def lost_of(
        self,
        driven_out: Sequence[Grant],
        after: Books,
        unsettled: Collection[ContainerId] = frozenset[ContainerId](),
    ) -> Sequence[Lost]:
        """The rules lost by some that are driven out.

        `unsettled`: those of whom it is open where they go; it counts of no rule who is among them.
        """
        books, containers = self._books, self._members(driven_out, after)
        # Where everybody is shows once it is told: until then the rules say the same of all.
        look = self._look(after, containers)
        for grant in driven_out:
            if not grant.is_pen:
                # A pen stays with its pool, and is where everybody is who is left nothing there.
                _settle(grant, look, after)
        after.pinner = copy(books.pinner)
        told = {one: Pinning(cpus=_cpus_left(one, after)) for one in containers}
        after.pinner.last_told = {**books.pinner.last_told, **told}
        then, now = self._look(after, containers), self._look(books, containers)
        lost: list[Lost] = []
        for container_id, container in containers.items():
            broken = _insisting(container_id, then, after)
            if unsettled:
                broken = _beside_others(broken, unsettled)
            rules = _lost(broken, _insisting(container_id, now, books)) if broken else ()
            if rules:
                lost.append(Lost(container, rules))
        return lost

    def _members(
        self, driven_out: Sequence[Grant], after: Books
    ) -> Mapping[ContainerId, Container]:
        """The containers, of pens those in them, that are driven out."""
        find = self._books.affinity.residents.container
        return {
            one: find(one)
            for grant in driven_out
            for one in after.ledger.occupants(grant.container_id)
            if one in self._classified
        }

    def _look(self, books: Books, containers: Mapping[ContainerId, Container]) -> RuleLook:
        return RuleLook(books, containers, self._classified, Judge(books, books.config))

    def _had_some(self, held_as: ContainerId) -> bool:
        """Whether a resident or a pen has cpus of its pool so far; who has just come had none."""
        ledger = self._books.ledger
        grant = ledger.grants.get(held_as) or ledger.pens.get(held_as)
        return grant is not None and not is_homeless(grant, self._books)


class TrialDisplacement:
    """Residents whom bookings would drive out in all trials of one refusal, and whom rules keep.

    Of very many it is not asked what they would lose.
    """

    def __init__(self, classified: Mapping[ContainerId, Classified], judge: Judge) -> None:
        """`classified`: what residents ask for."""
        self._classified = classified
        self._judge = judge
        self._left = _LOOKS_MAX
        self.were_many = False
        """Whether that was so in some trial."""

    def kept(
        self, books: Books, booking: Booking, judgement: Judgement
    ) -> Collection[ContainerId] | None:
        """The residents that have to keep a cpu of their pool, and are left none by a booking.

        None where that is not asked any more.
        """
        if self.were_many:
            return None
        displacement = Displacement(books, self._classified)
        after, driven_out = displacement.driven_out(booking, judgement)
        bound = [one for one in driven_out if self._judge.is_bound(one.container_id)]
        if not bound:
            return ()
        self._left -= max(len(bound), _LOOKS_OF_ONE)
        if self._left < 0:
            self.were_many = True
            return None
        return [one.container.id for one in displacement.lost_of(bound, after)]


def _insists(rules: PlacementRules) -> bool:
    return bool(rules.required) and rules.on_unsatisfiable is not OnUnsatisfiable.DEGRADE


def _beside_others(
    rules: Iterable[Restriction], but: Collection[ContainerId]
) -> Sequence[Restriction]:
    """The rules that do not hold beside others than these."""
    left = [(one, [other for other in one.blockers if other.id not in but]) for one in rules]
    return [one.beside(others) for one, others in left if others]


def _insisting(container_id: ContainerId, look: RuleLook, books: Books) -> Sequence[Restriction]:
    """The rules that insist and do not hold, each with those alone beside whom it does not."""
    judgement = look.judgement(container_id)
    if judgement is None:
        return ()
    cpus = books.reach(container_id)
    told = replace(judgement, passed=()).told_at(cpus, books.pool_around(container_id))
    return [
        one.beside(look.near.of(one, cpus))
        for one in told
        if not one.can_break and (one.blockers or one.spread or one.is_lasting)
    ]


def _lost(broken: Sequence[Restriction], now: Sequence[Restriction]) -> Sequence[Restriction]:
    """The rules that hold now, or do not beside others than those beside whom they will not."""
    lost: list[Restriction] = []
    before = _partners(now)
    for one in broken:
        known = before.get(one.name)
        others = [other for other in one.blockers if other.id not in (known or ())]
        if others or known is None:
            lost.append(one.beside(others))
    return lost


def _partners(rules: Sequence[Restriction]) -> Mapping[str, set[ContainerId]]:
    """The containers beside whom rules do not hold, by the names of these."""
    found: dict[str, set[ContainerId]] = {}
    for one in rules:
        found.setdefault(one.name, set()).update(other.id for other in one.blockers)
    return found


def _settle(grant: Grant, look: RuleLook, after: Books) -> None:
    """Let a resident have the place that it finds, if rules say anything of it."""
    judgement = look.judgement(grant.container_id)
    found = None if judgement is None else wider_place(judgement, grant, after)
    if found is not None:
        after.ledger.repool(found)


def _cpus_left(container_id: ContainerId, books: Books) -> CpuSet:
    """The cpus that a shared resident has; of a full pool those that it is lent."""
    grant, ledger = books.ledger.counted(container_id), books.ledger
    shared = ledger.share(grant.pool_id)
    if grant.within is None:
        return CpuSet(shared)
    reserved = ledger.tree.root.reserved.mask
    return CpuSet(shared & grant.within.mask or reserved & grant.within.mask or shared)
