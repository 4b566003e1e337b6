"""Evenness of required spread rules before and after a move of containers that they count."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from ...books.books import Books
from ...model.container import Container, ContainerId
from ...rules.podaffinity.rule_set import SpreadRule
from ...rules.podaffinity.term_selection import instances, select_counted
from ..classifier import Classified
from .judgement import bits
from .restriction import names_text

COUNTING_MAX: Final = 8
"""A container that more spread rules count stays: each rule costs two counts of all domains."""

Counting = Mapping[tuple[str, SpreadRule], Mapping[ContainerId, Container]]
"""Spread rules with their owners, by namespace."""


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
    found: dict[ContainerId, Container] = {}
    for (namespace, rule), owners in rules.items():
        evenness: dict[int, _Evenness] = {}
        for owner_id, owner in owners.items():
            if owner_id in party:
                continue
            own = classified.get(owner_id)
            supply = books.supply
            eligible = (supply.usable if own is None else supply.eligible(own.request)).mask
            if eligible not in evenness:
                evenness[eligible] = _Evenness(namespace, rule, party, after, books, eligible)
            if evenness[eligible].is_lost(owner):
                found[owner_id] = owner
    return names_text(tuple(found.values()))


class _Evenness:
    """A required spread rule before and after a move; counted once for all of its owners.

    Of those that may be granted the same cpus: domains with none of them are not counted.
    """

    def __init__(
        self,
        namespace: str,
        rule: SpreadRule,
        party: Collection[ContainerId],
        after: int,
        books: Books,
        eligible: int,
    ) -> None:
        residents = books.affinity.residents
        self._rule = rule
        self._books = books
        self._eligible = eligible
        self._counted = select_counted(residents, namespace, rule)
        counted = tuple(residents.ids(self._counted))
        self._before = dict(zip(counted, books.reaches(counted), strict=True))
        moved = dict.fromkeys([one for one in counted if one in party], after)
        self._after = {**self._before, **moved}
        self._counts = self._count(self._before), self._count(self._after)
        self._least = tuple([min(one.values(), default=0) for one in self._counts])
        self._known: dict[tuple[int, bool, tuple[int, ...], tuple[int, ...]], bool] = {}

    def _count(self, presence: Mapping[ContainerId, int]) -> dict[int, int]:
        """The numbers of containers by domain; domains are bits."""
        indexes, level = self._books.domains.indexes, self._rule.level
        counts = dict.fromkeys(bits(indexes(level, self._eligible)), 0)
        for cpus, count in Counter(presence.values()).items():
            for bit in bits(indexes(level, cpus)):
                if bit in counts:
                    counts[bit] += count
        return counts

    def is_lost(self, owner: Container) -> bool:
        """Whether the rule of an owner holds, and would not any more."""
        residents = self._books.affinity.residents
        own = self._books.domains.indexes(self._rule.level, self._books.reach(owner.id))
        itself = self._rule.counts_itself(owner)
        # Of these its rule never speaks.
        same = tuple(residents.ids(instances(residents, owner) & self._counted))
        before, after = (
            tuple([known[one] for one in same]) for known in (self._before, self._after)
        )
        # Most owners share the cpus of some pool.
        key = own, itself, before, after
        known = self._known.get(key)
        if known is None:
            holds, will_hold = (
                self._is_even(number, own, itself, some)
                for number, some in enumerate((before, after))
            )
            known = self._known[key] = holds and not will_hold
        return known

    def _is_even(self, number: int, own: int, itself: bool, uncounted: Sequence[int]) -> bool:
        """Whether the rule of an owner holds before or after the move.

        `uncounted`: cpus of those that it leaves out.
        """
        indexes, level = self._books.domains.indexes, self._rule.level
        counts = self._counts[number]
        less = Counter([bit for cpus in uncounted for bit in bits(indexes(level, cpus))])
        left = {bit: counts[bit] - less[bit] for bit in bits(own) if bit in counts}
        most = max(left.values(), default=0) + itself
        fewer = [counts[bit] - count for bit, count in less.items() if bit in counts]
        least = self._rule.least_of([self._least[number], *fewer], len(counts))
        return most - least <= self._rule.max_skew
