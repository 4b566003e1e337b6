"""Pulls of preferred rules: how much the domains of each level attract a newcomer, or repel it."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Final, NamedTuple

from ...topology.model.machine import Level
from ...topology.sets.bits import bits_by_count
from ...topology.sets.cpuset import iter_bits
from ..pools.domains import Domains

SCALE: Final = 720_720
"""Divisible by all numbers to 16: shares of few domains are exact."""
_SCORES_MAX: Final = 64


class _OfLevel(NamedTuple):
    """Pulls of the domains of one level, and what is asked of it again and again."""

    level: Level
    weights: Mapping[int, int]
    """By the lowest cpu of each domain that pulls."""
    pulling: int
    """These lowest cpus, as a mask."""
    by_weight: tuple[tuple[int, int], ...]
    """Domains of one weight together, as masks: there are far fewer weights than domains."""
    holders: Mapping[int, int]
    firsts: Sequence[int]


class _Ranked(NamedTuple):
    """Cpus that a newcomer likes alike, where it is on a single one of them."""

    upto: int
    """The cpus and all that it likes better, as a mask."""
    better: int
    """The latter alone."""
    cpus: int
    score: int | None
    """That of all or some of them; None where they differ at single levels."""


class Pulls:
    """Weights of the domains for one newcomer; a pull is multiplied by the share of its domains."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._weights: dict[Level, dict[int, int]] = {}
        # What is not spread over domains yet: numbers of containers by their cpus, and the weight
        # of each, by level and object: many rules are about the same containers.
        self._added: dict[tuple[Level, int], tuple[Mapping[int, int], int]] = {}
        # Masks of the cpus of all domains that pull, and of those domains by level.
        self._reach = 0
        self._pulling: dict[Level, int] = {}
        self._levels: Sequence[_OfLevel] = ()
        self._ranked: tuple[_Ranked, ...] | None = None
        """None: nobody has asked yet."""
        self._are_ranked = True
        """Whether all that are in one place there score alike."""

    def __bool__(self) -> bool:
        return bool(self._weights) or bool(self._added)

    def add(self, level: Level, cpus: int, weight: int) -> None:
        """Let all domains pull in which a container on these cpus is."""
        self.add_all(level, {cpus: 1}, weight)

    def add_all(self, level: Level, sizes: Mapping[int, int], weight: int) -> None:
        """Let many containers pull. `sizes`: their numbers by their cpus, never to change."""
        if sizes:
            _, before = self._added.get((level, id(sizes)), (sizes, 0))
            self._added[level, id(sizes)] = sizes, before + weight

    def join(self, other: "Pulls") -> None:
        """Let all domains pull that pull another newcomer, as much as these do."""
        other._spread()
        self._ranked = None
        for level, weights in other._weights.items():
            for bit, weight in weights.items():
                self._spread_over(level, 1 << bit, weight)
        self._reach |= other._reach
        self._sort()

    def _spread(self) -> None:
        self._ranked = None
        for (level, _), (sizes, weight) in self._added.items():
            self._spread_all(level, sizes, weight)
        self._added.clear()
        for level, pulling in self._pulling.items():
            self._reach |= self._domains.members(level, pulling)
        self._sort()

    def _spread_all(self, level: Level, sizes: Mapping[int, int], weight: int) -> None:
        domains = self._domains
        holders, firsts = domains.holders(level), domains.firsts(level)
        of_level, pulling = self._weights.setdefault(level, {}), 0
        by_domains: dict[int, int] = {}
        for cpus, count in sizes.items():
            lowest = (cpus & -cpus).bit_length() - 1  # without a call: they may be many
            if cpus & holders.get(lowest, 0) != cpus or not cpus:
                # Containers on different cpus are in the same wide domains.
                indexes = domains.indexes(level, cpus)
                by_domains[indexes] = by_domains.get(indexes, 0) + count
                continue
            # Those with cpus of their own are many, and most are in one domain.
            first = firsts[lowest]
            of_level[first] = of_level.get(first, 0) + weight * count
            pulling |= 1 << first
        self._pulling[level] = self._pulling.get(level, 0) | pulling
        by_count: Mapping[int, int] = {count: some for some, count in by_domains.items()}
        if len(by_domains) > 1:
            # Each domain once, however many are in it.
            every = reduce(int.__or__, by_domains)
            by_count = bits_by_count(every, by_domains.items())
        for count, indexes in by_count.items():
            self._spread_over(level, indexes, weight * count)

    def _sort(self) -> None:
        domains, found = self._domains, list[_OfLevel]()
        for level, weights in self._weights.items():
            by_weight: dict[int, int] = {}
            for bit, weight in weights.items():
                by_weight[weight] = by_weight.get(weight, 0) | 1 << bit
            holders, firsts = domains.holders(level), domains.firsts(level)
            some = tuple(by_weight.items())
            found.append(_OfLevel(level, weights, self._pulling[level], some, holders, firsts))
        self._levels = found

    def _spread_over(self, level: Level, indexes: int, weight: int) -> None:
        of_level = self._weights.setdefault(level, {})
        for bit in iter_bits(indexes):
            of_level[bit] = of_level.get(bit, 0) + weight
        self._pulling[level] = self._pulling.get(level, 0) | indexes

    @property
    def reach(self) -> int:
        """A mask of the cpus on which a newcomer is drawn or pushed."""
        if self._added:
            self._spread()
        return self._reach

    def score(self, cpus: int) -> int:
        """The sum for a newcomer on these cpus, scaled. O(levels x domains of the cpus)."""
        if self._added:
            self._spread()
        if not cpus & self._reach:
            return 0
        # The parts of pools that rules about narrow domains leave are thousands, and most of them
        # are in one domain of each level.
        whole, shares, lowest = 0, 0, (cpus & -cpus).bit_length() - 1
        for level, of_level, pulling, weights, holders, firsts in self._levels:
            if cpus & holders.get(lowest, 0) == cpus:
                whole += of_level.get(firsts[lowest], 0)
                continue
            indexes = self._domains.indexes(level, cpus)
            pulling, found = indexes & pulling, 0
            if pulling.bit_count() < 2 * len(weights):
                # Containers of many rules draw with as many weights, and most parts are small.
                weights = ()
                found = sum(map(of_level.__getitem__, iter_bits(pulling)))
            for weight, some in weights if pulling else ():
                found += weight * (pulling & some).bit_count()
            shares += found * SCALE // indexes.bit_count()
        return whole * SCALE + shares

    def are_same_within(self, cpus: int) -> bool:
        """Whether all of some cpus are in one domain of every level that pulls."""
        indexes = self._domains.indexes
        for one in self._levels:
            some = indexes(one.level, cpus)
            if some & (some - 1):
                return False
        return True

    def rank_by_cpu(self, level: Level, *, is_rough: bool = False) -> bool:
        """Whether a part of a domain of a level scores as each of its cpus does.

        Then `best` tells which of some parts score most, if asked about one cpu of each.
        `is_rough`: also where it tells it of some levels alone, as there are too many scores.
        """
        if self._added:
            self._spread()
        if self._ranked is None:
            self._ranked = self._by_score()
        return (is_rough or self._are_ranked) and all(
            self._domains.nest(level, one) for one in self._weights
        )

    def best(self, free: int, count: int) -> int:
        """The most attractive of some cpus, at least `count` of them where there are as many."""
        if free.bit_count() <= count:
            return free & self._domains.everything
        surely, rest = self.taken_first(free, count)
        return surely | rest

    def taken_first(self, free: int, count: int) -> tuple[int, int]:
        """The cpus that are among the `count` most attractive ones, and those for the rest.

        Any of the latter make up the number: they attract alike, and less than the former.
        """
        last = self._last_taken(free, count)
        if last is None:
            return free & self._domains.everything, 0
        return free & last.better, free & last.cpus

    def best_score(self, free: int, count: int) -> int:
        """The sum on the most attractive of some cpus, see `best`."""
        last = self._last_taken(free, count)
        if last is None:
            return self.score(free & self._domains.everything)
        if last.score is not None and not free & last.better:
            return last.score
        return self.score(free & last.upto)

    def _last_taken(self, free: int, count: int) -> _Ranked | None:
        """The least attractive of the `count` most attractive cpus; None of fewer cpus."""
        if self._added:
            self._spread()
        if self._ranked is None:
            self._ranked = self._by_score()
        # There may be as many of them as scores, and parts of pools are asked about by thousands.
        ranked = self._ranked
        at = bisect_left(ranked, count, key=lambda one: (free & one.upto).bit_count())
        return ranked[at] if at < len(ranked) else None

    def _by_score(self) -> tuple[_Ranked, ...]:
        """All cpus by what a single one of them scores, the most attractive first."""
        self._are_ranked = True
        by_score, mixed = {0: self._domains.everything}, set[int]()
        for one in self._levels:
            by_score, mixed = self._divided(by_score, mixed, one.level, dict(one.by_weight))
        falling = sorted(by_score, reverse=True)
        ranked = [by_score[score] for score in falling]
        are_alike = [self._are_ranked and score not in mixed for score in falling]
        scores = [
            score * SCALE if one else None for score, one in zip(falling, are_alike, strict=True)
        ]
        upto = list(accumulate(ranked, int.__or__))
        return tuple(map(_Ranked, upto, [0, *upto], ranked, scores))

    def _divided(
        self,
        by_score: dict[int, int],
        mixed: set[int],
        level: Level,
        by_weight: Mapping[int, int],
    ) -> tuple[dict[int, int], set[int]]:
        """Cpus by score once a level is counted, too, and scores that come about in several ways.

        `mixed`: those before.
        """
        parts = {
            weight: self._domains.members(level, indexes) for weight, indexes in by_weight.items()
        }
        if len(by_score) * len(parts) > _SCORES_MAX * _SCORES_MAX:
            self._are_ranked = False
            return by_score, mixed
        found: dict[int, int] = {}
        now_mixed: set[int] = set()
        for score, cpus in by_score.items():
            for weight, members in (*parts.items(), (0, -1)):
                if inside := cpus & members:
                    total = score + weight
                    if total in found or score in mixed:
                        now_mixed.add(total)
                    found[total] = found.get(total, 0) | inside
                    cpus ^= inside
                    if not cpus:
                        break
        return found, now_mixed
