"""Broken places: the places of a newcomer where the fewest rules break that may."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from ...model.grant import Dropped
from ..judging.restriction import Restriction
from ..pool_choice import Candidates
from .breaking import Breaking
from .breaking_costs import RULE, BreakingCosts, distinct
from .openings import Openings, OpeningSearch

TRIED_TOGETHER_MAX: Final = 512
"""So many parts, of all pools, are tried together with others; no rules reach that on 100 cores.

In the pools that come later, the widest ones last, a single part serves, or else all of them: more
rules may break there than must, but whatever fits has a place.
"""

_BREAKS_MORE: Final = "broken rules"

Place = TypeVar("Place")

WEIGHED_MAX: Final = 1024
"""Where so many rules that may break are to be weighed, each in every pool, nothing is looked for
in pools that surely break more than one in which there is a place: they are told as such."""


def degraded(
    search: OpeningSearch,
    roomy: Sequence[int] | None = None,
    rivals: Sequence[int] | None = None,
    *,
    tried_together: int = TRIED_TOGETHER_MAX,
    weighed: int = WEIGHED_MAX,
) -> Openings | None:
    """The places where no rule breaks that must not, and as few as possible of the others.

    None where all of them insist. `roomy`: by pool id 0 where none need be found, as nothing fits.
    `rivals`: by pool id 0 where something else speaks against it; without it none are passed over.
    `tried_together`, `weighed`: see `TRIED_TOGETHER_MAX`, `WEIGHED_MAX`.
    """
    known = _breaking_of(search, tried_together)
    if known is None:
        return None
    breaking, costs, firm, closed = known
    best = [0] * len(search.tree.pools)
    unmet = [0] * len(best)
    dropped: dict[int, Dropped] = {}
    fewest: int | None = None
    if rivals is not None and costs.rule_count * len(best) > weighed:
        fewest = costs.everything
    # A pool comes before the one around it.
    for pool_id in range(len(best)):
        if roomy is not None and not roomy[pool_id]:
            if pool_id not in closed:
                breaking.pass_over(pool_id, is_full=True)
            continue
        more = costs.of_pool(pool_id)
        if fewest is not None and fewest < costs.everything and pool_id not in closed:
            least = breaking.least_cost(pool_id) + more
            if least > fewest:
                breaking.pass_over(pool_id)
                dropped[pool_id] = _breaks_more(fewest, least)
                continue
        found = None if pool_id in closed else breaking.least_broken(pool_id)
        if found is not None:
            unmet[pool_id] = found.cost + more
            best[pool_id] = found.cpus
            if fewest is not None and rivals is not None and rivals[pool_id]:
                fewest = min(fewest, unmet[pool_id])
        else:
            objecting = next((one for one in firm if _objects(one, search, pool_id)), None)
            dropped[pool_id] = (
                objecting.dropped()
                if objecting
                else Dropped("CPUs where rules hold", search.request.describe(), "too few")
            )
    return Openings(
        regions=best,
        dropped=dropped,
        preferred=search.preferences(best),
        unmet=[cost // RULE for cost in unmet],
        unmet_of_others=[cost % RULE for cost in unmet],
    )


def _breaks_more(fewest: int, least: int) -> Dropped:
    """The objection to a pool that breaks more rules than another. Both are costs."""
    wanted, available = f"at most {fewest // RULE}", f"at least {least // RULE}"
    if fewest // RULE == least // RULE:
        wanted, available = (
            f"{text}, {cost % RULE} of them of others"
            for text, cost in ((wanted, fewest), (available, least))
        )
    return Dropped(_BREAKS_MORE, wanted, available)


def broken_place(
    search: OpeningSearch, pools: Candidates, choose: Callable[[Openings], Place | None]
) -> tuple[Openings | None, Place | None]:
    """The places of `degraded`, and the best of them that `choose` finds, if any."""
    openings = degraded(search, pools.roomy, pools.rivals)
    if openings is None:
        return None, None
    found = choose(openings)
    if found is None and any(one.criterion == _BREAKS_MORE for one in openings.dropped.values()):
        # What the best of them has left beside narrowed shares was less than its own numbers say.
        openings = degraded(search, pools.roomy) or openings
        found = choose(openings)
    return openings, found


def has_broken_place(search: OpeningSearch, pools: Iterable[int]) -> bool:
    """Whether `degraded` finds a place in one of some pools, which are in ascending order."""
    known = _breaking_of(search, TRIED_TOGETHER_MAX)
    if known is None:
        return False
    breaking, _, _, closed = known
    return any(one not in closed and breaking.least_broken(one) is not None for one in pools)


def _breaking_of(
    search: OpeningSearch, tried_together: int
) -> tuple[Breaking, BreakingCosts, Sequence[Restriction], frozenset[int]] | None:
    """The parts, what they cost, the rules that must not break, and the pools that these close."""
    rules = search.judgement.restrictions
    firm = [one for one in rules if not one.can_break]
    weak = distinct([one for one in rules if one.can_break])
    if not weak:
        return None
    costs = BreakingCosts(weak, search.judgement.domains)
    everything = search.tree.root.cpus.mask
    for one in firm:
        everything &= ~one.forbidden
    closed = frozenset[int]().union(*(one.closed_pools for one in firm))
    regions = search.regions(everything, [one for one in firm if one.is_own])
    return Breaking(search, costs, regions, tried_together), costs, firm, closed


def _objects(rule: Restriction, search: OpeningSearch, pool_id: int) -> bool:
    return (
        pool_id in rule.closed_pools or not search.tree.pools[pool_id].cpus.mask & ~rule.forbidden
    )
