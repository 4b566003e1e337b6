"""Rules about pools of those who are in a pen: it grows where they go on to hold."""

from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerState, Resources
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
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
from tests.unit.policy.engine.test_begun_pens import by_size, mems, pens, sharer, stranger
from tests.unit.policy.engine.test_place_of_pens import member

FRONT = {"group.pinfold.dev/pod": "front"}
LAST = "socket #1: pool-name 'NUMA node #2' of {} keeps it out"


def tied(one: Container, insists: str = "fail", pool: str = "NUMA node #2") -> Container:
    """The container with a rule that it must be in a pool: the third NUMA node, cpus 8 to 11."""
    told = {
        **one.pod.annotations,
        f"pool-name.pinfold.dev/container.{one.name}": pool,
        f"on-unsatisfiable.pinfold.dev/container.{one.name}": insists,
    }
    return replace(one, pod=replace(one.pod, annotations=told))


def resized(one: Container, whole: int) -> Resources:
    return replace(one.resources, cpu_request_milli=1000 * whole, cpu_limit_milli=1000 * whole)


def resized_pod(engine: Engine, one: Container, whole: int) -> str:
    """Why a pod cannot have so many cpus; empty where it has them."""
    milli = 1000 * whole
    assert one.pod.resources is not None
    size = replace(one.pod.resources, cpu_request_milli=milli, cpu_limit_milli=milli)
    result = engine.resize_pod(one.pod, size)
    engine.check()
    return result.reason if isinstance(result, Refusal) else ""


@pytest.mark.parametrize("shares", [False, True])
def test_a_pod_does_not_grow_out_of_the_pool_on_which_one_of_its_containers_insists(
    shares: bool,
) -> None:
    engine = engine_of(NODES)
    own, rest = tied(member("own", 0 if shares else 1, 3)), member("rest", 0, 3)
    placed(engine, own)
    placed(engine, rest)
    before = engine.grants
    told = resized_pod(engine, own, 6)
    assert LAST.format("default/pod/own") in told
    assert (engine.grants, pens(engine)) == (before, ["8-10"])
    assert resized_pod(engine, own, 4) == ""
    assert pens(engine) == ["8-11"]
    assert engine.decisions[own.id].unmet == ()


def test_a_pod_grows_out_of_a_pool_only_where_a_rule_that_gives_way_leaves_it_no_other() -> None:
    engine = engine_of(NODES)
    own = tied(member("own", 1, 3), "degrade")
    placed(engine, own)
    assert resized_pod(engine, own, 4) == ""
    assert pens(engine) == ["8-11"]
    assert engine.decisions[own.id].unmet == ()
    assert resized_pod(engine, own, 6) == ""
    assert pens(engine) == ["8-13"]
    (told,) = engine.decisions[own.id].unmet
    assert told.endswith("it wants pool NUMA node #2")


@pytest.mark.parametrize("shares", [False, True])
def test_a_group_does_not_grow_out_of_the_pool_on_which_one_in_it_insists(shares: bool) -> None:
    engine = engine_of(NODES)
    first = tied(container_of("first", 3, annotations=FRONT, shares=shares))
    there = placed(engine, first)
    second = container_of("second", 2, annotations=FRONT, shares=shares)
    assert LAST.format("default/first/main") in reason(engine.create(second))
    engine.remove(second.id)
    larger = engine.update(first.id, resized(first, 6))
    assert LAST.format("default/first/main") in reason(larger)
    assert cpus(engine, first) == there
    assert engine.decisions[first.id].unmet == ()
    assert placed(engine, container_of("third", 1, annotations=FRONT, shares=shares)) == "8-11"


@pytest.mark.parametrize("whose", ["own", "rest"])
def test_a_pen_begins_around_another_container_where_a_rule_about_pools_goes_on_to_hold(
    whose: str,
) -> None:
    engine = engine_of(NODES)
    own, rest = tied(by_size(member("own", 3, 5)), "degrade"), by_size(member("rest", 0, 5))
    own, rest = (tied(one) if one.name == whose else one for one in (own, rest))
    assert placed(engine, own) == "8-10"
    before = engine.grants
    assert LAST.format(f"default/pod/{whose}") in reason(engine.create(rest))
    engine.remove(rest.id)
    assert engine.grants == before


def test_a_pen_whose_cpus_are_chosen_anew_is_in_the_pool_that_a_rule_of_its_own_wants() -> None:
    engine, own = engine_of(NODES), sharer(2)
    placed(engine, own)
    assert placed(engine, stranger(1)) == "4"
    rest = by_size(member("rest", 0, 2, apart(term("numa", "shy"))))
    told = {**rest.pod.annotations, "pool-name.pinfold.dev/container.rest": "socket #0"}
    rest = replace(rest, pod=replace(rest.pod, annotations=told))
    assert placed(engine, rest) == cpus(engine, own) == "2-3"
    assert engine.decisions[rest.id].pool == "socket #0"
    assert engine.decisions[rest.id].unmet == ()
    assert mems(engine, rest) == "0"


def resized_over_two_nodes() -> tuple[Engine, Container]:
    """A pod that had cpus 4 and 5, and has 2 and 3 by now besides; one shares them."""
    engine, rest = engine_of(NODES), member("rest", 0, 2)
    assert placed(engine, rest) == "4-5"
    there = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    assert placed(engine, container_of("filler", 2, annotations=there)) == "6-7"
    assert resized_pod(engine, rest, 4) == ""
    assert (pens(engine), mems(engine, rest)) == (["2-5"], "1")
    return engine, rest


def test_a_pen_takes_its_memory_along_to_the_last_cpus_that_it_keeps() -> None:
    """They are those of one that has them for itself."""
    engine, rest = resized_over_two_nodes()
    assert placed(engine, own := member("own", 2, 4)) == "2-3"
    engine.remove(rest.id)
    assert resized_pod(engine, own, 2) == ""
    assert (pens(engine), mems(engine, own)) == (["2-3"], "0")


def test_a_pen_that_shrinks_after_a_restart_keeps_the_cpus_near_its_memory() -> None:
    engine, rest = resized_over_two_nodes()
    pinning = engine.pinning(rest.id)
    assert pinning is not None
    engine.synchronize([replace(rest, cpus=pinning.cpus, mems=pinning.mems)])
    assert pens(engine) == ["2-5"]
    assert resized_pod(engine, rest, 2) == ""
    assert (pens(engine), mems(engine, rest)) == (["4-5"], "1")


def test_who_runs_already_is_in_a_group_that_grows_for_it_whatever_rule_insists() -> None:
    engine = engine_of(NODES)
    first = tied(container_of("first", 3, annotations=FRONT))
    placed(engine, first)
    second = container_of("second", 2, annotations=FRONT)
    running = replace(second, state=ContainerState.RUNNING, cpus=CpuSet.parse("12-13"))
    decision = engine.adopt(running)
    engine.check()
    assert isinstance(decision.result, Grant), decision.result
    assert decision.result.pen == engine.grants[first.id].pen
    assert pens(engine) == ["8-12"]
    (told,) = engine.decisions[first.id].unmet
    assert told.endswith("it wants pool NUMA node #2")


POOL = {"pool-name.pinfold.dev/pod": "NUMA node #2"}


@pytest.mark.parametrize("insists", ["fail", "degrade"])
@pytest.mark.parametrize(
    ("rules", "pools"),
    [
        pytest.param(near(term("numa", "friend")), {}, id="beside a friend"),
        pytest.param(None, POOL, id="in a pool"),
    ],
)
def test_a_group_that_ended_begins_anew_where_rules_of_who_was_not_in_it_hold(
    rules: dict[str, Any] | None, pools: dict[str, str], insists: str
) -> None:
    """Though the cpus that it had are free."""
    engine = engine_of(NODES)
    first = container_of("first", 2, annotations=FRONT)
    assert placed(engine, first) == "4-5"
    assert placed(engine, container_of("friend", 1, annotations=POOL)) == "8"
    engine.remove(first.id)
    told = {**FRONT, **pools, "on-unsatisfiable.pinfold.dev/pod": insists}
    other = container_of("other", 2, rules, annotations=told)
    assert placed(engine, other) == "10-11"
    assert engine.decisions[other.id].unmet == ()


def test_a_group_that_ended_begins_nowhere_that_one_new_in_it_must_not_be() -> None:
    engine = engine_of(NODES)
    placed(engine, first := container_of("first", 2, annotations=FRONT))
    engine.remove(first.id)
    placed(engine, container_of("filler", 3, annotations=POOL))
    other = container_of("other", 2, annotations={**FRONT, **POOL}, fails=True)
    assert "pool-name 'NUMA node #2'" in reason(engine.create(other))
    soft = container_of("soft", 2, annotations={**FRONT, **POOL})
    placed(engine, soft)
    assert engine.decisions[soft.id].unmet != ()


@pytest.mark.parametrize(
    ("pool", "expected", "nodes"),
    [
        pytest.param("NUMA node #1", "4-5", "1", id="where it is"),
        pytest.param("NUMA node #0", "2-3", "0", id="beside where it is"),
        pytest.param("NUMA node #3", "12-13", "3", id="far away"),
        pytest.param("socket #0", "4-5", "1", id="around where it is"),
    ],
)
def test_a_pen_around_who_shares_begins_in_the_pool_on_which_the_other_one_insists(
    pool: str, expected: str, nodes: str
) -> None:
    engine, own = engine_of(NODES), sharer(2)
    placed(engine, own)
    assert engine.decisions[own.id].pool == "NUMA node #1"
    rest = tied(by_size(member("rest", 0, 2)), pool=pool)
    assert placed(engine, rest) == cpus(engine, own) == expected
    assert (pens(engine), engine.decisions[rest.id].pool) == ([expected], pool)
    assert mems(engine, own) == mems(engine, rest) == nodes
    assert engine.decisions[rest.id].unmet == ()


@pytest.mark.parametrize(("pool", "expected"), [("socket #0", "4-6"), ("NUMA node #0", "")])
def test_a_pen_around_own_cpus_begins_in_a_pool_on_which_one_insists_if_they_are_in_it(
    pool: str, expected: str
) -> None:
    engine = engine_of(NODES)
    own, rest = by_size(member("own", 1, 3)), tied(by_size(member("rest", 0, 3)), pool=pool)
    assert placed(engine, own) == "4"
    decision = engine.create(rest)
    engine.check()
    assert isinstance(decision.result, Grant) == bool(expected)
    assert pens(engine) == [expected][: bool(expected)]
    if expected:
        assert (engine.decisions[rest.id].pool, engine.decisions[rest.id].unmet) == (pool, ())
