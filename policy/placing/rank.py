"""The order in which feasible pools are preferred, written once, as a type.

`Rank` has one field per criterion, in order of importance. Beside it stands one function per field
that gives the criterion's values for some pools at once (a column), and several fields may have the
same one: a new criterion is one field and one function.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, neg
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct

from ..memory.memory_choice import ZoneSummary
from ..model.request import Request
from ..pools.pool_masks import Pools

T = TypeVar("T")


class Rank(NamedTuple):
    """Criteria in order of importance; the smaller value wins; the last field is unique.

    The first field in which two ranks differ is the reason for the choice.
    """

    unmet: int
    """Number of required rules that are broken, where no pool keeps all of them."""
    unmet_of_others: int
    """The residents' rules among them."""
    narrowed: int
    """Number of shared residents that have to make way for a required rule."""
    crowded: int
    """1 where the request would take more than the pool has left for shared requests."""
    isolated_missing: int
    """1 where isolated cpus were wanted and the pool has too few of them."""
    preferred: int
    """Minus the sum of the preferred rules between containers and about pools (scaled integer)."""
    affinity: int
    """Minus the affinity of the pool (scaled integer)."""
    hints: int
    """Minus the product of the scores of all topology hints."""
    hints_partial: int
    """Minus that product without the hints that score nothing, where some do."""
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
    friends_room: int
    """Where others may be drawn to the container: minus the sharable milli-cpus around the pool."""
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


Column = Sequence[int]


class Contest(Struct, frozen=True, kw_only=True):
    """A request and the figures of all pools, for the criteria. Sequences are by pool id."""

    request: Request
    zeros: Column
    ids: Column
    depth: Column
    """Minus the depth of each pool."""
    inward: Column
    """How many levels each pool is inside the one wanted for bursting; negative outside."""
    around: Column
    """The pool next around each of the tightest ones, itself for that one; -1 for wider pools."""
    room: Column
    """Sharable milli-cpus before the request, see `Room.shared_milli`."""
    whole_milli: int = 0
    """What the request takes of it."""
    shared: Column = ()
    """What is left after the request where that is not the same less everywhere; negative where it
    does not fit."""
    isolated: Column
    """Isolated cpus after the request, negative where they do not serve; empty where none do."""
    zones: Sequence[ZoneSummary]
    affinities: Column
    """Empty where nobody draws the container, or pushes it away."""
    hints: Sequence[tuple[int, int]]
    """Product of the hint scores and of the non-zero ones; empty where there are no hints."""
    misfits_class: Column
    neighbours: Column
    free_of_priority: Column
    """Number of free sharable cpus of the priority asked for; empty where none was."""
    has_usual_memory: bool = False
    """Whether all zones have just the types asked for; no pool lacks one or is below the limit."""
    depth_grades: Sequence[Pools] = ()
    """All pools by this criterion, the best first; this and the next ones are empty where they are
    not known beforehand."""
    burst_grades: Sequence[Pools] = ()
    node_grades: Sequence[Pools] = ()
    preferred: Column = ()
    """Sum of the preferred rules; this and the next ones are empty where no rule says so."""
    unmet: Column = ()
    unmet_of_others: Column = ()
    narrowed: Column = ()


_INSIDE: Final = 100
"""More than there are levels: pools inside the wanted level are nearer to it than wider ones."""


def burst_distances(inward: Column) -> Column:
    """The distances of pools from the level wanted for bursting; see `Contest.inward`."""
    return [one if one >= 0 else _INSIDE - one for one in inward]


PoolIds = Sequence[int]
"""The ascending ids of the pools a criterion is asked about; its column has their values."""
Criterion = Callable[[Contest, PoolIds], Column]
"""Asked where it may tell pools apart, see `speaking`."""


def _figure(name: str) -> Criterion:
    """The criterion that is a column of the contest as it is."""
    column: Callable[[Contest], Column] = attrgetter(name)
    return lambda contest, pools: _at(column(contest), pools)


def _highest(name: str) -> Criterion:
    """The criterion of a column of which the highest figures are the best."""
    column: Callable[[Contest], Column] = attrgetter(name)
    return lambda contest, pools: list(map(neg, _at(column(contest), pools)))


def _where_hinted(name: str) -> Criterion:
    """The criterion of a column that says something of pools near hints alone."""
    column: Callable[[Contest], Column] = attrgetter(name)

    def criterion(contest: Contest, pools: PoolIds) -> Column:
        hints, found = contest.hints, column(contest)
        return [found[one] if any(hints[one]) else 0 for one in pools]

    return criterion


def _crowded(contest: Contest, pools: PoolIds) -> Column:
    shared = shared_at(contest, pools)
    # Those that are left in the end all have room, as a rule.
    return bytes(map((0).__gt__, shared)) if min(shared) < 0 else contest.zeros


def _isolated_missing(contest: Contest, pools: PoolIds) -> Column:
    isolated = contest.isolated
    return [int(isolated[one] < 0) for one in pools]


def _hints(contest: Contest, pools: PoolIds) -> Column:
    hints = contest.hints
    return [-hints[one][0] for one in pools]


def _hints_partial(contest: Contest, pools: PoolIds) -> Column:
    return [0 if full else -partial for full, partial in _at(contest.hints, pools)]


def _memory_type(contest: Contest, pools: PoolIds) -> Column:
    return [int(not contest.zones[one].is_exact) for one in pools]


def _memory_limit(contest: Contest, pools: PoolIds) -> Column:
    if contest.request.memory_limit_bytes is None:
        return contest.zeros
    return [int(contest.zones[one].is_below_limit) for one in pools]


def _cpu_limit(contest: Contest, pools: PoolIds) -> Column:
    limit, room = contest.request.cpu_limit_milli or 0, contest.room
    return [int(room[one] < limit) for one in pools]


def _burst_level(contest: Contest, pools: PoolIds) -> Column:
    return burst_distances(_at(contest.inward, pools))


def _friends_room(contest: Contest, pools: PoolIds) -> Column:
    around, room = contest.around, contest.room
    return [-max(room[around[one]], 0) if around[one] >= 0 else 0 for one in pools]


def _burst_room(contest: Contest, pools: PoolIds) -> Column:
    return [0 if contest.inward[one] else -contest.room[one] for one in pools]


def _memory_nodes(contest: Contest, pools: PoolIds) -> Column:
    return [contest.zones[one].node_count for one in pools]


def _memory_missing(contest: Contest, pools: PoolIds) -> Column:
    return [int(contest.zones[one].lacks_kind) for one in pools]


def _short_of_priority(contest: Contest, pools: PoolIds) -> Column:
    wanted, free = contest.request.total_milli or 1, contest.free_of_priority
    return [int(1000 * free[one] < wanted) for one in pools]


def _isolated_room(contest: Contest, pools: PoolIds) -> Column:
    return [-max(count, 0) for count in _at(contest.isolated, pools)]


def _isolated_pool(contest: Contest, pools: PoolIds) -> Column:
    return [one if contest.isolated[one] > 0 else 0 for one in pools]


def _exclusive_room(contest: Contest, pools: PoolIds) -> Column:
    # No `max`, which takes as long as three comparisons.
    return [-one if one > 0 else 0 for one in shared_at(contest, pools)]


def _exclusive_pool(contest: Contest, pools: PoolIds) -> Column:
    left = zip(pools, shared_at(contest, pools), strict=True)
    return [one if milli > 0 else 0 for one, milli in left]


def _shared_room(contest: Contest, pools: PoolIds) -> Column:
    return list(map(neg, shared_at(contest, pools)))


def _pool_id(contest: Contest, pools: PoolIds) -> Column:
    return pools


def _at(values: Sequence[T], pools: PoolIds) -> Sequence[T]:
    return values if len(pools) == len(values) else list(map(values.__getitem__, pools))


def shared_at(contest: Contest, pools: PoolIds) -> Column:
    """Sharable milli-cpus of pools that are left after the request."""
    if contest.shared:
        return _at(contest.shared, pools)
    whole = contest.whole_milli
    return [milli - whole for milli in _at(contest.room, pools)]


CRITERIA: Final[Mapping[str, Criterion]] = {
    "unmet": _figure("unmet"),
    "unmet_of_others": _figure("unmet_of_others"),
    "narrowed": _figure("narrowed"),
    "crowded": _crowded,
    "isolated_missing": _isolated_missing,
    "preferred": _highest("preferred"),
    "affinity": _highest("affinities"),
    "hints": _hints,
    "hints_partial": _hints_partial,
    "hints_depth": _where_hinted("depth"),
    "hints_pool": _where_hinted("ids"),
    "memory_type": _memory_type,
    "memory_limit": _memory_limit,
    "cpu_limit": _cpu_limit,
    "burst_level": _burst_level,
    "friends_room": _friends_room,
    "burst_room": _burst_room,
    "burst_pool": _pool_id,
    "memory_nodes": _memory_nodes,
    "memory_missing": _memory_missing,
    "cpu_class": _figure("misfits_class"),
    "cpu_priority": _short_of_priority,
    "depth": _figure("depth"),
    "isolated_room": _isolated_room,
    "isolated_pool": _isolated_pool,
    "cpu_priority_normal": _short_of_priority,
    "exclusive_room": _exclusive_room,
    "exclusive_pool": _exclusive_pool,
    "neighbours": _figure("neighbours"),
    "shared_room": _shared_room,
    "pool_id": _pool_id,
}
"""One function per field of `Rank`, in its order."""
