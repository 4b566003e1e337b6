"""Left cpus: nobody gets what a moved container had for itself until it is let go."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.settled_node import SettledNode
from pinfold.policy.model.container import Container, ContainerState
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.pinning import new_pinnings
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    GIB,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    reason,
    term,
)
from tests.unit.policy.engine.test_penning import container as inside
from tests.unit.policy.engine.test_penning import pod as pod_of
from tests.unit.policy.engine.test_penning import whole

THREE_NODES = "socket:1 numa:3 core:4 mem:4G"
"""0 (reserved) to 3, 4 to 7, 8 to 11."""


def in_node(number: int) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}


def move(engine: Engine, container: Container, number: int) -> None:
    """Move a container to another NUMA node, and keep what it leaves."""
    (pool,) = (one.id for one in engine.tree.pools if one.name == f"NUMA node #{number}")
    before = engine.left_cpus.held(container.id)
    assert before is not None
    decision = engine.move(container.id, pool)
    assert isinstance(decision.result, Grant), decision.result
    engine.left_cpus.keep([before])
    engine.check()


def moved(engine: Engine, count: int = 4, *others: Container) -> Container:
    """The owner of so many cpus of node 1, which it has left for node 2; others came after it."""
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    placed(engine, owner := container_of("owner", count))
    assert CpuSet.parse(cpus(engine, owner)) <= CpuSet.parse("4-7")
    for one in others:
        placed(engine, one)
    move(engine, owner, 2)
    assert CpuSet.parse(cpus(engine, owner)) <= CpuSet.parse("8-11")
    return owner


def test_nobody_gets_cpus_of_its_own_that_another_has_just_left() -> None:
    engine = engine_of(THREE_NODES)
    owner = moved(engine)
    newcomer = container_of("newcomer", 4)
    told = reason(engine.create(newcomer))
    assert told.endswith("cpus 4-7 are free once default/owner/main has left them")
    engine.check()
    assert engine.left_cpus.let_go([owner.id]) == ()
    assert placed(engine, newcomer) == "4-7"
    assert engine.left == {}


def test_one_that_is_refused_for_its_texts_is_told_of_no_such_cpus() -> None:
    engine = engine_of(THREE_NODES, onBadAnnotation="fail")
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    placed(engine, owner := container_of("owner", 4))
    move(engine, owner, 2)
    odd = container_of("odd", 1, annotations={"smt.pinfold.dev/pod": "odd"})
    assert "free once" not in reason(engine.create(odd))
    assert "free once" in reason(engine.create(container_of("newcomer", 1)))


def test_nobody_shares_cpus_that_another_has_just_left_before_they_are_let_go() -> None:
    engine = engine_of(THREE_NODES)
    neighbour = container_of("neighbour", 0.5, annotations=in_node(1))
    owner = moved(engine, 2, neighbour)
    assert cpus(engine, neighbour) == "6-7"
    changes = engine.left_cpus.let_go([owner.id])
    assert {one: str(pin.cpus) for one, pin in new_pinnings(changes).items()} == {
        neighbour.id: "4-7"
    }
    engine.check()


def test_what_a_container_left_is_free_once_it_has_ended() -> None:
    engine = engine_of(THREE_NODES)
    owner = moved(engine)
    engine.stop(owner.id)
    engine.check()
    assert engine.left == {}
    assert placed(engine, container_of("newcomer", 4)) in ("4-7", "8-11")
    assert placed(engine, container_of("another", 4)) in ("4-7", "8-11")


def test_a_container_that_is_moved_twice_leaves_both_places() -> None:
    engine = engine_of("socket:1 numa:4 core:4 mem:4G")
    owner = moved(engine)
    move(engine, owner, 3)
    assert str(engine.left[owner.id].exclusive) == "4-11"
    reason(engine.create(container_of("newcomer", 4)))
    engine.left_cpus.let_go([owner.id])
    assert placed(engine, container_of("newcomer", 4)) in ("4-7", "8-11")


def test_isolated_cpus_are_kept_like_others() -> None:
    engine = engine_of("socket:1 numa:3 core:4 mem:4G isolated:4-7")
    placed(engine, owner := container_of("owner", 1, annotations=in_node(1)))
    held = engine.left_cpus.held(owner.id)
    assert held is not None
    assert held.isolated
    # As after a move, which it may only make by a rule.
    engine.remove(owner.id)
    engine.left_cpus.keep([held])
    some = [container_of(f"one-{n}", 1, annotations=in_node(1)) for n in range(4)]
    for one in some:
        placed(engine, one)
    (left,) = engine.left.values()
    assert left.isolated == left.exclusive
    got = [engine.grants[one.id].isolated for one in some]
    assert sorted(map(len, got)) == [0, 1, 1, 1]
    assert all(left.exclusive.isdisjoint(one) for one in got)


def test_a_reload_keeps_them_for_nobody() -> None:
    engine = engine_of(THREE_NODES)
    owner = moved(engine)
    other = config_from_values({"reservedResources": {"cpu": "cpuset:0"}, "pinMemory": False})
    engine, _ = engine.reconfigured(other)
    engine.check()
    assert "has left them" in reason(engine.create(newcomer := container_of("newcomer", 4)))
    engine.left_cpus.let_go([owner.id])
    assert placed(engine, newcomer) == "4-7"


def test_a_copy_to_try_something_out_keeps_them_as_well() -> None:
    engine = engine_of(THREE_NODES)
    owner = moved(engine)
    before = SettledNode.of(engine)
    trial = Engine.of(engine.snapshot())
    trial.check()
    assert SettledNode.of(trial).left == engine.left
    assert "has left them" in reason(trial.create(container_of("newcomer", 4)))
    engine.left_cpus.let_go([owner.id])
    assert SettledNode.of(engine) != before, "what was tried in vain is tried again"


def test_who_is_taken_back_has_its_cpus_again_and_a_list_of_all_keeps_none() -> None:
    engine = engine_of(THREE_NODES)
    owner = moved(engine)
    home = CpuSet.parse("4-7")
    runs = replace(engine.containers[owner.id], cpus=home, state=ContainerState.RUNNING)
    back = engine.adopt(runs)
    assert back.pinning.cpus == home
    assert engine.left == {}
    engine.check()
    move(engine, owner, 2)
    engine.synchronize([runs])
    assert (cpus(engine, owner), engine.left) == (str(home), {})
    engine.check()


def test_others_do_not_leave_their_pool_for_what_is_kept() -> None:
    """They would have no cpu there, or too few, until it is let go."""
    engine = engine_of(THREE_NODES)
    owner = moved(engine, 2)
    engine.left_cpus.let_go([owner.id])
    shares = [container_of(f"share-{n}", 0.9, annotations=in_node(1)) for n in range(2)]
    for one in shares:
        placed(engine, one)
    placed(engine, container_of("other", 2, annotations=in_node(1)))
    told = [cpus(engine, one) for one in shares]
    (rest,) = {*map(CpuSet.parse, told)}
    pool_id = engine.grants[shares[0].id].pool_id
    engine.left_cpus.keep([Grant(container_id=owner.id, pool_id=pool_id, exclusive=rest)])
    engine.check()
    assert engine.left == {}
    assert [cpus(engine, one) for one in shares] == told


@pytest.mark.parametrize("ids", [[], ["nobody"]])
def test_nothing_changes_where_nobody_had_left_anything(ids: list[str]) -> None:
    engine = engine_of(THREE_NODES)
    owner = moved(engine)
    assert engine.left_cpus.let_go([owner.id.__class__(one) for one in ids]) == ()
    assert list(engine.left) == [owner.id]


def test_a_refusal_names_them_only_where_they_would_help() -> None:
    engine = engine_of("socket:1 numa:3 core:4 mem:1G")
    moved(engine)
    wide = container_of("wide", 9)
    assert "have left" not in reason(engine.create(wide))
    assert "has left" not in reason(engine.create(container_of("wider", 5)))
    greedy = container_of("greedy", 1)
    limit = replace(greedy.resources, memory_limit_bytes=64 * GIB, memory_request_bytes=64 * GIB)
    assert "has left" not in reason(engine.create(replace(greedy, resources=limit)))
    shy = container_of("shy", 1, near(term("numa", "nobody")), fails=True)
    assert "has left" not in reason(engine.create(shy))
    assert "has left" in reason(engine.create(container_of("fits", 4)))
    engine.check()
    assert list(map(str, [one.exclusive for one in engine.left.values()])) == ["4-7"]


def test_a_refusal_tells_of_a_pen_that_is_none_any_more() -> None:
    annotations = {"pod-pool.pinfold.dev": "true"}
    rule = {"name": "pens", "match": {"pods": ["p"]}, "annotations": annotations}
    engine = engine_of(THREE_NODES, rules=[rule])
    both = [inside(pod_of(None), name, whole(1)) for name in "ab"]
    for one in both:
        placed(engine, one)
    pen = engine.left_cpus.held(both[0].id)
    assert pen is not None
    assert (pen.is_pen, str(pen.exclusive)) == (True, "4-5")
    engine, _ = engine.reconfigured(config_from_values({"reservedResources": {"cpu": "cpuset:4"}}))
    assert engine.grants[both[0].id].pen is None
    engine.left_cpus.keep([pen])
    assert {one: str(left.exclusive) for one, left in engine.left.items()} == {"pod p": "5"}
    decisions = [engine.create(container_of(f"new-{number}", 3)) for number in range(4)]
    told = reason(decisions[-1])
    assert told.endswith("cpus 5 are free once those who were there have left them")


@pytest.mark.parametrize("is_room", [True, False])
def test_who_loses_cpus_by_a_reload_takes_those_that_another_has_yet_to_leave_last(
    *, is_room: bool
) -> None:
    engine = engine_of("socket:1 numa:4 core:4 mem:4G")
    plugs = [container_of(f"plug-{node}", 4, annotations=in_node(node)) for node in (1, 2, 3)]
    for one in plugs:
        placed(engine, one)
    loser, owner = container_of("loser", 3), container_of("owner", 4)
    assert placed(engine, loser) == "1-3"
    engine.remove(plugs[0].id)
    assert placed(engine, owner) == "4-7"
    engine.remove(plugs[1].id)
    move(engine, owner, 2)
    if is_room:
        engine.remove(plugs[2].id)
    values = {"reservedResources": {"cpu": "cpuset:0"}}
    values["availableResources"] = {"cpu": "cpuset:0,3-15"}
    engine, _ = engine.reconfigured(config_from_values(values))
    engine.check()
    own = engine.grants[loser.id].exclusive
    assert len(own) == 3
    assert own.isdisjoint(CpuSet.parse("4-7")) is is_room
    assert engine.decisions[loser.id].problems == ()
    assert engine.decisions[loser.id].degraded == ""
    assert engine.stuck_containers.cpus == {}
    assert str(engine.left[owner.id].exclusive) == "4-7" or not is_room
