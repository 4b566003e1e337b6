"""Memory of running containers over time: cold starts, going back, pressure."""

import dataclasses

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.policy.text.errors import ConfigError
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

GIB = 2**30
COLD = {"cold-start.resource-policy.nri.io/pod": "duration: 10s"}


def machine(*, is_normal: bool = True, kind: MemoryKind = MemoryKind.PMEM) -> Machine:
    """Two sockets with 4 GiB of DRAM each, and as much slower memory near each."""
    plain = machine_from_spec("socket:2 core:4 mem:4G")
    slow = tuple(
        NumaNode(id=NumaNodeId(2 + socket), memory_bytes=4 * GIB, kind=kind, is_normal=is_normal)
        for socket in range(2)
    )
    return dataclasses.replace(
        plain,
        numa_nodes=(*plain.numa_nodes, *slow),
        distances=((10, 21, 17, 28), (21, 10, 28, 17), (17, 28, 10, 28), (28, 17, 28, 10)),
    )


def container(
    name: str,
    memory: int,
    annotations: dict[str, str],
    qos: QosClass = QosClass.GUARANTEED,
    limit: int | None = None,
) -> Container:
    pod = Pod(id=PodId(name), name=name, uid=name, qos=qos, annotations=annotations)
    milli = 0 if qos is QosClass.BEST_EFFORT else 1000
    return Container(
        id=ContainerId(name),
        name=name,
        pod=pod,
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli or None,
            memory_request_bytes=memory,
            memory_limit_bytes=limit or memory or None,
        ),
    )


def mems(decision: Decision) -> str:
    return str(decision.pinning.mems)


def test_a_cold_start_begins_without_dram_and_ends_with_it() -> None:
    engine = Engine(machine(), Config())
    decision = engine.create(container("cold", GIB, COLD))
    assert mems(decision) == "3"
    assert decision.cold_start_ns == 10 * 10**9
    (change,) = engine.end_cold_start(ContainerId("cold"))
    assert str(change.after.mems) == "1,3"
    engine.check()


def test_a_second_end_and_an_unknown_container_change_nothing() -> None:
    engine = Engine(machine(), Config())
    engine.create(container("cold", GIB, COLD))
    engine.end_cold_start(ContainerId("cold"))
    assert engine.end_cold_start(ContainerId("cold")) == ()
    assert engine.end_cold_start(ContainerId("nobody")) == ()


def crowded() -> tuple[Engine, Container]:
    """A container that starts cold, and one that runs with more memory than the machine has."""
    engine = Engine(machine(), Config())
    fat = container("fat", 20 * GIB, {"memory-type.resource-policy.nri.io/pod": "dram"})
    cold = container("cold", GIB, COLD)
    running = [
        structs.replace(one, cpus=CpuSet.parse(cpus), mems=NodeSet.of(node))
        for one, cpus, node in ((fat, "4", 1), (cold, "5", 3))
    ]
    engine.synchronize(running)
    assert engine.end_cold_start(ContainerId("cold")) == ()
    assert str(engine.grants[ContainerId("cold")].memory) == "3"
    return engine, fat


def test_a_cold_start_that_finds_no_room_ends_when_memory_is_given_back() -> None:
    engine, _ = crowded()
    (change,) = engine.stop(ContainerId("fat"))
    assert (change.container_id, str(change.after.mems)) == ("cold", "1,3")
    engine.check()


def test_a_cold_start_that_finds_no_room_ends_at_a_look_that_finds_some() -> None:
    engine, fat = crowded()
    assert engine.observe_memory({}) == ()
    thin = structs.replace(fat.resources, memory_request_bytes=GIB, memory_limit_bytes=GIB)
    newer = structs.replace(fat, id=ContainerId("thin"), resources=thin)
    assert engine.create(newer).changes == ()
    (change,) = engine.observe_memory({})
    assert (change.container_id, str(change.after.mems)) == ("cold", "1,3")
    assert engine.observe_memory({}) == ()


def test_a_cold_start_that_finds_no_room_is_remembered_through_a_reload() -> None:
    engine, _ = crowded()
    again, _ = engine.reconfigured(Config(colocate_pods=True))
    (change,) = again.stop(ContainerId("fat"))
    assert (change.container_id, str(change.after.mems)) == ("cold", "1,3")


def test_who_is_gone_is_owed_nothing() -> None:
    engine, _ = crowded()
    assert engine.stop(ContainerId("cold")) == ()
    assert engine.stop(ContainerId("fat")) == ()


def test_without_slower_memory_a_container_starts_warm() -> None:
    engine = Engine(machine_from_spec("socket:2 core:4 mem:4G"), Config())
    decision = engine.create(container("cold", GIB, COLD))
    assert decision.cold_start_ns == 0
    assert mems(decision) in ("0", "1")


TYPES = "memory-type.resource-policy.nri.io/pod"

COLD_KINDS = [
    pytest.param(MemoryKind.PMEM, "pmem", "3", "1,3", id="PMEM alone gets DRAM at the end"),
    pytest.param(MemoryKind.HBM, "hbm", "3", "1,3", id="HBM alone gets DRAM at the end"),
    pytest.param(MemoryKind.HBM, "dram,hbm", "3", "1,3", id="HBM comes before DRAM"),
    pytest.param(MemoryKind.CXL, "pmem", "3", "1,3", id="CXL in place of PMEM gets DRAM"),
]


@pytest.mark.parametrize(("kind", "types", "first", "last"), COLD_KINDS)
def test_a_cold_start_is_without_dram_and_its_end_brings_dram_whatever_is_asked_for(
    kind: MemoryKind, types: str, first: str, last: str
) -> None:
    engine = Engine(machine(kind=kind), Config())
    decision = engine.create(container("cold", GIB, {**COLD, TYPES: types}))
    assert (mems(decision), decision.cold_start_ns) == (first, 10 * 10**9)
    (change,) = engine.end_cold_start(ContainerId("cold"))
    assert str(change.after.mems) == last
    engine.check()


@pytest.mark.parametrize(
    ("types", "cold", "note"),
    [
        pytest.param("hbm", {}, f"{TYPES}: it has dram memory, as too little hbm is left", id="it"),
        pytest.param("dram,hbm", {}, "", id="it wants both"),
        pytest.param("hbm", COLD, "", id="it had some as it began cold"),
        pytest.param("pmem", {}, "", id="there is none of its kind"),
    ],
)
def test_memory_of_kinds_that_a_container_does_not_want_is_noted(
    types: str, cold: dict[str, str], note: str
) -> None:
    engine = Engine(machine(kind=MemoryKind.HBM), Config())
    for name, size in (("near", 3), ("far", 3), ("wide", 2)):
        engine.create(container(name, size * GIB, {**cold, TYPES: types}))
        assert engine.note(ContainerId(name)) == ()
    engine.create(container("late", 2 * GIB, {**cold, TYPES: types}))
    assert engine.note(ContainerId("late")) == ((note,) if note else ())


@pytest.mark.parametrize("types", ["pmem", "dram,pmem"])
@pytest.mark.parametrize("wish", ["pod-pool.pinfold.dev/pod", "group.pinfold.dev/pod"])
def test_a_pen_has_dram_from_its_beginning_for_its_memory_is_that_of_all(
    wish: str, types: str
) -> None:
    engine = Engine(machine(), Config())
    annotations = {**COLD, TYPES: types, wish: "true" if "pool" in wish else "herd"}
    decision = engine.create(container("cold", GIB, annotations))
    assert (mems(decision), decision.cold_start_ns) == ("1,3", 0)
    (problem,) = decision.problems
    whose = "pod" if "pool" in wish else "group"
    assert problem.where == "cold-start.resource-policy.nri.io/pod of default/cold/cold"
    assert problem.what == (
        f"no cold start: its memory nodes are those of its {whose}, and have DRAM"
    )
    assert problem.is_advice
    assert engine.end_cold_start(ContainerId("cold")) == ()
    engine.check()


def test_the_end_of_a_cold_start_is_that_of_the_pen_that_was_made_around_it_meanwhile() -> None:
    """The runtime does not tell that a pod has a size; that shows with its second container."""
    engine = Engine(machine(), Config())
    first = container("first", GIB, COLD)
    pod = structs.replace(first.pod, resources=first.resources)
    first = structs.replace(first, pod=pod)
    assert mems(engine.create(first)) == "3"
    second = structs.replace(first, id=ContainerId("second"), name="second")
    assert mems(engine.create(second)) == "3"
    changes = engine.end_cold_start(ContainerId("first"))
    assert {(one.container_id, str(one.after.mems)) for one in changes} == {
        ("first", "1,3"),
        ("second", "1,3"),
    }
    engine.check()


@pytest.mark.parametrize(
    ("scope", "last"),
    [
        pytest.param("pod", None, id="the others begin cold, too, and have a time of their own"),
        pytest.param("container.first", "1,3", id="the others have none"),
    ],
)
def test_who_goes_early_leaves_nobody_cold_for_ever(scope: str, last: str | None) -> None:
    engine = Engine(machine(), Config())
    first = container("first", GIB, {f"cold-start.resource-policy.nri.io/{scope}": "duration: 10s"})
    first = structs.replace(first, pod=structs.replace(first.pod, resources=first.resources))
    engine.create(first)
    decision = engine.create(structs.replace(first, id=ContainerId("second"), name="second"))
    assert (mems(decision), decision.problems) == ("3", ())
    assert bool(decision.cold_start_ns) == (last is None)
    changes = engine.stop(ContainerId("first"))
    told = {one.container_id: str(one.after.mems) for one in changes}
    assert told.get(ContainerId("second")) == last
    if last is None:
        (change,) = engine.end_cold_start(ContainerId("second"))
        assert str(change.after.mems) == "1,3"
    engine.check()


def test_a_restart_meanwhile_begins_the_cold_start_of_such_a_pen_anew() -> None:
    before = Engine(machine(), Config())
    first = container("first", GIB, COLD)
    first = structs.replace(first, pod=structs.replace(first.pod, resources=first.resources))
    second = structs.replace(first, id=ContainerId("second"), name="second")
    told = {one.id: before.create(one).pinning for one in (first, second)}
    running = [
        structs.replace(one, cpus=told[one.id].cpus, mems=told[one.id].mems)
        for one in (first, second)
    ]
    engine = Engine(machine(), Config())
    adopted = engine.synchronize(running)
    assert [one.cold_start_ns for one in adopted.decisions] == [10 * 10**9] * 2
    changes = engine.end_cold_start(ContainerId("first"))
    warm = {one.container_id: one.after.mems for one in changes}
    assert warm == {"first": NodeSet.of(1, 3), "second": NodeSet.of(1, 3)}
    assert engine.end_cold_start(ContainerId("second")) == ()
    engine.check()
    again = Engine(machine(), Config())
    adopted = again.synchronize([structs.replace(one, mems=warm[one.id]) for one in running])
    assert [one.cold_start_ns for one in adopted.decisions] == [0, 0]


@pytest.mark.parametrize("types", ["hbm", "pmem,hbm"])
def test_without_the_kinds_asked_for_a_cold_start_is_none(types: str) -> None:
    engine = Engine(machine_from_spec("socket:2 core:4 mem:4G"), Config())
    decision = engine.create(container("cold", GIB, {**COLD, TYPES: types}))
    assert (mems(decision), decision.cold_start_ns) == ("1", 0)


@pytest.mark.parametrize("kind", [MemoryKind.PMEM, MemoryKind.CXL])
@pytest.mark.parametrize("more", [{}, COLD])
def test_who_asks_for_movable_memory_alone_gets_the_dram_of_its_pool_with_it(
    kind: MemoryKind, more: dict[str, str]
) -> None:
    """Memory of one NUMA node of two, which are equally near to the movable one."""
    plain = machine_from_spec("socket:1 numa:2 core:4 mem:4G")
    slow = NumaNode(id=NumaNodeId(2), memory_bytes=4 * GIB, kind=kind, is_normal=False)
    found = dataclasses.replace(
        plain,
        numa_nodes=(*plain.numa_nodes, slow),
        distances=((10, 11, 17), (11, 10, 17), (17, 17, 10)),
    )
    engine = Engine(found, Config())
    decision = engine.create(container("slow", GIB, {TYPES: "pmem", **more}))
    assert (decision.pool, mems(decision)) == ("NUMA node #1", "1-2")
    assert decision.cold_start_ns == 0
    engine.check()


def test_movable_memory_alone_cannot_start_anybody() -> None:
    engine = Engine(machine(is_normal=False), Config())
    decision = engine.create(container("cold", GIB, COLD))
    assert decision.cold_start_ns == 0
    assert "1" in mems(decision)


def test_cxl_memory_serves_who_asks_for_pmem() -> None:
    engine = Engine(machine(kind=MemoryKind.CXL), Config())
    wanted = COLD | {"memory-type.resource-policy.nri.io/pod": "dram,pmem"}
    assert mems(engine.create(container("cold", GIB, wanted))) == "3"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, "1,3", id="who asks for nothing has no CXL memory beside PMEM"),
        pytest.param(COLD, "3", id="nor has a cold start"),
        pytest.param({"memory-type.resource-policy.nri.io/pod": "cxl"}, "2", id="who asks has"),
        pytest.param({"memory-type.resource-policy.nri.io/pod": "dram,cxl"}, "0,2", id="or both"),
    ],
)
def test_a_machine_with_cxl_memory_and_pmem(annotations: dict[str, str], expected: str) -> None:
    both = machine()
    cxl = dataclasses.replace(both.numa_nodes[2], kind=MemoryKind.CXL)
    nodes = (*both.numa_nodes[:2], cxl, both.numa_nodes[3])
    engine = Engine(dataclasses.replace(both, numa_nodes=nodes), Config())
    decision = engine.create(container("c", GIB, annotations))
    assert mems(decision) == expected


def test_who_had_to_widen_goes_back_when_there_is_room() -> None:
    engine = Engine(machine_from_spec("socket:2 core:4 mem:4G"), Config())
    dram = {"memory-type.resource-policy.nri.io/pod": "dram"}
    small = engine.create(container("small", 3 * GIB, dram, QosClass.BURSTABLE))
    home = small.pinning.mems
    assert home is not None
    assert len(home) == 1
    others = [engine.create(container(f"big{i}", 2 * GIB, dram)) for i in range(2)]
    widened = [change for one in others for change in one.changes]
    assert [change.container_id for change in widened] == ["small"]
    assert engine.pinning(ContainerId("small")) == widened[-1].after
    back = [change for i in range(2) for change in engine.stop(ContainerId(f"big{i}"))]
    assert back[-1].container_id == "small"
    assert back[-1].after.mems == home
    engine.check()


def test_a_node_that_runs_full_gives_its_containers_more_nodes() -> None:
    engine = Engine(machine_from_spec("socket:2 core:4 mem:4G"), Config())
    decision = engine.create(container("hungry", GIB, {}))
    assert decision.pinning.mems is not None
    (full,) = decision.pinning.mems
    assert engine.observe_memory({0: 3 * GIB, 1: 3 * GIB}) == ()
    changes = engine.observe_memory({full: 0, 1 - full: 3 * GIB})
    assert [(one.container_id, str(one.after.mems)) for one in changes] == [("hungry", "0-1")]


def pressed(*names: str, qos: QosClass, limit: int | None = None) -> tuple[Engine, int]:
    """Two nodes of 8 GiB, and containers that began on node 0 and may use node 1 too by now.

    They ask for 100 MiB, if for any. With the number of looks it took.
    """
    engine = Engine(machine_from_spec("socket:2 core:8 mem:8G"), Config())
    size = 0 if qos is QosClass.BEST_EFFORT else 100 << 20
    engine.observe_memory({0: 8 * GIB, 1: 0})
    for name in names:
        engine.create(container(name, size, {}, qos, limit))
    assert {str(grant.memory) for grant in engine.grants.values()} == {"0"}
    looks = 0
    while not all(len(grant.memory) == 2 for grant in engine.grants.values()):
        assert engine.observe_memory({0: 0, 1: 7 * GIB})
        looks += 1
    return engine, looks


def test_who_was_short_of_memory_goes_back_at_a_look_that_finds_plenty_a_few_at_a_time() -> None:
    names = [f"c{i}" for i in range(10)]
    engine, _ = pressed(*names, qos=QosClass.BEST_EFFORT)
    assert engine.observe_memory({0: 0, 1: 7 * GIB}) == ()
    back = [len(engine.observe_memory({0: 7 * GIB, 1: 7 * GIB})) for _ in range(3)]
    assert back == [8, 2, 0]
    assert {str(grant.memory) for grant in engine.grants.values()} == {"0"}
    engine.check()


@pytest.mark.parametrize(
    ("free_mib", "limit_mib", "is_back"),
    [
        pytest.param(2148, 100, True, id="a quarter of the node beside its limit"),
        pytest.param(2147, 100, False, id="less than that"),
        pytest.param(5148, 3100, True, id="all that its limit allows"),
        pytest.param(5147, 3100, False, id="what it asked for, but not its limit"),
    ],
)
def test_the_way_back_needs_plenty_of_free_memory(
    free_mib: int, limit_mib: int, is_back: bool
) -> None:
    engine, _ = pressed("c", qos=QosClass.BURSTABLE, limit=limit_mib << 20)
    changes = engine.observe_memory({0: free_mib << 20, 1: 7 * GIB})
    assert [str(one.after.mems) for one in changes] == ["0"] * is_back


def test_a_lower_limit_alone_lets_a_container_go_back() -> None:
    engine, _ = pressed("c", qos=QosClass.BURSTABLE, limit=3100 << 20)
    assert engine.observe_memory({0: 2148 << 20, 1: 7 * GIB}) == ()
    asked = engine.containers[ContainerId("c")].resources
    lower = structs.replace(asked, memory_limit_bytes=100 << 20)
    assert mems(engine.update(ContainerId("c"), lower)) == "0"
    engine.check()


def test_a_higher_limit_alone_keeps_a_container_from_going_back() -> None:
    engine, _ = pressed("c", qos=QosClass.BURSTABLE, limit=100 << 20)
    asked = engine.containers[ContainerId("c")].resources
    higher = structs.replace(asked, memory_limit_bytes=3100 << 20)
    assert mems(engine.update(ContainerId("c"), higher)) == "0-1"
    assert engine.observe_memory({0: 2148 << 20, 1: 7 * GIB}) == ()


def test_those_who_go_back_do_not_count_on_the_same_free_memory() -> None:
    engine, _ = pressed("a", "b", "c", qos=QosClass.BURSTABLE, limit=2 * GIB)
    calm = {0: 6 * GIB, 1: 7 * GIB}
    assert [str(one.container_id) for one in engine.observe_memory(calm)] == ["a", "b"]
    assert engine.stop(ContainerId("nobody")) == ()
    engine.create(container("d", 0, {}, QosClass.BEST_EFFORT))
    assert engine.stop(ContainerId("d")) == ()


def test_among_many_who_are_short_of_memory_none_waits_long() -> None:
    _, looks = pressed(*(f"c{i}" for i in range(100)), qos=QosClass.BEST_EFFORT)
    assert looks == 6


def resized(memory: int) -> Resources:
    return Resources(
        cpu_request_milli=1000,
        cpu_limit_milli=1000,
        memory_request_bytes=memory,
        memory_limit_bytes=memory,
    )


def test_who_asks_for_less_again_goes_back() -> None:
    engine = Engine(machine_from_spec("socket:2 core:8 mem:4G"), Config())
    home = mems(engine.create(container("a", GIB, {})))
    assert mems(engine.update(ContainerId("a"), resized(6 * GIB))) == "0-1"
    decision = engine.update(ContainerId("a"), resized(GIB))
    assert mems(decision) == home
    assert isinstance(decision.result, Grant)
    assert str(decision.result.memory) == home
    assert decision.changes == ()
    engine.check()


def test_a_resize_over_two_nodes_leaves_memory_where_it_is_while_there_is_room() -> None:
    engine = Engine(machine_from_spec("socket:1 numa:2 core:4 mem:4G"), Config())
    one = container("one", GIB, {})
    home = mems(engine.create(one))
    wide = structs.replace(one.resources, cpu_request_milli=6000, cpu_limit_milli=6000)
    assert mems(engine.update(one.id, wide)) == home
    more = structs.replace(wide, memory_request_bytes=5 * GIB, memory_limit_bytes=5 * GIB)
    assert mems(engine.update(one.id, more)) == "0-1"
    engine.check()


def test_a_resize_makes_room_for_others_to_go_back() -> None:
    engine = Engine(machine_from_spec("socket:2 core:8 mem:4G"), Config())
    home = mems(engine.create(container("small", 3 * GIB // 2, {}, QosClass.BURSTABLE)))
    for name in ("a", "b"):
        engine.create(container(name, 3 * GIB, {}))
    assert len(engine.grants[ContainerId("small")].memory) == 2
    changes = [
        change
        for name in ("a", "b")
        for change in engine.update(ContainerId(name), resized(GIB // 8)).changes
    ]
    assert [(one.container_id, str(one.after.mems)) for one in changes] == [("small", home)]
    engine.check()


def test_free_memory_stays_known_through_a_reconfiguration() -> None:
    engine = Engine(machine_from_spec("socket:2 core:8 mem:8G"), Config())
    engine.observe_memory({0: GIB, 1: 3 * GIB})
    assert mems(engine.create(container("early", 2 * GIB, {}))) == "1"
    again, _ = engine.reconfigured(Config(colocate_pods=True))
    # On each node 1 GiB is left: what "early" was granted after the look counts still.
    assert mems(again.create(container("large", 4 * GIB // 5, {}))) == "0-1"


def test_memory_that_is_not_pinned_is_accounted_and_told_to_nobody() -> None:
    engine = Engine(machine(), Config(pin_memory=False))
    decision = engine.create(container("free", GIB, {}))
    assert decision.pinning.mems is None
    assert engine.grants[ContainerId("free")].memory_bytes == GIB
    assert engine.snapshot().memory.usage(engine.grants[ContainerId("free")].memory) == GIB


def test_preserved_memory_is_accounted_and_told_to_nobody() -> None:
    engine = Engine(machine(), Config())
    keep = {"memory.preserve.resource-policy.nri.io/pod": "true"}
    decision = engine.create(container("kept", GIB, keep))
    assert decision.pinning.mems is None
    assert decision.pinning.cpus
    assert engine.grants[ContainerId("kept")].memory_bytes == GIB


def readopted(engine: Engine) -> tuple[Engine, Decision]:
    """A new engine that found the one container of another running."""
    again = Engine(engine.machine, engine.config)
    (decision,) = again.synchronize(engine.snapshot().running()).decisions
    return again, decision


def test_a_cold_start_that_is_not_over_is_told_again_at_re_adoption() -> None:
    engine = Engine(machine(), Config())
    engine.create(container("cold", GIB, COLD))
    again, decision = readopted(engine)
    assert (decision.decided_by, decision.cold_start_ns) == ("kept", 10 * 10**9)
    (change,) = again.end_cold_start(ContainerId("cold"))
    assert str(change.after.mems) == "1,3"


def test_a_cold_start_that_is_over_does_not_begin_again() -> None:
    engine = Engine(machine(), Config())
    engine.create(container("cold", GIB, COLD))
    engine.end_cold_start(ContainerId("cold"))
    again, decision = readopted(engine)
    assert decision.cold_start_ns == 0
    again.create(container("other", GIB, {}))
    again.stop(ContainerId("other"))
    assert str(again.grants[ContainerId("cold")].memory) == "1,3"
    again.check()


def test_a_resize_does_not_begin_a_cold_start_again() -> None:
    engine = Engine(machine(), Config())
    engine.create(container("cold", GIB, COLD))
    engine.end_cold_start(ContainerId("cold"))
    bigger = container("cold", GIB + 2**20, COLD).resources
    assert mems(engine.update(ContainerId("cold"), bigger)) == "1,3"
    engine.create(container("other", GIB, {}))
    engine.stop(ContainerId("other"))
    assert str(engine.grants[ContainerId("cold")].memory) == "1,3"
    engine.check()


WITHHELD = [
    pytest.param(Amounts(cpu="1", memory="2Gi"), Amounts(), 6, id="reserved memory is set aside"),
    pytest.param(Amounts(cpu="1"), Amounts(memory="5Gi"), 5, id="only so much is available"),
    pytest.param(Amounts(cpu="1", memory="1Gi"), Amounts(memory="5Gi"), 4, id="both count"),
    pytest.param(Amounts(cpu="1"), Amounts(memory="64Gi"), 8, id="more than there is is all"),
]


@pytest.mark.parametrize(("reserved", "available", "gib"), WITHHELD)
def test_memory_that_is_not_for_containers(reserved: Amounts, available: Amounts, gib: int) -> None:
    config = Config(reserved_resources=reserved, available_resources=available)
    engine = Engine(machine_from_spec("socket:2 core:16 mem:4G"), config)
    results = [engine.create(container(f"c{i}", GIB, {})).result for i in range(10)]
    assert sum(isinstance(one, Grant) for one in results) == gib
    engine.check()


def test_no_memory_for_containers_is_a_fault_of_the_configuration() -> None:
    config = Config(reserved_resources=Amounts(cpu="1", memory="8Gi"))
    with pytest.raises(ConfigError, match=r"reservedResources\.memory: leaves no memory"):
        Engine(machine_from_spec("socket:2 core:16 mem:4G"), config)


def test_a_kind_of_memory_the_machine_lacks_does_not_draw_on_scarce_memory() -> None:
    engine = Engine(machine(kind=MemoryKind.HBM), Config())
    wanted = {"memory-type.resource-policy.nri.io/pod": "cxl"}
    assert mems(engine.create(container("odd", GIB, wanted))) in ("0", "1")
