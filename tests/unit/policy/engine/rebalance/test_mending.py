"""Mending: whoever is where a required rule does not hold goes where it does."""

import pytest
from msgspec import structs

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import RebalanceBudget, RebalancePlan, rebalance
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant, Refusal
from tests.unit.policy.engine.rebalance.made_moves import made
from tests.unit.policy.engine.ruled_pods import (
    IGNORED,
    LASTING,
    NEVER,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    prefer,
    term,
)
from tests.unit.policy.engine.ruled_pods import NODES as NUMA_NODES

NODES = "socket:1 numa:3 core:4 mem:8G"
CORES = "socket:1 core:2 thread:2 mem:8G"


def carried_out(engine: Engine, plan: RebalancePlan) -> None:
    """Make the moves of a plan one by one, as the daemon does."""
    for move in plan.moves:
        decision = made(move, engine)
        assert isinstance(decision.result, Grant), decision.result
        assert decision.decided_by == move.purpose.value
        assert str(decision.pinning.cpus) == str(move.after.cpus)
        engine.check()


def shard(number: int, **more: str) -> Container:
    annotations = {f"{key}.pinfold.dev/pod": text for key, text in more.items()}
    rule = apart(term("numa", "shard"))
    return container_of(f"s{number}", 0.5, rule, app="shard", annotations=annotations)


def crowded(**more: str) -> Engine:
    """Four shards on three NUMA nodes, of which one ended: the last could be alone by now."""
    engine = engine_of(NODES, "cpuset:0")
    for number in range(4):
        placed(engine, shard(number, **more))
    assert engine.decisions[ContainerId("s3-main")].unmet
    (beside,) = (one for one in range(3) if cpus(engine, shard(one)) == cpus(engine, shard(3)))
    engine.stop(ContainerId(f"s{(beside + 1) % 3}-main"))
    assert engine.decisions[ContainerId("s3-main")].unmet
    return engine


def test_a_rule_that_did_not_hold_is_mended_once_there_is_room() -> None:
    engine = crowded()
    plan = rebalance(engine.snapshot())
    (move,) = plan.moves
    assert (plan.score, plan.score_after, move.gain) == (0, 0, 0)
    assert any("anti-affinity at numa to app=shard" in text for text in move.mends)
    carried_out(engine, plan)
    assert not any(engine.decisions[one].unmet for one in engine.grants)
    assert rebalance(engine.snapshot()).moves == ()


def test_why_other_pools_are_no_candidates_of_a_move_is_told_in_words() -> None:
    engine = engine_of("socket:2 numa:2 core:4 mem:8G")
    placed(engine, web := container_of("web", 0.5, near(term("numa", "db"))))
    in_node = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    placed(engine, container_of("db", 0.5, annotations=in_node))
    plan = rebalance(engine.snapshot())
    carried_out(engine, plan)
    found = engine.decisions[web.id].candidates
    told = {pool.name: str(why) for pool, why in zip(engine.tree.pools, found, strict=True)}
    asked = "the move that is asked for: wanted pool NUMA node #0, available none"
    assert told["socket #0"] == asked


def test_a_rule_is_mended_inside_of_a_pool() -> None:
    engine = engine_of(CORES, "cpuset:0")
    pods = [
        container_of(f"s{number}", 0.5, apart(term("core", "shard")), app="shard")
        for number in range(3)
    ]
    for one in pods:
        placed(engine, one)
    third = pods[2]
    (beside,) = (one for one in pods[:2] if cpus(engine, one) == cpus(engine, third))
    (other,) = (one for one in pods[:2] if one is not beside)
    engine.stop(other.id)
    plan = rebalance(engine.snapshot())
    (move,) = plan.moves
    assert move.before.pool == move.after.pool
    carried_out(engine, plan)
    assert not any(engine.decisions[one].unmet for one in engine.grants)


@pytest.mark.parametrize("when", [IGNORED, LASTING])
def test_a_rule_is_not_mended_by_leaving_one_that_must_be_with_its_owner(when: str) -> None:
    engine = engine_of(NODES, "cpuset:0")
    placed(engine, sheep := container_of("sheep", 0.5, apart(term("numa", "wolf"))))
    rules = {"podAffinity": {when: [term("numa", "sheep")]}}
    placed(engine, container_of("lamb", 0.5, rules, annotations=NEVER))
    here = {"pool-name.pinfold.dev/pod": engine.decisions[sheep.id].pool}
    placed(engine, container_of("wolf", 0.5, fails=True, annotations=here))
    assert engine.decisions[sheep.id].unmet
    assert rebalance(engine.snapshot()).moves == ()


def test_who_is_with_another_in_more_domains_than_one_does_not_leave_it() -> None:
    """Its rule wants one core; it came back while nobody was there of whom the rule tells."""
    engine = engine_of(NODES, "cpuset:0")
    rules = near(term("core", "web")) | apart(term("numa", "wolf"))
    placed(engine, web := container_of("web", 0.5, is_guaranteed=True))
    here = {"pool-name.pinfold.dev/pod": engine.decisions[web.id].pool}
    placed(engine, cache := container_of("cache", 0.5, rules, is_guaranteed=True))
    for one in (web, cache):
        engine.remove(one.id)
    cache = structs.replace(cache, id=ContainerId("again"))
    wolf = container_of("wolf", 0.5, fails=True, is_guaranteed=True, annotations=here)
    for one in (cache, web, wolf):
        placed(engine, one)
        assert cpus(engine, one) == "4-7"
    assert any("wolf" in text for text in engine.decisions[cache.id].unmet)
    assert rebalance(engine.snapshot()).moves == ()


@pytest.mark.parametrize("count", [1, 12, 24])
def test_a_move_names_the_rule_that_it_mends_however_many_are_told_of_it(count: int) -> None:
    engine = engine_of(NODES, "cpuset:0")
    placed(engine, sheep := container_of("sheep", 0.5, apart(term("numa", "wolf"))))
    here = {"pool-name.pinfold.dev/pod": engine.decisions[sheep.id].pool}
    for number in range(count):
        placed(
            engine,
            container_of(f"w{number}", 0.1, app="wolf", fails=True, annotations=here),
        )
        engine.compact(sheep.id)
    (move,) = rebalance(engine.snapshot()).moves
    assert move.container.id == sheep.id
    assert move.mends == (
        "anti-affinity at numa to app=wolf (affinity.pinfold.dev/pod:1) of default/sheep/main",
    )


def test_nothing_is_moved_where_no_place_is_better() -> None:
    engine = engine_of(NODES, "cpuset:0")
    for number in range(4):
        placed(engine, shard(number))
    assert rebalance(engine.snapshot()).moves == ()
    held = engine.grants[ContainerId("s3-main")].pool_id
    result = engine.move(ContainerId("s3-main"), engine.tree.pools[0].id).result
    assert isinstance(result, Refusal)
    assert "no place is better" in result.reason
    assert engine.grants[ContainerId("s3-main")].pool_id == held


@pytest.mark.parametrize("wish", ["never"])
def test_who_refuses_to_be_moved_stays(wish: str) -> None:
    assert rebalance(crowded(move=wish).snapshot()).moves == ()


@pytest.mark.parametrize(
    ("moves_exclusive", "count"),
    [
        pytest.param(False, 0, id="not by default"),
        pytest.param(True, 1, id="where that is allowed"),
    ],
)
def test_exclusive_cpus_are_moved_where_that_is_allowed(
    count: int, *, moves_exclusive: bool
) -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:8G", "cpuset:0")
    wolf = container_of("wolf", 1, annotations={"pool-name.pinfold.dev/pod": "NUMA node #0"})
    full = container_of("full", 4, annotations={"pool-name.pinfold.dev/pod": "NUMA node #1"})
    sheep = container_of("sheep", 1, apart(term("numa", "wolf")))
    for one in (wolf, full, sheep):
        placed(engine, one)
    assert engine.decisions[sheep.id].unmet
    engine.stop(full.id)
    budget = RebalanceBudget(moves_exclusive=moves_exclusive)
    plan = rebalance(engine.snapshot(), budget)
    assert len(plan.moves) == count
    carried_out(engine, plan)
    assert bool(engine.decisions[sheep.id].unmet) is not bool(count)


def test_a_budget_of_nothing_mends_nothing() -> None:
    assert rebalance(crowded().snapshot(), RebalanceBudget(moves=0)).moves == ()


def test_what_is_ignored_during_execution_is_no_reason_to_move() -> None:
    engine = engine_of(NODES, "cpuset:0")
    cache = container_of("cache", 1, annotations={"pool-name.pinfold.dev/pod": "NUMA node #1"})
    placed(engine, cache)
    placed(engine, web := container_of("web", 0.5, near(term("numa", "cache"))))
    engine.stop(cache.id)
    elsewhere = {"pool-name.pinfold.dev/pod": "NUMA node #2"}
    again = structs.replace(cache.pod, uid="another", annotations=elsewhere)
    placed(engine, structs.replace(cache, id=ContainerId("again"), pod=again))
    assert not engine.decisions[web.id].unmet
    assert rebalance(engine.snapshot()).moves == ()


def test_a_move_elsewhere_than_where_the_rules_would_hold_is_refused() -> None:
    engine = crowded()
    (move,) = rebalance(engine.snapshot()).moves
    result = engine.move(move.container.id, engine.tree.root.id).result
    assert isinstance(result, Refusal)
    assert f"its rules would hold in {move.after.pool} by now" in result.reason


def at(number: int) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}


def test_a_rule_is_mended_where_most_weight_can_follow() -> None:
    """In one of two places the container would take the room of one that wishes to be there."""
    engine = engine_of(NUMA_NODES)
    for one in (
        container_of("a", 2.5, prefer(60, term("numa", "d"))),
        container_of("b", 2.5),
        container_of("n", 1.5, prefer(90, term("numa", "d")), annotations=NEVER),
        container_of("g", 1, prefer(95, term("numa", "d"))),
        container_of("d", 0.5, annotations=at(3)),
        container_of("sheep", 0.1, apart(term("numa", "wolf"))),
        container_of("wolf", 0.1, annotations=at(0), fails=True),
    ):
        placed(engine, one)
    assert engine.decisions[ContainerId("sheep-main")].unmet
    plan = rebalance(engine.snapshot())
    ways = [(move.container.pod.name, move.after.pool) for move in plan.moves]
    assert ways == [("sheep", "NUMA node #1"), ("a", "NUMA node #3")]
    assert (plan.score, plan.score_after) == (95 * 256, 155 * 256)
    carried_out(engine, plan)
    assert not any(one.unmet for one in engine.decisions.values())
    decision = engine.decisions[ContainerId("sheep-main")]
    assert decision.decided_by == "mended"
    assert decision.notes[0].startswith("it was moved to mend anti-affinity at numa to app=wolf")


@pytest.mark.parametrize(
    ("full", "sheep", "names"),
    [
        pytest.param(2.4, 1.9, ["full", "sheep"], id="where there is room for it"),
        pytest.param(3.4, 1.5, ["full", "sheep", "full"], id="or it waits in a wider pool"),
    ],
)
def test_others_make_room_where_a_rule_would_hold(
    full: float, sheep: float, names: list[str]
) -> None:
    engine = engine_of("socket:1 numa:3 core:4 mem:8G", "cpuset:0")
    for one in (
        container_of("wolf", 0.5, annotations={**at(0), **NEVER}),
        container_of("hound", 0.5, app="wolf", annotations={**at(2), **NEVER}),
        container_of("full", full),
    ):
        placed(engine, one)
    engine.move(ContainerId("full-main"), engine.tree.pools[1].id)
    placed(engine, container_of("sheep", sheep, apart(term("numa", "wolf"))))
    assert engine.decisions[ContainerId("sheep-main")].unmet
    assert rebalance(engine.snapshot(), RebalanceBudget(moves=1)).moves == ()
    plan = rebalance(engine.snapshot())
    ways = [(move.container.pod.name, move.after.pool) for move in plan.moves]
    assert [name for name, _ in ways] == names
    assert ways[1][1] == "NUMA node #1"
    carried_out(engine, plan)
    assert not any(one.unmet for one in engine.decisions.values())


def on_half_cores() -> tuple[Engine, Container]:
    """A container that wants a whole core where only halves are left, and there are some by now."""
    engine = engine_of("socket:2 core:3 thread:2 mem:8G", "cpuset:0-1")
    for name in "abc":
        there = {"pool-name.pinfold.dev/pod": "socket #1", "smt.pinfold.dev/pod": "spread"}
        placed(engine, container_of(name, 1, annotations=there))
    full = container_of("full", 4, annotations={"pool-name.pinfold.dev/pod": "socket #0"})
    placed(engine, full)
    whole = {"hide-hyperthreads.resource-policy.nri.io/pod": "whole-cores"}
    wants = container_of("wants", 1, annotations=whole)
    placed(engine, wants)
    assert "it wants idle cores" in engine.decisions[wants.id].unmet[0]
    engine.remove(full.id)
    return engine, wants


def test_who_wants_whole_cores_is_moved_to_some() -> None:
    engine, wants = on_half_cores()
    plan = rebalance(engine.snapshot(), RebalanceBudget(moves_exclusive=True))
    carried_out(engine, plan)
    assert len(plan.moves) == 1
    assert str(engine.grants[wants.id].exclusive) == "2-3"
    assert engine.decisions[wants.id].unmet == ()


def test_who_has_whole_cores_is_not_moved_to_halves() -> None:
    engine, wants = on_half_cores()
    engine.move(wants.id, engine.tree.pools[0].id)
    assert str(engine.grants[wants.id].exclusive) == "2-3"
    assert isinstance(engine.move(wants.id, engine.tree.pools[1].id).result, Refusal)
    assert str(engine.grants[wants.id].exclusive) == "2-3"
