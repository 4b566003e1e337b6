"""Rules between containers that run already, and go where nobody would have placed them."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, ContainerState, QosClass
from pinfold.policy.model.grant import Refusal
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.policy.engine.ruled_pods import (
    PREFERRED,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    term,
)
from tests.unit.topology.model.offline import without

TWO_NODES = "socket:2 core:3 mem:4G"
"""Cpus 0 to 2 (0 is reserved), and 3 to 5."""

FIRST, SECOND = ({"pool-name.pinfold.dev/pod": f"socket #{number}"} for number in (0, 1))


def is_told(engine: Engine, *concerned: Container) -> bool:
    return any(engine.decisions[one.id].unmet for one in concerned)


def as_listed(engine: Engine) -> list[Container]:
    """The containers as a runtime lists them after a restart."""
    return [
        replace(one, cpus=pinning.cpus, mems=pinning.mems)
        for one in engine.containers.values()
        if (pinning := engine.pinning(one.id))
    ]


def test_who_runs_and_fits_nowhere_does_not_grow_to_where_its_rule_breaks() -> None:
    """It is on all cpus that are left; those that come back are next to whom it must not be."""
    engine = engine_of(TWO_NODES)
    other, noisy = container_of("other", 2), container_of("noisy", 1, annotations=SECOND)
    assert (placed(engine, other), placed(engine, noisy)) == ("3-4", "5")
    alone = container_of("alone", 3, apart(term("socket", "noisy")), fails=True)
    engine.adopt(alone)
    assert cpus(engine, alone) == "1-2"
    engine.remove(other.id)
    engine.check()
    assert cpus(engine, alone) == "1-2"
    engine.remove(noisy.id)
    assert cpus(engine, alone) == "1-5"


def test_of_two_that_return_home_none_comes_to_where_the_other_one_has_just_gone() -> None:
    engine = engine_of("socket:2 numa:2 core:2 mem:4G")
    one_node, other_node = ({"pool-name.pinfold.dev/pod": f"NUMA node #{n}"} for n in (2, 3))
    alone = container_of("alone", 0, apart(term("core", "noisy")), annotations=one_node)
    noisy = container_of("noisy", 0, annotations=other_node)
    assert [placed(engine, one) for one in (alone, noisy)] == ["4-5", "6-7"]
    first, second = container_of("a", 2, annotations=one_node), container_of("b", 2)
    assert [placed(engine, one) for one in (first, second)] == ["4-5", "2-3"]
    placed(engine, last := container_of("c", 2, annotations=other_node))
    assert [cpus(engine, one) for one in (alone, noisy, last)] == ["1", "1", "6-7"]
    engine.remove(first.id)
    engine.check()
    assert [cpus(engine, one) for one in (alone, noisy)] == ["4-5", "1"]


def test_who_is_resized_beside_one_that_it_must_not_be_with_does_not_grow_to_another() -> None:
    engine = engine_of("socket:3 core:2 mem:4G")
    alone = container_of("alone", 0.5, apart(term("socket", "noisy")))
    here, there = (container_of(name, 1, app="noisy") for name in ("here", "there"))
    other = container_of("other", 1)
    listed = ((alone, "1-2"), (here, "3"), (other, "4"), (there, "5"))
    engine.synchronize([replace(one, cpus=CpuSet.parse(where)) for one, where in listed])
    assert [cpus(engine, one) for one, _ in listed] == [where for _, where in listed]
    engine.update(alone.id, replace(alone.resources, cpu_request_milli=600))
    engine.remove(other.id)
    engine.check()
    assert cpus(engine, alone) == "1-2"
    engine.remove(here.id)
    assert cpus(engine, alone) == "1-3"
    assert not is_told(engine, alone, there)


def test_who_shrinks_to_what_fits_one_domain_does_not_grow_to_where_nobody_is_with_it() -> None:
    """It was in two NUMA nodes, as none alone had room, and may stay there."""
    engine = engine_of("socket:1 numa:3 core:4 mem:4G")
    for number in (0, 1):
        node = {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}
        placed(engine, container_of(f"friend{number}", 0.1, app="friend", annotations=node))
    it = container_of("it", 5.5, near(term("numa", "friend")), fails=True)
    assert placed(engine, it) == "1-7"
    engine.update(it.id, replace(it.resources, cpu_request_milli=1000))
    assert cpus(engine, it) == "1-7"
    engine.check()


def test_whose_cpus_are_those_of_one_that_runs_already_goes_where_its_rules_hold() -> None:
    engine = engine_of("socket:3 core:2 mem:4G")
    alone = container_of("alone", 0, apart(term("socket", "noisy")), fails=True, annotations=SECOND)
    noisy = container_of("noisy", 0.5, annotations=FIRST)
    assert [placed(engine, one) for one in (noisy, alone)] == ["1", "2-3"]
    taker = replace(container_of("taker", 2), cpus=CpuSet.parse("2-3"))
    engine.adopt(taker)
    engine.check()
    assert [cpus(engine, one) for one in (taker, alone)] == ["2-3", "4-5"]
    assert not is_told(engine, noisy)


RESERVED = {"prefer-reserved-cpus.resource-policy.nri.io/pod": "true"}


def beside_reserved_too_few() -> tuple[Engine, Container, Container, Container]:
    """One with cpus 3 and 4, one that must be alone on 5, and one that no rule keeps away on 1-2.

    The reserved cpus are too few for that one.
    """
    engine = engine_of(TWO_NODES)
    other = container_of("other", 2, annotations=SECOND)
    alone = container_of("alone", 1, apart(term("socket", "noisy")), fails=True, annotations=SECOND)
    assert (placed(engine, other), placed(engine, alone)) == ("3-4", "5")
    noisy = container_of("noisy", 1.5, annotations=RESERVED)
    assert placed(engine, noisy) == "1-2"
    return engine, other, alone, noisy


def test_who_is_never_kept_away_comes_no_nearer_all_the_same() -> None:
    """It grows by no cpus beside who must be apart from it."""
    engine, other, alone, noisy = beside_reserved_too_few()
    engine.remove(other.id)
    engine.check()
    assert cpus(engine, noisy) == "1-2"
    engine.remove(alone.id)
    assert cpus(engine, noisy) == "1-5"


def test_who_is_never_kept_away_comes_no_nearer_by_a_resize() -> None:
    engine, other, _, noisy = beside_reserved_too_few()
    engine.update(noisy.id, replace(noisy.resources, cpu_request_milli=1400))
    engine.remove(other.id)
    engine.check()
    assert cpus(engine, noisy) == "1-2"


def test_who_is_never_kept_away_comes_no_nearer_once_it_is_adopted() -> None:
    engine = engine_of("core:7 mem:4G")
    alone = container_of("alone", 0.5, apart(term("core", "noisy")), fails=True)
    here, other = container_of("here", 0.5, app="noisy"), container_of("other", 1)
    listed = ((alone, "4-5"), (here, "1-2"), (other, "6"))
    engine.synchronize([replace(one, cpus=CpuSet.parse(where)) for one, where in listed])
    noisy = container_of("noisy", 0.5, annotations=RESERVED)
    engine.adopt(replace(noisy, cpus=CpuSet.parse("3")))
    engine.remove(other.id)
    engine.check()
    assert (cpus(engine, noisy), cpus(engine, alone)) == ("1-3,6", "4-5")


@pytest.mark.parametrize("reserved", [0, 3])
def test_who_is_lent_cpus_beside_its_own_next_to_another_is_told(reserved: int) -> None:
    """Of its pool nothing is left to share: it keeps its own cpu, and shares those of another.

    Unless a reserved cpu is where the rule holds.
    """
    machine = machine_from_spec(TWO_NODES)
    engine = engine_of(without(machine, CpuSet.parse("5")), f"cpuset:{reserved}")
    alone = container_of("alone", 0.5, apart(term("socket", "noisy")), fails=True)
    noisy = container_of("noisy", 1.5, annotations=FIRST)
    limited = replace(noisy.resources, cpu_limit_milli=1500, memory_limit_bytes=2**20)
    noisy = replace(noisy, pod=replace(noisy.pod, qos=QosClass.GUARANTEED), resources=limited)
    places = {0: ("1-2", "3-4"), 3: ("0-2", "4")}
    assert (placed(engine, noisy), placed(engine, alone)) == places[reserved]
    own = str(engine.grants[noisy.id].exclusive)
    gone = CpuSet.parse("1-2" if reserved == 0 else "0-2") - CpuSet.parse(own)
    engine, _ = engine.reconfigured(engine.config, without(machine, gone))
    engine.check()
    assert cpus(engine, noisy) == ("0-1" if reserved == 0 else f"{own},4-5")
    assert is_told(engine, alone) == (reserved == 3)
    assert is_told(engine, noisy)


def test_who_is_left_its_own_cpu_alone_is_told_whom_it_shares_others_with_then() -> None:
    """The last cpu that two share in their socket is reserved, and the former reserved one not."""
    engine = engine_of(TWO_NODES)
    noisy = container_of("noisy", 0.3, annotations=FIRST)
    second = [{"key": "socket", "operator": "In", "values": ["1"]}]
    wish = {"weight": 100, "preference": {"matchExpressions": second}}
    rules = {**apart(term("socket", "noisy")), "poolAffinity": {PREFERRED: [wish]}}
    mixed = [container_of(name, 1.5, rules, is_guaranteed=True) for name in ("one", "two")]
    assert placed(engine, noisy) == "1-2"
    assert [placed(engine, one) for one in mixed] == ["3-5", "4-5"]
    config = config_from_values({"reservedResources": {"cpu": "cpuset:5"}})
    engine, _ = engine.reconfigured(config)
    engine.check()
    assert [cpus(engine, one) for one in mixed] == ["0-3", "0-2,4"]
    assert all(is_told(engine, one) for one in mixed)


def test_who_is_lent_cpus_next_to_another_by_a_reload_is_told() -> None:
    """One may not use its cpus any more, and the other shares a pool that is left none."""
    engine = engine_of(TWO_NODES)
    own = container_of("own", 2, annotations=SECOND)
    alone = container_of("alone", 0, apart(term("socket", "noisy")), fails=True)
    noisy = container_of("noisy", 0.5, annotations=FIRST)
    assert placed(engine, own) == "3-4"
    assert (placed(engine, noisy), placed(engine, alone)) == ("1-2", "5")
    fields = {"available": "exclude-cpuset:1-2", "reserved": "cpuset:5"}
    config = config_from_values({f"{key}Resources": {"cpu": one} for key, one in fields.items()})
    engine, _ = engine.reconfigured(config)
    engine.check()
    assert (cpus(engine, alone), cpus(engine, noisy)) == ("0", "0")
    assert is_told(engine, alone)


def test_what_held_only_while_a_container_was_narrowed_is_told_again() -> None:
    """It ran already beside whom it must not be, and another's own cpus parted them for a time."""
    engine = engine_of(TWO_NODES)
    noisy, own = (
        container_of(name, n, annotations=SECOND) for name, n in (("noisy", 1), ("own", 2))
    )
    alone = container_of("alone", 0, apart(term("socket", "noisy")), fails=True)
    placed(engine, noisy)
    engine.adopt(replace(alone, cpus=CpuSet.parse("1-2,4-5")))
    (told,) = engine.decisions[alone.id].unmet
    placed(engine, own)
    assert (cpus(engine, alone), is_told(engine, alone, noisy)) == ("1-2", False)
    engine.remove(own.id)
    assert cpus(engine, alone) == "1-2,4-5"
    assert engine.decisions[alone.id].unmet == (told,)
    engine.remove(noisy.id)
    assert not is_told(engine, alone)


def test_who_was_left_no_cpu_does_not_grow_to_where_another_may_grow_as_well() -> None:
    """Both may have cpus that are somebody's own by then; once those come back, one has them."""
    engine = engine_of("socket:1 core:6 mem:4G")
    first = container_of("first", 2)
    alone = container_of("alone", 0.5, apart(term("core", "noisy")), fails=True)
    noisy = container_of("noisy", 0)
    assert [placed(engine, one) for one in (first, alone, noisy)] == ["1-2", "3-5", "3"]
    placed(engine, container_of("second", 1))
    assert placed(engine, container_of("third", 1)) == "3"
    assert (cpus(engine, alone), cpus(engine, noisy)) == ("4", "0")
    engine.remove(first.id)
    engine.check()
    assert not CpuSet.parse(cpus(engine, alone)) & CpuSet.parse(cpus(engine, noisy))
    engine.remove(noisy.id)
    assert cpus(engine, alone) == "1-2,4"


def test_a_pen_that_was_left_the_reserved_cpus_is_known_after_a_restart() -> None:
    """Nobody in it asks for anything, and all other cpus are a container's own."""
    engine = engine_of("socket:1 core:3 mem:4G")
    wish = {"pod-pool.pinfold.dev/container.first": "true"}
    first, second = (
        container_of(name, 0, pod="pod", main=name, annotations=wish, shares=True)
        for name in ("first", "second")
    )
    for one in (first, second, container_of("own", 2)):
        placed(engine, one)
    engine.remove(first.id)
    assert (cpus(engine, second), engine.grants[second.id].pen) == ("0", "pod pod")
    listed = [
        replace(one, cpus=pinning.cpus, mems=pinning.mems)
        for one in engine.containers.values()
        if (pinning := engine.pinning(one.id))
    ]
    again = engine_of("socket:1 core:3 mem:4G")
    assert again.synchronize(listed, engine.snapshot().advice()).changes == ()
    again.check()
    assert again.grants[second.id].pen == "pod pod"


def test_who_shares_and_was_left_the_reserved_cpus_keeps_its_memory_at_a_restart() -> None:
    """It ran already when all other cpus were somebody's own; what it has is known for that."""
    spec = "socket:2 core:2 mem:4G"
    engine = engine_of(spec)
    for name, count in (("first", 2), ("second", 1)):
        placed(engine, container_of(name, count))
    late = container_of("late", 1)
    engine.adopt(replace(late, mems=NodeSet.of(1)))
    assert cpus(engine, late) == "0"
    listed = [
        replace(one, cpus=pinning.cpus, mems=pinning.mems)
        for one in engine.containers.values()
        if (pinning := engine.pinning(one.id))
    ]
    listed[-1] = replace(listed[-1], mems=NodeSet.of(1))
    again = engine_of(spec)
    assert again.synchronize(listed, engine.snapshot().advice()).changes == ()
    again.check()


def test_who_may_use_idle_cpus_is_where_it_runs_after_a_restart() -> None:
    """It has the reserved cpus, which are none of its pool's, beside whom it must not be."""
    spec = "socket:1 core:3 mem:4G"
    engine = engine_of(spec)
    noisy = container_of("noisy", 0, annotations={"idle-cpus.pinfold.dev/pod": "numa"})
    alone = container_of("alone", 0, apart(term("core", "noisy")), fails=True)
    placed(engine, container_of("own", 2))
    engine.adopt(alone)
    engine.adopt(noisy)
    assert (cpus(engine, noisy), cpus(engine, alone)) == ("0", "0")
    assert is_told(engine, alone)
    again = engine_of(spec)
    assert again.synchronize(as_listed(engine), engine.snapshot().advice()).changes == ()
    assert is_told(again, alone)


@pytest.mark.parametrize("told", [{}, {"idle-cpus.pinfold.dev/pod": "socket"}])
def test_who_was_driven_from_its_pool_beside_whom_it_must_not_be_stays_at_a_restart(
    told: dict[str, str],
) -> None:
    """The rule came later, and gives way: there is a place where it would hold, and was then."""
    spec = "socket:1 numa:3 core:2 mem:6G"
    engine = engine_of(spec)
    guest = replace(container_of("guest", 0, annotations=told), cpus=CpuSet.parse("4-5"))
    picky = container_of("picky", 0, apart(term("numa", "guest")))
    engine.synchronize([guest])
    engine.adopt(replace(container_of("taker", 2), cpus=CpuSet.parse("4-5")))
    assert (placed(engine, picky), cpus(engine, guest)) == ("2-3", "1-3")
    assert is_told(engine, picky)
    again = engine_of(spec)
    assert again.synchronize(as_listed(engine), engine.snapshot().advice()).changes == ()
    assert again.grants[guest.id] == engine.grants[guest.id]
    assert is_told(again, picky)
    again.check()


def test_a_group_that_a_claim_left_the_reserved_cpus_is_known_after_a_restart() -> None:
    """Who creates pods gave the last other cpu away, and the group had asked for some of it."""
    spec = "socket:1 core:2 mem:4G"
    engine = engine_of(spec)
    group = {"group.pinfold.dev/pod": "red"}
    member = container_of("member", 0.5, annotations=group, shares=True)
    claimer = replace(container_of("claimer", 0.5), claimed=CpuSet.parse("1"))
    assert placed(engine, member) == "1"
    engine.stop(member.id)
    assert placed(engine, claimer) == "None"
    assert placed(engine, replace(member, id=ContainerId("again"))) == "0"
    member = engine.containers[ContainerId("again")]
    again = engine_of(spec)
    assert again.synchronize(as_listed(engine), engine.snapshot().advice()).changes == ()
    again.check()
    assert again.grants[member.id].pen == engine.grants[member.id].pen == "group default/red"


def test_who_is_on_reserved_cpus_restarts_there_though_its_friend_is_gone() -> None:
    """Rules of one that runs are not read again when it comes back, but for those that part."""
    engine = engine_of(TWO_NODES)
    friend = container_of("friend", 0.1, namespace="kube-system")
    rules = near(term("socket", "friend"))
    lasting = container_of("lasting", 0.1, rules, fails=True, namespace="kube-system")
    placed(engine, friend)
    placed(engine, lasting)
    engine.remove(friend.id)
    engine.stop(lasting.id)
    again = container_of("lasting", 0.1, rules, fails=True, namespace="kube-system", instance="2")
    assert placed(engine, again) == "0"
    newcomer = container_of("newcomer", 0.1, rules, fails=True, namespace="kube-system")
    assert isinstance(engine.create(newcomer).result, Refusal)


def test_who_is_lent_what_comes_free_is_told_whom_it_comes_beside() -> None:
    """Its own socket is full: its share has no cpu until the guest's socket has one."""
    engine = engine_of("socket:2 core:4 mem:8G")
    owner = container_of("owner", 1, apart(term("numa", "guest")), fails=True)
    request = replace(owner.resources, cpu_request_milli=1500, cpu_limit_milli=1500)
    told = {**owner.pod.annotations, "prefer-shared-cpus.resource-policy.nri.io/pod": "false"}
    owner = replace(owner, pod=replace(owner.pod, annotations=told), resources=request)
    guest = container_of("guest", 0)
    others = [(container_of(f"runs-{cpu}", 1), str(cpu)) for cpu in (1, 2, 3, 5, 6, 7)]
    running = [(owner, "4"), (guest, "0"), *others]
    engine.synchronize([replace(one, cpus=CpuSet.parse(text)) for one, text in running], {})
    assert (cpus(engine, owner), cpus(engine, guest)) == ("4", "0")
    assert not engine.decisions[owner.id].unmet
    engine.stop(others[0][0].id)
    assert (cpus(engine, owner), cpus(engine, guest)) == ("1,4", "1")
    (unmet,) = engine.decisions[owner.id].unmet
    assert guest.path in unmet
    engine.check()


@pytest.mark.parametrize("is_reserved_free", [True, False])
def test_who_grows_as_somebody_arrives_is_told_whom_it_comes_beside(
    is_reserved_free: bool,
) -> None:
    """The cpu that its share was on has gone offline: it gets others with the next event.

    The reserved one, where the rule holds there.
    """
    engine = engine_of("socket:1 core:8 mem:8G")
    rules = apart(term("core", "shop"))
    wide = container_of("wide", 0.1, rules, app="shop", fails=True)
    mixed = container_of("mixed", 2, rules, app="shop", fails=True)
    told = {**mixed.pod.annotations, "prefer-shared-cpus.resource-policy.nri.io/pod": "false"}
    request = replace(mixed.resources, cpu_request_milli=1500, cpu_limit_milli=1500)
    mixed = replace(mixed, pod=replace(mixed.pod, annotations=told), resources=request)
    if not is_reserved_free:
        reserved = {"prefer-reserved-cpus.resource-policy.nri.io/pod": "true"}
        assert placed(engine, container_of("system", 0.1, app="shop", annotations=reserved)) == "0"
    assert placed(engine, wide) == "1-7"
    # Its own cpu, and one for the rest, which the other one left.
    assert placed(engine, mixed) == "1-2"
    engine, _ = engine.reconfigured(engine.config, without(engine.machine, CpuSet.of(2)))
    assert (cpus(engine, wide), cpus(engine, mixed)) == ("3-7", "1")
    assert not is_told(engine, wide, mixed)
    assert placed(engine, container_of("newcomer", 2)) == "4-5"
    assert cpus(engine, mixed) == ("0-1" if is_reserved_free else "1,3,6-7")
    assert is_told(engine, wide, mixed) != is_reserved_free


def test_who_was_driven_out_has_a_place_as_soon_as_somebody_leaves_where_its_rule_holds() -> None:
    engine = engine_of("socket:2 numa:2 core:2 mem:4G")
    at = [{"pool-name.pinfold.dev/pod": f"NUMA node #{number}"} for number in range(4)]
    alone = container_of("alone", 0, apart(term("numa", "noisy")), fails=True, annotations=at[1])
    assert placed(engine, alone) == "2-3"
    noisy = [
        container_of(f"noisy{number}", 1, app="noisy", annotations=at[number])
        for number in (0, 2, 3)
    ]
    assert [placed(engine, one) for one in noisy] == ["1", "4", "6"]
    # It began while the daemon was away.
    wide = container_of("wide", 2, annotations=at[1])
    began = replace(wide, state=ContainerState.RUNNING, cpus=CpuSet.parse("2-3"))
    listed, advice = (*as_listed(engine), began), engine.snapshot().advice()
    engine = engine_of("socket:2 numa:2 core:2 mem:4G")
    engine.synchronize(listed, advice)
    kept_apart, told = engine.decisions[alone.id].unmet
    assert kept_apart.startswith("anti-affinity")
    engine.remove(noisy[2].id)
    engine.check()
    assert cpus(engine, alone) == "6-7"
    (told,) = engine.decisions[alone.id].unmet
    assert told.startswith("pool-name")
    engine.remove(noisy[1].id)
    assert cpus(engine, alone) == "4-7"
    engine.remove(wide.id)
    assert cpus(engine, alone) == "2-3"
    assert not is_told(engine, alone)
