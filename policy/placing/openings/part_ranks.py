"""Ranks of parts that cost as much: how much they are liked and left; the first that fits."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from .breaking_costs import BrokenPart
from .openings import OpeningSearch

_RANK: Final = attrgetter("rank")

_Rank = tuple[int, int, int, int]


class PartRanks:
    """The ranks of parts for one newcomer; lower is better."""

    def __init__(self, search: OpeningSearch) -> None:
        self._search = search
        # Which cpus of a region are left does not depend on the pool, but where isolated ones may
        # serve in some pools, and not in others.
        self.are_kept = not search.may_be_isolated
        """Whether a part has the same rank in every pool."""
        self.free = search.ledger.free_sharable[-1]
        """All cpus that are left, where that is so."""
        is_drawn = bool(search.judgement.pulls) or not self.are_kept
        self.left = None if is_drawn else self.free
        """All cpus that are left, where nothing draws to some of them."""

    def rank(self, pool_id: int, cpus: int) -> _Rank:
        """The rank of some cpus of a pool."""
        search = self._search
        if not self.are_kept:
            liking, free = search.liking(pool_id, cpus), search.free(pool_id, cpus)
            return -liking, -free, cpus & -cpus, cpus
        # There may be thousands.
        left, pulls, count = cpus & self.free, search.judgement.pulls, search.request.exclusive
        liking = 0
        if pulls:
            liking = pulls.best_score(left, count) if count else pulls.score(left)
        return -liking, -left.bit_count(), cpus & -cpus, cpus

    def best_of_equals(self, pool_id: int, parts: Sequence[BrokenPart]) -> BrokenPart:
        """The first part by rank, of some that cost as much."""
        for one in parts:
            if one.rank is None or not self.are_kept:
                # How much it is liked takes long to tell.
                one.rank = self.rank(pool_id, one.cpus)
        return min(parts, key=_RANK)

    def fits(self, pool_id: int, part: BrokenPart) -> bool:
        """Whether a part of a pool has what the newcomer asks for."""
        return part.may_fit and self._search.fits(pool_id, part.cpus)

    def first_of_equals(self, pool_id: int, parts: list[BrokenPart]) -> BrokenPart | None:
        """The first part by rank that fits, of some that cost as much."""
        if len(parts) > 1:
            # The first fits as a rule.
            first = self.best_of_equals(pool_id, parts)
            if self.fits(pool_id, first):
                return first
            parts = sorted(parts, key=_RANK)[1:]
        return next((one for one in parts if self.fits(pool_id, one)), None)
