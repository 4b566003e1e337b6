"""Synchronize: what a running container keeps, what is placed anew, and who is told."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.decision import Adopted
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.instances import adoption_order, newest_of_each_name
from pinfold.policy.model.request import CpuType
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, placed, term

DOMAIN = "resource-policy.nri.io"
NODES = "socket:2 numa:2 core:2 thread:2 mem:2G"
GUARANTEED, BURSTABLE, BEST_EFFORT = (
    QosClass.GUARANTEED,
    QosClass.BURSTABLE,
    QosClass.BEST_EFFORT,
)


def engine(spec: str = NODES, reserved: str = "cpuset:0") -> Engine:
    return Engine(machine_from_spec(spec), Config(reserved_resources=Amounts(cpu=reserved)))


def running(
    name: str,
    milli: int = 0,
    cpus: str | None = None,
    mems: str = "0-3",
    *,
    annotations: Mapping[str, str] | None = None,
    namespace: str = "default",
    created_at: int = 0,
    qos: QosClass | None = None,
) -> Container:
    pod = Pod(
        id=PodId(f"pod-{name}"),
        name=f"pod-{name}",
        namespace=namespace,
        annotations={f"{key}.{DOMAIN}/pod": text for key, text in (annotations or {}).items()},
        qos=qos or (GUARANTEED if milli else BEST_EFFORT),
    )
    return Container(
        id=ContainerId(name),
        name=name,
        pod=pod,
        resources=Resources(cpu_request_milli=milli, cpu_limit_milli=milli or None),
        state=ContainerState.RUNNING,
        created_at=created_at,
        cpus=None if cpus is None else CpuSet.parse(cpus),
        mems=NodeSet.parse(mems) if mems else None,
    )


def told(one: Engine) -> dict[str, str]:
    found = {name: one.pinning(name) for name in one.grants}
    return {name: str(pinning.cpus) for name, pinning in found.items() if pinning is not None}


def exclusive(one: Engine) -> dict[str, str]:
    return {name: str(grant.exclusive) for name, grant in one.grants.items() if grant.exclusive}


def changed(answer: Adopted) -> dict[str, tuple[str, str]]:
    return {one.container_id: (str(one.after.cpus), str(one.after.mems)) for one in answer.changes}


KEPT = [
    pytest.param([running("a", 2000, "9-10")], {"a": "9-10"}, id="cpus of its own"),
    pytest.param([running("a", 2000, "3,12")], {"a": "3,12"}, id="cpus no pool would give today"),
    pytest.param([running("a", 500, "5-6")], {}, id="a share of a part of a pool"),
    pytest.param([running("a", 500, "5,14")], {}, id="a share across sockets"),
    pytest.param([running("a", cpus="4-7")], {}, id="no request on a pool"),
    pytest.param([running("a", cpus="0")], {}, id="no request on the reserved cpus"),
    pytest.param(
        [running("a", 100, "0", namespace="kube-system")], {}, id="a system container on its cpu"
    ),
    pytest.param(
        [running("a", 100, "4-7", namespace="kube-system")],
        {},
        id="a system container that overflowed to shared cpus",
    ),
    pytest.param(
        [running("a", 500, "0-15", annotations={"cpu.preserve": "true"})],
        {},
        id="a container whose cpus are not ours",
    ),
    pytest.param(
        [running("a", 2000, "4-7"), running("b", 500, "4-7")],
        {},
        id="more cpus than it asks for, and others on them: its exclusive cpus were refused",
    ),
    pytest.param(
        [
            running("b", 500, "5-7"),
            running("a", 1500, "4-7", annotations={"prefer-shared-cpus": "false"}),
        ],
        {"a": "4"},
        id="of a mixed cpuset those that nobody else has are its own",
    ),
    pytest.param(
        [running("a", 2000, "4", annotations={"hide-hyperthreads": "true"})],
        {"a": "4-5"},
        id="a hidden thread goes with the one that is seen",
    ),
    pytest.param(
        [
            running("a", 3000, "5-6", annotations={"hide-hyperthreads": "true"}),
            running("b", 500, "4"),
        ],
        {"a": "5-7"},
        id="a hidden thread that nobody else runs on",
    ),
    pytest.param(
        [running("a", 4000, "4-5")], {"a": "4-5"}, id="fewer of its own than it asks for by now"
    ),
    pytest.param(
        [running("a", 2000, "4-7")], {"a": "4-7"}, id="more of its own than it asks for by now"
    ),
    pytest.param(
        [running("a", 4500, "4-5", annotations={"prefer-shared-cpus": "false"})],
        {"a": "4-5"},
        id="fewer of its own than it asks for beside shared ones by now",
    ),
    pytest.param(
        [
            running("a", 1500, "4-7", annotations={"prefer-shared-cpus": "false"}),
            running("b", 500, "5-7"),
            running("c", 500, "0-15", annotations={"cpu.preserve": "true"}),
        ],
        {"a": "4"},
        id="who runs on everything by wish makes nothing shared",
    ),
]


@pytest.mark.parametrize(("listed", "own"), KEPT)
def test_a_running_container_keeps(listed: Sequence[Container], own: Mapping[str, str]) -> None:
    one = engine()
    answer = one.synchronize(listed)
    assert answer.changes == ()
    assert exclusive(one) == own
    assert [decision.decided_by for decision in answer.decisions] == ["kept"] * len(listed)
    one.check()


ADVISED = [
    pytest.param(1500, "5-7", "7", "7", id="which cpus of a mixed set are its own"),
    pytest.param(1500, "5-7", "4", "5", id="not cpus it does not run on"),
    pytest.param(1000, "5-7", "5", "", id="not one of many where it asks for no share"),
    pytest.param(2000, "5-7", "", "", id="that its request was served by shared cpus"),
    pytest.param(1000, "5-7", "5-7", "5-7", id="that it had more than it asks for by now"),
    pytest.param(2000, "5", "5", "5", id="that it had fewer than it asks for by now"),
    pytest.param(500, "5", "5", "", id="not a cpu of its own where it asks for less than one"),
]


@pytest.mark.parametrize(
    ("fields", "namespace"),
    [
        pytest.param({"prefer_shared_cpus": True}, "default", id="prefers shared cpus"),
        pytest.param({"reserved_pool_namespaces": ("tools",)}, "tools", id="reserves for tools"),
    ],
)
def test_a_configuration_takes_nobody_cpus_of_its_own(
    fields: Mapping[str, Any], namespace: str
) -> None:
    reserved = Amounts(cpu="cpuset:0")
    one = engine()
    one.create(running("a", 2500, annotations={"prefer-shared-cpus": "false"}))
    one.create(running("b", 2000, namespace=namespace))
    before = (told(one), exclusive(one))
    other, answer = one.reconfigured(Config(reserved_resources=reserved, **fields))
    assert answer.changes == ()
    assert (told(other), exclusive(other)) == before
    assert str(other.grants[ContainerId("b")].shared_milli) == "0"
    other.create(running("c", 500))
    assert exclusive(other) == before[1]
    other.check()


@pytest.mark.parametrize(("milli", "cpus", "remembered", "own"), ADVISED)
def test_advice_tells_which_cpus_are_its_own(
    milli: int, cpus: str, remembered: str, own: str
) -> None:
    one = engine()
    annotations = {"prefer-shared-cpus": "false"}
    advice = Advice(pool="socket #0", exclusive=CpuSet.parse(remembered))
    answer = one.synchronize(
        [running("a", milli, cpus, annotations=annotations)], {ContainerId("a"): advice}
    )
    assert answer.changes == ()
    grant = one.grants[ContainerId("a")]
    assert str(grant.exclusive) == own
    assert one.tree.pools[grant.pool_id].name == "socket #0"


def test_a_pool_that_is_advised_and_has_not_the_cpus_is_not_believed() -> None:
    one = engine()
    advice = {ContainerId("a"): Advice(pool="NUMA node #3"), ContainerId("b"): Advice(pool="gone")}
    one.synchronize([running("a", cpus="4-7"), running("b", cpus="4-7")], advice)
    names = {one.tree.pools[grant.pool_id].name for grant in one.grants.values()}
    assert names == {"NUMA node #1"}


def test_a_hidden_thread_that_somebody_else_has_is_not_believed() -> None:
    one = engine()
    annotations = {"hide-hyperthreads": "true"}
    listed = [running("a", 1000, "5"), running("b", 2000, "4", annotations=annotations)]
    one.synchronize(listed, {ContainerId("b"): Advice(pool="", exclusive=CpuSet.parse("4-5"))})
    assert exclusive(one) == {"a": "5", "b": "4"}
    one.check()


def test_fewer_own_cpus_than_asked_for_are_kept_beside_shared_ones() -> None:
    """It grew where no more were free, and came back to what it had."""
    one = engine()
    advice = {ContainerId("a"): Advice(pool="socket #0", exclusive=CpuSet.parse("1"))}
    one.synchronize([running("a", 3000, "1,3")], advice)
    assert told(one) == {"a": "1,3"}
    assert exclusive(one) == {"a": "1"}


@pytest.mark.parametrize("created_at", [0, 2])
def test_who_was_left_the_reserved_cpus_beside_its_own_keeps_those(created_at: int) -> None:
    one = engine("core:4 mem:4G", reserved="cpuset:0-1")
    mixed = running("mixed", 1500, "0-2", "0", created_at=created_at)
    other = running("other", 1000, "3", "0", created_at=1)
    advice = {
        mixed.id: Advice(pool="socket #0", exclusive=CpuSet.parse("2")),
        other.id: Advice(pool="socket #0", exclusive=CpuSet.parse("3")),
    }
    assert one.synchronize([mixed, other], advice).changes == ()
    one.check()
    assert one.grants[mixed.id].exclusive == CpuSet.parse("2")
    assert one.grants[mixed.id].shared_milli == 500


def test_a_thread_of_its_own_that_a_shared_one_of_its_core_hides_is_its_own() -> None:
    one = engine()
    annotations = {"hide-hyperthreads": "true", "prefer-shared-cpus": "false"}
    listed = [running("a", 1500, "4,6", "1", annotations=annotations), running("b", 1000, "7")]
    advice = Advice(pool="NUMA node #1", exclusive=CpuSet.parse("5"))
    assert one.synchronize(listed, {ContainerId("a"): advice}).changes == ()
    assert exclusive(one) == {"a": "5", "b": "7"}
    one.check()


def test_what_a_grown_container_got_last_is_remembered() -> None:
    one = engine("socket:1 core:6", "cpuset:0")
    one.create(replace(running("a", 1000), cpus=None))
    for milli in (2000, 4000):
        one.update(ContainerId("a"), Resources(cpu_request_milli=milli, cpu_limit_milli=milli))
    before = one.grants[ContainerId("a")]
    again = engine("socket:1 core:6", "cpuset:0")
    again.synchronize([running("a", 4000, str(before.exclusive), "0")], one.snapshot().advice())
    for one_engine in (one, again):
        one_engine.update(ContainerId("a"), Resources(cpu_request_milli=1000, cpu_limit_milli=1000))
    assert again.grants[ContainerId("a")].exclusive == one.grants[ContainerId("a")].exclusive


PLACED = [
    pytest.param(running("a", 2000), id="no cpus are known"),
    pytest.param(running("a", 2000, ""), id="an empty set"),
    pytest.param(running("a", 2000, "0-1"), id="a reserved cpu"),
    pytest.param(running("a", 500, "0-15"), id="every cpu"),
    pytest.param(running("a", cpus="0-15"), id="every cpu, without a request"),
    pytest.param(running("a", cpus="40"), id="a cpu that is not there"),
]


@pytest.mark.parametrize("container", PLACED)
def test_a_running_container_is_placed_anew_from(container: Container) -> None:
    one = engine()
    answer = one.synchronize([container])
    (decision,) = answer.decisions
    assert decision.candidates
    assert decision.decided_by != "kept"
    assert changed(answer).keys() == {"a"}
    assert told(one)["a"] == changed(answer)["a"][0]
    assert not CpuSet.parse(told(one)["a"]) & one.supply.reserved


def test_isolated_cpus_are_not_shared_with_who_ran_there() -> None:
    one = engine("socket:1 core:4 isolated:2-3", "cpuset:0")
    one.synchronize([running("a", 500, "2-3", "0")])
    assert told(one) == {"a": "1"}


@pytest.mark.parametrize(("beside", "cpus"), [("1", "2-3"), ("1-2", "1")])
def test_who_is_alone_on_isolated_cpus_keeps_them_where_shared_ones_are_preferred(
    beside: str, cpus: str
) -> None:
    """It came before that was so, and nothing is remembered."""
    one = engine("socket:1 core:4 isolated:2-3", "cpuset:0")
    one, _ = one.reconfigured(replace(one.config, prefer_shared_cpus=True))
    one.synchronize([running("a", 2000, "2-3", "0"), running("b", cpus=beside, mems="0")])
    assert told(one)["a"] == cpus
    assert exclusive(one) == ({"a": "2-3"} if cpus == "2-3" else {})
    one.check()


@pytest.mark.parametrize("group", ["", "blue"], ids=["a container", "a group"])
def test_who_was_kept_on_reserved_cpus_for_a_rule_stays_there(group: str) -> None:
    """It came back when all others were somebody's own, and its rule lets it have no more."""
    one = engine("socket:2 core:4", "cpuset:0")
    advice = Advice(pool="socket #1", within=CpuSet.parse("0"), is_penned=bool(group))
    kept = running("a", 500, "0", "0")
    if group:
        annotations = {"group.pinfold.dev/pod": group}
        kept = replace(kept, pod=replace(kept.pod, annotations=annotations))
    assert one.synchronize([kept], {kept.id: advice}).changes == ()
    assert told(one) == {"a": "0"}
    one.check()


@pytest.mark.parametrize("has_rules", [True, False])
def test_who_shares_reserved_cpus_stays_there_where_a_rule_refuses_it_elsewhere(
    has_rules: bool,
) -> None:
    """Nobody remembers that rules of the others, which insist, are why."""
    one = engine_of("socket:1 core:4 thread:2 mem:4G")
    rules = apart(term("core", "kept")) if has_rules else None
    owners = [container_of(f"owner-{cpu}", 1, rules, fails=True) for cpu in (2, 4, 6)]
    plain, kept = container_of("plain", 1), container_of("kept", 0.2)
    listed = [
        replace(container, cpus=CpuSet.parse(cpus), mems=NodeSet.parse("0"))
        for container, cpus in zip((*owners, plain, kept), "24610", strict=True)
    ]
    changes = one.synchronize(listed).changes
    assert [str(change.after.cpus) for change in changes] == ([] if has_rules else ["3,5,7"])
    one.check()
    if has_rules:
        assert not one.decisions[kept.id].unmet
        again = engine_of("socket:1 core:4 thread:2 mem:4G")
        assert again.synchronize(listed, one.snapshot().advice()).changes == ()
        one.stop(owners[0].id)
        one.remove(owners[0].id)
        assert told(one)["kept-main"] == "2-3"


def test_a_restart_with_more_reserved_cpus_moves_who_shares_these() -> None:
    one = engine_of("socket:2 core:4 mem:4G")
    near_first = {"pool-name.pinfold.dev/pod": "socket #0"}
    kept = container_of("kept", 1, annotations=near_first, shares=True)
    assert placed(one, kept) == "1-3"
    again = engine_of("socket:2 core:4 mem:4G", "cpuset:0-3")
    listed = replace(kept, cpus=CpuSet.parse("1-3"), mems=NodeSet.parse("0"))
    (change,) = again.synchronize([listed], one.snapshot().advice()).changes
    assert str(change.after.cpus) == "4-7"


@pytest.mark.parametrize("is_first", [True, False])
def test_a_group_that_was_left_the_reserved_cpus_is_one_beside_pens_in_any_order(
    is_first: bool,
) -> None:
    one = engine("socket:1 core:4", "cpuset:0")
    group, owner = running("g", 500, "0", "0"), running("p", 3000, "1-3", "0")
    group, owner = (
        replace(here, pod=replace(here.pod, annotations=annotations))
        for here, annotations in (
            (group, {"group.pinfold.dev/pod": "blue"}),
            (owner, {"group.pinfold.dev/pod": "red"}),
        )
    )
    advice = {
        group.id: Advice(pool="socket #0", is_penned=True),
        owner.id: Advice(pool="socket #0", is_penned=True, rest=CpuSet.parse("1-3")),
    }
    listed = [group, owner] if is_first else [owner, group]
    assert one.synchronize(listed, advice).changes == ()
    assert all(grant.pen for grant in one.grants.values())
    one.check()


def test_an_offline_cpu_in_the_set_is_passed_over() -> None:
    one = engine("socket:1 core:4", "cpuset:0")
    one.synchronize([running("a", 2000, "1-2,9", "0"), running("b", cpus="3,17", mems="0")])
    assert exclusive(one) == {"a": "1-2"}
    assert told(one) == {"a": "1-2", "b": "3"}


def test_of_two_on_the_same_cpu_the_guaranteed_and_older_keeps_it() -> None:
    one = engine()
    listed = [
        running("late", 1000, "5", created_at=2),
        running("shared", 200, "5", qos=BURSTABLE),
        running("early", 1000, "5", created_at=1),
    ]
    answer = one.synchronize(listed)
    assert told(one)["early"] == "5"
    assert changed(answer).keys() == {"late", "shared"}
    assert not any("5" in cpus.split(",") for cpus, _ in changed(answer).values())


def test_a_mixed_container_leaves_the_cpus_that_another_has_for_itself() -> None:
    one = engine()
    mixed = running("mixed", 1500, "4-6", annotations={"prefer-shared-cpus": "false"})
    answer = one.synchronize([mixed, running("own", 1000, "6", created_at=1)])
    assert exclusive(one) == {"mixed": "4", "own": "6"}
    assert changed(answer).keys() == {"mixed"}
    assert not CpuSet.parse(told(one)["mixed"]) & CpuSet.of(6)


def test_containers_without_cpus_are_placed_guaranteed_first() -> None:
    one = engine("socket:1 core:4", "cpuset:0")
    listed = [
        running("effort", mems="0"),
        running("burst", 1500, mems="0", qos=BURSTABLE),
        running("own", 2000, mems="0"),
    ]
    answer = one.synchronize(listed)
    assert [decision.container_id for decision in answer.decisions] == ["own", "burst", "effort"]
    assert exclusive(one) == {"own": "1-2"}
    assert one.decisions[ContainerId("burst")].decided_by.startswith("it runs already: no pool")
    assert told(one) == {"own": "1-2", "burst": "3", "effort": "3"}


def test_what_fits_nowhere_but_runs_gets_a_share_of_all() -> None:
    one = engine("socket:2 core:2", "cpuset:0")
    one.synchronize([running("a", 8000, mems=""), running("b", 1000, "2", mems="1")])
    assert told(one) == {"a": "1,3", "b": "2"}
    assert str(one.grants[ContainerId("a")].memory) == "0-1"


def test_a_system_container_without_room_for_its_memory_stays_on_the_reserved_cpus() -> None:
    one = engine("socket:1 core:4 mem:1G", "cpuset:0")
    dns = running("dns", 100, namespace="kube-system", mems="")
    dns = replace(dns, resources=replace(dns.resources, memory_request_bytes=2**40))
    one.synchronize([dns])
    assert told(one) == {"dns": "0"}
    assert one.grants[ContainerId("dns")].cpu_type is CpuType.RESERVED


def test_memory_nobody_may_touch_is_not_touched_where_nothing_fits() -> None:
    one = engine("socket:1 core:4 mem:1G", "cpuset:0")
    fat = running("fat", 9000, mems="0", annotations={"memory.preserve": "true"})
    one.synchronize([fat])
    pinning = one.pinning(ContainerId("fat"))
    assert pinning is not None
    assert pinning.mems is None


def test_memory_nodes_are_kept_where_they_have_memory() -> None:
    one = engine()
    answer = one.synchronize([running("a", 1000, "4", "3"), running("b", 1000, "5", "9")])
    assert changed(answer) == {"b": ("5", "1")}
    assert str(one.grants[ContainerId("a")].memory) == "3"


def test_of_several_instances_of_a_name_the_newest_live_one_counts() -> None:
    def instance(container_id: str, created_at: int, state: ContainerState) -> Container:
        pod = Pod(id=PodId("p"), name="p", uid="u")
        return Container(
            id=ContainerId(container_id), name="c", pod=pod, state=state, created_at=created_at
        )

    live, gone = ContainerState.RUNNING, ContainerState.EXITED
    rows: list[tuple[list[tuple[str, int, ContainerState]], list[str]]] = [
        ([("a", 1, live), ("b", 2, live)], ["b"]),
        ([("b", 2, live), ("a", 1, live)], ["b"]),
        ([("a", 1, live), ("b", 2, gone)], ["a"]),
        ([("a", 0, live), ("b", 0, gone)], ["a"]),
        ([("a", 1, gone), ("b", 2, ContainerState.CREATED)], ["b"]),
        ([("a", 1, gone)], []),
    ]
    for given, kept in rows:
        assert [one.id for one in newest_of_each_name(instance(*row) for row in given)] == kept


def test_pods_of_one_name_in_two_namespaces_are_two() -> None:
    first, second = running("a"), running("b")
    other = replace(second, name="a", pod=replace(first.pod, namespace="other"))
    assert len(newest_of_each_name([first, other])) == 2


def test_containers_of_one_name_in_pods_that_nobody_knows_are_two() -> None:
    """The runtime lists them without their sandboxes: only the ids of those are known."""
    one = engine()
    lost = [
        replace(
            running(name, 2000, cpus, qos=BURSTABLE),
            name="app",
            pod=Pod(id=PodId(f"sandbox-{name}"), name="", qos=BURSTABLE),
        )
        for name, cpus in (("a", "4-5"), ("b", "6-7"))
    ]
    assert len(newest_of_each_name(lost)) == 2
    assert len(newest_of_each_name([replace(each, name="") for each in lost])) == 2
    one.synchronize(lost)
    assert told(one) == {"a": "4-5", "b": "6-7"}


def test_an_older_instance_in_a_pod_that_nobody_knows_is_replaced() -> None:
    pod = Pod(id=PodId("sandbox"), name="")
    old, new = (replace(running(name, 0, "4-5"), name="app", pod=pod) for name in ("a", "b"))
    one = engine()
    one.synchronize([old])
    one.create(new)
    assert set(one.grants) == {"b"}


def test_the_order_of_looking_does_not_hang_on_the_order_of_listing() -> None:
    listed = [
        running("c", 100, created_at=5, qos=BURSTABLE),
        running("b", 1000, created_at=9),
        running("a", 1000, created_at=9),
        running("d", created_at=1),
    ]
    assert [one.name for one in sorted(listed, key=adoption_order)] == ["a", "b", "c", "d"]


def test_who_is_not_listed_is_forgotten() -> None:
    one = engine()
    one.synchronize([running("a", 1000, "5")])
    one.synchronize([running("b", 1000, "5")])
    assert exclusive(one) == {"b": "5"}
    assert ContainerId("a") not in one.containers
    assert one.pinning(ContainerId("a")) is None


def test_a_second_synchronize_with_what_was_told_changes_nothing() -> None:
    one = engine()
    listed = [running("a", 2000), running("b", 500), running("c", cpus="1-15")]
    one.synchronize(listed)
    again = [
        replace(container, cpus=pinning.cpus, mems=pinning.mems)
        for container in listed
        if (pinning := one.pinning(container.id)) is not None
    ]
    assert one.synchronize(again).changes == ()
    assert len(again) == len(listed)


def test_another_configuration_moves_only_whom_it_must() -> None:
    one = engine("socket:1 core:6", "cpuset:0")
    for container in (running("a", 1000), running("b", 1000), running("c")):
        one.create(container)
    assert told(one) == {"a": "1", "b": "2", "c": "3-5"}
    config = Config(reserved_resources=Amounts(cpu="cpuset:1"))
    other, answer = one.reconfigured(config)
    assert told(one) == {"a": "1", "b": "2", "c": "3-5"}, "the old engine stays"
    assert exclusive(other)["b"] == "2"
    assert exclusive(other)["a"] == "0"
    assert changed(answer).keys() == {"a"}
    other.check()


def test_another_configuration_that_changes_nothing_tells_nobody() -> None:
    one = engine()
    for container in (running("a", 1000), running("b", 500), running("c")):
        one.create(container)
    other, answer = one.reconfigured(one.config)
    assert answer.changes == ()
    assert told(other) == told(one)
    assert other.grants == one.grants
