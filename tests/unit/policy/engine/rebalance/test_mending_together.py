"""Mending by moves of several: an owner goes where its rule holds, and who must be with it, too."""

from collections.abc import Sequence
from typing import Any

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import (
    NO_LIMIT,
    RebalanceBudget,
    RebalanceMove,
    rebalance,
)
from pinfold.policy.engine.replacing.companies import COMPANY_MAX
from pinfold.policy.engine.replacing.unmet_names import unmet_after, unmet_names
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.move_purpose import MovePurpose
from tests.unit.policy.engine.rebalance.made_moves import made
from tests.unit.policy.engine.ruled_pods import (
    IGNORED,
    LASTING,
    NEVER,
    apart,
    container_of,
    engine_of,
    near,
    placed,
    term,
)

NODES = "socket:1 numa:3 core:4 mem:8G"
NODE = "NUMA node #"
MANY = RebalanceBudget(search_steps=1)
"""No ways are compared, as on a node of many containers."""
FROM_WOLVES = apart(term("numa", "wolf"))
MAIN, SIDE, LAST = (ContainerId(f"{name}-main") for name in ("main", "side", "last"))


def at(number: int, **more: str) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"{NODE}{number}", **more}


def beside(app: str, when: str = IGNORED) -> dict[str, Any]:
    """Required affinity to an app in one NUMA node."""
    return {"podAffinity": {when: [term("numa", app)]}}


def wolf(number: int, name: str = "wolf", **more: Any) -> Container:
    """One in a NUMA node which must not be beside others, and stays there."""
    return container_of(name, 0.5, app="wolf", fails=True, annotations={**at(number), **NEVER})


def full(number: int, cpu: int) -> Container:
    return container_of(f"full{number}", cpu, annotations={**at(number), **NEVER})


def home_of(engine: Engine, container_id: ContainerId) -> int:
    """The number of the NUMA node in which a container is."""
    return int(engine.tree.pools[engine.grants[container_id].pool_id].name.removeprefix(NODE))


def paired(
    *, cpu: float = 0.5, when: str = IGNORED, side: dict[str, str] | None = None, more: Any = None
) -> Engine:
    """A main container, to which a wolf has come, and a side container that must be with it.

    `more`: rules of the main container besides.
    """
    engine = engine_of(NODES, "cpuset:0")
    # Until the side container is there, whoever must be with it is with another one.
    placed(engine, first := container_of("first", cpu, app="side"))
    placed(engine, main := container_of("main", cpu, FROM_WOLVES | (more or {})))
    engine.remove(first.id)
    placed(engine, container_of("side", cpu, beside("main", when), annotations=side))
    placed(engine, wolf(home_of(engine, main.id)))
    assert engine.decisions[MAIN].unmet
    assert home_of(engine, MAIN) == home_of(engine, SIDE)
    return engine


def told(engine: Engine) -> set[str]:
    return set(unmet_names(engine.decisions, engine.grants))


def carried_out(engine: Engine, moves: Sequence[RebalanceMove]) -> None:
    """Make the moves one by one: each breaks no rules but of those who have yet to come."""
    before, awaited = told(engine), set[ContainerId]()
    for move in moves:
        decision = made(move, engine)
        assert isinstance(decision.result, Grant), decision.result
        assert decision.pinning.cpus == move.after.cpus
        engine.check()
        left = unmet_after(engine, move.container.id)
        awaited = {one.id for one in move.awaited}
        going = [one.path for one in (move.container, *move.awaited)]
        new = [one for one in left if one not in before]
        assert all(any(name.endswith(f" of {path}") for path in going) for name in new), new
        if not awaited:
            assert not new
            before = set(left)
    assert not awaited, "nobody is left on the way"


def names(moves: Sequence[RebalanceMove]) -> list[str]:
    return [move.container.pod.name for move in moves]


@pytest.mark.parametrize("budget", [NO_LIMIT, MANY], ids=["few", "many"])
@pytest.mark.parametrize("when", [IGNORED, LASTING])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param(None, id="one must be with the other"),
        pytest.param(near(term("numa", "side")), id="each must be with the other"),
    ],
)
def test_an_owner_goes_with_those_that_must_be_with_it(
    when: str, more: Any, budget: RebalanceBudget
) -> None:
    engine = paired(when=when, more=more)
    main, side = moves = rebalance(engine.snapshot(), budget).moves
    assert names(moves) == ["main", "side"]
    assert [one.id for one in main.awaited] == [SIDE]
    assert side.awaited == ()
    assert main.after.pool == side.after.pool != main.before.pool
    assert main.mends == (
        "anti-affinity at numa to app=wolf (affinity.pinfold.dev/pod:1) of default/main/main",
    )
    assert main.purpose is side.purpose is MovePurpose.RULES
    carried_out(engine, moves)
    assert told(engine) == set()
    assert home_of(engine, MAIN) == home_of(engine, SIDE)
    assert rebalance(engine.snapshot(), budget).moves == ()


def homed(*containers: Container) -> Engine:
    """An engine on which all come to the first NUMA node, and then a wolf."""
    engine = engine_of(NODES, "cpuset:0")
    for one in containers:
        placed(engine, one)
        engine.move(one.id, engine.tree.pools[0].id)
        assert home_of(engine, one.id) == 0
    placed(engine, wolf(0))
    assert engine.decisions[MAIN].unmet
    return engine


def cache(name: str, **more: str) -> Container:
    return container_of(name, 0.5, app="cache", annotations=more)


WITH_CACHE = container_of("main", 0.5, FROM_WOLVES | near(term("numa", "cache")))
STAYS = cache("c1", **NEVER)


@pytest.mark.parametrize("budget", [NO_LIMIT, MANY], ids=["few", "many"])
@pytest.mark.parametrize(
    ("caches", "moved"),
    [
        pytest.param([cache("c1")], ["main", "c1"], id="the one that it must be with"),
        pytest.param([cache("c1"), cache("c2")], ["main", "c1"], id="one of two"),
        pytest.param([STAYS, cache("c2")], ["main", "c2"], id="one that may be moved"),
        pytest.param([STAYS], [], id="nobody where that one stays"),
    ],
)
def test_an_owner_takes_along_whom_it_must_be_with(
    caches: Sequence[Container], moved: Sequence[str], budget: RebalanceBudget
) -> None:
    """Its partner has no rule, and does not care."""
    engine = homed(*caches, WITH_CACHE)
    moves = rebalance(engine.snapshot(), budget).moves
    assert names(moves) == moved
    carried_out(engine, moves)
    assert len(told(engine)) == (0 if moved else 1)


def test_an_owner_goes_alone_to_where_there_is_another_that_it_must_be_with() -> None:
    engine = engine_of(NODES, "cpuset:0")
    for number, name in enumerate(("c0", "c1", "c2")):
        placed(engine, container_of(name, 0.5, app="cache", annotations=at(number)))
    placed(engine, WITH_CACHE)
    placed(engine, container_of("side", 0.5, beside("main")))
    placed(engine, wolf(home_of(engine, MAIN)))
    moves = rebalance(engine.snapshot()).moves
    assert names(moves) == ["main", "side"]
    carried_out(engine, moves)
    assert told(engine) == set()


def test_partners_of_partners_come_along() -> None:
    engine = homed(container_of("db", 0.5), container_of("cache", 0.5, beside("db")), WITH_CACHE)
    moves = rebalance(engine.snapshot()).moves
    assert names(moves) == ["main", "cache", "db"]
    carried_out(engine, moves)
    assert told(engine) == set()


@pytest.mark.parametrize("budget", [NO_LIMIT, MANY], ids=["few", "many"])
def test_they_go_where_there_is_room_for_all(budget: RebalanceBudget) -> None:
    engine = paired(cpu=1.5)
    narrow, roomy = sorted({0, 1, 2} - {home_of(engine, MAIN)})
    placed(engine, full(narrow, 2 if narrow else 1))
    moves = rebalance(engine.snapshot(), budget).moves
    assert {move.after.pool for move in moves} == {f"{NODE}{roomy}"}
    carried_out(engine, moves)
    assert told(engine) == set()


def test_nobody_goes_where_one_that_must_be_with_it_finds_no_room() -> None:
    engine = paired(cpu=1.5)
    for number in {0, 1, 2} - {home_of(engine, MAIN)}:
        placed(engine, full(number, 2 if number else 1))
    assert rebalance(engine.snapshot()).moves == ()


def test_followers_of_followers_come_along() -> None:
    engine = paired()
    placed(engine, container_of("last", 0.5, beside("side")))
    moves = rebalance(engine.snapshot()).moves
    assert names(moves) == ["main", "side", "last"]
    assert [len(move.awaited) for move in moves] == [2, 1, 0]
    carried_out(engine, moves)
    assert told(engine) == set()


def test_very_many_do_not_go_together() -> None:
    engine = paired(cpu=0.1)
    for number in range(COMPANY_MAX - 1):
        placed(engine, container_of(f"fan{number}", 0.1, beside("main")))
    assert rebalance(engine.snapshot()).moves == ()


@pytest.mark.parametrize("moves", [0, 1])
def test_a_budget_that_is_too_small_for_all_moves_nobody(moves: int) -> None:
    assert rebalance(paired().snapshot(), RebalanceBudget(moves=moves)).moves == ()


@pytest.mark.parametrize(("moves", "count"), [(1, 1), (2, 1), (3, 3)])
def test_what_is_left_of_a_budget_is_for_all_or_for_none(moves: int, count: int) -> None:
    """One that goes by itself comes in any case."""
    engine = paired()
    placed(engine, container_of("alone", 0.5, apart(term("numa", "hound"))))
    hound = container_of(
        "hound",
        0.5,
        fails=True,
        annotations={**at(home_of(engine, ContainerId("alone-main"))), **NEVER},
    )
    placed(engine, hound)
    found = rebalance(engine.snapshot(), RebalanceBudget(moves=moves, search_steps=1)).moves
    assert len(found) == count
    carried_out(engine, found)
    assert len(told(engine)) == (0 if count == 3 else 1)


def test_one_that_refuses_to_be_moved_keeps_the_owner() -> None:
    assert rebalance(paired(side=NEVER).snapshot()).moves == ()


@pytest.mark.parametrize(
    ("moves_exclusive", "annotations", "count"),
    [
        pytest.param(False, None, 0, id="not by default"),
        pytest.param(True, None, 2, id="where that is allowed"),
        pytest.param(False, {"move.pinfold.dev/pod": "allowed"}, 2, id="or they allow it"),
    ],
)
def test_exclusive_cpus_keep_the_owner(
    count: int, annotations: dict[str, str] | None, *, moves_exclusive: bool
) -> None:
    engine = engine_of(NODES, "cpuset:0")
    placed(engine, container_of("main", 0.5, FROM_WOLVES))
    placed(engine, container_of("side", 1, beside("main"), annotations=annotations))
    placed(engine, wolf(home_of(engine, MAIN)))
    assert engine.grants[SIDE].exclusive
    moves = rebalance(engine.snapshot(), RebalanceBudget(moves_exclusive=moves_exclusive)).moves
    assert len(moves) == count
    carried_out(engine, moves)
    assert len(told(engine)) == (0 if count else 1)


@pytest.mark.parametrize("budget", [NO_LIMIT, MANY], ids=["few", "many"])
@pytest.mark.parametrize(
    ("first", "second", "moved"),
    [
        pytest.param(
            container_of("wolf", 0.5),
            container_of("pup", 0.5, beside("wolf")),
            ["wolf", "pup"],
            id="who must be with it",
        ),
        pytest.param(
            container_of("den", 0.5, apart(term("numa", "hound"))),
            container_of("wolf", 0.5, beside("den")),
            ["wolf", "den"],
            id="whom it must be with",
        ),
    ],
)
def test_one_in_the_way_takes_along(
    first: Container, second: Container, moved: Sequence[str], budget: RebalanceBudget
) -> None:
    engine = engine_of(NODES, "cpuset:0")
    others = [full(1, 4), full(2, 4)]
    stays = container_of("main", 0.5, FROM_WOLVES, annotations=NEVER)
    for one in (*others, stays, first, second):
        placed(engine, one)
    for one in others:
        engine.remove(one.id)
    assert engine.decisions[MAIN].unmet
    moves = rebalance(engine.snapshot(), budget).moves
    assert names(moves) == moved
    carried_out(engine, moves)
    assert told(engine) == set()


@pytest.mark.parametrize("budget", [NO_LIMIT, MANY], ids=["few", "many"])
def test_an_owner_goes_alone_from_those_that_have_another_one_beside_them(
    budget: RebalanceBudget,
) -> None:
    engine = paired()
    home = home_of(engine, SIDE)
    twin = container_of("twin", 0.5, app="main", annotations={**at(home), **NEVER})
    placed(engine, twin)
    moves = rebalance(engine.snapshot(), budget).moves
    assert names(moves) == ["main"]
    assert moves[0].awaited == ()
    carried_out(engine, moves)
    assert told(engine) == set()
    assert home_of(engine, SIDE) == home_of(engine, twin.id) == home
