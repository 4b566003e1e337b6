"""Containers near a newcomer: those that share domains with it, without those who lose theirs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Final

from msgspec.structs import replace

from ...topology.model.machine import Level
from ..books.books import Books
from ..books.cpu_ledger import Ledger
from ..model.container import ContainerId
from ..model.grant import Grant
from ..model.request import CpuType
from .judging.judgement import Companions, Judgement
from .judging.restriction import Restriction, in_the_way
from .openings.crowds import standing_cpus

NOWHERE: Final[Mapping[ContainerId, int]] = {}

# A member of an enum is looked up by a call of Python.
_PRESERVE: Final = CpuType.PRESERVE


class Nearby:
    """The containers that share domains with a newcomer, by level: a rule asks for its blockers.

    There may be many rules, each about many: nobody is looked at twice, and most by no call.
    """

    def __init__(
        self,
        rules: Iterable[Restriction],
        cpus: int,
        own: int,
        books: Books,
        seen: Mapping[ContainerId, int],
    ) -> None:
        """`own`: those of its cpus that nobody else has any more. `seen`: reaches of containers."""
        self._cpus = cpus
        self._own = own
        self._books = books
        new = {one.id for some in in_the_way(rules) for one in some if one.id not in seen}
        # One in a pen is in all of it, whichever part it runs on.
        self._reaches = {**seen, **dict(zip(new, books.reaches(new), strict=True))} if new else seen
        self._near: dict[Level, frozenset[ContainerId]] = {}

    def has_blockers(self, rule: Restriction) -> bool:
        """Whether some of whom a rule keeps the newcomer apart share a domain with it."""
        return not self._there(rule.level).isdisjoint([one.id for one in rule.blockers])

    def beside(self, rule: Restriction) -> Restriction:
        """The rule with those of its blockers alone that share a domain with the newcomer."""
        near = self._there(rule.level)
        return rule.beside([one for one in rule.blockers if one.id in near])

    def _there(self, level: Level) -> frozenset[ContainerId]:
        near = self._near.get(level)
        if near is None:
            near = self._near[level] = frozenset(self._at(level))
        return near

    def _at(self, level: Level) -> Iterator[ContainerId]:
        own, books, ledger = self._own, self._books, self._books.ledger
        here = books.domains.covering(level, self._cpus)
        around = here | own
        # All that is left to those whose last cpus these are: in wider pools, or the system's.
        rest = ledger.free_sharable[books.tree.root.id] & ~own | books.tree.root.reserved.mask
        for container_id, presence in self._reaches.items():
            if not presence & around:
                continue
            grant = ledger.grants.get(container_id)
            if grant is None:
                # Seen before it left, as in a trial: no rule is about it any more.
                continue
            # Whose cpus are left alone runs on those too that are another's own.
            if presence & own and grant.cpu_type is not _PRESERVE:
                presence &= ~own
                if not (presence & here if presence else not rest & ~here):
                    continue
            yield container_id


def reaches(narrowed: Sequence[Grant], ledger: Ledger) -> Mapping[ContainerId, int]:
    """The cpus of containers, those in pens too, once they have made way with these grants."""
    found: dict[ContainerId, int] = {}
    for grant in narrowed:
        cpus = ledger.free_sharable[grant.pool_id] & standing_cpus(grant, ledger)
        cpus |= grant.exclusive.mask
        found.update(dict.fromkeys(ledger.occupants(grant.container_id), cpus))
    return found


def once_narrowed(judgement: Judgement, narrowed: Sequence[Grant], books: Books) -> Judgement:
    """The judgement with companions where they are once residents have made way with these grants.

    O(companions) where one of them does.
    """
    moved = reaches(narrowed, books.ledger) if judgement.companions else NOWHERE
    if not any(one.id in moved for some in judgement.companions for one in some.containers):
        return judgement
    companions: list[Companions] = []
    for some in judgement.companions:
        ids = [one.id for one in some.containers]
        stay = [one for one in ids if one not in moved]
        cpus = [*books.reaches(stay), *(moved[one] for one in ids if one in moved)]
        shared = reduce(int.__or__, cpus, 0) & ~some.own
        companions.append(replace(some, shared=shared))
    return replace(judgement, companions=tuple(companions))
