"""Pens that begin with a pod's second container, around the one that is there: rules that insist.

That a pod has less than its containers seem to ask for shows with the second one.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.penning import PEN
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Grant
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    GIB,
    NODES,
    apart,
    container_of,
    cpus,
    engine_of,
    placed,
    reason,
    term,
)
from tests.unit.policy.engine.test_place_of_pens import FIRM, called, member


def by_size(one: Container) -> Container:
    """A member whose pen shows by the pod's size alone."""
    told = {key: text for key, text in one.pod.annotations.items() if "pod-pool" not in key}
    return replace(one, pod=replace(one.pod, annotations=told))


def sharer(whole: int, rules: dict[str, Any] | None = None) -> Container:
    """A member with half a cpu of its pod's, on shared cpus as long as it is alone."""
    one = by_size(member("own", 1, whole, rules))
    size = replace(one.resources, cpu_request_milli=500, cpu_limit_milli=500)
    return replace(one, resources=size)


def stranger(
    node: int, rules: dict[str, Any] | None = None, name: str = "shy", app: str = "shy"
) -> Container:
    """A container of another pod, on a cpu of a NUMA node."""
    beside = {"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
    return container_of(name, 1, rules, app=app, fails=True, annotations=beside)


def again(one: Container) -> Container:
    return replace(one, id=ContainerId(f"{one.id}-again"))


def mems(engine: Engine, one: Container) -> str:
    pinning = engine.pinning(one.id)
    assert pinning is not None
    return str(pinning.mems)


def pens(engine: Engine) -> list[str]:
    return [str(one.exclusive) for one in engine.snapshot().pens.values()]


@pytest.mark.parametrize(("rules", "rules_of_stranger", "why"), FIRM)
def test_a_rule_that_insists_begins_no_pen_around_another_container_where_it_does_not_hold(
    rules: dict[str, Any] | None, rules_of_stranger: dict[str, Any] | None, why: str
) -> None:
    engine = engine_of(NODES)
    own, rest = by_size(member("own", 3, 4)), by_size(member("rest", 0, 4, rules))
    assert placed(engine, own) == "4-6"
    shy = stranger(1, rules_of_stranger)
    assert placed(engine, shy) == "7"
    before = engine.grants
    told = reason(engine.create(rest))
    assert told.startswith("its pen would begin on cpus 1,4-6: ")
    assert why in told
    assert told.endswith(" — for that to hold, stop or move default/shy/main") is ("shy" in why)
    engine.remove(rest.id)
    assert engine.grants == before
    engine.check()
    engine.remove(shy.id)
    if "shy" in why:
        assert placed(engine, rest) == "7"


def test_a_pen_around_who_shares_has_its_cpus_where_a_rule_that_insists_holds() -> None:
    """Though the cpus that the other one has shared so far are beside the stranger's."""
    engine, own = engine_of(NODES), sharer(2)
    placed(engine, own)
    assert placed(engine, stranger(1)) == "4"
    assert cpus(engine, own) == "5-7"
    rest = by_size(member("rest", 0, 2, apart(term("numa", "shy"))))
    assert placed(engine, rest) == cpus(engine, own) == "2-3"
    assert engine.decisions[rest.id].unmet == ()
    assert mems(engine, own) == mems(engine, rest) == "0"
    assert engine.decisions[rest.id].pool == engine.decisions[own.id].pool == "NUMA node #0"


def test_a_pen_around_who_shares_takes_memory_to_its_cpus_as_far_as_there_is_some() -> None:
    """All have the same, and who has huge pages keeps the node where they are."""
    engine, own = engine_of(NODES), sharer(2)
    placed(engine, own)
    placed(engine, stranger(1))
    hog = stranger(0, name="hog", app="hog")
    size = replace(hog.resources, memory_request_bytes=2 * GIB, memory_limit_bytes=2 * GIB)
    assert placed(engine, replace(hog, resources=size)) == "1"
    rest = by_size(member("rest", 0, 2, apart(term("numa", "shy"))))
    assert placed(engine, rest) == cpus(engine, own) == "2-3"
    assert mems(engine, own) == mems(engine, rest) == "0-1"
    engine.remove(hog.id)
    assert mems(engine, own) == mems(engine, rest) == "0"
    engine.check()


def test_a_pen_around_who_shares_has_memory_of_all_nodes_over_which_its_cpus_are() -> None:
    engine, own = engine_of(NODES), sharer(4)
    placed(engine, own)
    assert placed(engine, stranger(1)) == "4"
    rest = by_size(member("rest", 0, 4))
    assert placed(engine, rest) == cpus(engine, own) == "2-3,6-7"
    assert mems(engine, own) == mems(engine, rest) == "0-1"


def test_a_pen_around_who_shares_keeps_the_node_of_its_huge_pages() -> None:
    engine = engine_of("socket:2 numa:2 core:2 thread:2 mem:2G hugepages:2M=64")
    pages = {2 << 20: 8 << 20}
    own = sharer(2)
    own = replace(own, resources=replace(own.resources, hugepage_bytes=pages))
    placed(engine, own)
    placed(engine, stranger(1))
    rest = by_size(member("rest", 0, 2, apart(term("numa", "shy"))))
    assert placed(engine, rest) == cpus(engine, own) == "2-3"
    assert mems(engine, own) == mems(engine, rest) == "0-1"
    engine.check()


def test_a_pen_that_finds_no_place_leaves_the_memory_of_who_shares_alone() -> None:
    engine, own = engine_of(NODES), sharer(2)
    placed(engine, own)
    placed(engine, stranger(1))
    placed(engine, stranger(2, name="other"))
    reason(engine.create(rest := by_size(member("rest", 0, 2, apart(term("socket", "shy"))))))
    engine.remove(rest.id)
    engine.check()
    assert mems(engine, own) == "1"


def test_a_pen_around_who_shares_may_be_beside_whom_a_narrow_rule_is_about() -> None:
    engine = engine_of(NODES)
    placed(engine, sharer(2))
    assert placed(engine, stranger(1)) == "4"
    rest = by_size(member("rest", 0, 2, apart(term("core", "shy"))))
    assert placed(engine, rest) == "6-7"
    assert engine.decisions[rest.id].unmet == ()


def test_a_pen_that_can_be_nowhere_where_a_rule_that_insists_holds_does_not_begin() -> None:
    engine = engine_of(NODES)
    placed(engine, sharer(2))
    placed(engine, stranger(1))
    placed(engine, stranger(2, name="other"))
    before = engine.grants
    rest = by_size(member("rest", 0, 2, apart(term("socket", "shy"))))
    told = reason(engine.create(rest))
    assert told.startswith("its pen would begin on cpus 6-7: ")
    engine.remove(rest.id)
    assert engine.grants == before
    engine.check()


def test_a_rule_that_may_break_begins_a_pen_beside_whom_it_is_about() -> None:
    engine = engine_of(NODES)
    assert placed(engine, by_size(member("own", 3, 4))) == "4-6"
    assert placed(engine, stranger(1)) == "7"
    rest = by_size(member("rest", 0, 4, apart(term("numa", "shy")), insists="degrade"))
    placed(engine, rest)
    assert engine.decisions[rest.id].unmet


def test_who_runs_already_begins_a_pen_whatever_rule_insists() -> None:
    engine = engine_of(NODES)
    assert placed(engine, own := by_size(member("own", 3, 4))) == "4-6"
    assert placed(engine, stranger(1)) == "7"
    rest = by_size(member("rest", 0, 4, apart(term("numa", "shy"))))
    decision = engine.adopt(replace(rest, state=ContainerState.RUNNING, cpus=CpuSet.parse("4-6")))
    assert isinstance(decision.result, Grant), decision.result
    assert decision.result.pen == engine.grants[own.id].pen is not None
    assert engine.decisions[rest.id].unmet


def test_a_rule_between_two_of_a_pod_begins_its_pen_all_the_same() -> None:
    engine = engine_of(NODES)
    own = by_size(member("own", 3, 4))
    rest = by_size(member("rest", 0, 4, apart(term("numa", **called("own")))))
    assert [placed(engine, own), placed(engine, rest)] == ["4-6", "7"]
    assert engine.decisions[rest.id].unmet


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(by_size(member("own", 3, 4, apart(term("socket", "far")))), id="own cpus"),
        pytest.param(sharer(4, apart(term("socket", "far"))), id="shared cpus"),
    ],
)
def test_who_comes_back_begins_its_pen_where_it_was_if_a_rule_insists_on_being_apart(
    first: Container,
) -> None:
    """Around the other it was not: that one was kept out of the pen by a rule of its own."""
    engine = engine_of(NODES)
    placed(engine, first)
    shy = stranger(1, apart(term("numa", **called("rest")), term("numa", **called("more"))))
    placed(engine, shy)
    engine.stop(first.id)
    rest, more = (by_size(member(name, 0, 4)) for name in ("rest", "more"))
    assert [placed(engine, rest), placed(engine, more)] == ["8-11", "8-11"]
    placed(engine, stranger(3, name="far", app="far"))
    placed(engine, first := again(first))
    there = cpus(engine, first)
    assert engine.grants[first.id].pen is None
    engine.stop(rest.id)
    engine.stop(more.id)
    assert placed(engine, again(rest)) == "8-11"
    assert pens(engine) == ["8-11"]
    assert cpus(engine, first) == there
    assert all(one.unmet == () for one in engine.decisions.values())


@pytest.mark.parametrize(
    ("rules", "rules_of_stranger"),
    [
        pytest.param(apart(term("numa", "shy")), None, id="a rule of one there"),
        pytest.param(None, apart(term("numa", **called("calm"))), id="a rule about one there"),
    ],
)
def test_a_pen_begins_around_two_only_where_rules_of_both_go_on_to_hold(
    rules: dict[str, Any] | None, rules_of_stranger: dict[str, Any] | None
) -> None:
    """One of them is beside a stranger from which the other one must be apart."""
    engine = engine_of(NODES)
    calm, near_it = (
        by_size(member("calm", 1, 4, rules)),
        by_size(member("near", 1, 4, insists="degrade")),
    )
    assert placed(engine, calm) == "4"
    told = {**near_it.pod.annotations, "pool-name.pinfold.dev/container.near": "NUMA node #3"}
    assert placed(engine, replace(near_it, pod=replace(near_it.pod, annotations=told))) == "12"
    placed(engine, shy := stranger(3, rules_of_stranger))
    before, rest = engine.grants, by_size(member("rest", 0, 4))
    reasoned = reason(engine.create(rest))
    assert reasoned.startswith("its pen would begin on cpus ")
    assert reasoned.endswith(" — for that to hold, stop or move default/shy/main")
    engine.remove(rest.id)
    assert engine.grants == before
    engine.check()
    engine.remove(shy.id)
    placed(engine, rest)
    assert engine.decisions[calm.id].unmet == ()


def test_a_pen_begins_beside_one_that_asks_for_the_reserved_cpus_and_found_them_full() -> None:
    """It is in no pen of its pod's by what it asks for, and a restart would find it in none."""
    engine = engine_of(NODES)
    placed(engine, container_of("system", 1, namespace="kube-system"))
    wish = {"prefer-reserved-cpus.resource-policy.nri.io/container.asks": "true"}
    asks, own, rest = (by_size(member(*each, 4)) for each in (("asks", 1), ("own", 1), ("rest", 0)))
    pod = replace(asks.pod, annotations=wish)
    asks, own, rest = (replace(one, pod=pod) for one in (asks, own, rest))
    assert "0" not in placed(engine, asks)
    placed(engine, own)
    placed(engine, rest)
    assert {engine.grants[one.id].pen for one in (own, rest)} == {"pod pod"}
    assert engine.grants[asks.id].pen is None
    before = engine.snapshot()
    restarted = Engine(engine.machine, engine.config)
    assert restarted.synchronize(before.running(), before.advice()).changes == ()
    assert pens(restarted) == pens(engine)
    restarted.check()


def test_who_begins_a_pen_around_another_container_is_there_for_its_pod() -> None:
    engine = engine_of(NODES)
    placed(engine, by_size(member("own", 3, 4)))
    rest = by_size(member("rest", 0, 4))
    assert engine.create(rest).decided_by == PEN
    assert pens(engine) == ["4-7"]
