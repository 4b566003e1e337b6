"""Pulls of preferred rules: how much the domains of each level attract a newcomer, or repel it."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ...topology.model.machine import Level
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
    """Those cpus, as a mask."""
    by_weight: tuple[tuple[int, int], ...]
    """Domains of one weight together, as masks: there are far fewer weights than domains."""
    holders: Mapping[int, int]
    firsts: Sequence[int]


class Pulls:
    """Weights of the domains for one newcomer; a pull is multiplied by the share of its domains."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._weights: dict[Level, dict[int, int]] = {}
        # Weights that are not spread over domains yet, by level and cpus: many rules are about the
        # same containers.
        self._added: dict[tuple[Level, int], int] = {}
        # Masks of the cpus of all domains that pull, and of those domains by level.
        self._reach = 0
        self._pulling: dict[Level, int] = {}
        self._levels: Sequence[_OfLevel] = ()
        self._ranked: tuple[int, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self._weights) or bool(self._added)

    def add(self, level: Level, cpus: int, weight: int) -> None:
        """Let all domains pull in which a container on these cpus is."""
        self._added[level, cpus] = self._added.get((level, cpus), 0) + weight

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
        by_domains: dict[tuple[Level, int], int] = {}
        for (level, cpus), weight in self._added.items():
            # Containers on different cpus are in the same wide domains.
            key = level, self._domains.indexes(level, cpus)
            by_domains[key] = by_domains.get(key, 0) + weight
        for (level, indexes), weight in by_domains.items():
            self._spread_over(level, indexes, weight)
        self._added.clear()
        for level, pulling in self._pulling.items():
            self._reach |= self._domains.members(level, pulling)
        self._sort()

    def _sort(self) -> None:
        domains, found = self._domains, list[_OfLevel]()
        for level, weights in self._weights.items():
            by_weight: dict[int, int] = {}
            for bit, weight in weights.items():
                by_weight[weight] = by_weight.get(weight, 0) | 1 << bit
            some, pulling = tuple(by_weight.items()), self._pulling[level]
            holders, firsts = domains.holders(level), domains.firsts(level)
            found.append(_OfLevel(level, weights, pulling, some, holders, firsts))
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
            if not cpus & ~holders.get(lowest, 0):
                whole += of_level.get(firsts[lowest], 0)
                continue
            indexes = self._domains.indexes(level, cpus)
            pulling, found = indexes & pulling, 0
            if pulling.bit_count() < len(weights):
                # Containers of many rules draw with as many weights, and most parts are small.
                weights = ()
                while pulling:
                    bit = pulling & -pulling
                    found += of_level[bit.bit_length() - 1]
                    pulling ^= bit
            for weight, some in weights if pulling else ():
                found += weight * (pulling & some).bit_count()
            shares += found * SCALE // indexes.bit_count()
        return whole * SCALE + shares

    def highest(self, cpus: int) -> int:
        """The sum that no part of some cpus exceeds. O(levels x weights)."""
        if self._added:
            self._spread()
        total = 0
        for one in self._levels:
            indexes = self._domains.indexes(one.level, cpus)
            weights = [weight for weight, some in one.by_weight if some & indexes]
            if indexes & ~one.pulling:
                weights.append(0)
            total += max(weights, default=0)
        return total * SCALE

    def are_same_within(self, cpus: int) -> bool:
        """Whether all of some cpus are in one domain of every level that pulls."""
        indexes = self._domains.indexes
        for one in self._levels:
            some = indexes(one.level, cpus)
            if some & (some - 1):
                return False
        return True

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
        if self._added:
            self._spread()
        if self._ranked is None:
            self._ranked = self._by_score()
        surely = 0
        for cpus in self._ranked:
            rest = free & cpus
            if (surely | rest).bit_count() >= count:
                return surely, rest
            surely |= rest
        return surely, 0

    def _by_score(self) -> tuple[int, ...]:
        """All cpus by what a single one of them scores, the most attractive first."""
        by_score = {0: self._domains.everything}
        for one in self._levels:
            by_score = self._divided(by_score, one.level, dict(one.by_weight))
        return tuple(by_score[score] for score in sorted(by_score, reverse=True))

    def _divided(
        self, by_score: dict[int, int], level: Level, by_weight: Mapping[int, int]
    ) -> dict[int, int]:
        parts = {
            weight: self._domains.members(level, indexes) for weight, indexes in by_weight.items()
        }
        if len(by_score) * len(parts) > _SCORES_MAX * _SCORES_MAX:
            return by_score
        found: dict[int, int] = {}
        for score, cpus in by_score.items():
            for weight, members in parts.items():
                if inside := cpus & members:
                    found[score + weight] = found.get(score + weight, 0) | inside
                    cpus &= ~members
            if cpus:
                found[score] = found.get(score, 0) | cpus
        return found
