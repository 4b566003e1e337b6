"""The pools a request was held against, as numbers; ranks and reasons follow when somebody asks.

Few decisions are ever looked at: the choice itself needs neither, and keeping them costs memory.
"""

from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import sub
from typing import Final, NamedTuple, TypeVar, cast, overload

from msgspec import Struct, field
from msgspec.structs import replace

from ..memory.memory_choice import ZoneSummary
from ..model.grant import Dropped
from .rank import Column, Contest, Rank, ranks

_Zone = TypeVar("_Zone", bound=ZoneSummary | Dropped)

_ZONES_SHARED: Final = 64
MILLI: Final = "m"
"""The unit of demands for thousandths of a cpu."""
_INTEGER_SIZES: Final = "bhiq"
"""Type codes of arrays, the smallest first. Source: Python's `array`."""


class Demand(NamedTuple):
    """A resource of which a pool must have so much."""

    criterion: str
    wanted: int
    available: Column
    """By pool id."""
    unit: str = ""

    def objection(self, pool_id: int) -> Dropped | None:
        """The shortage of a pool; None where it has enough."""
        left = self.available[pool_id]
        if left >= self.wanted:
            return None
        unit = self.unit
        return Dropped(self.criterion, f"{self.wanted}{unit}", f"{max(left, 0)}{unit}")


class Lineup(Struct, frozen=True, kw_only=True):
    """All pools as candidates for one request. Sequences are by pool id."""

    contest: Contest
    names: Sequence[str]
    """What the pools are called: a decision may outlive its pool tree."""
    demands: tuple[Demand, ...]
    """A pool that falls short of several is dropped for the first of them."""
    zones: Sequence[ZoneSummary | Dropped]
    """The same sequence as the contest's where every pool has a zone."""
    strict: Mapping[int, Dropped]
    """By pool id what would keep a strict container from its hints; empty for others."""
    rules: Mapping[int, Dropped] = field(default_factory=dict[int, Dropped])
    """By pool id the required rule that would be broken there; empty without such rules."""
    finalists: Sequence[int] = ()
    """The pool that won, and those that were as good up to what decided; none once packed."""

    def feasible(self) -> list[int]:
        """The pools that nothing speaks against, ascending. O(pools)."""
        found = list(self.contest.ids)
        if self.rules:
            # A set of its own: to ask the mapping pool by pool takes long.
            closed = set(self.rules)
            found = [pool_id for pool_id in found if pool_id not in closed]
        for _, wanted, available, _ in self.demands:
            found = [pool_id for pool_id in found if available[pool_id] >= wanted]
        zones, strict = self.zones, self.strict
        if zones is self.contest.zones and not strict:
            return found
        return [one for one in found if isinstance(zones[one], ZoneSummary) and one not in strict]

    def candidates(self) -> tuple[Rank | Dropped, ...]:
        """Ranks of the pools by id, or what spoke against one. O(pools x criteria) each time."""
        feasible = set(self.feasible())
        return tuple(
            [
                rank if pool_id in feasible else self._objection(pool_id) or rank
                for pool_id, rank in enumerate(ranks(self.contest))
            ]
        )

    def packed(self) -> "Lineup":
        """The lineup in a fraction of the memory, for as long as its container lives.

        Which pool wins is worked out faster on what was not packed. O(pools).
        """
        contest = self.contest
        is_own = contest.request.wants_isolated
        room = contest.room
        packed_room = _packed(room)
        return replace(
            self,
            contest=replace(
                contest,
                room=packed_room,
                shared=_beside(contest.shared, room, packed_room),
                isolated=_packed(contest.isolated) if is_own else contest.isolated,
                zones=_shared(contest.zones),
                affinities=_packed(contest.affinities),
                neighbours=_packed(contest.neighbours),
                free_of_priority=_packed(contest.free_of_priority),
                preferred=_packed(contest.preferred),
                unmet=_packed(contest.unmet),
                unmet_of_others=_packed(contest.unmet_of_others),
                narrowed=_packed(contest.narrowed),
            ),
            demands=tuple(
                [
                    Demand(
                        one.criterion,
                        one.wanted,
                        _beside(one.available, room, packed_room)
                        if one.unit == MILLI
                        else _packed(one.available),
                        one.unit,
                    )
                    for one in self.demands
                ]
            ),
            zones=_shared(self.zones),
            finalists=(),
        )

    def _objection(self, pool_id: int) -> Dropped | None:
        for demand in self.demands:
            objection = demand.objection(pool_id)
            if objection is not None:
                return objection
        if pool_id in self.rules:
            return self.rules[pool_id]
        zone = self.zones[pool_id]
        return zone if isinstance(zone, Dropped) else self.strict.get(pool_id)


class _Differences(Sequence[int]):
    """A column as what it differs in from another one: as a rule the same number everywhere."""

    __slots__ = ("_base", "_differences")

    def __init__(self, base: Column, differences: Column | int) -> None:
        self._base = base
        self._differences = differences

    def __len__(self) -> int:
        return len(self._base)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Differences) and list(self) == list(other)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Column: ...

    def __getitem__(self, index: int | slice) -> int | Column:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        more = self._differences
        return self._base[index] + (more if isinstance(more, int) else more[index])


def _beside(column: Column, base: Column, packed_base: Column) -> Column:
    """A column packed as what it differs in from another one, which is packed already."""
    differences = list(map(sub, column, base))
    first = differences[0]
    is_same = differences.count(first) == len(differences)
    return _Differences(packed_base, first if is_same else _packed(differences))


def _packed(column: Column) -> Column:
    if not column:
        return ()
    for size in _INTEGER_SIZES:
        try:
            return array(size, column)
        except OverflowError:
            continue
    return tuple(column)


def _shared(zones: Sequence[_Zone]) -> Sequence[_Zone]:
    """Equal zones once for all decisions: few requests differ in their kinds of memory."""
    return cast("tuple[_Zone, ...]", _first_of_its_kind(tuple(zones)))


@lru_cache(_ZONES_SHARED)
def _first_of_its_kind(zones: tuple[object, ...]) -> tuple[object, ...]:
    return zones
