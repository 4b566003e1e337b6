"""Mending by moves of those who are in the way of a rule, or too far, where its owner stays."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.plan import RebalanceBudget, RebalancePlan, rebalance
from pinfold.policy.engine.rebalance.promise import broken_promise, needed_moves
from pinfold.policy.engine.replacing import replacement
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.placing import departures
from tests.unit.counted_calls import called_modules
from tests.unit.policy.engine.rebalance.made_moves import made
from tests.unit.policy.engine.rebalance.promised_steps import promised
from tests.unit.policy.engine.ruled_pods import (
    LASTING,
    NEVER,
    apart,
    container_of,
    engine_of,
    near,
    placed,
    reason,
    term,
)

NODES = "socket:1 numa:3 core:4 mem:8G"
ALLOWED = {"move.pinfold.dev/pod": "allowed"}
FROM_WOLVES = apart(term("numa", "wolf"))
WITH_DB = near(term("numa", "db"))
SHEEP = container_of("sheep", 0.5, FROM_WOLVES, annotations=NEVER)
WEB = container_of("web", 0.9, WITH_DB, annotations=NEVER)


def full(number: int, cpu: int = 4) -> Container:
    """A container that takes all of a NUMA node, or all but some cpus."""
    there = {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}
    return container_of(f"full{number}", cpu, annotations=there)


def wolf(name: str = "wolf", cpu: float = 0.5, *rules: Any, **more: Any) -> Container:
    return container_of(name, cpu, *rules, app="wolf", **more)


def crowded(*containers: Container, leave: Sequence[int] = (1,)) -> Engine:
    """An engine on which all come to one NUMA node, and some others are left by who was there."""
    engine = engine_of(NODES, "cpuset:0")
    for number in (1, 2):
        placed(engine, full(number))
    for one in containers:
        placed(engine, one)
        engine.move(one.id, engine.tree.pools[0].id)
    for number in leave:
        engine.stop(full(number).id)
    return engine


def kept_away(*containers: Container) -> Engine:
    """An engine on which whoever is wanted near was where the last one found no room."""
    engine = engine_of(NODES, "cpuset:0")
    placed(engine, full(1))
    *others, last = containers
    for one in others:
        placed(engine, one)
        engine.move(one.id, engine.tree.pools[0].id)
    placed(engine, full(0, 2))
    placed(engine, last)
    for number in (0, 1):
        engine.stop(full(number).id)
    return engine


def moved(plan: RebalancePlan) -> list[str]:
    return [move.container.pod.name for move in plan.moves]


def carried_out(engine: Engine, plan: RebalancePlan) -> None:
    for move in plan.moves:
        decision = made(move, engine)
        assert isinstance(decision.result, Grant), decision.result
        assert decision.decided_by == move.purpose.value
        engine.check()


@pytest.mark.parametrize(
    ("engine", "names"),
    [
        pytest.param(crowded(wolf(), SHEEP), ["wolf"], id="the one in the way goes"),
        pytest.param(
            crowded(wolf(), container_of("sheep", 1, FROM_WOLVES)),
            ["wolf"],
            id="also where the owner stays for its exclusive cpus",
        ),
        pytest.param(
            crowded(wolf("w1"), wolf("w2"), SHEEP),
            ["w1", "w2"],
            id="all of them go where several are in the way",
        ),
        pytest.param(
            crowded(wolf("w1"), wolf("w2", annotations=NEVER), SHEEP),
            [],
            id="none of them goes where one refuses to be moved",
        ),
        pytest.param(
            crowded(wolf("w1"), wolf("w2", 1), SHEEP),
            [],
            id="or has exclusive cpus",
        ),
        pytest.param(
            crowded(SHEEP, wolf("w1"), wolf("w2", annotations=NEVER)),
            [],
            id="nor where they came later and are told of the rule themselves",
        ),
        pytest.param(
            crowded(wolf("w1"), wolf("w2", 1, annotations=ALLOWED), SHEEP),
            ["w1", "w2"],
            id="unless its annotation lets it go",
        ),
        pytest.param(
            crowded(wolf(), SHEEP, leave=()),
            [],
            id="nobody goes where there is no room",
        ),
        pytest.param(
            crowded(
                wolf(),
                container_of("cub", 0.5, near(term("numa", "wolf")), annotations=NEVER),
                SHEEP,
            ),
            [],
            id="nor away from one that must be with it",
        ),
        pytest.param(
            crowded(
                wolf(),
                container_of(
                    "cub",
                    0.5,
                    {"podAffinity": {LASTING: [term("numa", "wolf")]}},
                    annotations=NEVER,
                ),
                SHEEP,
            ),
            [],
            id="also where that is required during execution",
        ),
        pytest.param(
            crowded(
                container_of("den", 0.5, annotations=NEVER),
                wolf("wolf", 0.5, near(term("numa", "den"))),
                SHEEP,
            ),
            [],
            id="nor away from whom it must be with itself",
        ),
        pytest.param(
            crowded(wolf(), container_of("sheep", 0.5, FROM_WOLVES)),
            ["sheep"],
            id="the owner goes where it may and both ways are as good",
        ),
        pytest.param(
            kept_away(container_of("db", 0.5), WEB),
            ["db"],
            id="the one whom a container must be with comes to it",
        ),
        pytest.param(
            kept_away(container_of("d1", 0.5, app="db"), container_of("d2", 0.5, app="db"), WEB),
            ["d1"],
            id="of several one comes",
        ),
        pytest.param(
            kept_away(
                container_of("d1", 0.5, app="db", annotations=NEVER),
                container_of("d2", 0.5, app="db"),
                WEB,
            ),
            ["d2"],
            id="one that may be moved",
        ),
        pytest.param(
            kept_away(container_of("db", 0.5, apart(term("numa", "web"))), WEB),
            [],
            id="nobody comes whose own rules are against it",
        ),
    ],
)
def test_those_in_the_way_of_a_rule_are_moved(engine: Engine, names: list[str]) -> None:
    told = {text.split(": ")[0] for one in engine.decisions.values() for text in one.unmet}
    assert len(told) == 1
    plan = rebalance(engine.snapshot())
    assert moved(plan) == names
    carried_out(engine, plan)
    left = {text.split(": ")[0] for one in engine.decisions.values() for text in one.unmet}
    assert left == (set() if names else told)
    # The last of several who have to go is the one by whom the rule holds.
    assert [{*move.mends} for move in plan.moves] == [set()] * (len(names) - 1) + [told] * bool(
        names
    )
    for name in names:
        decision = engine.decisions[ContainerId(f"{name}-main")]
        is_last = name == names[-1]
        assert decision.decided_by == ("mended" if is_last else "stepped_aside")
        does = "to mend" if is_last else "out of the way of"
        assert decision.notes == tuple(f"it was moved {does} {one}" for one in told)


def test_one_move_mends_the_rules_of_all_owners_beside_it() -> None:
    flock = [
        container_of(f"sheep{number}", 0.1, FROM_WOLVES, annotations=NEVER) for number in range(9)
    ]
    engine = crowded(wolf(), *flock)
    (move,) = rebalance(engine.snapshot()).moves
    assert (move.container.pod.name, len(move.mends)) == ("wolf", 9)
    steps = promised(engine, needed_moves(rebalance(engine.snapshot()).moves))
    assert broken_promise(engine.snapshot(), steps) == ""


def test_a_budget_for_one_move_begins_nothing_that_takes_two() -> None:
    engine = crowded(wolf("w1"), wolf("w2"), SHEEP)
    assert rebalance(engine.snapshot(), RebalanceBudget(moves=1)).moves == ()


def test_the_weight_decides_where_the_one_in_the_way_goes() -> None:
    wishes: Mapping[str, Any] = {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 9, "podAffinityTerm": term("numa", "den")}
            ]
        }
    }
    engine = crowded(wolf("wolf", 0.5, wishes), SHEEP, leave=(1, 2))
    there = {"pool-name.pinfold.dev/pod": "NUMA node #2"}
    placed(engine, container_of("den", 0.5, annotations=there))
    (move,) = rebalance(engine.snapshot()).moves
    assert (move.container.pod.name, move.after.pool) == ("wolf", "NUMA node #2")
    assert move.gain == rebalance(engine.snapshot()).scale * 9


def test_on_a_node_of_many_they_go_where_the_policy_places_them() -> None:
    others = [container_of(f"o{number}", 0.01) for number in range(101)]
    engine = crowded(wolf("w1"), wolf("w2"), SHEEP, *others)
    plan = rebalance(engine.snapshot(), RebalanceBudget(search_steps=0))
    assert [name for name in moved(plan) if name.startswith("w")] == ["w1", "w2"]
    carried_out(engine, plan)
    assert not engine.decisions[SHEEP.id].unmet


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        pytest.param("", "", id="nothing happened"),
        pytest.param("sheep", "a rule that it was to mend holds by now", id="the owner ended"),
        pytest.param("w2", "a container that it makes room for is gone", id="another one ended"),
    ],
)
def test_the_first_of_several_in_the_way_goes_only_for_the_others(meanwhile: str, why: str) -> None:
    engine = crowded(wolf("w1"), wolf("w2"), SHEEP)
    steps = promised(engine, needed_moves(rebalance(engine.snapshot()).moves))
    assert [one.container_id for one in steps] == ["w1-main", "w2-main"]
    if meanwhile:
        engine.remove(ContainerId(f"{meanwhile}-main"))
    found = broken_promise(engine.snapshot(), steps)
    assert found.startswith(why)
    assert bool(found) is bool(why)


def test_others_make_room_for_the_one_in_the_way() -> None:
    engine = crowded(wolf(), SHEEP, leave=(1, 2))
    for number, one in (
        (1, container_of("full", 3.6)),
        (2, container_of("lamb", 0.1, FROM_WOLVES, annotations=NEVER)),
    ):
        placed(engine, one)
        engine.move(one.id, engine.tree.pools[number].id)
    plan = rebalance(engine.snapshot())
    ways = [(move.container.pod.name, move.after.pool) for move in plan.moves]
    assert ways == [("full", "NUMA node #2"), ("wolf", "NUMA node #1")]
    carried_out(engine, plan)
    assert not any(one.unmet for one in engine.decisions.values())


def test_no_plan_asks_who_could_make_room_where_a_rule_keeps_one_out() -> None:
    engine = crowded(wolf(), SHEEP, leave=(1, 2))
    for number in (1, 2):
        lamb = container_of(f"lamb{number}", 0.1, FROM_WOLVES, annotations=NEVER, fails=True)
        placed(engine, lamb)
        engine.move(lamb.id, engine.tree.pools[number].id)
    snapshot = engine.snapshot()
    modules = called_modules(lambda: rebalance(snapshot))
    assert replacement.__name__ in modules
    assert departures.__name__ not in modules
    assert not rebalance(snapshot).moves


def test_one_who_matches_a_part_of_what_must_be_near_does_not_come() -> None:
    """As in Kubernetes' code, where all terms are about one container."""
    engine = engine_of(NODES, "cpuset:0", kubeCompat="strict")
    placed(engine, full(1))
    placed(engine, both := container_of("both", 0.5, app="db", labels={"tier": "back"}))
    placed(engine, part := container_of("part", 0.5, app="db"))
    for one in (both, part):
        engine.move(one.id, engine.tree.pools[0].id)
    placed(engine, full(0, 2))
    tier = term("numa", labelSelector={"matchLabels": {"tier": "back"}})
    placed(engine, web := container_of("web", 0.9, near(term("numa", "db"), tier)))
    assert engine.decisions[web.id].pool == "NUMA node #2"
    assert reason(engine.move(part.id, engine.grants[web.id].pool_id)).startswith("required rules")
    assert isinstance(engine.move(both.id, engine.grants[web.id].pool_id).result, Grant)
    assert not engine.decisions[web.id].unmet


def test_who_is_in_nobodys_way_is_held_by_the_rules_about_it() -> None:
    engine = crowded(wolf(), SHEEP)
    carried_out(engine, rebalance(engine.snapshot()))
    found = engine.move(ContainerId("wolf-main"), engine.tree.pools[2].id)
    assert reason(found) == "required rules hold it where it is"
    assert isinstance(engine.move(SHEEP.id, engine.tree.pools[1].id).result, Refusal)


def test_who_went_first_of_several_is_told_to_be_out_of_the_way_wherever_the_moves_end() -> None:
    """The rule of the `sheep` is about both wolves, and that of the `lamb` about one of them."""
    lamb = container_of("lamb", 0.1, apart(term("numa", "alpha")), annotations=NEVER)
    alpha, beta = container_of("w1", 0.5, app="alpha"), wolf("w2")
    both = {"key": "app", "operator": "In", "values": ["alpha", "wolf"]}
    packs = term("numa", labelSelector={"matchExpressions": [both]})
    sheep = container_of("sheep", 0.5, apart(packs), annotations=NEVER)
    engine = crowded(alpha, beta, sheep, lamb)
    (away,) = (pool.id for pool in engine.tree.pools if pool.name == "NUMA node #1")

    def told(container: Container) -> set[tuple[str, str]]:
        """What a move does, and whose rule it does that for."""
        notes = engine.decisions[container.id].notes
        return {(one.partition(" anti-")[0], one.rpartition(" of ")[2]) for one in notes}

    of_first = {
        ("it was moved out of the way of", sheep.path),
        ("it was moved to mend", lamb.path),
    }
    assert isinstance(engine.move(alpha.id, away).result, Grant)
    assert engine.decisions[sheep.id].unmet
    assert told(alpha) == of_first
    assert isinstance(engine.move(beta.id, away).result, Grant)
    assert not engine.decisions[sheep.id].unmet
    assert told(beta) == {("it was moved to mend", sheep.path)}
    assert told(alpha) == of_first
