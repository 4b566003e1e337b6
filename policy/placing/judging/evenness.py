"""Evenness of required spread rules before and after a move of containers that they count."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property, reduce
from typing import Final

from ....topology.sets.bits import more_in
from ...books.books import Books
from ...books.whereabouts import Whereabouts
from ...model.container import Container, ContainerId
from ...rules.podaffinity.rule_set import SpreadRule
from ...rules.podaffinity.term_selection import instances, select_counted
from ..classifier import Classified
from .restriction import names_text
from .spread_counts import SpreadCounts

COUNTING_MAX: Final = 8
"""A container that more spread rules count stays: each rule costs two counts of all domains."""

Counting = Mapping[tuple[str, SpreadRule], Mapping[ContainerId, Container]]
"""Spread rules with their owners, by namespace."""

Moved = Mapping[ContainerId, tuple[int, int]]
"""Containers that move, with their cpus before and after."""


def counting_rules(containers: Iterable[Container], books: Books) -> Counting | None:
    """The required spread rules that count some containers; None where they are too many."""
    standing = books.standing
    found: dict[tuple[str, SpreadRule], Mapping[ContainerId, Container]] = {}
    for container in containers:
        namespace = container.pod.namespace
        if standing.spreads.has_too_many(namespace):
            return None
        for rule, owners in standing.spreads.about(container):
            found[namespace, rule] = owners
    return found if len(found) <= COUNTING_MAX else None


def made_uneven(
    party: Collection[ContainerId],
    after: int,
    books: Books,
    rules: Counting,
    classified: Mapping[ContainerId, Classified],
) -> str:
    """The residents whose required spread rules hold, and would not with a party on these cpus.

    O(rules x containers + owners).
    """
    ids = list(party)
    moved = {one: (now, after) for one, now in zip(ids, books.reaches(ids), strict=True)}
    found = uneven_by(moved, books, rules, classified)
    return names_text(tuple([owner for owner in found if owner.id not in party]))


def uneven_by(
    moved: Moved, books: Books, rules: Counting, classified: Mapping[ContainerId, Classified]
) -> Collection[Container]:
    """The owners of spread rules that hold as long as some have not moved, and then do not.

    O(rules x containers + owners).
    """
    found, whereabouts = dict[ContainerId, Container](), Whereabouts(books)
    for (namespace, rule), owners in rules.items():
        evenness: dict[int, _Evenness] = {}
        for owner_id, owner in owners.items():
            own, supply = classified.get(owner_id), books.supply
            eligible = (supply.usable if own is None else supply.eligible(own.request)).mask
            if eligible not in evenness:
                evenness[eligible] = _Evenness(namespace, rule, moved, books, whereabouts, eligible)
            if evenness[eligible].is_lost(owner):
                found[owner_id] = owner
    return found.values()


class _Evenness:
    """A required spread rule before and after a move; counted once for all of its owners.

    Of those that may be granted the same cpus: domains with none of them are not counted.
    """

    def __init__(
        self,
        namespace: str,
        rule: SpreadRule,
        moved: Moved,
        books: Books,
        whereabouts: Whereabouts,
        eligible: int,
    ) -> None:
        residents, level = books.affinity.residents, rule.level
        self._rule = rule
        self._books = books
        self._moved = moved
        self._counted = select_counted(residents, namespace, rule)
        counted = list(filter({*residents.ids(self._counted)}.__contains__, moved))
        stay = self._counted & ~reduce(int.__or__, map(residents.place, counted), 0)
        self._others = whereabouts.domains_by_count(level, stay, eligible)
        """The domains, as bits, by how many of those are in them that stay where they are."""
        self._cpus = [moved[one] for one in counted]
        self._known: dict[tuple[object, ...], bool] = {}

    @cached_property
    def _counts_before(self) -> Mapping[int, int]:
        return self._with([before for before, _ in self._cpus])

    @cached_property
    def _counts_after(self) -> Mapping[int, int]:
        return self._with([after for _, after in self._cpus])

    def _with(self, moved: Iterable[int]) -> Mapping[int, int]:
        """The domains by how many are in them, with those that move on these cpus each."""
        indexes, found = self._books.domains.indexes, self._others
        for cpus, count in Counter(moved).items():
            found = more_in(indexes(self._rule.level, cpus), found, count)
        return found

    def is_lost(self, owner: Container) -> bool:
        """Whether the rule of an owner holds, and would not any more."""
        residents = self._books.affinity.residents
        here = self._books.reach(owner.id)
        before, after = self._moved.get(owner.id, (here, here))
        itself = self._rule.counts_itself(owner)
        # Of these its rule never speaks.
        same = list(residents.ids(instances(residents, owner) & self._counted))
        then = now = self._books.reaches(same)
        if not self._moved.keys().isdisjoint(same):
            some = [self._moved.get(one, (cpus, cpus)) for one, cpus in zip(same, now, strict=True)]
            then, now = [one for one, _ in some], [one for _, one in some]
        # Most owners share the cpus of some pool.
        key = before, after, itself, tuple(then), tuple(now)
        known = self._known.get(key)
        if known is None:
            # Most rules hold, and then nobody asks how it was before.
            known = not self._is_even(self._counts_after, after, now, itself=itself)
            known = known and self._is_even(self._counts_before, before, then, itself=itself)
            self._known[key] = known
        return known

    def _is_even(
        self, by_count: Mapping[int, int], own: int, uncounted: Iterable[int], *, itself: bool
    ) -> bool:
        """Whether the rule of an owner on these cpus holds before or after the move.

        `uncounted`: cpus of those that it leaves out.
        """
        indexes, level = self._books.domains.indexes, self._rule.level
        counts = SpreadCounts(
            rule=self._rule, counts_itself=itself, counted=self._counted, by_count=by_count
        ).without([indexes(level, cpus) for cpus in uncounted])
        return not counts.full & indexes(level, own)
