"""Which memory nodes a configuration leaves to whom, and where containers land then."""

import dataclasses
import re

import msgspec
import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.reconfiguration import find_moves
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.pools.memory_supply import read_memory_supply
from pinfold.policy.text.errors import ConfigError
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

GIB = 2**30
PRESERVE = {"memory.preserve.resource-policy.nri.io/pod": "true"}


def tiers() -> Machine:
    """Two sockets with 4 GiB each, CXL near each of them, PMEM that is movable-only, no memory.

    Cpus 0-3 are in node 0, 4-7 in node 1; nodes 2 and 3 are CXL, 4 is PMEM, 5 has nothing.
    """
    plain = machine_from_spec("socket:2 core:4 mem:4G")
    extra = (
        NumaNode(id=NumaNodeId(2), memory_bytes=4 * GIB, kind=MemoryKind.CXL),
        NumaNode(id=NumaNodeId(3), memory_bytes=4 * GIB, kind=MemoryKind.CXL),
        NumaNode(id=NumaNodeId(4), memory_bytes=4 * GIB, kind=MemoryKind.PMEM, is_normal=False),
        NumaNode(id=NumaNodeId(5), memory_bytes=0),
    )
    rows = (
        (10, 21, 17, 28, 30, 40),
        (21, 10, 28, 17, 31, 40),
        (17, 28, 10, 28, 40, 40),
        (28, 17, 28, 10, 40, 40),
        (30, 31, 40, 40, 10, 40),
        (40, 40, 40, 40, 40, 10),
    )
    return dataclasses.replace(plain, numa_nodes=(*plain.numa_nodes, *extra), distances=rows)


TIERS = tiers()
TWO = machine_from_spec("socket:2 core:4 mem:4G")
FOUR = machine_from_spec("socket:2 numa:2 core:4 mem:4G")


def config(available: str | None = None, reserved: str | None = None) -> Config:
    return Config(
        available_resources=Amounts(memory=available),
        reserved_resources=Amounts(cpu="cpuset:0", memory=reserved),
    )


SETS = [
    pytest.param(None, None, "None", "", id="nothing is written: every node"),
    pytest.param("9Gi", "1Gi", "None", "", id="quantities: every node"),
    pytest.param("nodeset:0-1", None, "0-1", "", id="some nodes are available"),
    pytest.param("exclude-nodeset:4", None, "0-3", "", id="all but one"),
    pytest.param("exclude-nodeset:9", None, "0-4", "", id="all but one that is not there"),
    pytest.param("cpuset:1-2", None, "0", "", id="the node of some cpus"),
    pytest.param("cpuset:3-4", None, "0-1", "", id="the nodes of cpus of both sockets"),
    pytest.param("exclude-cpuset:4", None, "0,2-4", "", id="all but the node of a cpu"),
    pytest.param("nodeset:0,5", None, "0", "", id="a node without memory among others"),
    pytest.param(None, "nodeset:2", "0-1,3-4", "2", id="a node is reserved"),
    pytest.param(None, "exclude-nodeset:1-4", "1-4", "0", id="all but some are reserved"),
    pytest.param(None, "cpuset:0", "1-4", "0", id="the node of a cpu is reserved"),
    pytest.param(None, "exclude-cpuset:0", "0", "1-4", id="all but that of a cpu"),
    pytest.param("nodeset:0-3", "nodeset:2-3", "0-1", "2-3", id="some, and of them some reserved"),
    pytest.param("nodeset:0-3", "exclude-nodeset:0-1", "0-1", "2-3", id="all of those but some"),
    pytest.param("12Gi", "nodeset:3", "0-2,4", "3", id="a quantity of what is available"),
    pytest.param("nodeset:1-2", "2Gi", "1-2", "", id="a quantity is reserved"),
]


@pytest.mark.parametrize(("available", "reserved", "ordinary", "set_aside"), SETS)
def test_which_nodes_are_for_whom(
    available: str | None, reserved: str | None, ordinary: str, set_aside: str
) -> None:
    found = read_memory_supply(TIERS, config(available, reserved))
    assert (str(found.ordinary), str(found.reserved)) == (ordinary, set_aside)


FAULTS = [
    pytest.param(
        "nodeset:0-6,9",
        None,
        "availableResources.memory: 'nodeset:0-6,9' names nodes 6,9, which are not there"
        " — the nodes with memory are 0-4, name some of them",
        id="a node that is not there",
    ),
    pytest.param(
        "nodeset:5",
        None,
        "availableResources.memory: 'nodeset:5' stands for no node with memory"
        " — the nodes with memory are 0-4, name some of them",
        id="a node without memory alone",
    ),
    pytest.param(
        "cpuset:99",
        None,
        "'cpuset:99' stands for no node with memory",
        id="a cpu that is not there",
    ),
    pytest.param(
        "exclude-nodeset:0-4", None, "stands for no node with memory", id="nothing is left"
    ),
    pytest.param(
        None, "exclude-nodeset:0-5", "reservedResources.memory: 'exclude-n", id="none reserved"
    ),
    pytest.param("nodes:1", None, "availableResources.memory: failed to parse", id="no set"),
    pytest.param(
        "nodeset:4",
        None,
        "'nodeset:4' leaves only movable memory (nodes 4), in which the kernel keeps nothing of"
        " its own — leave one of nodes 0-3",
        id="movable memory alone",
    ),
    pytest.param(
        None,
        "nodeset:0-3",
        "reservedResources.memory: 'nodeset:0-3' leaves only movable memory (nodes 4)",
        id="movable memory is all that is not reserved",
    ),
    pytest.param(
        None,
        "nodeset:0-4",
        "reservedResources.memory: 'nodeset:0-4' leaves no memory for other containers — reserve"
        " fewer nodes, or make more available",
        id="everything reserved",
    ),
    pytest.param(
        "exclude-nodeset:2",
        "nodeset:1-2",
        "reservedResources.memory: nodes 2 of 'nodeset:1-2' are not among the available nodes"
        " 0-1,3-4 — take them out here or add them to availableResources.memory",
        id="reserved but not available",
    ),
    pytest.param(
        "1Gi",
        "nodeset:0",
        "availableResources.memory: leaves no memory for containers: of 20 GiB are 4 GiB reserved"
        " and 19 GiB not available — reserve less or make more available",
        id="less is available than is reserved",
    ),
]


@pytest.mark.parametrize(("available", "reserved", "message"), FAULTS)
def test_what_cannot_be_is_an_error(
    available: str | None, reserved: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Engine(TIERS, config(available, reserved))


WARNINGS = [
    pytest.param(
        "nodeset:0,5",
        "availableResources.memory: nodes 5 of 'nodeset:0,5' have no memory",
        id="a node without memory is named",
    ),
    pytest.param(
        "exclude-nodeset:9",
        "availableResources.memory: 'exclude-nodeset:9': there are no nodes 9",
        id="a node that is not there is excluded",
    ),
    pytest.param(
        "exclude-cpuset:7,12",
        "availableResources.memory: 'exclude-cpuset:7,12': cpus 12 are not online, so their nodes"
        " are not known",
        id="a cpu that is not online",
    ),
]


@pytest.mark.parametrize(("available", "warning"), WARNINGS)
def test_what_is_strange_is_a_warning(available: str, warning: str) -> None:
    assert Engine(TIERS, config(available)).supply.warnings == (warning,)


# The pools


def memory_of(engine: Engine) -> dict[str, str]:
    return {pool.name: str(pool.memory_nodes) for pool in engine.tree.pools}


POOLS = [
    pytest.param("nodeset:0-4", "0-4", "0,2,4", "1,3", id="all: each socket its own"),
    pytest.param("nodeset:0-1", "0-1", "0", "1", id="the DRAM: each socket its own"),
    pytest.param("nodeset:0", "0", "0", "0", id="that of one socket: the other uses it too"),
    pytest.param("nodeset:0,3", "0,3", "0", "3", id="what is left of its own comes first"),
    pytest.param("nodeset:2-3", "2-3", "2", "3", id="the slow kind only"),
    pytest.param("nodeset:1-2", "1-2", "2", "1", id="slow memory is nearer than the other socket"),
]


@pytest.mark.parametrize(("available", "root", "first", "second"), POOLS)
def test_pools_have_the_available_memory_next_to_them(
    available: str, root: str, first: str, second: str
) -> None:
    engine = Engine(TIERS, config(available))
    assert memory_of(engine) == {"socket #0": first, "socket #1": second, "root": root}


@pytest.mark.parametrize("machine", [TIERS, TWO, FOUR])
def test_the_tree_does_not_change(machine: Machine) -> None:
    plain, bound = Engine(machine, config()), Engine(machine, config("nodeset:0", None))
    for one, other in zip(plain.tree.pools, bound.tree.pools, strict=True):
        assert msgspec.structs.replace(other, memory=one.memory) == one


# The containers


def container(
    name: str,
    *,
    memory: int = GIB,
    namespace: str = "default",
    annotations: dict[str, str] | None = None,
    qos: QosClass = QosClass.GUARANTEED,
) -> Container:
    pod = Pod(
        id=PodId(name),
        name=name,
        uid=name,
        namespace=namespace,
        qos=qos,
        annotations=annotations or {},
    )
    return Container(
        id=ContainerId(name),
        name=name,
        pod=pod,
        state=ContainerState.RUNNING,
        resources=Resources(
            cpu_request_milli=1000,
            cpu_limit_milli=1000,
            memory_request_bytes=memory,
            memory_limit_bytes=memory or None,
        ),
    )


def mems(decision: Decision) -> str:
    assert isinstance(decision.result, Grant), decision.result
    return str(decision.pinning.mems)


def system(name: str, memory: int = GIB) -> Container:
    return container(name, memory=memory, namespace="kube-system")


def test_containers_have_memory_of_available_nodes_only() -> None:
    engine = Engine(FOUR, config("exclude-nodeset:1,3"))
    found = [engine.create(container(f"c{i}")) for i in range(7)]
    assert {mems(one) for one in found} == {"0", "2"}
    refused = [engine.create(container(f"d{i}")) for i in range(2)]
    assert isinstance(refused[0].result, Grant)
    assert isinstance(refused[1].result, Refusal)
    assert "no memory on nodes 0,2" in refused[1].result.reason
    engine.check()


def test_a_machine_without_its_dram_serves_from_what_is_available() -> None:
    engine = Engine(TIERS, config("nodeset:2-3"))
    dram = {"memory-type.resource-policy.nri.io/pod": "dram"}
    assert mems(engine.create(container("a", annotations=dram))) in ("2", "3")


def test_slower_memory_that_is_not_available_lets_a_cold_start_begin_warm() -> None:
    cold = {"cold-start.resource-policy.nri.io/pod": "duration: 10s"}
    decision = Engine(TWO, config("nodeset:0-1")).create(container("a", annotations=cold))
    assert (decision.cold_start_ns, mems(decision) in ("0", "1")) == (0, True)


def test_reserved_nodes_are_for_containers_on_the_reserved_cpus() -> None:
    engine = Engine(FOUR, config(None, "nodeset:3"))
    ordinary = [engine.create(container(f"c{i}")) for i in range(12)]
    assert {node for one in ordinary for node in NodeSet.parse(mems(one))} == {0, 1, 2}
    assert isinstance(engine.create(container("more")).result, Refusal)
    assert mems(engine.create(system("dns", 3 * GIB))) == "0-3"
    assert isinstance(engine.create(system("more-dns", 2 * GIB)).result, Refusal)
    engine.check()


def test_who_fits_into_reserved_memory_alone_leaves_the_rest_to_the_others() -> None:
    engine = Engine(TWO, config(None, "nodeset:1"))
    assert mems(engine.create(system("dns", 4 * GIB))) == "0-1"
    for i in range(4):
        assert mems(engine.create(container(f"c{i}"))) == "0"
    engine.check()


QUANTITIES = [
    pytest.param("10Gi", None, 10, id="only so much is available"),
    pytest.param("nodeset:0-2", "2Gi", 10, id="of the available nodes some memory is reserved"),
    pytest.param("10Gi", "nodeset:3", 6, id="what is available counts the reserved node"),
    pytest.param("64Gi", "nodeset:3", 12, id="more is available than there is"),
]


@pytest.mark.parametrize(("available", "reserved", "gib"), QUANTITIES)
def test_quantities_count_beside_sets(
    available: str | None, reserved: str | None, gib: int
) -> None:
    engine = Engine(FOUR, config(available, reserved))
    results = [engine.create(container(f"c{i}")).result for i in range(15)]
    assert sum(isinstance(one, Grant) for one in results) == gib
    engine.check()


# Containers that run


def running(name: str, cpus: str, nodes: str, **asks: str) -> Container:
    plain = container(name, namespace=asks.get("namespace", "default"))
    return structs.replace(plain, cpus=CpuSet.parse(cpus), mems=NodeSet.parse(nodes))


FOUND = [
    pytest.param("default", "0", "0", id="a legal set stays"),
    pytest.param("default", "0,3", "0,3", id="a legal set stays, odd as it is"),
    pytest.param("default", "1", "0", id="a node that is not available is replaced"),
    pytest.param("default", "0-1", "0", id="a set with such a node is replaced"),
    pytest.param("default", "2", "0", id="a reserved node is replaced"),
    pytest.param("kube-system", "2", "2", id="a reserved node stays where it may be used"),
    pytest.param("kube-system", "1", "0,2-3", id="but not one that is not available"),
]


@pytest.mark.parametrize(("namespace", "before", "after"), FOUND)
def test_a_running_container_keeps_a_legal_set(namespace: str, before: str, after: str) -> None:
    engine = Engine(FOUR, config("exclude-nodeset:1", "nodeset:2"))
    cpus = "0" if namespace == "kube-system" else "1"
    found = engine.synchronize([running("a", cpus, before, namespace=namespace)])
    assert str(engine.pinning(ContainerId("a")).mems) == after  # type: ignore[union-attr]
    assert [str(one.after.mems) for one in found.changes] == ([] if before == after else [after])
    assert str(engine.pinning(ContainerId("a")).cpus) == cpus  # type: ignore[union-attr]
    engine.check()


def test_a_preserved_container_is_told_nothing_of_memory() -> None:
    engine = Engine(FOUR, config("nodeset:0", None))
    kept = structs.replace(
        container("kept", annotations=PRESERVE), cpus=CpuSet.of(1), mems=NodeSet.of(3)
    )
    (decision,) = engine.synchronize([kept]).decisions
    assert decision.pinning.mems is None
    assert all(one.after.mems is None for one in engine.synchronize([kept]).changes)
    assert engine.create(container("new", annotations=PRESERVE)).pinning.mems is None


def test_another_configuration_moves_only_who_must_and_says_why() -> None:
    engine = Engine(FOUR, config())
    for name in ("a", "b", "c", "d"):
        engine.create(container(name))
    before = {
        one: str(pinning.mems) for one in "abcd" if (pinning := engine.pinning(ContainerId(one)))
    }
    assert sorted(before.values()) == ["0", "1", "2", "3"]
    other, told = engine.reconfigured(config("exclude-nodeset:1", "nodeset:3"))
    moves = {move.container.id: move for move in find_moves(engine.snapshot(), other.snapshot())}
    where = {nodes: one for one, nodes in before.items()}
    assert {one.container_id for one in told.changes} == {where["1"], where["3"]}
    assert moves[ContainerId(where["0"])].reason == ""
    assert moves[ContainerId(where["1"])].reason == "memory nodes 1 are not available"
    assert moves[ContainerId(where["3"])].reason == "memory nodes 3 are reserved"
    assert all(move.before.cpus == move.after.cpus for move in moves.values())
    other.check()


def test_who_must_leave_its_nodes_is_not_put_where_others_stay() -> None:
    engine = Engine(FOUR, config("exclude-nodeset:1", None))
    first = structs.replace(
        container("first", memory=3 * GIB), cpus=CpuSet.of(4), mems=NodeSet.of(1)
    )
    second = structs.replace(
        container("second", memory=3 * GIB, qos=QosClass.BURSTABLE),
        cpus=CpuSet.parse("1-3"),
        mems=NodeSet.of(0),
    )
    found = engine.synchronize([first, second])
    assert [(one.container_id, str(one.after.mems)) for one in found.changes] == [
        ("first", "0,2-3")
    ]
    assert engine.snapshot().memory.usage(NodeSet.of(0)) == 3 * GIB
    engine.check()


def test_who_is_placed_anew_is_not_counted_twice() -> None:
    engine = Engine(FOUR, config("exclude-nodeset:1", None))
    lost = structs.replace(container("lost", memory=3 * GIB), mems=NodeSet.of(0))
    moved = structs.replace(container("moved"), cpus=CpuSet.of(4), mems=NodeSet.of(1))
    decisions = {one.container_id: one for one in engine.synchronize([lost, moved]).decisions}
    assert all(isinstance(one.result, Grant) for one in decisions.values())
    assert not any(one.degraded for one in decisions.values())
    assert engine.snapshot().memory.usage(NodeSet.parse("0,2-3")) == 4 * GIB
    engine.check()
