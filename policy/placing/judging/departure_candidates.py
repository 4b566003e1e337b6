"""Candidates for departures: residents without whom a refused container may have a place."""

from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from typing import Final, NamedTuple

from msgspec.structs import replace

from ...books.books import Books
from ...model.container import Container, ContainerId
from .judgement import OWNERS_MAX, Judgement
from .restriction import Restriction
from .spread_counts import SpreadCounts

_SINGLES_MAX: Final = 4
"""So many residents are tried for each alone: of those in the way, of those with the fewest cpus
where rules let the container be, and of those with the most."""
_BLOCKERS_MAX: Final = 16
"""And so many of those in the way after the others: few of them are more than looked at."""
_CROWDING_MAX: Final = 16
"""So many residents that spread rules count are among those in the way."""


class _Filler(NamedTuple):
    """A resident with cpus where a container would have to be."""

    own_cpus: int
    shared_milli: int
    path: str
    container: Container
    isolated: int
    """So many of its own cpus are isolated ones."""


class DepartureCandidates:
    """Residents without whom a refused container may have a place, the likeliest first.

    Nobody is tried here.
    """

    def __init__(
        self, container_id: ContainerId, exclusive: int, judgement: Judgement, books: Books
    ) -> None:
        """Reads the books. `exclusive`: the cpus of its own that it would get.

        `judgement`: by which it was refused.
        """
        self._container_id = container_id
        self._exclusive = exclusive
        self._judgement = judgement
        self._insisting = judgement.insisting()
        self._books = books
        self.companion_ids = frozenset(
            [one.id for some in judgement.companions for one in some.containers]
        )
        """The residents whom it is to be with."""
        self._fillers_on: dict[int, Sequence[_Filler]] = {}

    def blockers(self) -> Sequence[Container]:
        """Residents in the way of a rule, but for those whom the refused one is to be with."""
        return [one for one in self._in_the_way if one.id not in self.companion_ids]

    @cached_property
    def _in_the_way(self) -> Sequence[Container]:
        return (*self._judgement.blockers(), *self._crowding())

    def singles(self, blockers: Sequence[Container], *, are_few: bool) -> Sequence[Container]:
        """Residents of whom each may be enough. `are_few`: the likeliest alone."""
        place = self.place(self._insisting)
        fillers = self._sufficient(self.spared_fillers(place), place)
        if are_few:
            return _each_once(*fillers[-1:], *blockers[:1])
        # Of those that are told one at least fills cpus: who is in the way may be of the same
        # replicas, and come back.
        first, others = blockers[: _SINGLES_MAX - 1], blockers[_SINGLES_MAX - 1 : _BLOCKERS_MAX]
        return _each_once(*first, *_ends(fillers), *others)

    def _sufficient(self, fillers: Iterable[_Filler], cpus: int) -> Sequence[Container]:
        """The fillers of some cpus without each of whom enough of these are left."""
        ledger, count = self._books.ledger, self._exclusive
        missing = count - (ledger.free_sharable[-1] & cpus).bit_count()
        # It may want isolated ones, of which some may be left.
        missing_isolated = count - (ledger.free_isolated[-1] & cpus).bit_count()
        return [
            one.container
            for one in fillers
            if one.own_cpus >= missing or (one.isolated and one.isolated >= missing_isolated)
        ]

    def place(self, rules: Judgement) -> int:
        """A mask of the cpus at which rules let the newcomer be."""
        tree, closed = self._books.tree, rules.closed()
        cpus = tree.root.cpus.mask
        if closed:
            open_to = [one.cpus.mask for one in tree.pools if one.id not in closed]
            cpus = reduce(int.__or__, open_to, 0)
        for one in rules.own:
            cpus &= reduce(int.__or__, one.choices) if one.choices else -1
        return cpus & ~rules.blocked

    def spared_fillers(self, cpus: int) -> Sequence[_Filler]:
        """The fillers of some cpus whom the refused one does not have to be with."""
        return [one for one in self._fillers_at(cpus) if one.container.id not in self.companion_ids]

    def _fillers_at(self, cpus: int) -> Sequence[_Filler]:
        """The fillers of some cpus, worked out once."""
        found = self._fillers_on.get(cpus)
        if found is None:
            found = self._fillers_on[cpus] = self._sorted_fillers(cpus)
        return found

    def _sorted_fillers(self, cpus: int) -> Sequence[_Filler]:
        """Residents with some of these cpus, the fewest first. O(containers)."""
        books, ledger, found = self._books, self._books.ledger, list[_Filler]()
        for container_id, grant in ledger.grants.items():
            if grant.pen is not None:
                if len(ledger.members(grant.pen)) > 1:
                    # The others keep what it has.
                    continue
                grant = ledger.pens[grant.pen]
            own = (grant.exclusive.mask & cpus).bit_count()
            shared = grant.shared_milli if books.tree.masks[grant.pool_id] & cpus else 0
            if own or shared:
                container = books.affinity.residents.container(container_id)
                isolated = (grant.isolated.mask & cpus).bit_count()
                found.append(_Filler(own, shared, container.path, container, isolated))
        others = [one for one in found if one.container.id != self._container_id]
        return sorted(others, key=lambda one: one[:3])

    def neighbours(self) -> Sequence[Container]:
        """Residents on cpus to which those can go who share some where the refused one may be."""
        tree, ledger, place = self._books.tree, self._books.ledger, self.place(self._insisting)
        sharers = [one.container.id for one in self._fillers_at(place) if one.shared_milli]
        if len(self.companion_ids) <= OWNERS_MAX:
            sharers += self.companion_ids
        grants = [ledger.counted(one) for one in sharers]
        pools = {one.pool_id for one in grants if one.has_shared_part}
        around = reduce(int.__or__, [tree.masks[one] for one in pools], 0) & ~place
        fillers = self._sufficient(self.spared_fillers(around), around)
        return _each_once(*_ends(fillers))

    def partners(self) -> Sequence[Container]:
        """Residents whom the refused one is to be with, and may not need, as others stay.

        Or as it may be the first of its group then.
        """
        partners, in_the_way = self.companion_ids, self._in_the_way
        if not partners or len(in_the_way) > OWNERS_MAX:
            return ()
        only = [one.containers[0] for one in self._judgement.companions if len(one.containers) == 1]
        blockers = [one for one in in_the_way if one.id in partners]
        place = self.place(self._insisting)
        here = [one for one in self._fillers_at(place) if one.container.id in partners]
        fillers = self._sufficient(here, place)
        return _each_once(*only[:_SINGLES_MAX], *blockers[:_SINGLES_MAX], *_ends(fillers))

    def _crowding(self) -> Sequence[Container]:
        """The first residents too many, for a spread rule, in domains that all other rules leave.

        Those of the domains with the fewest: there one less is enough, as a rule.
        """
        found: dict[ContainerId, Container] = {}
        residents = self._books.affinity.residents
        for rule in self._insisting.own:
            if rule.spread is None:
                continue
            cpus = self._least_crowded(rule, rule.spread)
            for one in residents.ids(rule.spread.counted) if cpus else ():
                if len(found) < _CROWDING_MAX and self._books.reach(one) & cpus:
                    found[one] = residents.container(one)
        return tuple(found.values())

    def _least_crowded(self, rule: Restriction, spread: SpreadCounts) -> int:
        """A mask of the full domains with the fewest that all rules but this one leave."""
        domains, level, rules = self._books.domains, spread.rule.level, self._insisting
        others = replace(rules, own=tuple([one for one in rules.own if one is not rule]))
        full = spread.full & domains.indexes(level, self.place(others))
        here = [(count, bits & full) for count, bits in spread.by_count.items() if bits & full]
        return domains.members(level, min(here)[1]) if here else 0


def _ends(fillers: Sequence[Container]) -> Sequence[Container]:
    """The first of some residents, and the last."""
    return (*fillers[:_SINGLES_MAX], *fillers[-_SINGLES_MAX:])


def _each_once(*residents: Container) -> Sequence[Container]:
    return tuple({one.id: one for one in residents}.values())
