"""Owners of rules that stop holding go together with the containers that must be with them."""

from typing import Any

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.replacing.companies import COMPANY_MAX
from pinfold.policy.engine.replacing.joint_replacement import plan_together
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Grant, Refusal
from tests.unit.policy.engine.ruled_pods import (
    NEVER,
    NODES,
    apart,
    container_of,
    engine_of,
    near,
    placed,
    term,
)
from tests.unit.policy.engine.test_replacement import broken, lasting, node, pool

AWAY = lasting(apart(term("numa", "wolf")))


def joined(engine: Engine, owner: Container) -> int:
    """The number of moves that were planned, and made; all of them succeed."""
    steps = plan_together(engine.snapshot(), owner.id, COMPANY_MAX)
    for one in steps:
        decision = engine.place_anew(one.container_id, one.asked, mends_told=one.follows)
        assert isinstance(decision.result, Grant), decision.result
        engine.check()
    return len(steps)


def with_side(engine: Engine, side_rules: bool = True) -> tuple[Container, Container]:
    """A main container beside its side container, each of which must be with the other."""
    placed(engine, first := container_of("side", 1, annotations=pool(0)))
    placed(engine, main := container_of("main", 1, AWAY | lasting(near(term("numa", "side")))))
    engine.remove(first.id)
    rules = lasting(near(term("numa", "main"))) if side_rules else None
    placed(engine, side := container_of("side", 1, rules, annotations=None if rules else pool(0)))
    assert node(engine, main) == node(engine, side) == {0}
    return main, side


def test_two_that_must_be_together_go_away_together() -> None:
    engine = engine_of(NODES)
    main, side = with_side(engine)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(0)))
    assert list(broken(engine)) == [main.id]
    assert isinstance(engine.place_anew(main.id).result, Refusal), "not by itself"
    assert joined(engine, main) == 2
    assert broken(engine) == {}
    assert node(engine, main) == node(engine, side) != {0}
    assert engine.decisions[main.id].unmet == engine.decisions[side.id].unmet == ()


@pytest.mark.parametrize("is_mutual", [False, True])
def test_they_go_where_there_is_room_for_both(is_mutual: bool) -> None:
    engine = engine_of("socket:1 numa:4 core:4 mem:8G")
    if is_mutual:
        main, side = with_side(engine)
    else:
        placed(engine, main := container_of("main", 1, AWAY))
        placed(engine, side := container_of("side", 1, lasting(near(term("numa", "main")))))
    (home,) = node(engine, main)
    *narrow, roomy = {*range(4)} - {home}
    for number in narrow:
        placed(engine, container_of(f"full{number}", 3, annotations=pool(number)))
    placed(engine, container_of(f"full{roomy}", 2, annotations=pool(roomy)))
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(home)))
    assert joined(engine, main) == 2
    assert broken(engine) == {}
    assert node(engine, main) == node(engine, side) == {roomy}


def test_nobody_goes_where_a_follower_would_be_left_behind() -> None:
    engine = engine_of("socket:1 numa:4 core:4 mem:8G")
    main, _ = with_side(engine)
    for number in (1, 2, 3):
        placed(engine, container_of(f"full{number}", 3, annotations=pool(number)))
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(0)))
    assert plan_together(engine.snapshot(), main.id, COMPANY_MAX) == ()


def test_followers_of_followers_come_along() -> None:
    engine = engine_of("socket:1 numa:4 core:8 mem:8G")
    main, side = with_side(engine)
    placed(engine, last := container_of("last", 1, lasting(near(term("numa", "side")))))
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(0)))
    assert joined(engine, main) == 3
    assert broken(engine) == {}
    assert len({min(node(engine, one)) // 2 for one in (main, side, last)}) == 1


def test_who_must_be_with_one_that_follows_nobody_stays() -> None:
    engine = engine_of(NODES)
    main, _ = with_side(engine, side_rules=False)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(0)))
    assert plan_together(engine.snapshot(), main.id, COMPANY_MAX) == ()


def test_very_many_followers_do_not_go_together() -> None:
    engine = engine_of("socket:1 numa:4 core:32 mem:8G")
    main, _ = with_side(engine)
    for number in range(COMPANY_MAX - 1):
        placed(engine, container_of(f"fan{number}", 1, lasting(near(term("numa", "main")))))
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(0)))
    assert plan_together(engine.snapshot(), main.id, COMPANY_MAX) == ()


SHY = container_of("main", 0.5, AWAY)
WITH_CACHE = container_of("main", 0.5, AWAY | near(term("numa", "cache")))
SIDE = near(term("numa", "main"))
ALLOWED = {"move.pinfold.dev/pod": "allowed"}


def beside(main: Container, other: Container, **config: Any) -> Engine:
    """An owner in the first NUMA node and one that goes where it goes, and a wolf that came."""
    engine = engine_of(NODES, **config)
    pair = (other, main) if main is WITH_CACHE else (main, other)
    for one in pair:
        placed(engine, one)
        if one is pair[0]:
            engine.move(one.id, engine.tree.pools[0].id)
    assert node(engine, main) == node(engine, other)
    (home,) = node(engine, main)
    placed(engine, container_of("wolf", 0.5, fails=True, annotations={**pool(home), **NEVER}))
    assert list(broken(engine)) == [main.id]
    assert isinstance(engine.place_anew(main.id).result, Refusal), "not by itself"
    return engine


@pytest.mark.parametrize(
    ("main", "other"),
    [
        pytest.param(SHY, container_of("side", 0.5, SIDE), id="one that must be with it"),
        pytest.param(WITH_CACHE, container_of("cache", 0.5), id="one that it must be with"),
        pytest.param(
            WITH_CACHE,
            container_of("cache", 0.5, lasting(near(term("numa", "main")))),
            id="each with the other",
        ),
        pytest.param(
            SHY, container_of("side", 1, SIDE, annotations=ALLOWED), id="with cpus of its own"
        ),
    ],
)
def test_others_come_along_as_far_as_a_rebalance_may_move_them(
    main: Container, other: Container
) -> None:
    engine = beside(main, other)
    assert joined(engine, main) == 2
    assert broken(engine) == {}
    assert node(engine, main) == node(engine, other)
    assert not any(one.unmet for one in engine.decisions.values())


@pytest.mark.parametrize(
    ("main", "other"),
    [
        pytest.param(
            SHY, container_of("side", 0.5, SIDE, annotations=NEVER), id="that must be with it"
        ),
        pytest.param(
            WITH_CACHE, container_of("cache", 0.5, annotations=NEVER), id="that it must be with"
        ),
        pytest.param(SHY, container_of("side", 1, SIDE), id="that has cpus of its own"),
    ],
)
def test_an_owner_stays_with_one_that_is_not_moved(main: Container, other: Container) -> None:
    engine = beside(main, other)
    assert plan_together(engine.snapshot(), main.id, COMPANY_MAX) == ()


def test_cpus_of_its_own_keep_nobody_where_a_rebalance_moves_them() -> None:
    side = container_of("side", 1, SIDE)
    engine = beside(SHY, side, rebalance={"moveExclusive": True})
    assert joined(engine, SHY) == 2
    assert node(engine, SHY) == node(engine, side)


def test_one_that_it_must_be_with_comes_also_where_nobody_is_drawn_to_others() -> None:
    engine = beside(WITH_CACHE, cache := container_of("cache", 0.5), hardAffinityWeight=0)
    assert joined(engine, WITH_CACHE) == 2
    assert node(engine, WITH_CACHE) == node(engine, cache)


def test_all_who_go_together_are_in_the_budget() -> None:
    engine = beside(SHY, container_of("side", 0.5, SIDE))
    assert plan_together(engine.snapshot(), SHY.id, 1) == ()
    assert len(plan_together(engine.snapshot(), SHY.id, 2)) == 2
