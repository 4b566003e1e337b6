"""Promises of planned steps, held against the node of another moment."""

from collections.abc import Sequence

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import rebalance
from pinfold.policy.engine.rebalance.promise import PromisedStep, broken_promise, needed_moves
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant
from tests.unit.policy.engine.pods_with_wishes import placed, pool_named, wishing
from tests.unit.policy.engine.rebalance.promised_steps import promised
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, term

NODE_0, NODE_1, NODE_2, NODE_3 = (f"NUMA node #{number}" for number in range(4))
SHARED = {"prefer-shared-cpus.resource-policy.nri.io/pod": "true"}


def making_room() -> tuple[Engine, Sequence[PromisedStep]]:
    """An idle container makes room for one that goes to its friend."""
    engine = placed(
        (wishing("db", 2000, more={"move.pinfold.dev/pod": "never", **SHARED}), NODE_1),
        (wishing("idle", 1999, more=SHARED), NODE_1),
        (wishing("web", 1000, {"db": 5}, more=SHARED), NODE_3),
    )
    steps = promised(engine, needed_moves(rebalance(engine.snapshot()).moves))
    assert [one.container_id for one in steps] == ["idle", "web"]
    return engine, steps


def test_a_step_that_is_as_it_was_planned_keeps_its_promise() -> None:
    engine, steps = making_room()
    assert broken_promise(engine.snapshot(), steps) == ""
    assert broken_promise(engine.snapshot(), ()) == ""


@pytest.mark.parametrize(
    ("mover", "pool", "reason"),
    [
        pytest.param(
            "db",
            NODE_2,
            "the step it is for, of default/web/web, gains less by now than was planned",
            id="the friend is elsewhere",
        ),
        pytest.param("web", NODE_2, "default/web/web is in NUMA node #2 by now", id="it is itself"),
        pytest.param("web", "", "a container that it makes room for is gone by now", id="gone"),
    ],
)
def test_no_room_is_made_for_a_step_that_is_of_no_use_any_more(
    mover: str, pool: str, reason: str
) -> None:
    engine, steps = making_room()
    if pool:
        result = engine.move(ContainerId(mover), pool_named(engine, pool)).result
        assert isinstance(result, Grant)
    else:
        engine.remove(ContainerId(mover))
    assert broken_promise(engine.snapshot(), steps) == reason


def test_what_gains_something_needs_no_later_step() -> None:
    engine = placed(
        (wishing("a", wishes={"far": 1}), NODE_1),
        (wishing("b", wishes={"far": 7}), NODE_1),
        (wishing("far", more={"move.pinfold.dev/pod": "never"}), NODE_3),
    )
    moves = rebalance(engine.snapshot()).moves
    assert [len(moves), len(needed_moves(moves))] == [2, 1]


def test_a_rule_is_not_mended_where_it_would_not_hold_any_more() -> None:
    engine = engine_of("socket:1 numa:3 core:4 mem:8G", "cpuset:0")
    here = {"pool-name.pinfold.dev/pod": NODE_0}
    there = {"pool-name.pinfold.dev/pod": NODE_1, "move.pinfold.dev/pod": "never"}
    full = container_of("full", 4, annotations={"pool-name.pinfold.dev/pod": NODE_2})
    for one in (
        container_of("wolf", 0.5, annotations={**here, "move.pinfold.dev/pod": "never"}),
        container_of("hound", 0.5, app="wolf", annotations=there),
        full,
        container_of("sheep", 0.5, apart(term("numa", "wolf")), annotations={}),
    ):
        assert isinstance(engine.create(one).result, Grant)
    engine.stop(full.id)
    steps = promised(engine, needed_moves(rebalance(engine.snapshot()).moves))
    assert [len(one.mends) for one in steps] == [1]
    assert broken_promise(engine.snapshot(), steps) == ""
    late = container_of("late", 0.5, app="wolf", annotations={"pool-name.pinfold.dev/pod": NODE_2})
    assert isinstance(engine.create(late).result, Grant)
    assert "no place is better" in broken_promise(engine.snapshot(), steps)
