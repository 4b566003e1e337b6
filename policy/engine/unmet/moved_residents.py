"""Moved residents: containers with other cpus, and owners of required rules about them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import Final

from ....topology.model.machine import Level
from ....topology.sets.cpuset import lowest_cpu
from ...books.books import Books
from ...books.whereabouts import Whereabouts
from ...configuration.affinity_fields import KubeCompat
from ...model.container import Container, ContainerId
from ...model.pinning import MovedTogether
from ...placing.classifier import Classified
from ...placing.judging.evenness import uneven_by
from ...rules.podaffinity.term import Term
from ...rules.podaffinity.term_selection import instances, select_counted, select_included

_FEW_DOMAINS: Final = 16
"""So many domains are looked up one by one in less time than all are looked for together."""


class MovedCompanions:
    """The owners of required affinity whom others have left, or come to, by other cpus.

    Those who begin or end are none of these others: such a rule is for the arrival of its owner.
    """

    def __init__(self, books: Books) -> None:
        """Reads the books, never changes them."""
        self._books = books
        self._left: dict[ContainerId, set[str]] = {}
        self.left: Collection[ContainerId] = self._left.keys()
        """Owners that others have left."""
        self._met: dict[ContainerId, None] = {}
        self._grown: dict[ContainerId, int] = {}
        """The cpus that each of `grown` had."""
        self.grown: Collection[ContainerId] = self._grown.keys()
        """Owners that have come to other domains without a decision."""

    def note_moves(self, moves: Sequence[MovedTogether]) -> None:
        """Containers have other cpus than before."""
        wants_others = self._books.standing.wants_others
        if not wants_others:
            return
        near = _NearOwners(self._books)
        for one in moves:
            if self._note(one.ids, one.before.mask, one.after.mask, near):
                grown, known = filter(wants_others.__contains__, one.ids), self._grown.copy()
                self._grown.clear()
                self._grown.update({**dict.fromkeys(grown, one.before.mask), **known})
        for pen_id, (before, after) in self._moved_pens(moves).items():
            self._note(self._books.ledger.members(pen_id), before, after, near, is_pen=True)

    def note(self, container_id: ContainerId, before: int) -> None:
        """A container that ran on these cpus may have others."""
        pen_id, after = self._books.pen_around(container_id), self._books.presence(container_id)
        ids = (container_id,) if pen_id is None else self._books.ledger.members(pen_id)
        self._note(ids, before, after, _NearOwners(self._books), is_pen=pen_id is not None)

    def _moved_pens(self, moves: Iterable[MovedTogether]) -> Mapping[ContainerId, tuple[int, int]]:
        """The cpus that pens had by those in them that have others by now, and have by these."""
        found: dict[ContainerId, tuple[int, int]] = {}
        for one in moves if self._books.ledger.pens else ():
            for pen_id in filter(None, map(self._books.pen_around, one.ids)):
                before, after = found.get(pen_id, (0, 0))
                found[pen_id] = before | one.before.mask, after | one.after.mask
        return found

    def _note(
        self,
        ids: Collection[ContainerId],
        before: int,
        after: int,
        near: "_NearOwners",
        *,
        is_pen: bool = False,
    ) -> bool:
        """Note whom some left, and met; whether they came to other domains.

        `is_pen`: they are all of a pen, as which they are in all of it to others.
        """
        have_come = False
        lost, won = before & ~after, after & ~before
        if near.narrowest is not None:
            # Whoever is in as many of the narrowest domains is in as many of all: so are most.
            lost &= self._missing(near.narrowest, before, after, lost)
            won &= self._missing(near.narrowest, after, before, won)
        for level in self._books.standing.near_levels if lost or won else ():
            if left := self._missing(level, before, after, lost):
                here = near.on(left)
                for term, owners in self._rules(ids, level, here, is_pen=is_pen) if here else ():
                    among = [owners[one] for one in here if one in owners]
                    for one in self._alone(among, term, here):
                        self._left.setdefault(one.id, set()).add(term.text)
            if come := self._missing(level, after, before, won):
                have_come, here = True, near.on(come)
                for _, owners in self._rules(ids, level, here, is_pen=is_pen) if here else ():
                    self._met |= dict.fromkeys(filter(owners.__contains__, here))
        return have_come

    def _missing(self, level: Level, some: int, others: int, among: int) -> int:
        """The domains of a level in which some cpus are, and no others, as a mask of cpus.

        `among`: those of the cpus, without others, which are in all such domains.
        """
        if not among:
            return 0
        domains, found, masks = self._books.domains, 0, self._books.domains.masks(level)
        if len(masks) <= _FEW_DOMAINS:
            for domain in masks:
                if domain & some and not domain & others:
                    found |= domain
            return found
        holders, left = domains.holders(level), among & domains.everything
        for _ in range(_FEW_DOMAINS):
            if not left:
                return found
            domain = holders[lowest_cpu(left)]
            left &= ~domain
            if not domain & others:
                found |= domain
        return domains.covering(level, some) & ~domains.covering(level, others)

    def _rules(
        self,
        ids: Collection[ContainerId],
        level: Level,
        near: Collection[ContainerId],
        *,
        is_pen: bool,
    ) -> Iterator[tuple[Term, Mapping[ContainerId, Container]]]:
        """Terms of required affinity at a level about some containers, and their owners.

        `near`: among these. `is_pen`: of these those outside the pen that they are. Else those are
        left out who are in one: to others they are in all of it.
        """
        books = self._books
        standing, residents = books.standing, books.affinity.residents
        some = ids if is_pen else [one for one in ids if books.pen_around(one) is None]
        containers, crowd = [residents.container(one) for one in some], standing.crowd(near)
        asked = reduce(int.__or__, map(residents.place, some), 0)
        # Hundreds may have moved; those with whom rules are near are few as a rule.
        for one in standing.requiring(containers) if asked else ():
            if not one.crowd & crowd or one.rule.term.level is not level:
                continue
            about = asked & select_included(
                residents, next(iter(one.owners.values())), one.rule.term
            )
            if not about:
                continue
            owners: Mapping[ContainerId, Container] = one.owners
            if is_pen:
                owners = {key: owner for key, owner in owners.items() if key not in ids}
            first = next(iter(residents.containers(about)))
            itself = instances(residents, first)
            if not about & ~itself:
                # Nobody must be with itself.
                owners = {
                    key: owner for key, owner in owners.items() if not residents.place(key) & itself
                }
            yield one.rule.term, owners

    def _alone(
        self, owners: Collection[Container], term: Term, left: Mapping[ContainerId, int]
    ) -> Iterable[Container]:
        """Owners of a term in a domain where nobody is, by now, that it is about.

        `left`: the cpus on which they run in domains that some have left.
        """
        if self._books.config.kube_compat is KubeCompat.STRICT or not owners:
            # It is about fewer containers where its owner has other terms besides.
            return owners
        residents, level = self._books.affinity.residents, term.level
        every = select_included(residents, next(iter(owners)), term)
        others = Whereabouts(self._books).cpus_without_each(
            every, [instances(residents, one) for one in owners]
        )
        covering = self._books.domains.covering
        pairs = zip(owners, others, strict=True)
        return [one for one, cpus in pairs if left[one.id] & ~covering(level, cpus)]

    def pop_parted(self) -> tuple[ContainerId, Collection[str], int | None]:
        """An owner whom others have left, and the texts of its rules about these.

        Or one that has come to other domains itself, and the cpus that it had.
        """
        owner_id = next(iter(self._left or self._grown))
        return owner_id, self._left.pop(owner_id, ()), self._grown.pop(owner_id, None)

    def take_met(self) -> Collection[ContainerId]:
        """The owners to whom others have come since this was asked last."""
        met, self._met = self._met, {}
        return met


class _NearOwners:
    """The owners of required affinity near some cpus, while nobody changes places.

    Many that move leave the same domains, as others get the cpus that they shared.
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        self._known: dict[int, Mapping[ContainerId, int]] = {}

    def on(self, cpus: int) -> Mapping[ContainerId, int]:
        """The owners on some of these cpus, and which of them."""
        found = self._known.get(cpus)
        if found is None:
            found = self._known[cpus] = {
                one: mask & cpus for one, mask in self._reaches if mask & cpus
            }
        return found

    @cached_property
    def narrowest(self) -> Level | None:
        """The level of their rules whose domains are in those of all others, if there are any."""
        levels = self._books.standing.near_levels
        if len(levels) < 2:
            # Where there are no rules at all, nobody works out the machine's domains.
            return None
        nest = self._books.domains.nest
        return next((one for one in levels if all(nest(one, other) for other in levels)), None)

    @cached_property
    def _reaches(self) -> Sequence[tuple[ContainerId, int]]:
        owners = self._books.standing.wants_others
        return list(zip(owners, self._books.reaches(owners), strict=True))


class MovedCounted:
    """The owners of required spread rules that stop holding by others' cpus, or their own.

    Those who begin or end are none of these others: such a rule is for the arrival of its owner.
    """

    def __init__(self, books: Books, classified: Mapping[ContainerId, Classified]) -> None:
        """Reads the books, never changes them. `classified`: what residents ask for."""
        self._books = books
        self._classified = classified
        self._moving: Mapping[ContainerId, int] = {}
        """Containers about which somebody decides, and the cpus on which they count so far."""
        self._moved: dict[Level, dict[ContainerId, int]] = {}
        """Containers that have moved to other domains of a level, and the cpus these had."""
        self.moved: Collection[Level] = self._moved.keys()
        """The levels at which rules are to be looked at, as some have moved."""
        self._uneven: dict[ContainerId, set[str]] = {}
        self.uneven: Collection[ContainerId] = self._uneven.keys()
        """Owners to be looked at, as a rule of theirs held before."""

    def expect(self, container_id: ContainerId) -> None:
        """A container, and whoever is in a pen with it, may get other cpus by a decision."""
        self._moving = {}
        if self._books.standing.spreads.levels:
            pen_id = self._books.pen_around(container_id)
            ids = (container_id,) if pen_id is None else self._books.ledger.members(pen_id)
            self._moving = dict(zip(ids, self._books.reaches(ids), strict=True))

    def note_moves(self, moves: Sequence[MovedTogether]) -> None:
        """Containers have other cpus than before, and those that were expected to may have."""
        moving, self._moving = self._moving, {}
        if not (moves or moving):
            return
        grants, pens, reach = self._books.ledger.grants, self._books.ledger.pens, self._books.reach
        moved = self._moved
        for id_, before in moving.items():
            for level in self._others_at(before, reach(id_)) if id_ in grants else ():
                moved.setdefault(level, {}).setdefault(id_, before)
        for one in moves:
            before = one.before.mask
            for level in self._others_at(before, one.after.mask):
                # Whoever may use idle cpus counts without them, on what decisions give it.
                known = moved.setdefault(level, {})
                for id_ in one.ids:
                    if id_ in known or id_ in moving or id_ not in grants:
                        continue
                    if grants[id_].idle_level is None and not (pens and self._pen(id_)):
                        known[id_] = before
        for pen_id, before in self._moved_pens(moves).items() if pens else ():
            members = [one for one in self._books.ledger.members(pen_id) if one not in moving]
            for level in self._others_at(before, reach(members[0])) if members else ():
                moved[level] = {**dict.fromkeys(members, before), **moved.get(level, {})}

    def _others_at(self, before: int, after: int) -> Sequence[Level]:
        """The levels that count at which these cpus are in different domains."""
        indexes, levels = self._books.domains.indexes, self._books.standing.spreads.levels
        return [one for one in levels if indexes(one, before) != indexes(one, after)]

    def _pen(self, container_id: ContainerId) -> ContainerId | None:
        """The pen in all of which a container is to others; None where it holds nothing."""
        is_placed = container_id in self._books.ledger.grants
        return self._books.pen_around(container_id) if is_placed else None

    def _moved_pens(self, moves: Sequence[MovedTogether]) -> Mapping[ContainerId, int]:
        """The cpus that pens had of which some have others now: those of all in them."""
        found: dict[ContainerId, int] = {}
        left = dict[ContainerId, int]()
        for one in moves:
            left |= dict.fromkeys(one.ids, one.before.mask)
        for pen_id in filter(None, map(self._pen, left)):
            members = self._books.ledger.members(pen_id)
            if pen_id not in found:
                had = [left.get(id_) or self._books.presence(id_) for id_ in members]
                found[pen_id] = reduce(int.__or__, had, 0)
        return found

    def look_at_level(self) -> int:
        """Find the owners for whom a rule held, and does not any more. Returns how many there are.

        Of one level: as a rule all who moved are of one.
        """
        level = next(iter(self._moved))
        books, before = self._books, self._moved.pop(level)
        ids = [one for one in before if one in books.ledger.grants]
        moved = {
            one: (before[one], after) for one, after in zip(ids, books.reaches(ids), strict=True)
        }
        residents, count = books.affinity.residents, 0
        asked = reduce(int.__or__, map(residents.place, ids), 0)
        for namespace, rule, owners in books.standing.spreads.at(level):
            is_about = asked & select_counted(residents, namespace, rule)
            if is_about or not owners.keys().isdisjoint(moved):
                count += len(owners)
                rules = {(namespace, rule): owners}
                for owner in uneven_by(moved, books, rules, self._classified):
                    self._uneven.setdefault(owner.id, set()).add(rule.text)
        return count

    def pop_uneven(self) -> tuple[ContainerId, Collection[str]]:
        """An owner whose rules have stopped holding as others moved, and the texts of these."""
        return self._uneven.popitem()
