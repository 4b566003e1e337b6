"""The pools a request was held against, as numbers; ranks and reasons follow when somebody asks.

Few decisions are ever looked at: the choice itself needs neither, and keeping them costs memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .rank import Column, Contest, Dropped, Rank, Zone, ranks


class Demand(NamedTuple):
    """Something of which a pool must have so much."""

    criterion: str
    wanted: int
    available: Column
    """By pool id."""
    unit: str = ""

    def objection(self, pool_id: int) -> Dropped | None:
        """What a pool is short of; None where it has enough."""
        left = self.available[pool_id]
        if left >= self.wanted:
            return None
        unit = self.unit
        return Dropped(self.criterion, f"{self.wanted}{unit}", f"{max(left, 0)}{unit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineup:
    """What is known of all pools for one request. Sequences are by pool id."""

    contest: Contest
    names: Sequence[str]
    """What the pools are called: a decision may outlive its pool tree."""
    demands: tuple[Demand, ...]
    """A pool that falls short of several is dropped for the first of them."""
    zones: Sequence[Zone | Dropped]
    strict: Mapping[int, Dropped]
    """By pool id what would keep a strict container from its hints; empty for others."""

    def feasible(self) -> list[int]:
        """The pools that nothing speaks against, ascending. O(pools)."""
        found = list(self.contest.ids)
        for _, wanted, available, _ in self.demands:
            found = [pool_id for pool_id in found if available[pool_id] >= wanted]
        zones, strict = self.zones, self.strict
        return [one for one in found if isinstance(zones[one], Zone) and one not in strict]

    def candidates(self) -> tuple[Rank | Dropped, ...]:
        """By pool id, its rank or what spoke against it. O(pools x criteria), at every call."""
        return tuple(
            [self._objection(pool_id) or rank for pool_id, rank in enumerate(ranks(self.contest))]
        )

    def _objection(self, pool_id: int) -> Dropped | None:
        for demand in self.demands:
            objection = demand.objection(pool_id)
            if objection is not None:
                return objection
        zone = self.zones[pool_id]
        return zone if isinstance(zone, Dropped) else self.strict.get(pool_id)
