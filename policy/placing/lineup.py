"""The pools a request was held against, as numbers; ranks and reasons follow when somebody asks.

Few decisions are ever looked at: the choice itself needs neither, and keeping them costs memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import Final, NamedTuple, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from ..memory.memory_choice import ZoneSummary
from ..model.criterion_words import EVERY_POOL
from ..model.grant import Dropped
from ..pools.pool_masks import Pools, all_pools, ids_of, pools_of, pools_where, pools_with
from .columns import ranks
from .packed_column import packed
from .rank import Column, Contest, Rank

_Zone = TypeVar("_Zone", bound=ZoneSummary | Dropped)

_ZONES_SHARED: Final = 64
_PACKED: Final = (
    "room",
    "shared",
    "isolated",
    "affinities",
    "neighbours",
    "free_of_priority",
    "preferred",
    "unmet",
    "unmet_of_others",
    "narrowed",
)
"""The columns of a contest that are not the same for many; most are empty as a rule."""
_NAMES_MAX: Final = 16
"""Pools that a reason names: `explain` has all of them."""
_REASONS_MAX: Final = 12
MILLI: Final = "m"
"""The unit of demands for thousandths of a cpu."""


class Demand(NamedTuple):
    """A resource of which a pool must have so much."""

    criterion: str
    wanted: int
    available: Column
    """By pool id."""
    unit: str = ""

    def objections(self, ids: Sequence[int]) -> dict[int, Dropped]:
        """The shortages of pools that have too little, by their ids. O(pools)."""
        wanted, unit, available = self.wanted, self.unit, self.available
        # Pool by pool in C: most lineups have hundreds, and most of these have room.
        short = list(compress(ids, map(wanted.__gt__, available)))
        left = [max(available[one], 0) for one in short]
        # Most have as little as others.
        said = {
            one: Dropped(self.criterion, f"{wanted}{unit}", f"{one}{unit}") for one in set(left)
        }
        return dict(zip(short, map(said.__getitem__, left), strict=True))


class Lineup(Struct, frozen=True, kw_only=True):
    """All pools as candidates for one request. Sequences are by pool id."""

    contest: Contest
    names: Sequence[str]
    """What the pools are called: a decision may outlive its pool tree."""
    demands: tuple[Demand, ...]
    """A pool that falls short of several is dropped for the first of them."""
    zones: Sequence[ZoneSummary | Dropped]
    """Zones by pool id; the contest's own sequence where every pool has a zone."""
    strict: Mapping[int, Dropped]
    """By pool id what would keep a strict container from its hints; empty for others."""
    rules: Mapping[int, Dropped] = field(default_factory=dict[int, Dropped])
    """By pool id the required rule that would be broken there; empty without such rules."""
    roomy: Pools | None = None
    """The pools that fall short of nothing, as a mask; None where nobody has looked."""
    rivals: Sequence[int] = ()
    """The pools that were as good as the one that won, up to what decided; none once packed."""

    def feasible(self) -> list[int]:
        """The pools that nothing speaks against, ascending. O(pools)."""
        return ids_of(self.feasible_pools(), self.contest.ids)

    def feasible_pools(self) -> Pools:
        """The pools that nothing speaks against, as a mask."""
        ids, zones, found = self.contest.ids, self.zones, self.roomy_pools()
        for closed in (self.rules, self.strict):
            if closed:
                found &= ~pools_of(closed, len(ids))
        if zones is not self.contest.zones:
            found &= pools_where(isinstance(one, ZoneSummary) for one in zones)
        return found

    def roomy_pools(self) -> Pools:
        """The pools that fall short of nothing, whatever else speaks against them, as a mask."""
        return (
            roomy_pools(self.demands, len(self.contest.ids)) if self.roomy is None else self.roomy
        )

    def candidates(self) -> tuple[Rank | Dropped, ...]:
        """Ranks of the pools by id, or what spoke against one. O(pools x criteria) each time."""
        objections = self.objections()
        pairs = enumerate(ranks(self.contest))
        return tuple([objections.get(pool_id, rank) for pool_id, rank in pairs])

    def objections(self) -> Mapping[int, Dropped]:
        """Objections to pools, by their ids; all others have a rank. O(pools)."""
        found: dict[int, Dropped] = {}
        # A pool that falls short of several is told of the first of them, which comes last here.
        for demand in reversed(self.demands):
            found.update(demand.objections(self.contest.ids))
        zones = () if self.zones is self.contest.zones else enumerate(self.zones)
        lacking = {one: zone for one, zone in zones if isinstance(zone, Dropped)}
        for closed in (self.rules, lacking, self.strict):
            # Those of rules are worded one by one.
            found.update({one: closed[one] for one in closed if one not in found})
        return {pool_id: found[pool_id] for pool_id in sorted(found)}

    def obstacle(self, pool_id: int) -> str:
        """The reason why a pool was not free, for people; empty where it was. O(pools)."""
        dropped = self.objections().get(pool_id)
        if dropped is not None:
            return f"{dropped.criterion}, wanted {dropped.wanted}, available {dropped.available}"
        contest = self.contest
        count = sum([one[pool_id] for one in (contest.unmet, contest.unmet_of_others) if one])
        many = "1 required rule does" if count == 1 else f"{count} required rules do"
        return f"{many} not hold there" if count else ""

    def has_room_but_for_rules(self) -> bool:
        """Whether some pool is dropped for nothing but a required rule."""
        return bool(replace(self, rules={}).feasible_pools())

    def reason(self, yielding: str) -> str:
        """The reason why no pool is left: pools with the same one together, widest pools first.

        What keeps the request from pools that have room for it comes before all else. `yielding`:
        who would make room for it, were it not for rules; empty where nobody would.
        """
        roomy = dict.fromkeys(replace(self, rules={}).feasible()[::-1])
        pools_by_reason: dict[str, list[str]] = {}
        found = self.candidates()
        for pool_id in dict.fromkeys((*roomy, *self.contest.ids[::-1])):
            pools_by_reason.setdefault(str(found[pool_id]), []).append(self.names[pool_id])
        if len(pools_by_reason) == 1 and len(found) > 1:
            pools_by_reason = {reason: [EVERY_POOL] for reason in pools_by_reason}
        told = [f"{_some(pools)}: {reason}" for reason, pools in pools_by_reason.items()]
        rest = len(told) - _REASONS_MAX
        if rest > 1:
            told[_REASONS_MAX:] = [f"and {rest} more reasons of other pools"]
        reasons = "; ".join(told)
        head = "required rules leave no room" if roomy or yielding else "no pool has room"
        head = f"{head} for {self.contest.request.describe()}"
        return " — ".join([head, *([yielding] if yielding else []), reasons])

    def packed(self) -> "Lineup":
        """The lineup in a fraction of the memory, for as long as its container lives.

        Which pool wins is worked out faster on what was not packed. O(pools).
        """
        contest = self.contest
        # Those of usual requests are the same for all decisions as it is.
        zones, own_zones = contest.zones, self.zones
        if not contest.has_usual_memory:
            zones, own_zones = _shared(zones), _shared(own_zones)
        columns = {name: getattr(contest, name) for name in _PACKED}
        return replace(
            self,
            contest=replace(
                contest,
                zones=zones,
                **{name: packed(column) for name, column in columns.items() if column},
            ),
            demands=tuple([one._replace(available=packed(one.available)) for one in self.demands]),
            zones=own_zones,
            roomy=None,
            rivals=(),
        )


def _some(pools: Sequence[str]) -> str:
    """The first of some pools by name, and how many more there are."""
    more = len(pools) - _NAMES_MAX
    shown = ", ".join(pools[:_NAMES_MAX])
    return f"{shown} and {more} more pools" if more > 1 else ", ".join(pools)


def roomy_pools(demands: Iterable[Demand], size: int) -> Pools:
    """The pools that fall short of no demand, among `size` pools, as a mask. O(pools)."""
    found = all_pools(size)
    for demand in demands:
        found &= pools_with(demand.available, demand.wanted)
    return found


def _shared(zones: Sequence[_Zone]) -> Sequence[_Zone]:
    """Equal zones once for all decisions: few requests differ in their kinds of memory."""
    return cast("tuple[_Zone, ...]", _first_of_its_kind(tuple(zones)))


@lru_cache(_ZONES_SHARED)
def _first_of_its_kind(zones: tuple[object, ...]) -> tuple[object, ...]:
    return zones
