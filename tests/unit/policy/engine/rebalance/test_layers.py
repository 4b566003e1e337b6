"""Preferred rules at levels in the satisfied weight, whether the level is one of pools or not."""

import dataclasses
import random
from typing import Any

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.placement_score import placement_objective
from pinfold.policy.engine.rebalance.plan import rebalance
from pinfold.policy.engine.rebalance.tenants import placement_model
from pinfold.policy.engine.rebalance.wishes import weigh_wishes
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Grant, PoolId
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.pods_with_wishes import pool_named
from tests.unit.policy.engine.ruled_pods import container_of, engine_of, placed, prefer, term


def wide_caches() -> Machine:
    """Four NUMA nodes in one socket, and two L3 groups around two of them each: no pools."""
    plain = machine_from_spec("socket:1 numa:4 core:4 mem:2G")
    groups = CpuSet.parse("0-7"), CpuSet.parse("8-15")
    return dataclasses.replace(plain, l3_groups=groups)


MACHINE = wide_caches()
NODES = tuple(f"NUMA node #{number}" for number in range(4))
ROOT = "socket #0"
WHOLE = 16
"""One unit of weight that is fully satisfied, in a tree with one level of pools above leaves."""


def shared(name: str, rules: dict[str, Any] | None = None) -> Container:
    return container_of(name, 0.5, rules)


def put(*places: tuple[Container, str]) -> Engine:
    """An engine with shared containers in the pools of these names."""
    engine = engine_of(MACHINE)
    for container, name in places:
        placed(engine, container)
        decision = engine.move(container.id, pool_named(engine, name))
        assert isinstance(decision.result, Grant), decision.result
    return engine


@pytest.mark.parametrize(
    ("level", "is_anti", "pools", "expected"),
    [
        pytest.param("numa", False, (0, 0), 5 * WHOLE, id="friends in their NUMA node"),
        pytest.param("numa", False, (0, 1), 0, id="friends in two nodes have nothing"),
        pytest.param("l3", False, (0, 1), 5 * WHOLE, id="a cache around two nodes"),
        pytest.param("l3", False, (1, 2), 0, id="two caches"),
        pytest.param("l3", True, (2, 3), -5 * WHOLE, id="enemies in a cache"),
        pytest.param("l3", True, (0, 2), 0, id="enemies in two caches"),
        pytest.param("core", False, (0, 0), 5 * (WHOLE // 4), id="a core by chance"),
        pytest.param("core", False, (0, 1), 0, id="no core by any chance"),
        pytest.param("l3", True, (0, None), -5 * WHOLE, id="a wide pool is no refuge"),
        pytest.param("l3", False, (0, None), 0, id="a wide pool is no company"),
        pytest.param("socket", False, (0, 3), 5 * WHOLE, id="the level of the root"),
    ],
)
def test_a_preferred_rule_is_worth_its_weight_in_one_domain(
    level: str, is_anti: bool, pools: tuple[int, int | None], expected: int
) -> None:
    names = [ROOT if number is None else NODES[number] for number in pools]
    fan = shared("fan", prefer(5, term(level, "star"), is_anti=is_anti))
    engine = put((shared("star"), names[1]), (fan, names[0]))
    assert weigh_wishes(engine.snapshot()).satisfied == expected


@pytest.mark.parametrize("seed", range(20))
def test_what_a_move_gains_is_what_the_score_changes(seed: int) -> None:
    chance = random.Random(seed)
    engine = engine_of(MACHINE)
    names = "abcdef"
    for name in names:
        level = chance.choice(("socket", "numa", "l3", "core"))
        weight, other = chance.randint(1, 9), chance.choice(names)
        rules = prefer(weight, term(level, other), is_anti=chance.random() < 0.5)
        placed(engine, shared(name, rules))
    snapshot = engine.snapshot()
    model = placement_model(snapshot, placement_objective(snapshot), moves_exclusive=True)
    score = model.score()
    for _ in range(60):
        index, target = chance.choice(model.movable), PoolId(chance.randrange(5))
        gain = model.worth(index, target) - model.worth(index, model.place[index])
        model.move(index, target)
        assert model.score() == score + gain
        score += gain


def test_a_rebalance_brings_together_what_prefers_it_in_a_cache_that_is_no_pool() -> None:
    fan = shared("fan", prefer(50, term("l3", "star")))
    engine = put((shared("star"), NODES[3]), (fan, NODES[0]))
    plan = rebalance(engine.snapshot())
    assert (plan.score, plan.score_after) == (0, 50 * WHOLE)
    (move,) = plan.moves
    engine.move(move.container.id, move.pool_id)
    assert weigh_wishes(engine.snapshot()).satisfied == plan.score_after
