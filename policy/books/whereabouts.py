"""Whereabouts of containers: the cpus on which they run, and how many are in each domain.

For the rules of one newcomer, while nothing changes: equal questions are answered once, however
many rules ask them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import compress, filterfalse
from typing import Final

from ...topology.model.machine import Level
from ...topology.sets.bits import bits_by_count, mask_where, one_less_in, selectors
from ..model.container import Container, ContainerId
from .books import Books

_FEW: Final = 64
"""So many containers are looked at one by one, for all questions together."""
_FEW_PARTS: Final = 2
"""Without so many parts of a set the others are looked at for each."""


class Whereabouts:
    """The whereabouts of the containers that hold something; sets of them are as of `Residents`.

    Who is in a pen is in all of it to those outside, and where it runs to those in it.
    """

    def __init__(
        self,
        books: Books,
        pen: ContainerId | None = None,
        residents: Collection[ContainerId] = (),
    ) -> None:
        """Reads the books, never changes them.

        `pen`: the one whose containers ask. `residents`: those around whom one is to begin.
        """
        self._books = books
        self._pen = pen
        self._residents = residents
        self._known: dict[ContainerId, int] = {}
        self._counts: dict[tuple[Level, int, int], Mapping[int, int]] = {}
        self._placed: dict[int, tuple[Container, ...]] = {}
        self._looked_at = 0
        self._owners_looked_at = 0
        self._cpus: dict[int, int] = {}
        self._exclusive: dict[int, int] = {}
        self._sizes: dict[int, Mapping[int, int]] = {}
        self._present: dict[int, int] = {}

    @cached_property
    def mates(self) -> int:
        """The containers of the pen that asks, or is to begin, as a set."""
        pen, places = self._pen, 0
        ids = self._residents if pen is None else self._books.ledger.members(pen)
        if not ids:
            # Most are in none, and to ask for the residents files who came last.
            return 0
        residents = self._books.affinity.residents
        for container_id in ids:
            places |= residents.place(container_id)
        return places

    def placed(self, places: int) -> tuple[Container, ...]:
        """The containers of a set that hold something. O(set), once."""
        found = self._placed.get(places)
        if found is None:
            grants, residents = self._books.ledger.grants, self._books.affinity.residents
            if places.bit_count() > _FEW:
                found = tuple(residents.containers(places & self._granted))
            else:
                some = residents.containers(places)
                found = tuple([one for one in some if one.id in grants])
            self._placed[places] = found
        return found

    def on(self, cpus: int, places: int) -> int:
        """The containers of a set that run on some of these cpus.

        O(set) of a few, and of more O(everyone), once for the same cpus.
        """
        if not places:
            return 0
        if self._are_many(places):
            return self._on(cpus) & places
        found, residents = 0, self._books.affinity.residents
        some = list(residents.ids(places))
        known = self.know(some)
        for container_id in some:
            if known[container_id] & cpus:
                found |= residents.place(container_id)
        return found

    def _on(self, cpus: int) -> int:
        found = self._present.get(cpus)
        if found is None:
            here = map(bool, map(cpus.__and__, self._by_place))
            found = self._present[cpus] = mask_where(here)
        return found

    def cpus_of(self, container_id: ContainerId) -> int:
        """A mask of the cpus of one container."""
        found = self._known.get(container_id)
        if found is None:
            books = self._books
            grant = books.ledger.grants.get(container_id) if self._pen is not None else None
            is_mate = grant is not None and grant.pen == self._pen
            seen = books.presence if is_mate else books.reach
            found = self._known[container_id] = seen(container_id)
        return found

    def know(self, container_ids: Collection[ContainerId]) -> Mapping[ContainerId, int]:
        """Masks of the cpus of all containers looked at so far, and of these."""
        known = self._known
        if self._pen is None:
            if new := [*filterfalse(known.__contains__, container_ids)]:
                known.update(zip(new, self._books.reaches(new), strict=True))
        else:
            for one in container_ids:
                self.cpus_of(one)
        return known

    def cpus(self, places: int) -> int:
        """A mask of the cpus on which the containers of a set run. O(set), once."""
        mask = self._cpus.get(places)
        if mask is None:
            mask = self._cpus[places] = self._cpus_on(places)
        return mask

    def cpus_without_each(self, places: int, parts: Sequence[int]) -> Sequence[int]:
        """Masks of the cpus on which a set runs without each of some parts, mostly of one.

        O(set + parts), but O(set) for each part of several containers.
        """
        if len(parts) <= _FEW_PARTS:
            return [self.cpus(places & ~part) for part in parts]
        everyone, once, found = self.cpus(places), self._once(places), list[int]()
        for part in parts:
            if part & (part - 1):
                found.append(self.cpus(places & ~part))
            else:
                alone = once & self._by_place[part.bit_length() - 1] if part else 0
                found.append(everyone & ~alone)
        return found

    def _once(self, places: int) -> int:
        """A mask of the cpus on which exactly one container of a set runs."""
        some: Iterable[int] = compress(self._by_place, selectors(places))
        found = more = 0
        for cpus in some:
            more |= found & cpus
            found |= cpus
        return found & ~more

    def exclusive(self, places: int) -> int:
        """A mask of the cpus that containers of a set, or their pens, have for themselves.

        O(set), once.
        """
        mask = self._exclusive.get(places)
        if mask is None:
            residents = self._books.affinity.residents
            self._owners_looked_at += places.bit_count()
            # A look at everyone is worth it once as many were looked at.
            if self._owners_looked_at > len(residents):
                own: Iterable[int] = compress(self._own_by_place, selectors(places))
            else:
                own = self._owns([one.id for one in self.placed(places)])
            mask = self._exclusive[places] = reduce(int.__or__, own, 0)
        return mask

    def _owns(self, container_ids: Iterable[ContainerId]) -> list[int]:
        ledger, pen, found = self._books.ledger, self._pen, list[int]()
        for container_id in container_ids:
            grant = ledger.grants.get(container_id)
            if grant is not None and grant.pen is not None and grant.pen != pen:
                grant = ledger.counted(container_id)
            found.append(0 if grant is None else grant.exclusive.mask)
        return found

    def _cpus_on(self, places: int) -> int:
        if self._are_many(places):
            return reduce(int.__or__, compress(self._by_place, selectors(places)), 0)
        mask = 0
        some = list(self._books.affinity.residents.ids(places))
        known = self.know(some)
        for container_id in some:
            mask |= known[container_id]
        return mask

    def domains_by_count(
        self, level: Level, places: int, usable: int, without: int = 0
    ) -> Mapping[int, int]:
        """The domains of a level with usable cpus, by how many of some containers are in them.

        Domains are bits of a mask. `without`: a few of the containers that are not counted. O(these
        and different counts), and O(set) once for the same containers.
        """
        key = level, places, usable
        found = self._counts.get(key)
        if found is None:
            found = self._counts[key] = self._domains_by_count(*key)
        for one in self.placed(without) if without else ():
            found = one_less_in(self._books.domains.indexes(level, self.cpus_of(one.id)), found)
        return found

    def _domains_by_count(self, level: Level, places: int, usable: int) -> Mapping[int, int]:
        domains = self._books.domains
        every = domains.indexes(level, usable)
        holders, firsts = domains.holders(level), domains.firsts(level)
        counts: dict[int, int] = {}
        of_one: dict[int, int] = {}
        for presence, count in self.sizes(places).items():
            lowest = (presence & -presence).bit_length() - 1
            if presence and presence & holders.get(lowest, 0) == presence:
                # Those with cpus of their own are many, and most are in one domain.
                of_one[firsts[lowest]] = of_one.get(firsts[lowest], 0) + count
                continue
            # Different sets of cpus are in the same wide domains.
            here = domains.indexes(level, presence) & every
            counts[here] = counts.get(here, 0) + count
        alike: dict[int, int] = {}
        for first, count in of_one.items():
            alike[count] = alike.get(count, 0) | every & 1 << first
        counted = [*counts.items(), *((some, count) for count, some in alike.items())]
        return bits_by_count(every, counted)

    def sizes(self, places: int) -> Mapping[int, int]:
        """The numbers of containers of a set that run on the same cpus, by these."""
        known = self._sizes.get(places)
        if known is None:
            known = self._sizes[places] = self._sizes_of(places)
        return known

    def _sizes_of(self, places: int) -> Mapping[int, int]:
        if self._are_many(places):
            return Counter(compress(self._by_place, selectors(places & self._granted)))
        some = self.placed(places)
        known = self.know([one.id for one in some])
        found: dict[int, int] = {}
        for one in some:
            presence = known[one.id]
            found[presence] = found.get(presence, 0) + 1
        return found

    def _are_many(self, places: int) -> bool:
        """Whether these and those looked at before are too many to be looked at one by one."""
        self._looked_at += places.bit_count()
        return self._looked_at > _FEW

    @cached_property
    def _by_place(self) -> Sequence[int]:
        """The cpus of everyone, by places."""
        ids = self._books.affinity.residents.ids_by_place
        known = self.know(ids)
        return [known[one] for one in ids]

    @cached_property
    def _own_by_place(self) -> Sequence[int]:
        """The cpus that everyone has for itself, by places."""
        return self._owns(self._books.affinity.residents.ids_by_place)

    @cached_property
    def _granted(self) -> int:
        """All containers that hold something, as a set."""
        residents, grants = self._books.affinity.residents, self._books.ledger.grants
        found = residents.everyone
        for container_id in residents.ids(found):
            if container_id not in grants:
                found ^= residents.place(container_id)
        return found
