"""The order in which feasible pools are preferred, written once, as a type.

`Rank` has one field per criterion, in order of importance. Beside it stands one function per field
that gives the criterion's value for every pool at once (a column): a new criterion is one field and
one function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..configuration.config import CpuPriority
from ..model.request import Request


class Rank(NamedTuple):
    """Criteria in order of importance; the smaller value wins; the last field is unique.

    The first field in which two ranks differ is the reason for the choice.
    """

    crowded: int
    """1 where the request would take more than the pool has left for shared requests."""
    isolated_missing: int
    """1 where isolated cpus were wanted and the pool has too few of them."""
    affinity: int
    """Minus the affinity of the pool (scaled integer)."""
    hints: int
    """Minus the product of the scores of all topology hints."""
    hints_partial: int
    """The same without the hints that score nothing, where some do."""
    hints_depth: int
    """Among equally well hinted pools the tightest one."""
    hints_pool: int
    memory_type: int
    """1 where the memory zone is not of exactly the types asked for."""
    memory_limit: int
    """1 where the pool's memory is smaller than the container's limit."""
    cpu_limit: int
    """1 where the pool's sharable cpus are fewer than the container's limit."""
    burst_level: int
    """Distance from the level wanted for containers with no cpu limit."""
    burst_room: int
    """Minus the free sharable milli-cpus, at the level wanted."""
    burst_pool: int
    memory_nodes: int
    """Number of nodes in the memory zone."""
    memory_missing: int
    """1 where a memory type asked for is not among the pool's nodes."""
    cpu_class: int
    """1 where the pool's cpus do not suit the cpu class."""
    cpu_priority: int
    """1 where too few cpus of the high or low priority asked for are free."""
    depth: int
    """Minus the depth in the pool tree: the tightest pool first."""
    isolated_room: int
    """Minus the isolated cpus left afterwards, where there are any."""
    isolated_pool: int
    cpu_priority_normal: int
    """1 where normal priority was asked for and too few such cpus are free."""
    exclusive_room: int
    """For exclusive cpus: minus the sharable milli-cpus left afterwards."""
    exclusive_pool: int
    neighbours: int
    """Number of containers of the same cpu type in exactly this pool."""
    shared_room: int
    """Minus the sharable milli-cpus left afterwards."""
    pool_id: int


class Dropped(NamedTuple):
    """Why a pool was not a candidate: it has too little of something, or a rule is against it."""

    criterion: str
    """What was short: exclusive cpus, shared cpu, memory …"""
    wanted: str
    available: str

    def __str__(self) -> str:
        return f"{self.criterion}: wanted {self.wanted}, available {self.available}"


class Zone(NamedTuple):
    """What matters of the memory zone a pool would give."""

    mask: int
    node_count: int
    is_exact: bool
    """It has exactly the kinds of memory asked for."""
    is_below_limit: bool
    """The pool's memory of these kinds is smaller than the container's limit."""
    lacks_kind: bool
    """A kind asked for is not among the pool's nodes."""


Column = Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What the criteria look at. Sequences are by pool id."""

    request: Request
    zeros: Column
    ids: Column
    depth: Column
    """Minus the depth of each pool."""
    inward: Column
    """How many levels each pool is inside the one wanted for bursting; negative outside."""
    room: Column
    """Sharable milli-cpus before the request, see `Room.shared_milli`."""
    shared: Column
    """The same after the request, negative where it does not fit."""
    isolated: Column
    """Isolated cpus after the request; -1 everywhere where none are wanted."""
    zones: Sequence[Zone]
    affinities: Column
    hints: Sequence[tuple[int, int]]
    """Product of the hint scores and of the non-zero ones; empty where there are no hints."""
    misfits_class: Column
    neighbours: Column
    free_of_priority: Column
    """Number of free sharable cpus of the priority asked for; empty where none was."""


_INSIDE: Final = 100
"""More than there are levels: pools inside the wanted level are nearer to it than wider ones."""


def _crowded(contest: Contest) -> Column:
    return [int(milli < 0) for milli in contest.shared]


def _isolated_missing(contest: Contest) -> Column:
    if not contest.request.wants_isolated:
        return contest.zeros
    return [int(count < 0) for count in contest.isolated]


def _affinity(contest: Contest) -> Column:
    return [-weight for weight in contest.affinities]


def _hints(contest: Contest) -> Column:
    return [-score for score, _ in contest.hints] or contest.zeros


def _hints_partial(contest: Contest) -> Column:
    return [0 if full else -partial for full, partial in contest.hints] or contest.zeros


def _hints_depth(contest: Contest) -> Column:
    return _where_hinted(contest, contest.depth)


def _hints_pool(contest: Contest) -> Column:
    return _where_hinted(contest, contest.ids)


def _memory_type(contest: Contest) -> Column:
    return [int(not zone.is_exact) for zone in contest.zones]


def _memory_limit(contest: Contest) -> Column:
    if contest.request.memory_limit_bytes is None:
        return contest.zeros
    return [int(zone.is_below_limit) for zone in contest.zones]


def _cpu_limit(contest: Contest) -> Column:
    limit = contest.request.cpu_limit_milli
    return contest.zeros if limit is None else [int(milli < limit) for milli in contest.room]


def _burst_level(contest: Contest) -> Column:
    if not contest.request.is_unlimited:
        return contest.zeros
    return [levels if levels >= 0 else _INSIDE - levels for levels in contest.inward]


def _burst_room(contest: Contest) -> Column:
    if not contest.request.is_unlimited:
        return contest.zeros
    pairs = zip(contest.inward, contest.room, strict=True)
    return [0 if levels else -milli for levels, milli in pairs]


def _burst_pool(contest: Contest) -> Column:
    return contest.ids if contest.request.is_unlimited else contest.zeros


def _memory_nodes(contest: Contest) -> Column:
    return [zone.node_count for zone in contest.zones]


def _memory_missing(contest: Contest) -> Column:
    return [int(zone.lacks_kind) for zone in contest.zones]


def _cpu_class(contest: Contest) -> Column:
    return contest.misfits_class or contest.zeros


def _cpu_priority(contest: Contest) -> Column:
    if contest.request.priority is CpuPriority.NORMAL:
        return contest.zeros
    return _short_of_priority(contest)


def _depth(contest: Contest) -> Column:
    return contest.depth


def _isolated_room(contest: Contest) -> Column:
    if not contest.request.wants_isolated:
        return contest.zeros
    return [-max(count, 0) for count in contest.isolated]


def _isolated_pool(contest: Contest) -> Column:
    if not contest.request.wants_isolated:
        return contest.zeros
    pairs = zip(contest.ids, contest.isolated, strict=True)
    return [pool_id if count > 0 else 0 for pool_id, count in pairs]


def _cpu_priority_normal(contest: Contest) -> Column:
    if contest.request.priority is not CpuPriority.NORMAL:
        return contest.zeros
    return _short_of_priority(contest)


def _exclusive_room(contest: Contest) -> Column:
    if not contest.request.exclusive:
        return contest.zeros
    return [-max(milli, 0) for milli in contest.shared]


def _exclusive_pool(contest: Contest) -> Column:
    if not contest.request.exclusive:
        return contest.zeros
    pairs = zip(contest.ids, contest.shared, strict=True)
    return [pool_id if milli > 0 else 0 for pool_id, milli in pairs]


def _neighbours(contest: Contest) -> Column:
    return contest.neighbours


def _shared_room(contest: Contest) -> Column:
    return [-milli for milli in contest.shared]


def _pool_id(contest: Contest) -> Column:
    return contest.ids


def _where_hinted(contest: Contest, column: Column) -> Column:
    pairs = zip(contest.hints, column, strict=bool(contest.hints))
    return [value if full or partial else 0 for (full, partial), value in pairs] or contest.zeros


def _short_of_priority(contest: Contest) -> Column:
    wanted = contest.request.total_milli or 1
    return [int(1000 * count < wanted) for count in contest.free_of_priority] or contest.zeros


CRITERIA: Final[tuple[Callable[[Contest], Column], ...]] = (
    _crowded,
    _isolated_missing,
    _affinity,
    _hints,
    _hints_partial,
    _hints_depth,
    _hints_pool,
    _memory_type,
    _memory_limit,
    _cpu_limit,
    _burst_level,
    _burst_room,
    _burst_pool,
    _memory_nodes,
    _memory_missing,
    _cpu_class,
    _cpu_priority,
    _depth,
    _isolated_room,
    _isolated_pool,
    _cpu_priority_normal,
    _exclusive_room,
    _exclusive_pool,
    _neighbours,
    _shared_room,
    _pool_id,
)
"""One function per field of `Rank`, in its order."""


def ranks(contest: Contest) -> list[Rank]:
    """The rank of every pool. O(pools x criteria)."""
    columns = [criterion(contest) for criterion in CRITERIA]
    return list(map(Rank._make, zip(*columns, strict=True)))


def choose(contest: Contest, pools: list[int]) -> tuple[int, str]:
    """The pool of the smallest rank among several, and the first criterion in which no other is it.

    Without making ranks: every criterion leaves those pools that are best in it, and the later ones
    are not looked at once a single pool is left. O(pools x criteria).
    """
    for name, criterion in zip(Rank._fields, CRITERIA, strict=True):
        column = criterion(contest)
        if column is contest.zeros:
            continue
        least = min([column[pool_id] for pool_id in pools])
        pools = [pool_id for pool_id in pools if column[pool_id] == least]
        if len(pools) == 1:
            return pools[0], name
    raise AssertionError("two pools of one rank: pool ids are unique")
