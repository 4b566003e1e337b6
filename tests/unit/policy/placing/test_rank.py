"""The order of pools: each criterion decides where all before it are equal."""

from typing import Any

import pytest
from msgspec import structs

from pinfold.policy.memory.memory_choice import ZoneSummary
from pinfold.policy.model.container import ContainerId, QosClass
from pinfold.policy.model.cpu_preference import CpuPriority
from pinfold.policy.model.request import Isolation, Request
from pinfold.policy.placing.choice import choose
from pinfold.policy.placing.columns import ranks
from pinfold.policy.placing.rank import CRITERIA, Contest, Rank

PLAIN = ZoneSummary(mask=1, node_count=1, is_exact=True, is_below_limit=False, lacks_kind=False)
OWN = {"exclusive": 1}
ISOLATED = {"exclusive": 1, "isolation": Isolation.PREFERRED}


def zone(**changes: Any) -> ZoneSummary:
    return PLAIN._replace(**changes)


def contest(request: dict[str, Any], columns: dict[str, Any]) -> Contest:
    """Two pools that are alike in everything but what is given."""
    asked = Request(container_id=ContainerId("c"), qos=QosClass.GUARANTEED, **request)
    alike = Contest(
        request=asked,
        zeros=(0, 0),
        ids=(0, 1),
        depth=(-1, -1),
        inward=(0, 0),
        around=(0, 1),
        room=(4000, 4000),
        shared=(3000, 3000),
        isolated=(-1, -1),
        zones=(PLAIN, PLAIN),
        affinities=(0, 0),
        hints=(),
        misfits_class=(),
        neighbours=(0, 0),
        free_of_priority=(),
    )
    return structs.replace(alike, **columns)


def row(criterion: str, *, why: str, asks: dict[str, Any] | None = None, **columns: Any) -> Any:
    return pytest.param(criterion, asks or {}, columns, id=f"{criterion}: {why}")


# In every row pool 1 wins, although the last criterion prefers pool 0.
ROWS = [
    row("unmet", why="fewer broken rules", unmet=(2, 1), unmet_of_others=(0, 1)),
    row("unmet_of_others", why="fewer of residents", unmet=(1, 1), unmet_of_others=(1, 0)),
    row("narrowed", why="fewer make way", narrowed=(1, 0), shared=(0, -1)),
    row("crowded", why="room for the share", shared=(-1, 0), affinities=(9, 0)),
    row("isolated_missing", why="isolated cpus", asks=ISOLATED, isolated=(-1, 0)),
    row("preferred", why="suits preferred rules", preferred=(-1, 2), affinities=(9, 0)),
    row("affinity", why="nearer to friends", affinities=(1, 2), hints=((9, 9), (1, 1))),
    row("affinity", why="farther from enemies", affinities=(-2, -1)),
    row("hints", why="nearer to its devices", hints=((1, 9), (2, 2)), depth=(-2, -1)),
    row("hints_partial", why="near to some device", hints=((0, 1), (0, 2)), depth=(-2, -1)),
    row("hints_depth", why="tighter of equally near", hints=((1, 1), (1, 1)), depth=(-1, -2)),
    row("memory_type", why="the memory asked for", zones=(zone(is_exact=False), PLAIN)),
    row(
        "memory_limit",
        why="memory up to the limit",
        asks={"memory_limit_bytes": 5},
        zones=(zone(is_below_limit=True), PLAIN),
    ),
    row("cpu_limit", why="cpus up to the limit", asks={"cpu_limit_milli": 4000}, room=(3999, 4000)),
    row("burst_level", why="the level wanted", asks={"is_unlimited": True}, inward=(1, 0)),
    row("burst_level", why="inside beats outside", asks={"is_unlimited": True}, inward=(-1, 3)),
    row("burst_level", why="the nearest inside", asks={"is_unlimited": True}, inward=(2, 1)),
    row("burst_level", why="the nearest outside", asks={"is_unlimited": True}, inward=(-2, -1)),
    row("friends_room", why="more around it", asks={"awaits_friends": True}, room=(1000, 1001)),
    row(
        "friends_room",
        why="not the whole machine",
        asks={"awaits_friends": True},
        around=(-1, 1),
        room=(4000, 1000),
    ),
    row("burst_room", why="more to burst into", asks={"is_unlimited": True}, room=(1000, 1001)),
    row("memory_nodes", why="fewer memory nodes", zones=(zone(node_count=2), PLAIN)),
    row("memory_missing", why="all kinds of memory", zones=(zone(lacks_kind=True), PLAIN)),
    row("cpu_class", why="cpus of the class", misfits_class=(1, 0), depth=(-2, -1)),
    row(
        "cpu_priority",
        why="enough cpus of the priority",
        asks={**OWN, "priority": CpuPriority.HIGH},
        free_of_priority=(0, 1),
    ),
    row("depth", why="the tighter pool", depth=(-1, -2)),
    row("isolated_room", why="more isolated cpus left", asks=ISOLATED, isolated=(1, 2)),
    row(
        "cpu_priority_normal",
        why="enough cpus of normal priority",
        asks={**OWN, "priority": CpuPriority.NORMAL},
        free_of_priority=(0, 1),
    ),
    row("exclusive_room", why="more left for others", asks=OWN, shared=(1, 2), neighbours=(0, 1)),
    row("neighbours", why="fewer of its kind", neighbours=(1, 0)),
    row("shared_room", why="more left to share", shared=(1, 2)),
]

# In these pool 0 wins as the one with the lower id, before any later criterion is looked at.
FINAL_ROWS = [
    row("hints_pool", why="equally near, lower id", hints=((1, 1), (1, 1)), neighbours=(1, 0)),
    row("burst_pool", why="equal levels, lower id", asks={"is_unlimited": True}, depth=(-1, -2)),
    row("isolated_pool", why="lower id", asks=ISOLATED, isolated=(1, 1), neighbours=(1, 0)),
    row("exclusive_pool", why="lower id", asks=OWN, neighbours=(1, 0)),
    row("pool_id", why="alike in everything"),
]


@pytest.mark.parametrize(("criterion", "asks", "columns"), ROWS)
def test_the_better_pool_wins(criterion: str, asks: dict[str, Any], columns: Any) -> None:
    one = contest(asks, columns)
    assert min(ranks(one)).pool_id == 1
    assert choose(one, [0, 1]) == (1, criterion, [0])


@pytest.mark.parametrize(("criterion", "asks", "columns"), FINAL_ROWS)
def test_the_lower_id_wins(criterion: str, asks: dict[str, Any], columns: Any) -> None:
    one = contest(asks, columns)
    assert min(ranks(one)).pool_id == 0
    assert choose(one, [0, 1]) == (0, criterion, [1])


def test_every_criterion_has_a_row() -> None:
    assert {one.values[0] for one in (*ROWS, *FINAL_ROWS)} == set(Rank._fields)


def test_criteria_are_in_the_order_of_the_fields() -> None:
    assert tuple(CRITERIA) == Rank._fields


INDIFFERENT = [
    pytest.param({}, {"isolated": (-1, 3)}, id="isolated cpus to who wants none"),
    pytest.param({}, {"inward": (3, 0)}, id="levels to who does not burst"),
    pytest.param({}, {"room": (4000, 9000)}, id="room to burst to who does not"),
    pytest.param(
        {}, {"zones": (zone(is_below_limit=True), PLAIN)}, id="a memory limit to who has none"
    ),
    pytest.param(OWN, {"shared": (0, -0)}, id="what is left where nothing is"),
    pytest.param(
        {"priority": CpuPriority.LOW, "shared_milli": 500},
        {"free_of_priority": (1, 2)},
        id="more cpus of the priority than are needed",
    ),
    pytest.param({}, {"hints": ((0, 0), (0, 0)), "zones": (PLAIN, PLAIN)}, id="hints of no pool"),
]


@pytest.mark.parametrize(("asks", "columns"), INDIFFERENT)
def test_a_criterion_is_indifferent(asks: dict[str, Any], columns: Any) -> None:
    winner, decided_by, _ = choose(contest(asks, columns), [0, 1])
    assert winner == 0
    assert decided_by in ("pool_id", "exclusive_pool")


def test_where_no_isolated_cpus_serve_the_ranks_are_those_of_too_few_everywhere() -> None:
    none, too_few = ({"isolated": one} for one in ((), (-1, -2)))
    assert ranks(contest(ISOLATED, none)) == ranks(contest(ISOLATED, too_few))
    assert choose(contest(ISOLATED, none), [0, 1]) == choose(contest(ISOLATED, too_few), [0, 1])


def test_no_two_pools_have_the_same_rank() -> None:
    with pytest.raises(AssertionError, match="unique"):
        choose(contest({}, {}), [0, 0])
