"""The place of a container in a pen: all of the pen to those outside, its own part to those in it.

Its part changes with whoever else in the pen comes, goes or is resized, and nobody judges that.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    GIB,
    NODES,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    prefer,
    reason,
    term,
)

LAST_NODE = {"pool-name.pinfold.dev/pod": "NUMA node #3"}


def called(name: str) -> dict[str, Any]:
    wanted = {"key": "container.name", "operator": "In", "values": [name]}
    return {"labelSelector": {"matchExpressions": [wanted]}}


def member(
    main: str,
    cpu: int,
    whole: int,
    rules: Mapping[str, Any] | None = None,
    pod: str = "pod",
    insists: str = "fail",
) -> Container:
    """A container of a pod of so many cpus, some of which are its own; its rules are for it."""
    told = {
        "pod-pool.pinfold.dev/pod": "true",
        f"on-unsatisfiable.pinfold.dev/container.{main}": insists,
    }
    if rules is not None:
        told[f"affinity.pinfold.dev/container.{main}"] = json.dumps(rules)
    one = container_of(pod, cpu, main=main, annotations=told)
    size = Resources(
        cpu_request_milli=1000 * whole,
        cpu_limit_milli=1000 * whole,
        memory_request_bytes=GIB // 4,
        memory_limit_bytes=GIB // 4,
    )
    one = replace(one, pod=replace(one.pod, resources=size, qos=QosClass.GUARANTEED))
    return one if cpu else replace(one, resources=size)


def pen(engine: Engine, rules: Mapping[str, Any] | None = None) -> tuple[Container, Container]:
    """A pod with cpus 8-12: of two containers one has 12, and one that has rules all of node 2."""
    own, rest = member("own", 1, 5), member("rest", 0, 5, rules)
    assert [placed(engine, own), placed(engine, rest)] == ["12", "8-11"]
    return own, rest


def stranger(rules: Mapping[str, Any] | None = None, **annotations: str) -> Container:
    told = {**LAST_NODE, **annotations}
    return container_of("shy", 1, rules, fails=True, annotations=told)


@pytest.mark.parametrize(
    ("rule", "rule_inside"),
    [
        pytest.param(apart(term("numa", **called("rest"))), None, id="a stranger's rule"),
        pytest.param(None, apart(term("numa", "shy")), id="a rule of one of the pod"),
    ],
)
def test_a_stranger_stays_away_from_where_somebody_of_a_pod_may_come(
    rule: dict[str, Any] | None, rule_inside: dict[str, Any] | None
) -> None:
    engine = engine_of(NODES)
    own, rest = pen(engine, rule_inside)
    decision = engine.create(shy := stranger(rule))
    assert "numa" in reason(decision)
    engine.remove(shy.id)
    engine.stop(own.id)
    engine.check()
    assert cpus(engine, rest) == "8-12"


def test_who_joins_a_pen_is_told_of_a_stranger_beside_any_part_of_it() -> None:
    engine = engine_of(NODES)
    own = member("own", 1, 5)
    placed(engine, own)
    placed(engine, shy := stranger())
    rest = member("rest", 0, 5, apart(term("numa", "shy")), insists="degrade")
    assert placed(engine, rest) == "8-11"
    (told,) = engine.decisions[rest.id].unmet
    assert told.endswith("in one NUMA node with default/shy/main")
    engine.remove(shy.id)
    assert engine.decisions[rest.id].unmet == ()


FIRM = [
    pytest.param(apart(term("numa", "shy")), None, "with default/shy/main", id="a rule of its own"),
    pytest.param(
        None,
        apart(term("numa", **called("rest"))),
        "with its owner default/shy/main",
        id="a stranger's rule",
    ),
    pytest.param(
        near(term("socket", "friend")), None, "a container that the rule is about", id="alone"
    ),
]


@pytest.mark.parametrize(("rules", "rules_of_stranger", "why"), FIRM)
def test_a_rule_that_insists_keeps_a_container_out_of_its_pen(
    rules: dict[str, Any] | None, rules_of_stranger: dict[str, Any] | None, why: str
) -> None:
    """The pen stays where it is, whoever wants to join it."""
    engine = engine_of(NODES)
    placed(engine, member("own", 1, 5))
    placed(engine, shy := stranger(rules_of_stranger))
    rest, before = member("rest", 0, 5, rules), engine.grants
    told = reason(engine.create(rest))
    assert told.startswith("its pen stays on cpus 8-12: ")
    assert why in told
    assert told.endswith(" — for that to hold, stop or move default/shy/main") is ("shy" in why)
    engine.remove(rest.id)
    assert engine.grants == before
    engine.check()
    engine.remove(shy.id)
    if "shy" in why:
        assert placed(engine, rest) == "8-11"


def test_a_rule_that_insists_keeps_a_container_out_of_its_group_which_does_not_grow() -> None:
    engine = engine_of(NODES)
    told = {"group.pinfold.dev/pod": "front"}
    first = container_of("first", 2, annotations=told)
    assert placed(engine, first) == "4-5"
    other = container_of("other", 1, annotations={"pool-name.pinfold.dev/pod": "NUMA node #1"})
    assert placed(engine, other) == "6"
    rules = apart(term("numa", "other"))
    second = container_of("second", 1, rules, fails=True, annotations=told)
    assert "default/second/main: in one NUMA node with" in reason(engine.create(second))
    assert cpus(engine, first) == "4-5"
    engine.check()


def group_beside(strangers: int, meek: int) -> str:
    """Why a second container may not join its group in a NUMA node with many strangers.

    They must be apart from it, and all but the first ones insist on it.
    """
    engine = engine_of("socket:2 numa:2 core:2 thread:2 mem:64G")
    there = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    for number in range(strangers):
        rules, fails = apart(term("numa", "second")), number >= meek
        name = f"stranger{number}"
        placed(engine, container_of(name, 0.001, rules, fails=fails, annotations=there))
    told = {"group.pinfold.dev/pod": "front"}
    placed(engine, container_of("first", 1, annotations={**told, **there}))
    return reason(engine.create(container_of("second", 1, annotations=told)))


def test_all_who_are_in_the_way_of_rules_at_a_pen_must_leave_it() -> None:
    engine = engine_of(NODES)
    there = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    told = {"group.pinfold.dev/pod": "front"}
    placed(engine, container_of("first", 1, annotations={**told, **there}))
    others = [container_of(name, 1, annotations=there, app="other") for name in ("a", "b")]
    for one in others:
        placed(engine, one)
    rules = apart(term("numa", "other"))
    second = container_of("second", 1, rules, fails=True, annotations=told)
    for names in ("all of default/a/main, default/b/main", "default/b/main"):
        assert reason(engine.create(second)).endswith(f" — for that to hold, stop or move {names}")
        engine.remove(second.id)
        engine.remove(others.pop(0).id)
    placed(engine, second)


def test_one_rule_that_insists_is_not_overlooked_among_hundreds_that_do_not() -> None:
    told = group_beside(301, meek=300)
    assert told.endswith(" — for that to hold, stop or move default/stranger300/main")


@pytest.mark.parametrize(
    ("strangers", "rest"),
    [
        pytest.param(20, "; and 4 more rules — ", id="each by himself"),
        pytest.param(300, " and 296 more — ", id="very many as one"),
    ],
)
def test_of_many_rules_that_insist_a_refusal_tells_the_first(strangers: int, rest: str) -> None:
    told = group_beside(strangers, meek=0)
    assert rest in told
    assert told.endswith(f"default/stranger3/main and {strangers - 4} more")
    assert len(told) < 3000


def test_who_runs_already_is_in_its_pen_whatever_rule_insists() -> None:
    engine = engine_of(NODES)
    placed(engine, member("own", 1, 5))
    placed(engine, stranger())
    rest = replace(
        member("rest", 0, 5, apart(term("numa", "shy"))),
        state=ContainerState.RUNNING,
        cpus=CpuSet.parse("8-11"),
    )
    decision = engine.adopt(rest)
    assert isinstance(decision.result, Grant), decision.result
    assert cpus(engine, rest) == "8-11"
    (told,) = engine.decisions[rest.id].unmet
    assert told.endswith("in one NUMA node with default/shy/main")


def test_who_comes_back_to_its_pen_asks_anew_for_no_container_it_must_be_with() -> None:
    engine = engine_of(NODES)
    placed(engine, friend := container_of("friend", 1))
    placed(engine, member("own", 1, 5, near(term("socket", "friend"))))
    rest = member("rest", 0, 5, near(term("socket", "friend")))
    there = placed(engine, rest)
    engine.remove(friend.id)
    engine.stop(rest.id)
    assert placed(engine, replace(rest, id=ContainerId("rest-again"))) == there


def test_who_must_be_with_one_of_a_pod_may_be_beside_any_part_of_its_pen() -> None:
    engine = engine_of(NODES)
    _, rest = pen(engine)
    friend = stranger(near(term("numa", **called("rest"))))
    assert placed(engine, friend) == "13"
    assert engine.decisions[friend.id].unmet == engine.decisions[rest.id].unmet == ()


def test_what_runs_already_is_told_of_somebody_beside_another_part_of_a_pen() -> None:
    engine = engine_of(NODES)
    own, rest = pen(engine)
    shy = stranger(apart(term("numa", **called("rest"))))
    listed = [
        replace(one, cpus=CpuSet.parse(where), state=ContainerState.RUNNING)
        for one, where in ((own, "12"), (rest, "8-11"), (shy, "13"))
    ]
    engine = engine_of(NODES)
    engine.synchronize(listed, {})
    assert [cpus(engine, one) for one in listed] == ["12", "8-11", "13"]
    assert [str(one.exclusive) for one in engine.snapshot().pens.values()] == ["8-12"]
    (told,) = engine.decisions[shy.id].unmet
    assert told.endswith("in one NUMA node with default/pod/rest")


INSIDE = apart(term("core", scope="pod", **called("own")))
"""No core is to be shared with one container of the same pod."""


def test_a_rule_inside_a_pen_holds_where_parts_of_it_do_not_touch() -> None:
    engine = engine_of(NODES)
    own, rest = member("own", 2, 6), member("rest", 0, 6, INSIDE)
    assert [placed(engine, own), placed(engine, rest)] == ["8-9", "10-13"]
    assert engine.decisions[rest.id].unmet == engine.decisions[own.id].unmet == ()


def test_a_rule_inside_a_pen_is_told_once_another_one_leaves_its_part() -> None:
    """And no more once the one is gone from whom it was to be apart."""
    engine = engine_of(NODES)
    own, other = member("own", 1, 6), member("other", 1, 6)
    rest = member("rest", 0, 6, INSIDE)
    assert [placed(engine, one) for one in (own, other, rest)] == ["8", "9", "10-13"]
    assert engine.decisions[rest.id].unmet == ()
    engine.stop(other.id)
    assert cpus(engine, rest) == "9-13"
    (told,) = engine.decisions[rest.id].unmet
    assert told.endswith("in one core with default/pod/own")
    engine.stop(own.id)
    assert engine.decisions[rest.id].unmet == ()


def test_a_rule_inside_a_pen_is_told_once_parts_have_another_size() -> None:
    engine = engine_of(NODES)
    own, rest = member("own", 2, 6), member("rest", 0, 6, INSIDE)
    placed(engine, own)
    placed(engine, rest)
    smaller = replace(own.resources, cpu_request_milli=1000, cpu_limit_milli=1000)
    decision = engine.update(own.id, smaller)
    assert isinstance(decision.result, Grant)
    assert CpuSet.parse(cpus(engine, rest)) & CpuSet.parse("8-9")
    (told,) = engine.decisions[rest.id].unmet
    assert told.endswith("in one core with default/pod/own")


def test_a_pen_does_not_grow_beside_the_part_that_somebody_in_it_must_not_be_near() -> None:
    """What it grows by is for all who share, so for one with such a rule, too."""
    engine = engine_of(NODES)
    own, rest = member("own", 1, 3), member("rest", 0, 3, INSIDE)
    assert [placed(engine, own), placed(engine, rest)] == ["6", "4-5"]
    larger = replace(rest.resources, cpu_request_milli=4000, cpu_limit_milli=4000)
    assert not isinstance(engine.resize_pod(rest.pod, larger), Refusal)
    engine.check()
    assert [cpus(engine, own), cpus(engine, rest)] == ["6", "1,4-5"]
    assert engine.decisions[rest.id].unmet == ()


@pytest.mark.parametrize(
    ("rules", "notes"),
    [
        pytest.param(
            prefer(50, term("core", scope="pod", **called("own")), is_anti=True),
            [],
            id="apart from one in the pen, by parts",
        ),
        pytest.param(
            prefer(50, term("numa", "shy"), is_anti=True),
            ["in one NUMA node with default/shy/main"],
            id="apart from a stranger, by all of the pen",
        ),
    ],
)
def test_preferences_that_are_not_met_are_noted(rules: dict[str, Any], notes: list[str]) -> None:
    engine = engine_of(NODES)
    _, rest = pen(engine, rules)
    placed(engine, stranger())
    assert [one.partition(": ")[2] for one in engine.note(rest.id)] == notes


def test_a_pen_begun_round_a_container_heeds_the_rules_of_that_one() -> None:
    """That a pod has less than its containers seem to ask for shows with the second one."""
    engine = engine_of(NODES)
    own, rest = member("own", 3, 4, apart(term("numa", "shy"))), member("rest", 0, 4)
    told = {key: text for key, text in own.pod.annotations.items() if "pod-pool" not in key}
    own, rest = (replace(one, pod=replace(one.pod, annotations=told)) for one in (own, rest))
    assert placed(engine, own) == "4-6"
    node_0, node_1 = ({"pool-name.pinfold.dev/pod": f"NUMA node #{one}"} for one in (0, 1))
    assert placed(engine, container_of("filler", 1, annotations=node_1)) == "7"
    assert placed(engine, container_of("shy", 1, annotations=node_0)) == "1"
    assert placed(engine, rest) == "8"
    assert [str(one.exclusive) for one in engine.snapshot().pens.values()] == ["4-6,8"]
    assert engine.decisions[own.id].unmet == ()


SHY_OF_REST = apart(term("core", **called("rest")))
REST_OF_SHY = apart(term("core", "shy"))


def pen_beside_half_a_core() -> Engine:
    """An engine of four cpus for containers; a pen takes three, and two run on other cores."""
    return engine_of("core:3 thread:2 mem:4G", "cpuset:0-1")


@pytest.mark.parametrize(
    ("rules", "rules_of_rest"),
    [
        pytest.param(SHY_OF_REST, None, id="a rule of the newcomer"),
        pytest.param(None, REST_OF_SHY, id="a rule of one of the pod"),
    ],
)
def test_who_comes_beside_a_part_of_a_pen_on_which_nobody_meant_runs_is_told_of_it(
    rules: dict[str, Any] | None, rules_of_rest: dict[str, Any] | None
) -> None:
    engine = pen_beside_half_a_core()
    own, rest = member("own", 1, 3), member("rest", 0, 3, rules_of_rest, insists="degrade")
    assert [placed(engine, own), placed(engine, rest)] == ["4", "2-3"]
    shy = container_of("shy", 1, rules)
    assert placed(engine, shy) == "5"
    (told,) = engine.decisions[shy.id].unmet
    whose = "" if rules_of_rest is None else "its owner "
    assert told.endswith(f"in one core with {whose}default/pod/rest")
    assert bool(engine.decisions[rest.id].unmet) is (rules is None)


def test_who_is_back_is_refused_where_a_pen_is_by_now_from_which_it_insists_to_be_apart() -> None:
    """Though the one that it is about runs on another part of that pen."""
    engine = pen_beside_half_a_core()
    shy = container_of("shy", 1, SHY_OF_REST, fails=True)
    placed(engine, filler := container_of("filler", 3))
    assert placed(engine, shy) == "5"
    engine.stop(shy.id)
    engine.remove(filler.id)
    own, rest = member("own", 1, 3), member("rest", 0, 3)
    assert [placed(engine, own), placed(engine, rest)] == ["4", "2-3"]
    decision = engine.create(replace(shy, id=ContainerId("shy-again")))
    assert "default/pod/rest" in reason(decision)
    engine.check()


def test_no_rule_is_told_by_the_parts_of_a_pen_that_others_had_before_somebody_came_to_it() -> None:
    """They share one cpu of the pod's two from then on, and the other is its own."""
    engine = engine_of("socket:1 core:4 mem:4G")
    rules = apart(term("core", "pod"))
    names = [f"rest{number}" for number in range(5)]
    rest = [member(name, 0, 2, rules, insists="degrade") for name in names]
    for one in rest:
        placed(engine, one)
    own = member("own", 1, 2)
    decision = engine.create(own)
    assert [cpus(engine, one) for one in (own, rest[0], rest[-1])] == ["1", "2", "2"]
    assert decision.unmet == ()
    assert not any("/own" in text for one in rest for text in engine.decisions[one.id].unmet)
