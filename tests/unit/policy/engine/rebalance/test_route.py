"""Routes of moves of which the ledgers refuse some."""

import json

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.placement_score import placement_objective
from pinfold.policy.engine.rebalance.route import Route
from pinfold.policy.engine.rebalance.tenants import placement_model
from tests.unit.policy.engine.pods_with_wishes import CONFIG, MACHINE, placed, pool_named, wishing
from tests.unit.policy.engine.ruled_pods import apart, term

NODE_0, NODE_1, NODE_3 = (f"NUMA node #{number}" for number in (0, 1, 3))


def test_who_is_refused_for_good_as_it_steps_aside_is_not_asked_once_more() -> None:
    """Both are to go elsewhere, one to the other's pool, and rules hold them where they are."""
    engine = placed((wishing("one", 1000), NODE_0), (wishing("other", 1000), NODE_1))
    snapshot, trial = engine.snapshot(), Engine(MACHINE, CONFIG)
    tied = {"affinity.pinfold.dev/pod": json.dumps(apart(term("core", "nobody")))}
    for name in ("one", "other"):
        trial.create(wishing(name, 1000, more=tied))
    model = placement_model(snapshot, placement_objective(snapshot), moves_exclusive=True)
    assert [one.id for one in model.tenants] == ["one", "other"]
    targets = {0: pool_named(engine, NODE_1), 1: pool_named(engine, NODE_3)}
    assert list(Route(trial, model, targets).steps()) == []
