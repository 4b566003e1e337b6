"""The choice among feasible pools: the smallest rank, found without working out every rank."""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Final

from ..pools.pool_masks import Pools, best_of, highest_of, ids_of, pools_of, pools_with
from .columns import speaking
from .rank import Column, Contest, PoolIds

_HIGHEST: Final[Mapping[str, Callable[[Contest], Column]]] = {
    "preferred": attrgetter("preferred"),
    "affinity": attrgetter("affinities"),
}
"""By criterion the figures of all pools of which the highest is the best: of a column, which is
asked while hundreds of pools are left, each would be turned round first."""


def _with_room(contest: Contest) -> Sequence[Pools]:
    """The pools that have as much left for shared requests as the request would take."""
    if contest.shared:
        return (pools_with(contest.shared, 0),)
    return (pools_with(contest.room, contest.whole_milli),)


_GRADES: Final[Mapping[str, Callable[[Contest], Sequence[Pools]]]] = {
    "crowded": _with_room,
    "burst_level": attrgetter("burst_grades"),
    "memory_nodes": attrgetter("node_grades"),
    "depth": attrgetter("depth_grades"),
}
"""By criterion all pools by its values, the best first; pools in none are the last, and alike.

Faster than a column where that is known beforehand, or there are two values. Where it is empty,
the column is asked.
"""


def choose(contest: Contest, pools: PoolIds, since: str = "") -> tuple[int, str, list[int]]:
    """The pool of the smallest rank, the first criterion in which no other is it, and its rivals.

    Those were as good up to there. `since`: all pools are alike in the criteria before this one.
    Each criterion is asked about those alone that the ones before it left. O(pools x criteria).
    """
    return choose_from(contest, pools_of(pools, len(contest.ids)), since)


def choose_from(contest: Contest, pools: Pools, since: str = "") -> tuple[int, str, list[int]]:
    """The pool of the smallest rank out of a mask of pools, as `choose` finds it."""
    criteria = speaking(contest)
    if since:
        criteria = criteria[[name for name, _ in criteria].index(since) :]
    listed: list[int] = []
    """The ids of the pools that are left, once a column was asked; until then `pools` has them."""
    for name, criterion in criteria:
        if not listed:
            best = _best_by(name, contest, pools)
            if best:
                if best.bit_count() == 1:
                    if best == pools:
                        break
                    return ids_of(best, contest.ids)[0], name, ids_of(pools ^ best, contest.ids)
                pools = best
                continue
            listed = ids_of(pools, contest.ids)
        column = criterion(contest, listed)
        if column is contest.zeros:
            continue
        least = min(column)
        count = column.count(least)
        if count == 1:
            index = column.index(least)
            return listed[index], name, listed[:index] + listed[index + 1 :]
        if count < len(column):
            listed = list(compress(listed, map(least.__eq__, column)))
    raise AssertionError("two pools of one rank: pool ids are unique")


def _best_by(name: str, contest: Contest, pools: Pools) -> Pools:
    """The best of some pools by a criterion; none where only its column tells."""
    if name in _HIGHEST:
        figures = _HIGHEST[name](contest)
        return highest_of(pools, figures) if figures else 0
    found = _GRADES[name](contest) if name in _GRADES else ()
    return best_of(pools, found) if found else 0
