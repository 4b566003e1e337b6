"""Ranks of parts that cost as much: how much they are liked, and how much of them is left."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from .breaking_costs import BrokenPart
from .openings import OpeningSearch

RANK: Final = attrgetter("rank")
_COST_AND_RANK: Final = attrgetter("cost", "rank")

_Rank = tuple[int, int, int, int]


class PartRanks:
    """The ranks of parts for one newcomer; lower is better."""

    def __init__(self, search: OpeningSearch) -> None:
        self._search = search
        self._root = search.tree.root.id
        request, ledger = search.request, search.ledger
        # Which cpus of a region are left does not depend on the pool, but where isolated ones may
        # serve in some pools, and not in others.
        isolated = ledger.free_isolated[-1].bit_count()
        self.are_kept = not (request.wants_isolated and isolated >= request.exclusive)
        """Whether a part has the same rank in every pool."""
        self.free = ledger.free_sharable[-1]
        """All cpus that are left, where that is so."""
        is_drawn = bool(search.judgement.pulls) or not self.are_kept
        self.left = None if is_drawn else self.free
        """The same where nothing draws to some of them."""

    def rank(self, pool_id: int, cpus: int) -> _Rank:
        """The rank of some cpus of a pool."""
        search = self._search
        if not self.are_kept:
            liking, free = search.liking(pool_id, cpus), search.free(pool_id, cpus)
            return -liking, -free, cpus & -cpus, cpus
        # There may be thousands.
        left, pulls, count = cpus & self.free, search.judgement.pulls, search.request.exclusive
        liking = pulls.score(pulls.best(left, count) if count else left) if pulls else 0
        return -liking, -left.bit_count(), cpus & -cpus, cpus

    def highest(self, cpus: int) -> int:
        """The liking that no part of some cpus exceeds."""
        return self._search.judgement.pulls.highest(cpus & self.free)

    def best(self, parts: Sequence[BrokenPart]) -> BrokenPart | None:
        """The first part by cost and rank, where ranks are the same everywhere."""
        if self.left is None and len(parts) > 1:
            # How much it is liked takes long to tell: of the cheapest alone it matters.
            least = min([one.cost for one in parts])
            return self.best_of_equals(self._root, [one for one in parts if one.cost == least])
        return min(parts, key=_COST_AND_RANK, default=None)

    def best_of_equals(self, pool_id: int, parts: Sequence[BrokenPart]) -> BrokenPart:
        """The first part by rank, of some that cost as much."""
        for one in parts:
            if one.rank is None or not self.are_kept:
                # How much it is liked takes long to tell.
                one.rank = self.rank(pool_id, one.cpus)
        return min(parts, key=RANK)
