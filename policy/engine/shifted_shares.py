"""Shares that shift: containers that others' places narrow, or drive out of their pool's cpus."""

from msgspec.structs import replace

from ..books.books import Books
from ..model.container import ContainerId
from ..placing.growth import held_back, homeless, kept_in, wider_place
from ..placing.judge import Judge
from ..placing.narrowing import standing_cpus
from ..placing.placer import Placement
from .roster import Roster


class ShiftedShares:
    """The shared containers whose cpus change because of somebody else's place, and back."""

    def __init__(self, books: Books, roster: Roster, judge: Judge) -> None:
        """Changes grants in the books, and nothing else."""
        self._books = books
        self._roster = roster
        self._judge = judge
        self.rehoused: list[ContainerId] = []
        """Those whose rules are to be looked at anew."""
        self._narrowed_by: dict[ContainerId, dict[ContainerId, None]] = {}
        """By container those that were narrowed for it, or by it."""

    def note_narrowed(self, placement: Placement) -> None:
        """Note who can have more cpus again once another container is gone."""
        booking = placement.booking
        for one in booking.lifted:
            if one.within is not None:
                others = self._narrowed_by.setdefault(booking.grant.container_id, {})
                others[one.container_id] = None
        for other in placement.narrowed_by:
            self._narrowed_by.setdefault(other, {})[booking.grant.container_id] = None

    def widen(self, gone: ContainerId) -> None:
        """Give containers that were narrowed for another, which is gone, what rules leave now."""
        books = self._books
        for container_id in self._narrowed_by.pop(gone, ()):
            grant = books.ledger.grants.get(container_id)
            if grant is None or grant.within is None or self._roster.decisions[container_id].unmet:
                continue
            container = self._roster.containers[container_id]
            classified = self._roster.classified[container_id]
            judgement = self._judge.judge(container, classified.placement, classified.request)
            wider = replace(grant, within=None)
            if judgement is not None:
                wider = kept_in(judgement, wider, books.presence(container_id), books)
                cpus = standing_cpus(wider, books.ledger) | grant.exclusive.mask
                for other in held_back(judgement, wider, cpus, books, ()):
                    books.ledger.repool(other)
            if wider.within != grant.within:
                books.ledger.repool(wider)
                books.pinner.mark(container_id)

    def rehouse(self) -> None:
        """Places where rules hold for containers that were left no cpu of their pool."""
        books = self._books
        for grant in homeless(books):
            container = self._roster.containers[grant.container_id]
            classified = self._roster.classified[grant.container_id]
            judgement = self._judge.judge(container, classified.placement, classified.request)
            if judgement is None:
                continue
            found = wider_place(judgement, grant, books)
            if found is not None:
                books.ledger.repool(found)
                books.pinner.mark(grant.container_id)
            self.rehoused.append(grant.container_id)
