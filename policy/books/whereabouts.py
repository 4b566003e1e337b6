"""Whereabouts of containers: the cpus on which they run, and how many are in each domain.

For the rules of one newcomer, while nothing changes: equal questions are answered once, however
many rules ask them.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Final

from ...topology.model.machine import Level
from ..model.container import Container, ContainerId
from .books import Books

_FEW: Final = 64
"""So many containers are looked at one by one, for all questions together."""


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
        self._cpus: dict[int, int] = {}
        self._exclusive: dict[int, int] = {}
        self._sizes: dict[int, Mapping[int, int]] = {}
        self._present: dict[int, int] = {}

    @cached_property
    def mates(self) -> int:
        """The containers of the pen that asks, or is to begin, as a set."""
        pen, residents, places = self._pen, self._books.affinity.residents, 0
        ids = self._residents if pen is None else self._books.ledger.members(pen)
        for container_id in ids:
            places |= residents.place(container_id)
        return places

    def placed(self, places: int) -> tuple[Container, ...]:
        """The containers of a set that hold something. O(set), once."""
        found = self._placed.get(places)
        if found is None:
            grants, residents = self._books.ledger.grants, self._books.affinity.residents
            some = residents.containers(places)
            found = self._placed[places] = tuple([one for one in some if one.id in grants])
        return found

    def on(self, cpus: int, places: int) -> int:
        """The containers of a set that run on some of these cpus.

        O(set) of a few, and of more O(different sets of cpus), once for the same cpus.
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
            found = 0
            for presence, members in self._by_presence:
                if presence & cpus:
                    found |= members
            self._present[cpus] = found
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
            new = [one for one in container_ids if one not in known]
            if new:
                known.update(zip(new, self._books.reaches(new), strict=True))
        else:
            for one in container_ids:
                self.cpus_of(one)
        return known

    def cpus(self, places: int) -> int:
        """A mask of the cpus on which the containers of a set run. O(different sets of cpus)."""
        mask = self._cpus.get(places)
        if mask is None:
            mask = self._cpus[places] = self._cpus_on(places)
        return mask

    def exclusive(self, places: int) -> int:
        """A mask of the cpus that containers of a set, or their pens, have for themselves.

        O(set), once.
        """
        mask = self._exclusive.get(places)
        if mask is None:
            ledger, mask = self._books.ledger, 0
            for one in self.placed(places):
                grant = ledger.grants[one.id]
                is_inside = grant.pen is not None and grant.pen != self._pen
                mask |= (ledger.counted(one.id) if is_inside else grant).exclusive.mask
            self._exclusive[places] = mask
        return mask

    def _cpus_on(self, places: int) -> int:
        mask = 0
        if self._are_many(places):
            for presence, members in self._by_presence:
                if members & places:
                    mask |= presence
            return mask
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
        and different counts), and O(different sets of cpus) once for the same containers.
        """
        key = level, places, usable
        found = self._counts.get(key)
        if found is None:
            found = self._counts[key] = self._domains_by_count(*key)
        for one in self.placed(without) if without else ():
            left: dict[int, int] = {}
            here = self._books.domains.indexes(level, self.cpus_of(one.id))
            for count, bits in found.items():
                for number, some in ((count - 1, bits & here), (count, bits & ~here)):
                    if some:
                        left[number] = left.get(number, 0) | some
            found = left
        return found

    def _domains_by_count(self, level: Level, places: int, usable: int) -> Mapping[int, int]:
        domains = self._books.domains
        every = domains.indexes(level, usable)
        counts: dict[int, int] = {}
        for presence, count in self.sizes(places).items():
            # Different sets of cpus are in the same wide domains.
            here = domains.indexes(level, presence) & every
            counts[here] = counts.get(here, 0) + count
        return bits_by_count(every, counts.items())

    def sizes(self, places: int) -> Mapping[int, int]:
        """The numbers of containers of a set that run on the same cpus, by these."""
        known = self._sizes.get(places)
        if known is None:
            known = self._sizes[places] = self._sizes_of(places)
        return known

    def _sizes_of(self, places: int) -> Mapping[int, int]:
        found: dict[int, int] = {}
        if self._are_many(places):
            for presence, members in self._by_presence:
                if count := (members & places & self._granted).bit_count():
                    found[presence] = count
            return found
        some = self.placed(places)
        known = self.know([one.id for one in some])
        for one in some:
            presence = known[one.id]
            found[presence] = found.get(presence, 0) + 1
        return found

    def _are_many(self, places: int) -> bool:
        """Whether these and those looked at before are too many to be looked at one by one."""
        self._looked_at += places.bit_count()
        return self._looked_at > _FEW

    @cached_property
    def _by_presence(self) -> Iterable[tuple[int, int]]:
        """The cpus that some containers run on, and which these are; most share a pool's cpus."""
        members: dict[int, int] = {}
        residents = self._books.affinity.residents
        everyone = list(residents.ids(residents.everyone))
        known = self.know(everyone)
        for container_id in everyone:
            presence = known[container_id]
            members[presence] = members.get(presence, 0) | residents.place(container_id)
        return tuple(members.items())

    @cached_property
    def _granted(self) -> int:
        residents, places = self._books.affinity.residents, 0
        for container_id in self._books.ledger.grants:
            places |= residents.place(container_id)
        return places


def bits_by_count(every: int, masks: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """The bits of `every` by how often they are in some masks, each of which counts several times.

    All bits are counted at once: the digits of their sums, in binary, are masks themselves.
    """
    digits: list[int] = []
    for mask, count in masks:
        place = 0
        while count:
            if count & 1:
                _add(digits, place, mask)
            count >>= 1
            place += 1
    found = {0: every} if every else {}
    for place, digit in enumerate(digits):
        for number, bits in list(found.items()):
            if inside := bits & digit:
                found[number | 1 << place] = inside
                if bits != inside:
                    found[number] = bits ^ inside
                else:
                    del found[number]
    return found


def _add(digits: list[int], place: int, carry: int) -> None:
    while carry:
        while place >= len(digits):
            digits.append(0)
        digits[place], carry = digits[place] ^ carry, digits[place] & carry
        place += 1
