"""Regrowth: what narrowed residents get back once those are gone for whom they made way."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import reduce
from operator import itemgetter
from types import MappingProxyType
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from ....topology.model.machine import Level
from ....topology.sets.cpuset import CpuSet
from ...books.books import Books
from ...books.cpu_ledger import Ledger
from ...model.container import Container, ContainerId
from ...model.grant import Grant
from ...rules.podaffinity.rule_set import PlacementRules
from ...rules.podaffinity.term_selection import select_term
from ..classifier import Classified
from ..growth import held_back, is_homeless, kept_in, kept_off
from ..judging.judge import Judge
from ..judging.judgement import Judgement
from ..judging.rule_look import RuleLook
from .crowds import standing_cpus

NOBODY_GROWN: Final[Mapping[ContainerId, Grant]] = MappingProxyType({})
REGROWTH_EFFORT_MAX: Final = 192
"""Containers are given back with so much effort in one event what somebody who is gone kept from
them, the others in later ones."""


class NarrowedResidents(Struct, frozen=True):
    """The residents that are narrowed, or whose pens are, and perhaps others.

    Of thousands that rules are about these are few as a rule: nobody else has anything to regain.
    """

    ids: Collection[ContainerId]
    places: int
    """Their places, as a set of `Residents`."""
    crowd: int
    """Owners of rules among them, as a crowd of `StandingRules`."""

    @classmethod
    def of(cls, books: Books, due: Iterable[ContainerId] = ()) -> Self:
        """The residents that are narrowed in these books. O(containers).

        `due`: others that may be narrowed later.
        """
        ledger, found = books.ledger, set[ContainerId]()
        for one, grant in ledger.grants.items():
            held = grant if grant.pen is None else ledger.pens[grant.pen]
            if held.within is not None:
                found.add(one)
        for held_as in due:
            found.update(ledger.members(held_as) or (held_as,))
        return cls._among(found, books)

    def without(self, is_left_out: Callable[[ContainerId], bool], books: Books) -> Self:
        """The residents but for those that are left out."""
        return self._among(frozenset([one for one in self.ids if not is_left_out(one)]), books)

    @classmethod
    def _among(cls, ids: Collection[ContainerId], books: Books) -> Self:
        residents = books.affinity.residents
        there = filter(residents.__contains__, ids)
        places = reduce(int.__or__, map(residents.place, there), 0)
        return cls(ids, places, books.standing.crowd(ids))


class KeptAway(Struct, frozen=True):
    """Containers that rules keep from the domains of one that is gone, for as long as it is."""

    by_level: Mapping[Level, Collection[ContainerId]]
    left: int
    """A mask of the cpus that it had."""
    books: Books

    @classmethod
    def by(
        cls,
        gone: Container,
        rules: PlacementRules,
        left: int,
        books: Books,
        among: NarrowedResidents | None = None,
    ) -> "KeptAway":
        """The containers that its rules are about, and whose rules are about it.

        `among`: of these alone, where several are gone.
        """
        levels: dict[Level, dict[ContainerId, None]] = {}
        seen: dict[Level, int] = {}
        residents = books.affinity.residents
        for one in rules.required:
            if one.is_anti:
                level, selected = one.term.level, select_term(residents, gone, one.term)
                # Many rules are about the same containers.
                new = selected & ~seen.get(level, 0)
                if among is not None:
                    new &= among.places
                seen[level] = seen.get(level, 0) | selected
                levels.setdefault(level, {}).update(dict.fromkeys(residents.ids(new)))
        # Many rules are of the same owners.
        crowds: dict[tuple[Level, int], Collection[ContainerId]] = {}
        for standing in books.standing.keeping_apart(gone, -1 if among is None else among.crowd):
            crowds.setdefault((standing.rule.term.level, standing.crowd), standing.owners)
        for (level, _), owners in crowds.items():
            some = owners if among is None else [one for one in owners if one in among.ids]
            levels.setdefault(level, {}).update(dict.fromkeys(some))
        return cls(levels, left, books)

    def narrowed(self) -> Iterator[ContainerId]:
        """The containers, and pens, that are narrowed there. O(containers)."""
        for level, others in self.by_level.items():
            cpus = self.books.domains.covering(level, self.left)
            for other in others:
                held = self._narrowed(other, cpus)
                if held is not None:
                    yield held

    def is_narrowed(self, held_as: ContainerId) -> bool:
        """Whether a container, or a pen, is one of those."""
        books = self.books
        members = books.ledger.members(held_as) or (held_as,)
        for level, others in self.by_level.items():
            some = [one for one in members if one in others]
            if some and self._narrowed(some[0], books.domains.covering(level, self.left)):
                return True
        return False

    def _narrowed(self, other: ContainerId, cpus: int) -> ContainerId | None:
        """The container, or its pen, if it has not all of these cpus that its pool has."""
        books = self.books
        grant = books.ledger.grants.get(other)
        if grant is not None and grant.pen is not None:
            grant = books.ledger.pens[grant.pen]
        if grant is None or grant.within is None:
            return None
        sharable = books.tree.pools[grant.pool_id].sharable.mask
        return grant.container_id if sharable & cpus & ~grant.within.mask else None


def narrowed_beside(freed: CpuSet, books: Books) -> list[ContainerId]:
    """Narrowed containers, and pens, in pools with freed cpus; who has too little before others.

    Not those on reserved cpus: they come home to others where there is room for them.
    """
    ledger, pools, found = books.ledger, books.tree.pools, list[tuple[bool, ContainerId]]()
    for held_as in ledger.narrowed.ids:
        grant = ledger.counted(held_as)
        count = (standing_cpus(grant, ledger) & ledger.free_sharable[grant.pool_id]).bit_count()
        if count and pools[grant.pool_id].sharable & freed:
            found.append((grant.shared_milli <= 1000 * count, held_as))
    return [held_as for _, held_as in sorted(found, key=itemgetter(0))]


def grown(
    grant: Grant,
    here: int,
    judgements: Iterable[Judgement],
    books: Books,
    before: Mapping[ContainerId, Grant] = NOBODY_GROWN,
) -> Grant:
    """A narrowed grant with all that rules leave now. `here`: the cpus on which it runs.

    `before`: the grants of those that grew in the same event, who keep what they got.
    """
    wider = replace(grant, within=None)
    for one in judgements:
        wider = kept_in(one.of_growth(), wider, here, books)
        wider = kept_off(one, wider, here, books, before)
    # Rules may leave it nothing but cpus of its own: then it keeps the reserved ones it is lent.
    is_lost = is_homeless(wider, books) and not is_homeless(grant, books)
    return grant if is_lost else wider


def let_grow(wider: Grant, judgements: Iterable[Judgement], books: Books) -> None:
    """Hold a grant in the ledger that grew, and let nobody grow to it who must not."""
    cpus = standing_cpus(wider, books.ledger) | wider.exclusive.mask
    for one in judgements:
        for other in held_back(one, wider, cpus, books, ()):
            books.ledger.repool(other)
    books.ledger.repool(wider)


class Regrown(Struct, frozen=True):
    """Residents that have got back what others kept from them."""

    books: Books
    gained: Mapping[ContainerId, int]
    """Masks of the cpus on which each runs then, and did not before."""
    effort: int
    """What it took to tell, as of `RuleLook`."""


class Regrowth:
    """The regrowth of residents once some others have left: tried on a copy of the ledger."""

    def __init__(
        self,
        books: Books,
        classified: Mapping[ContainerId, Classified],
        is_beside_others: Callable[[ContainerId], bool],
    ) -> None:
        """Reads the books. `classified`: what residents ask for.

        `is_beside_others`: whether anti-affinity is told not to hold at one, so that it gets
        nothing.
        """
        self._books = books
        self._classified = classified
        self._is_beside_others = is_beside_others

    def growing(self) -> NarrowedResidents:
        """The narrowed residents that may get back anything, whoever leaves. O(containers)."""
        return NarrowedResidents.of(self._books).without(self._is_beside_others, self._books)

    def after(
        self, leaving: Sequence[Container], after: Books, among: NarrowedResidents | None = None
    ) -> Regrown | None:
        """Residents with what those who leave kept from them; None where that is nothing.

        `after`: books in which these hold nothing; it is not changed. `among`: those alone that
        `growing` tells, where it is no matter who else merely shares what is given back.
        """
        if not self._books.ledger.narrowed.ids:
            return None
        if among is None:
            among = NarrowedResidents.of(after)
        if not among.ids:
            return None
        kept_away = [self._kept_away(one, after, among) for one in leaving]
        due = dict.fromkeys(held_as for one in kept_away for held_as in one.narrowed())
        if not due:
            return None
        found, ledger = copy(after), after.ledger.copy()
        found.ledger = ledger
        members = {one: tuple(ledger.members(one)) or (one,) for one in due}
        find = self._books.affinity.residents.container
        containers = {one: find(one) for some in members.values() for one in some}
        look = RuleLook(found, containers, self._classified, Judge(found, found.config))
        before: dict[ContainerId, Grant] = {}
        for held_as, ids in members.items():
            if look.effort >= REGROWTH_EFFORT_MAX:
                break
            if any(map(self._is_beside_others, ids)):
                continue
            judgements = list(filter(None, map(look.judgement, ids)))
            grant = ledger.pens.get(held_as) or ledger.grants[held_as]
            wider = grown(grant, found.presence(ids[0]), judgements, found, before)
            if wider.within != grant.within:
                let_grow(wider, judgements, found)
                before |= dict.fromkeys(ids, wider)
        gained = {
            one: _shared_cpus(ledger.counted(one), ledger) & ~self._books.reach(one)
            for ids in members.values()
            for one in ids
        }
        return Regrown(found, gained, look.effort)

    def _kept_away(self, gone: Container, after: Books, among: NarrowedResidents) -> KeptAway:
        ledger, rules = self._books.ledger, self._books.standing.of(gone.id)
        held = ledger.counted(gone.id)
        shared = standing_cpus(held, ledger) if held.has_shared_part else 0
        return KeptAway.by(gone, rules, held.exclusive.mask | shared, after, among)


def _shared_cpus(grant: Grant, ledger: Ledger) -> int:
    """A mask of the cpus that a grant shares; to rules who is in a pen has its own cpus alone."""
    if grant.is_pen and grant.exclusive:
        return 0
    return standing_cpus(grant, ledger) & ledger.free_sharable[-1]
