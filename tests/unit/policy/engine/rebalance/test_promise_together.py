"""Promises of moves of several that go together, held against the node of another moment."""

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.rebalance.plan import NO_LIMIT, RebalanceBudget, rebalance
from pinfold.policy.engine.rebalance.promise import PromisedStep, broken_promise, needed_moves
from pinfold.policy.engine.replacing.unmet_names import unmet_after
from pinfold.policy.model.grant import Refusal
from pinfold.policy.model.move_purpose import MovePurpose
from tests.unit.policy.engine.rebalance.made_moves import made
from tests.unit.policy.engine.rebalance.promised_steps import promised
from tests.unit.policy.engine.rebalance.test_mending_together import (
    FROM_WOLVES,
    LAST,
    MAIN,
    MANY,
    NODES,
    SIDE,
    at,
    beside,
    carried_out,
    full,
    home_of,
    names,
    paired,
    told,
    wolf,
)
from tests.unit.policy.engine.ruled_pods import NEVER, container_of, engine_of, near, placed, term


@pytest.mark.parametrize("budget", [NO_LIMIT, MANY], ids=["few", "many"])
def test_one_comes_along_that_all_who_may_be_beside_it_leave(budget: RebalanceBudget) -> None:
    engine = engine_of(NODES, "cpuset:0")
    either = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["main", "side"]}]}
    placed(engine, container_of("main", 0.5, FROM_WOLVES))
    placed(engine, container_of("side", 0.5, beside("main")))
    placed(engine, container_of("last", 0.5, near(term("numa", labelSelector=either))))
    placed(engine, wolf(home_of(engine, MAIN)))
    moves = rebalance(engine.snapshot(), budget).moves
    assert names(moves) == ["main", "side", "last"]
    assert needed_moves(moves) == moves
    assert broken_promise(engine.snapshot(), promised(engine, moves)) == ""
    carried_out(engine, moves)
    assert told(engine) == set()
    assert home_of(engine, LAST) == home_of(engine, MAIN)


def test_the_first_move_is_promised_with_all_that_follow_it() -> None:
    engine = paired()
    moves = rebalance(engine.snapshot()).moves
    assert needed_moves(moves) == moves
    assert needed_moves(moves[1:]) == moves[1:]
    for number, move in enumerate(moves):
        steps = promised(engine, needed_moves(moves[number:]))
        assert broken_promise(engine.snapshot(), steps) == ""
        made(move, engine)
        unmet_after(engine, move.container.id)


def test_the_first_is_not_moved_where_the_next_cannot_follow_by_now() -> None:
    engine = paired(cpu=1.5)
    moves = rebalance(engine.snapshot()).moves
    steps = promised(engine, moves)
    number = int(moves[0].after.pool[-1])
    placed(engine, full(number, 2 if number else 1))
    reason = broken_promise(engine.snapshot(), steps)
    assert reason.startswith("default/side/main, which must be with it, cannot follow: ")


def test_the_first_is_not_moved_where_one_cannot_follow_that_comes_later() -> None:
    """Whichever step is promised between them."""
    engine = paired(cpu=1.5)
    number = int(rebalance(engine.snapshot()).moves[0].after.pool[-1])
    placed(engine, other := container_of("other", 0.1))
    main, side = promised(engine, rebalance(engine.snapshot()).moves)
    here = engine.grants[other.id].pool_id
    between = PromisedStep(container_id=other.id, before=here, after=here, gain=0)
    assert broken_promise(engine.snapshot(), [main, between, side]) == ""
    placed(engine, full(number, 2 if number else 1))
    reason = broken_promise(engine.snapshot(), [main, between, side])
    assert reason.startswith("default/side/main, which must be with it, cannot follow: ")


@pytest.mark.parametrize(
    ("side", "reason"), [(None, "default/side/main must be with it"), ("main", "")]
)
def test_one_that_is_not_promised_is_taken_for_one_that_stays(
    side: str | None, reason: str
) -> None:
    """Without it the first goes where nobody is left alone, and no other rule breaks."""
    engine = paired()
    if side is not None:
        at_home = at(home_of(engine, SIDE))
        placed(engine, container_of("twin", 0.2, app=side, annotations={**at_home, **NEVER}))
    (main, *_) = promised(engine, rebalance(engine.snapshot()).moves)
    alone = replace(main, awaited=())
    assert broken_promise(engine.snapshot(), [alone]) == reason
    before = told(engine)
    result = engine.move(MAIN, main.after, MovePurpose.RULES).result
    assert isinstance(result, Refusal) == bool(reason)
    assert set(unmet_after(engine, MAIN)) <= before


def test_the_first_is_not_moved_where_one_more_would_have_to_follow_by_now() -> None:
    engine = paired()
    steps = promised(engine, rebalance(engine.snapshot()).moves)
    placed(engine, container_of("last", 0.5, beside("main")))
    assert broken_promise(engine.snapshot(), steps) == "default/last/main must be with it"


def test_an_owner_does_not_go_first_without_those_that_follow() -> None:
    engine = paired()
    main = rebalance(engine.snapshot()).moves[0]
    result = engine.move(MAIN, main.pool_id, MovePurpose.RULES).result
    assert isinstance(result, Refusal)
    assert result.reason == "default/side/main must be with it"
