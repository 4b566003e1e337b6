"""Replacement of pens: all who are in one go together, where a rule of one of them holds again."""

from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, Resources
from pinfold.policy.model.grant import Grant
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    GIB,
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

GROUP = {"group.pinfold.dev/pod": "front"}


def pool(number: int) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}


def lasting(rules: dict[str, Any]) -> dict[str, Any]:
    return {
        kind: {LASTING: terms} for kind, (terms,) in ((k, v.values()) for k, v in rules.items())
    }


def nodes(engine: Engine, *containers: Container) -> set[int]:
    return {cpu // 4 for one in containers for cpu in CpuSet.parse(cpus(engine, one))}


def broken(engine: Engine) -> list[str]:
    engine.check()
    return [str(one) for one, texts in engine.look_at_rules().items() if texts]


def follow(engine: Engine, container: Container) -> dict[str, str]:
    """Place a container anew; what others are told by that, by id."""
    decision = engine.place_anew(container.id)
    assert isinstance(decision.result, Grant), decision.result
    engine.check()
    assert str(decision.pinning.cpus) == cpus(engine, container)
    return {str(one.container_id): str(one.after.cpus) for one in decision.changes}


def group(
    engine: Engine, rules: dict[str, Any], *, shares: bool = False, **more: str
) -> tuple[Container, Container]:
    """Two containers of a group, of which the first has rules."""
    told = {**GROUP, **more}
    shy = container_of("shy", 1, rules, annotations=told, shares=shares)
    mate = container_of("mate", 1, annotations=told, shares=shares)
    placed(engine, shy)
    placed(engine, mate)
    return shy, mate


@pytest.mark.parametrize("shares", [False, True])
def test_all_of_a_group_leave_where_one_of_them_must_be_alone(shares: bool) -> None:
    engine = engine_of(NODES)
    shy, mate = group(engine, lasting(apart(term("numa", "wolf"))), shares=shares)
    (home,) = nodes(engine, shy, mate)
    placed(engine, wolf := container_of("wolf", 1, fails=True, annotations=pool(home)))
    assert broken(engine) == [shy.id]
    told = follow(engine, shy)
    assert told[mate.id] == cpus(engine, mate) == cpus(engine, shy)
    (now,) = nodes(engine, shy, mate)
    assert {now}.isdisjoint(nodes(engine, wolf))
    assert broken(engine) == []
    assert [engine.decisions[one.id].unmet for one in (shy, mate)] == [(), ()]
    assert engine.decisions[mate.id].pool == f"NUMA node #{now}"


def test_a_rule_of_the_second_container_moves_the_first_along() -> None:
    engine = engine_of(NODES)
    mate = container_of("mate", 1, annotations=GROUP)
    shy = container_of("shy", 1, lasting(apart(term("numa", "wolf"))), annotations=GROUP)
    placed(engine, mate)
    placed(engine, shy)
    (home,) = nodes(engine, shy, mate)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(home)))
    told = follow(engine, shy)
    assert list(told) == [mate.id]
    assert home not in nodes(engine, shy, mate)


def test_slices_of_a_pod_are_as_large_where_it_goes_and_the_rest_is_shared() -> None:
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:2G")
    whole = Resources(
        cpu_request_milli=4000,
        cpu_limit_milli=4000,
        memory_request_bytes=GIB // 2,
        memory_limit_bytes=GIB // 2,
    )
    rules = lasting(apart(term("numa", "wolf")))
    penned = {"pod-pool.pinfold.dev/pod": "true"}
    made = [
        container_of("web", cpu, rules, app="web", main=main, annotations=penned)
        for main, cpu in (("own", 2), ("log", 1), ("more", 4), ("again", 4))
    ]
    pod = replace(made[0].pod, resources=whole)
    made = [replace(one, pod=pod) for one in made]
    for index in (2, 3):
        # They show the numbers of the pod.
        made[index] = replace(made[index], resources=whole)
    for one in made:
        placed(engine, one)
    before = [CpuSet.parse(cpus(engine, one)) for one in made]
    (home,) = {cpu // 8 for one in before for cpu in one}
    placed(engine, wolf := container_of("wolf", 1, fails=True, annotations=pool(home)))
    follow(engine, made[0])
    after = [CpuSet.parse(cpus(engine, one)) for one in made]
    assert [len(one) for one in after] == [len(one) for one in before]
    assert [len(one) for one in after[:2]] == [2, 1]
    (now,) = {cpu // 8 for one in after for cpu in one}
    assert now != home
    assert len(after[0] | after[1] | after[2]) == 4
    assert not after[0] & after[1]
    for one in (*made, wolf):
        engine.remove(one.id)
        engine.check()
    assert not engine.grants


def test_rules_between_containers_of_a_pen_hold_wherever_it_goes() -> None:
    engine = engine_of(NODES)
    rules = {**lasting(apart(term("numa", "wolf"))), **lasting(near(term("numa", "mate")))}
    shy, mate = group(engine, rules)
    (home,) = nodes(engine, shy, mate)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(home)))
    follow(engine, shy)
    assert broken(engine) == []
    assert nodes(engine, shy) == nodes(engine, mate) != {home}


def test_a_rule_about_one_in_the_pen_moves_it_away_from_others_all_the_same() -> None:
    """It can never hold beside the one, and does beside nobody else."""
    engine = engine_of(NODES)
    both = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["mate", "wolf"]}]}
    shy, mate = group(engine, lasting(apart(term("numa", labelSelector=both))))
    (home,) = nodes(engine, shy, mate)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(home)))
    follow(engine, shy)
    assert nodes(engine, shy) == nodes(engine, mate) != {home}
    (told,) = engine.decisions[shy.id].unmet
    assert told.endswith("in one NUMA node with default/mate/main")


def test_a_pen_does_not_go_where_a_rule_of_another_of_its_containers_breaks() -> None:
    engine = engine_of(NODES)
    placed(engine, container_of("friend", 1, annotations=pool(1)))
    shy = container_of("shy", 1, lasting(apart(term("numa", "wolf"))), annotations=GROUP)
    fan = container_of("fan", 1, near(term("numa", "friend")), annotations=GROUP)
    placed(engine, fan)
    placed(engine, shy)
    assert nodes(engine, shy, fan) == {1}
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(1)))
    assert broken(engine) == [shy.id]
    assert "no place is better" in reason(engine.place_anew(shy.id))
    assert nodes(engine, shy, fan) == {1}
    engine.check()


def test_nobody_outside_is_left_alone_by_a_pen() -> None:
    engine = engine_of(NODES)
    shy, mate = group(engine, lasting(apart(term("numa", "wolf"))))
    placed(engine, container_of("fan", 1, near(term("numa", "mate"))))
    (home,) = nodes(engine, shy, mate)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(home)))
    assert "default/fan/main must be with it" in reason(engine.place_anew(shy.id))


@pytest.mark.parametrize("refuses", ["shy", "mate"])
def test_a_pen_stays_where_one_of_its_containers_must_not_be_moved(refuses: str) -> None:
    engine = engine_of(NODES)
    both = [
        container_of(
            name,
            1,
            lasting(apart(term("numa", "wolf"))) if name == "shy" else None,
            annotations={**GROUP, **(NEVER if name == refuses else {})},
        )
        for name in ("shy", "mate")
    ]
    for one in both:
        placed(engine, one)
    (home,) = nodes(engine, *both)
    placed(engine, container_of("wolf", 1, fails=True, annotations=pool(home)))
    assert reason(engine.place_anew(both[0].id)) == "its annotation refuses to be moved"


def test_a_pen_that_finds_no_better_place_stays_and_it_is_told() -> None:
    engine = engine_of("socket:1 numa:2 core:2 mem:2G")
    shy, mate = group(engine, lasting(apart(term("socket", "wolf"))), shares=True)
    before = cpus(engine, shy)
    placed(engine, container_of("wolf", 0.5))
    assert broken(engine) == [shy.id]
    assert "no place is better" in reason(engine.place_anew(shy.id))
    assert cpus(engine, shy) == cpus(engine, mate) == before
