"""Plans of moves: who goes where, who stays, and what it costs."""

import json
from collections.abc import Mapping

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import (
    NO_LIMIT,
    RebalanceBudget,
    RebalancePlan,
    placement_quality,
    rebalance,
)
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant, Refusal
from tests.unit.policy.engine.pods_with_wishes import MIB, placed, pool_named, wishing

NODE_0, NODE_1, NODE_2, NODE_3 = (f"NUMA node #{number}" for number in range(4))
SHARED = {"prefer-shared-cpus.resource-policy.nri.io/pod": "true"}
TOGETHER, NEXT, APART = 256, 144, 81


def ways(plan: RebalancePlan) -> list[tuple[str, str, str]]:
    return [(move.container.name, move.before.pool, move.after.pool) for move in plan.moves]


def after(plan: RebalancePlan, engine: Engine) -> dict[str, str]:
    """The pool of every container once a plan was carried out."""
    for move in plan.moves:
        assert isinstance(engine.move(move.container.id, move.pool_id).result, Grant)
        engine.check()
    return {one: engine.tree.pools[grant.pool_id].name for one, grant in engine.grants.items()}


def test_friends_that_came_apart_are_brought_together_by_one_move() -> None:
    engine = placed((wishing("a", wishes={"b": 3}), NODE_1), (wishing("b"), NODE_2))
    plan = rebalance(engine.snapshot())
    assert (plan.score, plan.score_after, plan.scale) == (3 * APART, 3 * TOGETHER, TOGETHER)
    (move,) = plan.moves
    assert move.gain == 3 * (TOGETHER - APART)
    assert move.before.cpus.isdisjoint(move.after.cpus)
    assert move.migrated_bytes == plan.migrated_bytes == 64 * MIB
    assert move.changed_cpusets == plan.changed_cpusets == 1
    pools = after(plan, engine)
    assert pools["a"] == pools["b"]


def test_enemies_are_parted_as_far_as_the_machine_goes() -> None:
    engine = placed((wishing("a", wishes={"b": -3}), NODE_1), (wishing("b"), NODE_1))
    plan = rebalance(engine.snapshot())
    assert (plan.score, plan.score_after) == (-3 * TOGETHER, -3 * APART)


def test_nobody_is_moved_where_nobody_wishes_anything() -> None:
    engine = placed((wishing("a"), NODE_1), (wishing("b", 0), NODE_1))
    plan = rebalance(engine.snapshot())
    assert (plan.score, plan.score_after, plan.moves) == (0, 0, ())
    assert placement_quality(engine.snapshot()) is None


STAYING: Mapping[str, tuple[Container, RebalanceBudget, bool]] = {
    "a share may be moved": (wishing("a", 500), NO_LIMIT, True),
    "an annotation keeps it": (
        wishing("a", 500, more={"move.pinfold.dev/pod": "never"}),
        NO_LIMIT,
        False,
    ),
    "exclusive cpus stay": (wishing("a", 2000), NO_LIMIT, False),
    "an annotation lets them go": (
        wishing("a", 2000, more={"move.pinfold.dev/container.a": "allowed"}),
        NO_LIMIT,
        True,
    ),
    "so does whoever asks for the plan": (
        wishing("a", 2000),
        RebalanceBudget(moves_exclusive=True),
        True,
    ),
    "but not against the annotation": (
        wishing("a", 2000, more={"move.pinfold.dev/pod": "never"}),
        RebalanceBudget(moves_exclusive=True),
        False,
    ),
}


@pytest.mark.parametrize(("container", "budget", "moves"), STAYING.values(), ids=STAYING)
def test_who_may_be_moved(container: Container, budget: RebalanceBudget, moves: bool) -> None:
    fixed = wishing("b", wishes={"a": 3}, more={"move.pinfold.dev/pod": "never"})
    engine = placed((container, NODE_1), (fixed, NODE_2))
    expected = [("a", NODE_1, NODE_2)] if moves else []
    assert ways(rebalance(engine.snapshot(), budget)) == expected


def test_two_that_are_in_each_others_way_change_places_through_a_wider_pool() -> None:
    """Both nodes are full: one of them waits in the pool around both, and its memory stays."""
    never = {"move.pinfold.dev/pod": "never"}
    engine = placed(
        (wishing("left", 1999, more={**never, **SHARED}), NODE_1),
        (wishing("right", 1999, more={**never, **SHARED}), NODE_2),
        (wishing("a", 2000, {"right": 9}, more=SHARED), NODE_1),
        (wishing("b", 2000, {"left": 9}, more=SHARED), NODE_2),
    )
    plan = rebalance(engine.snapshot())
    assert len(plan.moves) == 3
    assert sorted({move.container.name for move in plan.moves}) == ["a", "b"]
    assert plan.score_after == 18 * TOGETHER
    assert plan.moves[0].after.pool == "root"
    assert [move.migrated_bytes for move in plan.moves] == [0, 64 * MIB, 64 * MIB]
    assert sum(move.gain for move in plan.moves) == 18 * (TOGETHER - APART)
    pools = after(plan, engine)
    assert (pools["a"], pools["b"]) == (NODE_2, NODE_1)


def test_a_container_makes_room_for_one_that_has_more_to_gain() -> None:
    engine = placed(
        (wishing("db", 2000, more={"move.pinfold.dev/pod": "never", **SHARED}), NODE_1),
        (wishing("idle", 1999, more=SHARED), NODE_1),
        (wishing("web", 1000, {"db": 5}, more=SHARED), NODE_3),
    )
    plan = rebalance(engine.snapshot())
    assert [way[0] for way in ways(plan)] == ["idle", "web"]
    assert [move.gain for move in plan.moves] == [0, 5 * (TOGETHER - APART)]


def test_exclusive_cpus_change_places_through_free_room() -> None:
    stays = {"move.pinfold.dev/pod": "never"}
    engine = placed(
        (wishing("left", 2000, more=stays), NODE_1),
        (wishing("right", 2000, more=stays), NODE_2),
        (wishing("a", 2000, {"right": 9}), NODE_1),
        (wishing("b", 2000, {"left": 9}), NODE_2),
    )
    plan = rebalance(engine.snapshot(), RebalanceBudget(moves_exclusive=True))
    assert len(plan.moves) == 3
    assert plan.moves[0].after.pool in (NODE_0, NODE_3)
    assert plan.score_after == 18 * TOGETHER
    after(plan, engine)


def test_a_full_machine_is_no_obstacle() -> None:
    """Three in a ring, each of which wants to be where the next one is; no cpu is free there."""
    posts = {"x": NODE_1, "y": NODE_2, "z": NODE_3}
    stays = {"move.pinfold.dev/pod": "never", **SHARED}
    engine = placed(
        (wishing("rest", 3000, more=stays), NODE_0),
        *((wishing(name, 1500, more=stays), node) for name, node in posts.items()),
        (wishing("a", 2500, {"y": 5}, more=SHARED), NODE_1),
        (wishing("b", 2500, {"z": 5}, more=SHARED), NODE_2),
        (wishing("c", 2500, {"x": 5}, more=SHARED), NODE_3),
    )
    plan = rebalance(engine.snapshot())
    assert plan.score_after == 15 * TOGETHER
    assert len(plan.moves) <= 5
    pools = after(plan, engine)
    assert [pools[name] for name in "abc"] == [NODE_2, NODE_3, NODE_1]


def test_a_budget_is_spent_on_what_gains_most() -> None:
    engine = placed(
        (wishing("a", wishes={"far": 1}), NODE_1),
        (wishing("b", wishes={"far": 7}), NODE_1),
        (wishing("c", wishes={"far": 3}), NODE_1),
        (wishing("far", more={"move.pinfold.dev/pod": "never"}), NODE_3),
    )
    snapshot = engine.snapshot()
    for count, names in ((0, ""), (1, "b"), (2, "bc"), (3, "bca"), (4, "bca")):
        plan = rebalance(snapshot, RebalanceBudget(moves=count))
        assert "".join(way[0] for way in ways(plan)) == names
    quality = placement_quality(snapshot)
    assert quality is not None
    assert (quality.score, quality.best_known) == (plan.score, 11 * TOGETHER)
    assert plan.score_after == quality.best_known


def test_more_moves_never_come_to_less() -> None:
    stays = {"move.pinfold.dev/pod": "never", **SHARED}
    engine = placed(
        (wishing("db", 2000, more=stays), NODE_1),
        (wishing("idle", 1999, more=SHARED), NODE_1),
        (wishing("web", 1000, {"db": 5, "log": 1}, more=SHARED), NODE_3),
        (wishing("log", 500, {"far": 2}), NODE_2),
        (wishing("far", 500, {"db": 2}), NODE_0),
    )
    snapshot = engine.snapshot()
    scores = [rebalance(snapshot, RebalanceBudget(moves=count)).score_after for count in range(7)]
    assert scores == sorted(scores)
    assert scores[-1] == rebalance(snapshot).score_after


def test_a_container_that_is_spread_goes_back_to_one_numa_node() -> None:
    engine = placed((wishing("a", 500), "socket #1"))
    assert ways(rebalance(engine.snapshot())) in (
        [("a", "socket #1", NODE_2)],
        [("a", "socket #1", NODE_3)],
    )


@pytest.mark.parametrize(
    ("owner", "post", "expected"),
    [
        pytest.param("a", NODE_2, [], id="its own rule, a part of its pool"),
        pytest.param("b", NODE_2, [], id="a rule about it, a part of its pool"),
        pytest.param("a", NODE_0, [("a", "socket #1", NODE_3)], id="the friend is elsewhere"),
    ],
)
def test_a_container_that_is_spread_to_be_near_a_friend_stays(
    owner: str, post: str, expected: list[tuple[str, str, str]]
) -> None:
    """A level's wish counts nothing in two domains, and yet it is why the pool was chosen."""
    term = {
        "labelSelector": {"matchLabels": {"app": {"a": "b", "b": "a"}[owner]}},
        "topologyKey": "numa",
    }
    preferred = [{"weight": 50, "podAffinityTerm": term}]
    text = json.dumps(
        {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    )
    rules = {owner: {"affinity.pinfold.dev/pod": text}}
    stays = {"move.pinfold.dev/pod": "never", **SHARED}
    engine = placed(
        (wishing("full", 2500, more=stays), NODE_2 if post == NODE_0 else NODE_0),
        (wishing("b", 2500, more={**stays, **rules.get("b", {})}), post),
        (wishing("a", 3000, more={**SHARED, **rules.get("a", {})}), "socket #1"),
    )
    plan = rebalance(engine.snapshot())
    assert ways(plan) == expected
    after(plan, engine)


def test_parts_of_cpus_become_whole_ones_where_these_are_scarce() -> None:
    """Beside 1900m of three cpus a share of 300m costs a whole one; elsewhere 400m are left."""
    stays = {"move.pinfold.dev/pod": "never", **SHARED}
    engine = placed(
        (wishing("p", 1900, more=stays), NODE_0),
        (wishing("q", 3500, more=stays), NODE_1),
        (wishing("r", 3600, more=stays), NODE_2),
        (wishing("s", 3900, more=stays), NODE_3),
        (wishing("a", 300), NODE_0),
    )
    root = engine.tree.root.id
    assert engine.snapshot().room.sliceable[root] == 0
    plan = rebalance(engine.snapshot())
    assert ways(plan) == [("a", NODE_0, NODE_2)]
    after(plan, engine)
    assert engine.snapshot().room.sliceable[root] == 1


def test_parts_of_cpus_stay_apart_where_there_are_enough_whole_ones() -> None:
    engine = placed((wishing("p", 1900, more=SHARED), NODE_0), (wishing("a", 300), NODE_0))
    assert ways(rebalance(engine.snapshot())) == []


def test_what_does_not_fit_on_one_numa_node_stays_spread() -> None:
    engine = placed((wishing("a", 5000, more=SHARED), "socket #1"))
    assert ways(rebalance(engine.snapshot())) == []


def test_a_container_goes_where_its_memory_fits() -> None:
    engine = placed(
        (wishing("a", wishes={"b": 5}, memory_mib=2000), NODE_1),
        (
            wishing("b", more={"move.pinfold.dev/pod": "never"}, memory_mib=3000),
            NODE_2,
        ),
    )
    assert ways(rebalance(engine.snapshot())) == [("a", NODE_1, NODE_3)]


def test_a_plan_is_for_the_moment_of_its_snapshot() -> None:
    engine = placed((wishing("a", wishes={"b": 3}), NODE_1), (wishing("b"), NODE_2))
    snapshot = engine.snapshot()
    engine.move(ContainerId("a"), pool_named(engine, NODE_3))
    engine.stop(ContainerId("b"))
    assert [move.before.pool for move in rebalance(snapshot).moves] in ([NODE_1], [NODE_2])


@pytest.mark.parametrize(
    "owner", [pytest.param("a", id="its own"), pytest.param("c", id="somebody else's about it")]
)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_whoever_a_required_rule_is_about_is_not_moved_for_a_wish(owner: str, kind: str) -> None:
    about = {"a": "c", "c": "a"}[owner]
    text = json.dumps(
        {
            kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": about}}, "topologyKey": "numa"}
                ]
            }
        }
    )
    rule = {"affinity.pinfold.dev/pod": text}
    mover = wishing("a", wishes={"b": 3}, more=rule if owner == "a" else {})
    other = wishing("c", more=rule if owner == "c" else {})
    engine = placed((wishing("b"), NODE_2))
    for container in (other, mover):
        assert isinstance(engine.create(container).result, Grant)
    held = engine.grants[mover.id].pool_id
    plan = rebalance(engine.snapshot())
    assert "a" not in {move.container.name for move in plan.moves}
    result = engine.move(mover.id, pool_named(engine, NODE_3)).result
    assert isinstance(result, Refusal)
    assert "required rules" in result.reason
    assert engine.grants[mover.id].pool_id == held
    after(plan, engine)


@pytest.mark.parametrize(
    ("app", "is_moved"), [pytest.param("a", False, id="counted"), pytest.param("x", True, id="not")]
)
def test_whoever_a_required_spread_rule_counts_is_not_moved_for_a_wish(
    app: str, is_moved: bool
) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "numa",
        "labelSelector": {
            "matchExpressions": [{"key": "app", "operator": "In", "values": [app, "c"]}]
        },
    }
    rule = {"affinity.pinfold.dev/pod": json.dumps({"topologySpread": [spread]})}
    friend = wishing("b", more={"move.pinfold.dev/pod": "never"})
    engine = placed((friend, NODE_2), (wishing("a", wishes={"b": 3}), NODE_1))
    owner = wishing("c", more={**rule, "pool-name.pinfold.dev/pod": NODE_2})
    assert isinstance(engine.create(owner).result, Grant)
    plan = rebalance(engine.snapshot())
    assert [move.container.name for move in plan.moves] == ["a"] * is_moved
    result = engine.move(ContainerId("a"), pool_named(engine, NODE_2)).result
    assert isinstance(result, Grant) is is_moved


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        pytest.param(NODE_2, "2", [], id="it is where it prefers to be"),
        pytest.param(NODE_2, "0", [("a", NODE_2, NODE_0)], id="its friend is where it does"),
        pytest.param(NODE_2, "3", [("a", NODE_2, NODE_0)], id="neither of the two"),
    ],
)
def test_no_wish_moves_a_container_out_of_the_pool_that_it_prefers(
    held: str, wanted: str, expected: list[tuple[str, str, str]]
) -> None:
    expression = {"key": "numa", "operator": "In", "values": [wanted]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [expression]}}]
    text = json.dumps(
        {"poolAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    )
    friend = wishing("b", more={"move.pinfold.dev/pod": "never"})
    mover = wishing("a", wishes={"b": 1}, more={"affinity.pinfold.dev/pod": text})
    engine = placed((friend, NODE_0), (mover, held))
    plan = rebalance(engine.snapshot())
    assert ways(plan) == expected
    after(plan, engine)
