"""The satisfied weight of placements: weight times closeness, every pair of containers once."""

from collections.abc import Mapping

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.placement_score import placement_objective, pools_of
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import PoolId
from tests.unit.policy.engine.pods_with_wishes import CONFIG, MACHINE, placed, wishing

NODE_0, NODE_1, FAR = "NUMA node #0", "NUMA node #1", "NUMA node #2"
TOGETHER, NEXT, APART = 256, 144, 81
"""16^2 times (9/16)^0, ^1 and ^2."""

CASES: Mapping[str, tuple[tuple[str, str], Mapping[str, int], Mapping[str, int], int]] = {
    "friends in one NUMA node are fully satisfied": (
        (NODE_0, NODE_0), {"b": 5}, {}, 5 * TOGETHER,
    ),
    "friends in sibling nodes are nearly half satisfied": (
        (NODE_0, NODE_1), {"b": 5}, {}, 5 * NEXT,
    ),
    "friends in two sockets are hardly satisfied": ((NODE_0, FAR), {"b": 5}, {}, 5 * APART),
    "each of two rules counts once": ((NODE_0, NODE_1), {"b": 5}, {"a": 2}, 7 * NEXT),
    "enemies cost the more the nearer they are": ((NODE_0, NODE_0), {"b": -5}, {}, -5 * TOGETHER),
    "rules that contradict each other come to their sum": (
        (NODE_0, NODE_0), {"b": 5}, {"a": -2}, 3 * TOGETHER,
    ),
    "a friend in the wide pool is far away": ((NODE_0, "root"), {"b": 5}, {}, 5 * APART),
    "the wide pool is no refuge from an enemy": ((NODE_0, "root"), {"b": -5}, {}, -5 * TOGETHER),
    "nor is it for the enemy": (("root", NODE_0), {"b": -5}, {}, -5 * TOGETHER),
    "whoever wishes nothing counts for nothing": ((NODE_0, NODE_0), {}, {}, 0),
}  # fmt: skip


@pytest.mark.parametrize(("pools", "of_a", "of_b", "expected"), CASES.values(), ids=CASES)
def test_a_pair_counts_its_weight_times_its_closeness(
    pools: tuple[str, str], of_a: Mapping[str, int], of_b: Mapping[str, int], expected: int
) -> None:
    engine = placed((wishing("a", wishes=of_a), pools[0]), (wishing("b", wishes=of_b), pools[1]))
    snapshot = engine.snapshot()
    assert placement_objective(snapshot).score(pools_of(snapshot.grants)) == expected


def test_the_order_of_arrival_and_symmetry_are_the_same_to_the_score() -> None:
    scores: set[int] = set()
    for config in (
        CONFIG,
        Config(reserved_resources=CONFIG.reserved_resources, symmetric_affinity=True),
    ):
        for order in ("ab", "ba"):
            engine = Engine(MACHINE, config)
            for name in order:
                engine.create(wishing(name, wishes={"b": 3} if name == "a" else {"a": -1}))
            pools = {ContainerId("a"): PoolId(0), ContainerId("b"): PoolId(1)}
            scores.add(placement_objective(engine.snapshot()).score(pools))
    assert scores == {2 * NEXT}


def test_an_objective_without_wishes_is_empty() -> None:
    assert placement_objective(placed((wishing("a"), NODE_0)).snapshot()).is_empty
