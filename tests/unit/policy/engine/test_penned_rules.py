"""Rules between containers where some of these are in a pen: those of each count for all of it."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Amounts
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, QosClass, Resources
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term
from tests.unit.topology.model.offline import without

FRONT = {"group.pinfold.dev/pod": "front"}
TWO_NODES = "socket:2 core:4 mem:8G"
"""Cpus 0 to 3 (0 is reserved), and 4 to 7."""


def cpus(engine: Engine, one: Container) -> CpuSet:
    pinning = engine.pinning(one.id)
    assert pinning is not None
    assert pinning.cpus is not None
    return pinning.cpus


def pooled_owner(rules: dict[str, Any], size: Resources) -> Container:
    """A container with rules that insist, in the pen of its pod of this size."""
    wish = {"pod-pool.pinfold.dev/pod": "true"}
    owner = container_of("owner", 0.5, rules, fails=True, annotations=wish)
    return replace(owner, pod=replace(owner.pod, resources=size))


def create(engine: Engine, *containers: Container) -> None:
    for one in containers:
        decision = engine.create(one)
        assert isinstance(decision.result, Grant), decision.result
        engine.check()


def test_a_group_does_not_grow_to_where_one_of_its_containers_must_not_be() -> None:
    """The newcomer itself may be anywhere; a socket has room for three of five cpus."""
    engine = engine_of(TWO_NODES)
    first = container_of("first", 3, app="noisy", annotations=FRONT)
    alone = container_of("alone", 0.5, apart(term("socket", "noisy")), app="alone", fails=True)
    create(engine, first, alone)
    before = cpus(engine, first)
    decision = engine.create(container_of("second", 2, app="quiet", annotations=FRONT))
    assert isinstance(decision.result, Refusal), decision.pinning
    engine.check()
    assert cpus(engine, first) == before
    assert not cpus(engine, alone) & before


def test_rules_of_a_container_that_shares_a_pen_hold_when_another_leaves_it() -> None:
    engine = engine_of(TWO_NODES)
    noisy = container_of("noisy", 0, app="noisy", annotations=FRONT, shares=True)
    other = container_of("other", 0.5, app="quiet", annotations=FRONT, shares=True)
    alone = container_of("alone", 0.5, apart(term("socket", "noisy")), app="alone", fails=True)
    create(engine, noisy, other, alone)
    engine.stop(other.id)
    engine.check()
    assert not cpus(engine, alone) & cpus(engine, noisy)


def test_of_those_in_its_pen_a_container_is_told_whose_parts_are_near_its_own() -> None:
    engine = engine_of("socket:1 cluster:3 core:2 mem:4G", "cpuset:0")
    size = Resources(
        cpu_request_milli=3000,
        cpu_limit_milli=3000,
        memory_request_bytes=2**24,
        memory_limit_bytes=2**24,
    )
    wish, rules = {"pod-pool.pinfold.dev/pod": "true"}, apart(term("cluster", "web"))
    pod = container_of("front", 1, rules, app="web", annotations=wish).pod
    pod = replace(pod, resources=size, qos=QosClass.GUARANTEED)
    for name, cpu in (("one", 0.2), ("own", 2), ("two", 0.2)):
        member = container_of("front", cpu, main=name, instance=name)
        create(engine, replace(member, pod=pod, id=ContainerId(name)))
    rule = "anti-affinity at cluster to app=web (affinity.pinfold.dev/pod:1) of default/front/"
    for again in (engine, engine.reconfigured(engine.config)[0]):
        told = {one: decision.unmet for one, decision in again.decisions.items()}
        beside = "in one cluster with"
        assert told == {
            "one": (f"{rule}one: {beside} default/front/two",),
            "own": (),
            "two": (
                f"{rule}two: {beside} default/front/one",
                f"{rule}one: {beside} its owner default/front/one",
            ),
        }


def test_everybody_is_told_whose_rules_break_as_a_pen_is_left_no_cpu() -> None:
    """A guest goes to where a rule keeps it from: the last cpu that it had is offline."""
    engine = engine_of(TWO_NODES)
    owner = container_of("owner", 0.5, apart(term("socket", "guest")), app="owner", fails=True)
    guest = container_of("guest", 0, app="guest", annotations=FRONT, shares=True)
    create(engine, owner, guest)
    there = cpus(engine, guest)
    assert not cpus(engine, owner) & there
    pod = {"group.pinfold.dev/pod": "back"}
    create(engine, *(container_of(f"w{n}", 1, app="w", annotations=pod) for n in range(5)))
    engine, _ = engine.reconfigured(engine.config, without(engine.machine, cpus(engine, guest)))
    assert not cpus(engine, guest) & there
    told = engine.decisions[owner.id].unmet + engine.decisions[guest.id].unmet
    assert any(owner.path in text for text in told)


def test_a_pod_that_is_resized_shows_what_its_containers_hold_by_then() -> None:
    engine = engine_of(TWO_NODES)
    size = Resources(cpu_request_milli=1000, cpu_limit_milli=1000, memory_limit_bytes=2**30)
    container = container_of("web", 1, annotations={"pod-pool.pinfold.dev/pod": "true"})
    container = replace(container, pod=replace(container.pod, resources=size))
    larger = replace(container.resources, cpu_request_milli=2000, cpu_limit_milli=2000)
    create(engine, container)
    engine.resize_pod(container.pod, replace(size, cpu_request_milli=2000, cpu_limit_milli=2000))
    engine.update(container.id, larger)
    engine.resize_pod(container.pod, size)
    assert engine.decisions[container.id].result == engine.grants[container.id]


def test_others_do_not_come_to_where_a_pen_that_was_resized_may_be() -> None:
    """What `taker` gives back is neither's before: the pen may have it by its resize."""
    engine = engine_of("socket:1 core:4 thread:2 mem:8G")
    size = Resources(cpu_request_milli=500, cpu_limit_milli=1000, memory_limit_bytes=2**30)
    owner = pooled_owner(apart(term("core", "guest")), size)
    guest, taker = container_of("guest", 0, shares=True), container_of("taker", 2)
    create(engine, guest, owner, taker)
    engine.resize_pod(owner.pod, replace(size, cpu_request_milli=600))
    engine.stop(taker.id)
    engine.check()
    both = (cpus(engine, one) for one in (owner, guest))
    one, other = ({cpu // 2 for cpu in found} for found in both)
    assert not one & other
    assert not engine.decisions[owner.id].unmet


def test_a_pod_that_is_resized_to_what_it_has_stays_where_it_is() -> None:
    """By the smaller size one core is enough, and its rule wants one: it is in four of guest's."""
    engine = engine_of("socket:1 core:6 thread:2 mem:8G")
    size = Resources(cpu_request_milli=3000, cpu_limit_milli=4000, memory_limit_bytes=2**30)
    owner = pooled_owner(near(term("core", "guest")), size)
    create(engine, container_of("guest", 4, annotations={"smt.pinfold.dev/pod": "spread"}), owner)
    assert str(cpus(engine, owner)) == "3,5,7,9"
    smaller = replace(size, cpu_request_milli=1000)
    assert engine.resize_pod(owner.pod, smaller) == ()
    assert engine.decisions[owner.id].unmet
    assert engine.resize_pod(owner.pod, smaller) == ()
    assert str(cpus(engine, owner)) == "3,5,7,9"
    engine.check()


@pytest.mark.parametrize("is_told_of_the_pod", [True, False])
def test_what_breaks_after_a_refused_resize_is_told_as_it_is_without(
    is_told_of_the_pod: bool,
) -> None:
    """Whom it wanted to be with leaves: a rule is for those who come, and nobody tells it."""
    engine = engine_of(TWO_NODES)
    size = Resources(cpu_request_milli=1000, cpu_limit_milli=1000, memory_limit_bytes=2**30)
    owner = pooled_owner(near(term("socket", "guest")), size)
    owner = replace(owner, pod=replace(owner.pod, qos=QosClass.GUARANTEED), resources=size)
    guest = container_of("guest", 0.5)
    create(engine, guest, owner)
    larger = replace(size, cpu_request_milli=64000, cpu_limit_milli=64000)
    if is_told_of_the_pod:
        assert isinstance(engine.resize_pod(owner.pod, larger), Refusal)
    else:
        assert isinstance(engine.update(owner.id, larger).result, Refusal)
    engine.remove(guest.id)
    assert not engine.decisions[owner.id].unmet


def test_who_loses_a_cpu_of_its_own_and_shares_its_pods_is_told_what_breaks_by_that() -> None:
    """A reload takes a cpu away and reserves another; its rule is about the other of its pod."""
    engine = engine_of("socket:1 core:6 mem:8G")
    size = Resources(cpu_request_milli=4000, cpu_limit_milli=4000, memory_limit_bytes=2**30)
    wish = {"pod-pool.pinfold.dev/pod": "true"}
    rules = apart(term("core", "web"))
    own, other = (
        container_of("web", cpu, rules, app="web", fails=True, main=main, annotations=wish)
        for main, cpu in (("own", 2), ("other", 0.5))
    )
    own, other = (replace(one, pod=replace(own.pod, resources=size)) for one in (own, other))
    create(engine, own, other)
    lost = min(cpus(engine, own))
    assert not cpus(engine, own) & cpus(engine, other)
    config = msgspec.structs.replace(
        engine.config,
        available_resources=Amounts(cpu=f"exclude-cpuset:{lost}"),
        reserved_resources=Amounts(cpu="cpuset:0,5"),
    )
    after, _ = engine.reconfigured(config)
    after.check()
    assert cpus(after, own) & cpus(after, other)
    assert after.decisions[own.id].unmet
    assert after.decisions[other.id].unmet


def pen_over_both_nodes(**wishes: str) -> tuple[Engine, list[Container]]:
    """Containers that share their group's pen, to which both nodes' cpus belong; one has wishes."""
    engine = engine_of(TWO_NODES)
    others = [container_of(name, 2.5) for name in ("left", "right")]
    create(engine, *others)
    members = [
        container_of(name, 1, app="pooled", annotations={**FRONT, **found}, shares=True)
        for name, found in (("one", {}), ("other", wishes))
    ]
    create(engine, *members)
    for one in others:
        engine.stop(one.id)
        engine.remove(one.id)
    assert {cpus(engine, one) for one in members} == {CpuSet.parse("1-7")}
    return engine, members


def test_those_who_share_a_pen_make_way_together() -> None:
    engine, members = pen_over_both_nodes()
    shy = container_of("shy", 0.5, apart(term("socket", "pooled")), fails=True)
    create(engine, shy)
    assert (str(cpus(engine, shy)), {str(cpus(engine, one)) for one in members}) == ("4-7", {"1-3"})
    engine.stop(shy.id)
    engine.remove(shy.id)
    engine.check()
    assert {cpus(engine, one) for one in members} == {CpuSet.parse("1-7")}


def test_a_pen_makes_no_way_where_a_rule_holds_one_of_its_containers() -> None:
    engine, members = pen_over_both_nodes(**{"pool-name.pinfold.dev/pod": "root"})
    shy = container_of("shy", 0.5, apart(term("socket", "pooled")), fails=True)
    decision = engine.create(shy)
    assert isinstance(decision.result, Refusal)
    assert "default/one/main" in decision.result.reason
    assert {cpus(engine, one) for one in members} == {CpuSet.parse("1-7")}


def test_a_pen_that_grew_while_another_was_gone_makes_way_when_that_is_back() -> None:
    engine, members = pen_over_both_nodes()
    shy = container_of("shy", 0, apart(term("socket", "pooled")), fails=True)
    create(engine, shy)
    before = [cpus(engine, one) for one in (shy, *members)]
    engine.stop(shy.id)
    assert {cpus(engine, one) for one in members} == {CpuSet.parse("1-7")}
    again = replace(shy, id=ContainerId("again"))
    create(engine, again)
    assert [cpus(engine, one) for one in (again, *members)] == before


def test_who_comes_back_to_a_pen_that_grew_meanwhile_makes_it_as_narrow_as_it_was() -> None:
    """It left with what kept the pen from where somebody insists on being apart from it."""
    engine = engine_of(TWO_NODES)
    others = [container_of(name, 2.5) for name in ("left", "right")]
    quiet, noisy = (
        container_of(name, 1, app=name, annotations=FRONT, shares=True)
        for name in ("quiet", "noisy")
    )
    create(engine, *others, quiet, noisy)
    for one in others:
        engine.remove(one.id)
    shy = container_of("shy", 0.5, apart(term("socket", "noisy")), fails=True)
    create(engine, shy)
    before = [cpus(engine, one) for one in (shy, quiet, noisy)]
    assert not before[0] & before[2]
    engine.stop(noisy.id)
    assert cpus(engine, quiet) == CpuSet.parse("1-7")
    again = replace(noisy, id=ContainerId("again"))
    create(engine, again)
    assert [cpus(engine, one) for one in (shy, quiet, again)] == before
    assert not engine.decisions[shy.id].unmet


def test_a_pen_is_as_narrow_as_it_was_only_where_that_keeps_a_rule() -> None:
    engine, members = pen_over_both_nodes()
    shy = container_of("shy", 0.5, apart(term("socket", "pooled")), fails=True)
    create(engine, shy)
    narrow = cpus(engine, members[0])
    engine.stop(members[0].id)
    assert cpus(engine, members[1]) == narrow
    engine.remove(shy.id)
    assert cpus(engine, members[1]) == CpuSet.parse("1-7")
    create(engine, again := replace(members[0], id=ContainerId("again")))
    assert {cpus(engine, one) for one in (again, members[1])} == {CpuSet.parse("1-7")}


def test_who_comes_back_to_a_pen_that_grew_beside_a_narrowed_share_is_in_its_place() -> None:
    """The pen gives back what is booked for it, not what it had before the other one left."""
    engine = engine_of(TWO_NODES)
    quiet, noisy = (
        container_of(name, 3, app=name, annotations=FRONT, shares=True)
        for name in ("quiet", "noisy")
    )
    create(engine, quiet, noisy)
    shy = container_of("shy", 0.5, apart(term("core", "noisy")), shares=True)
    create(engine, shy)
    before = [cpus(engine, one) for one in (shy, quiet, noisy)]
    engine.stop(noisy.id)
    assert cpus(engine, quiet) != before[1]
    create(engine, again := replace(noisy, id=ContainerId("again")))
    assert [cpus(engine, one) for one in (shy, quiet, again)] == before
