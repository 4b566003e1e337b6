"""Ranks of parts that cost as much: how much they are liked and left; the first that fits."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from .breaking_costs import BrokenPart
from .openings import OpeningSearch

_RANK: Final = attrgetter("rank")


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

    def best_of_equals(self, pool_id: int, parts: Sequence[BrokenPart]) -> BrokenPart:
        """The first part by rank, of some that cost as much."""
        search, are_kept, free = self._search, self.are_kept, self.free
        pulls, count = search.judgement.pulls or None, search.request.exclusive
        for one in parts:  # without a call for each: there may be thousands
            if are_kept and one.rank is not None:
                continue
            cpus, liking = one.cpus, 0
            if not are_kept:
                liking, number = search.liking(pool_id, cpus), search.free(pool_id, cpus)
            else:
                left = cpus & free
                number = left.bit_count()
                if pulls is not None:
                    # How much it is liked takes long to tell.
                    liking = pulls.best_score(left, count) if count else pulls.score(left)
            one.rank = -liking, -number, cpus & -cpus, cpus
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
