"""Replacement of containers whose rules stop holding while they run."""

from collections.abc import Mapping
from typing import Any

import pytest

from pinfold.policy.books import missed_companions
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.replacing import replacement
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.counted_calls import called_modules
from tests.unit.policy.engine.ruled_pods import (
    LASTING,
    NEVER,
    NODES,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    reason,
    term,
)


def pool(number: int, **more: str) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"NUMA node #{number}", **more}


def lasting(rules: dict[str, Any]) -> dict[str, Any]:
    """The same rules, required during execution, too."""
    return {
        kind: {LASTING: terms} for kind, (terms,) in ((k, v.values()) for k, v in rules.items())
    }


def node(engine: Engine, container: Container) -> set[int]:
    return {cpu // 4 for cpu in CpuSet.parse(cpus(engine, container))}


def broken(engine: Engine) -> dict[str, tuple[str, ...]]:
    engine.check()
    return {one: texts for one, texts in engine.look_at_rules().items() if texts}


def follow(engine: Engine, container: Container) -> None:
    decision = engine.place_anew(container.id)
    assert isinstance(decision.result, Grant), decision.result
    engine.check()


@pytest.mark.parametrize("cpu", [1, 0.5, 0])
def test_who_must_be_with_another_follows_it_to_where_it_starts_again(cpu: float) -> None:
    engine = engine_of(NODES)
    placed(engine, first := container_of("first", 1, app="cache", annotations=pool(1)))
    rules = lasting(near(term("numa", "cache")))
    placed(engine, web := container_of("web", cpu, rules, fails=True))
    assert broken(engine) == {}
    engine.remove(first.id)
    assert list(broken(engine)) == [web.id]
    assert "affinity at numa" in engine.decisions[web.id].unmet[0]
    assert "no place is better" in reason(engine.place_anew(web.id))
    placed(engine, container_of("second", 1, app="cache", annotations=pool(3)))
    assert list(broken(engine)) == [web.id]
    follow(engine, web)
    assert node(engine, web) == {3}
    assert broken(engine) == {}
    assert engine.decisions[web.id].unmet == ()


def test_whoever_must_be_alone_leaves_when_another_had_to_come() -> None:
    engine = engine_of(NODES)
    placed(engine, shy := container_of("shy", 1, lasting(apart(term("numa", "wolf")))))
    home = node(engine, shy)
    (number,) = home
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(number)))
    assert list(broken(engine)) == [shy.id]
    follow(engine, shy)
    assert node(engine, shy).isdisjoint(home)
    assert broken(engine) == {}


def test_who_cannot_follow_another_is_told_whose_rule_keeps_it_from_there() -> None:
    engine = engine_of("socket:1 numa:2 core:2 thread:2 mem:2G")
    placed(engine, first := container_of("first", 1, app="db", annotations=pool(0)))
    placed(engine, follower := container_of("follower", 1, lasting(near(term("numa", "db")))))
    shy = container_of("shy", 1, apart(term("numa", "follower")), fails=True, annotations=pool(1))
    placed(engine, shy)
    engine.remove(first.id)
    placed(engine, container_of("second", 1, app="db", annotations=pool(1)))
    assert list(broken(engine)) == [follower.id]
    told = reason(engine.place_anew(follower.id))
    assert told.endswith(
        "; where that would hold others do not: anti-affinity at numa to app=follower"
        " (affinity.pinfold.dev/pod:1) of default/shy/main:"
        " wanted a NUMA node without default/shy/main"
    )


def test_who_may_be_nowhere_better_is_told_beside_whom_it_is_and_not_of_all_others() -> None:
    engine = engine_of("socket:1 numa:2 core:2 thread:2 mem:2G")
    for number in (0, 1):
        placed(engine, container_of(f"wolf{number}", 1, app="wolf", annotations=pool(number)))
    placed(engine, shy := container_of("shy", 0.5, lasting(apart(term("numa", "wolf")))))
    (number,) = node(engine, shy)
    told = reason(engine.place_anew(shy.id))
    assert told.endswith(f": in one NUMA node with default/wolf{number}/main")


def test_labels_of_pools_that_change_move_whoever_requires_them() -> None:
    def labelled(cpus: str) -> Any:
        labels = [{"cpus": cpus, "labels": {"disk": "fast"}}]
        return {"reservedResources": {"cpu": "cpuset:0"}, "poolLabels": labels}

    terms = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
        ]
    }
    engine = engine_of(NODES, poolLabels=labelled("4-7")["poolLabels"])
    one = container_of("one", 1, {"poolAffinity": {LASTING: terms}}, fails=True)
    placed(engine, one)
    assert node(engine, one) == {1}
    engine, _ = engine.reconfigured(config_from_values(labelled("12-15")))
    assert node(engine, one) == {1}
    assert list(broken(engine)) == [one.id]
    follow(engine, one)
    assert node(engine, one) == {3}
    assert broken(engine) == {}


def test_who_finds_no_better_place_stays_and_it_is_told() -> None:
    engine = engine_of("socket:1 numa:2 core:2 mem:2G")
    placed(engine, shy := container_of("shy", 1, lasting(apart(term("socket", "wolf")))))
    before = cpus(engine, shy)
    placed(engine, container_of("wolf", 1))
    assert list(broken(engine)) == [shy.id]
    assert "no place is better" in reason(engine.place_anew(shy.id))
    assert cpus(engine, shy) == before
    assert "anti-affinity at socket" in engine.decisions[shy.id].unmet[0]


def test_no_rule_that_holds_is_broken_for_one_that_does_not() -> None:
    """A friend that it must be with is worth as much as an enemy, whatever may degrade."""
    engine = engine_of(NODES)
    placed(engine, container_of("friend", 1, annotations=pool(1)))
    rules = lasting(apart(term("numa", "wolf"))) | near(term("numa", "friend"))
    placed(engine, shy := container_of("shy", 1, rules))
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(1)))
    assert list(broken(engine)) == [shy.id]
    assert isinstance(engine.place_anew(shy.id).result, Refusal)
    assert node(engine, shy) == {1}


def test_nobody_is_left_alone_by_whom_it_must_be_with() -> None:
    engine = engine_of(NODES)
    placed(engine, shy := container_of("shy", 1, lasting(apart(term("numa", "wolf")))))
    placed(engine, container_of("fan", 1, near(term("numa", "shy"))))
    (number,) = node(engine, shy)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(number)))
    assert "default/fan/main must be with it" in reason(engine.place_anew(shy.id))


def test_a_follower_that_follows_does_not_hold_anybody() -> None:
    engine = engine_of(NODES)
    placed(engine, shy := container_of("shy", 1, lasting(apart(term("numa", "wolf")))))
    placed(engine, fan := container_of("fan", 1, lasting(near(term("numa", "shy")))))
    (number,) = node(engine, shy)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(number)))
    follow(engine, shy)
    assert list(broken(engine)) == [fan.id]
    follow(engine, fan)
    assert broken(engine) == {}
    assert node(engine, fan) == node(engine, shy)


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(NEVER, id="as it says so"),
        pytest.param({"memory.preserve.resource-policy.nri.io/pod": "true"}, id="for its memory"),
    ],
)
def test_a_follower_that_is_not_to_be_moved_holds_whom_it_must_be_with(
    wish: Mapping[str, str],
) -> None:
    engine = engine_of(NODES)
    placed(engine, shy := container_of("shy", 1, lasting(apart(term("numa", "wolf")))))
    placed(engine, container_of("fan", 1, lasting(near(term("numa", "shy"))), annotations=wish))
    (number,) = node(engine, shy)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(number)))
    assert "default/fan/main must be with it" in reason(engine.place_anew(shy.id))


def test_a_follower_in_a_pen_with_one_that_refuses_to_be_moved_holds_it_too() -> None:
    engine = engine_of(NODES)
    placed(engine, shy := container_of("shy", 1, lasting(apart(term("numa", "wolf")))))
    told = {"pod-pool.pinfold.dev/pod": "true", "move.pinfold.dev/container.side": "never"}
    rules = lasting(near(term("numa", "shy")))
    placed(engine, container_of("fan", 0.3, rules, annotations=told))
    placed(engine, container_of("fan", 0.3, rules, main="side", annotations=told))
    (number,) = node(engine, shy)
    placed(engine, container_of("wolf", 0.5, fails=True, annotations=pool(number)))
    assert "default/fan/main, default/fan/side must be with it" in reason(engine.place_anew(shy.id))


def test_who_refuses_to_be_moved_is_not_moved() -> None:
    engine = engine_of(NODES)
    rules = lasting(apart(term("numa", "wolf")))
    placed(engine, shy := container_of("shy", 1, rules, annotations=NEVER))
    (number,) = node(engine, shy)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(number)))
    assert "its annotation refuses" in reason(engine.place_anew(shy.id))
    assert list(broken(engine)) == [shy.id]


def test_rules_that_are_ignored_during_execution_move_nobody() -> None:
    engine = engine_of(NODES)
    placed(engine, cache := container_of("cache", 1))
    placed(engine, container_of("web", 1, near(term("numa", "cache"))))
    engine.remove(cache.id)
    assert engine.look_at_rules() == {}


def test_owners_are_looked_at_in_turn() -> None:
    engine = engine_of("socket:2 numa:4 core:8 mem:4G")
    rules = lasting(near(term("numa", "many")))
    for number in range(40):
        placed(engine, container_of(f"many{number}", 0.1, rules, app="many"))
    first, second = engine.look_at_rules(), engine.look_at_rules()
    assert len(first) < 40
    assert len({*first, *second}) == 40


def test_containers_that_nobody_knows_are_refused() -> None:
    engine = engine_of(NODES)
    one = container_of("one", 1)
    assert "holds no cpus" in reason(engine.place_anew(one.id))


THREE_NODES = "socket:1 numa:3 core:4 mem:2G"
"""Cpus 0 to 3 (0 is reserved), 4 to 7 and 8 to 11; the first container goes to 4-7."""


def driven_out(engine: Engine, *others: tuple[str, int]) -> Container:
    """A guest that must be apart from dogs and wolves, after its NUMA node was taken.

    `others`: apps of containers that were there before, and their nodes.
    """
    rules = apart(term("numa", "dog"), term("numa", "wolf"))
    wish = {"unlimited-burstable.resource-policy.nri.io/pod": "numa"}
    guest = container_of("guest", 0, rules, annotations=wish)
    assert placed(engine, guest) == "4-7"
    for number, (app, where) in enumerate(others):
        placed(engine, container_of(f"{app}-{number}", 1, app=app, annotations=pool(where)))
    assert placed(engine, container_of("taker", 4, annotations=pool(1))) == "4-7"
    return guest


def unmet_apps(engine: Engine, container: Container) -> set[str]:
    told = engine.decisions[container.id].unmet
    return {app for app in ("dog", "wolf") if any(f"app={app} " in text for text in told)}


def test_who_was_driven_out_goes_to_where_most_of_its_rules_hold() -> None:
    engine = engine_of(THREE_NODES)
    guest = driven_out(engine, ("dog", 0), ("wolf", 0), ("dog", 2), ("other", 2))
    assert (cpus(engine, guest), unmet_apps(engine, guest)) == ("10-11", {"dog"})
    engine.remove(container_of("other-3").id)
    assert (cpus(engine, guest), unmet_apps(engine, guest)) == ("9-11", {"dog"})
    engine.remove(container_of("taker").id)
    assert (cpus(engine, guest), unmet_apps(engine, guest)) == ("4-7", set()), "it is home again"
    engine.check()


def test_who_was_moved_to_where_more_of_its_rules_hold_stays_there_as_another_ends() -> None:
    engine = engine_of(THREE_NODES)
    wish = {"unlimited-burstable.resource-policy.nri.io/pod": "numa"}
    rules = near(term("numa", "friend"), term("numa", "mate"))
    guest = container_of("guest", 0, rules, annotations=wish)
    assert placed(engine, guest) == "4-7"
    for name, where in (("friend", 0), ("friend", 2), ("mate", 2), ("other", 2)):
        one = container_of(f"{name}-{where}", 1, app=name, annotations=pool(where))
        placed(engine, one)
    assert placed(engine, container_of("taker", 4, annotations=pool(1))) == "4-7"
    assert cpus(engine, guest) == "2-3", "beside the first friend"
    assert len(engine.decisions[guest.id].unmet) == 1
    decision = engine.place_anew(guest.id, mends_told=True)
    assert isinstance(decision.result, Grant), decision.result
    assert (cpus(engine, guest), decision.unmet) == ("11", ())
    engine.remove(container_of("other-2").id)
    assert cpus(engine, guest) == "10-11"
    engine.remove(container_of("taker").id)
    assert cpus(engine, guest) == "10-11", "its memory has gone with it"
    engine.check()


def test_who_was_driven_out_comes_nearer_to_nobody_as_another_ends() -> None:
    """Once a dog comes nothing is left where all of its rules hold, but wolves are elsewhere."""
    engine = engine_of(THREE_NODES)
    guest = driven_out(engine, ("wolf", 0), ("other", 2))
    assert (cpus(engine, guest), unmet_apps(engine, guest)) == ("9-11", set())
    placed(engine, container_of("late", 1, app="dog", annotations=pool(2), fails=True))
    assert (cpus(engine, guest), unmet_apps(engine, guest)) == ("9,11", {"dog"})
    engine.remove(container_of("other-1").id)
    assert (cpus(engine, guest), unmet_apps(engine, guest)) == ("8-9,11", {"dog"})
    engine.check()


@pytest.mark.parametrize(
    ("wanted", "result"),
    [
        pytest.param("NUMA node #0", "would hold in NUMA node #", id="another wolf is there"),
        pytest.param("NUMA node #1", "", id="it is free"),
        pytest.param("NUMA node #2", "", id="so is that"),
        pytest.param("socket #0", "would hold in NUMA node #", id="it is spread no more widely"),
    ],
)
def test_a_rule_is_mended_in_the_pool_that_is_asked_for(wanted: str, result: str) -> None:
    engine = engine_of(NODES)
    placed(engine, container_of("wolf", 0.5, annotations=pool(0)))
    placed(engine, container_of("hound", 0.5, app="wolf", annotations=pool(3)))
    fillers = [container_of(f"full{one}", 4, annotations=pool(one)) for one in (1, 2)]
    for one in fillers:
        placed(engine, one)
    placed(engine, sheep := container_of("sheep", 0.5, apart(term("numa", "wolf"))))
    for one in fillers:
        engine.remove(one.id)
    assert engine.decisions[sheep.id].unmet
    (pool_id,) = (one.id for one in engine.tree.pools if one.name == wanted)
    decision = engine.move(sheep.id, pool_id)
    engine.check()
    if result:
        assert result in reason(decision)
        return
    assert decision.pool == wanted
    assert decision.decided_by == "mended"
    (note,) = engine.decisions[sheep.id].notes
    assert note.startswith("it was moved to mend anti-affinity at numa to app=wolf")
    assert not any(one.unmet for one in engine.decisions.values())


def test_a_copy_of_an_engine_knows_what_holds_once_somebody_moves() -> None:
    engine = engine_of(NODES)
    placed(engine, full := container_of("full", 4, annotations=pool(1)))
    for number in (0, 2, 3):
        placed(engine, container_of(f"wolf{number}", 0.5, app="wolf", annotations=pool(number)))
    placed(engine, sheep := container_of("sheep", 0.5, apart(term("numa", "wolf"))))
    engine.remove(full.id)
    copy = Engine.of(engine.snapshot())
    assert isinstance(copy.place_anew(sheep.id, mends_told=True).result, Grant)
    assert not any(one.unmet for one in copy.decisions.values())


def test_a_rule_that_holds_since_the_last_event_is_none_that_a_move_could_mend() -> None:
    """Nobody has asked yet what holds since `friend` came beside it."""
    engine = engine_of(NODES)
    placed(engine, it := container_of("it", 1, near(term("numa", "friend"))))
    assert engine.decisions[it.id].unmet
    engine.create(container_of("friend", 1, annotations=pool(node(engine, it).pop())))
    (other,) = (one.id for one in engine.tree.pools if one.name == "NUMA node #3")
    assert reason(engine.move(it.id, other)) == "required rules hold it where it is"
    assert not engine.decisions[it.id].unmet


def test_whom_others_miss_is_asked_only_where_what_is_told_is_to_be_mended() -> None:
    engine = engine_of(NODES)
    placed(engine, container_of("web", 1, near(term("numa", "db"))))
    placed(engine, db := container_of("db", 1, annotations=pool(3)))

    def asks(*, mends_told: bool) -> bool:
        modules = called_modules(lambda: engine.place_anew(db.id, mends_told=mends_told))
        assert replacement.__name__ in modules
        return missed_companions.__name__ in modules

    assert (asks(mends_told=False), asks(mends_told=True)) == (False, True)
