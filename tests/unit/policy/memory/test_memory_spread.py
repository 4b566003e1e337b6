"""Memory nodes of Burstable containers that ask for memory and have no limit."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

GIB = 2**30
DOMAIN = "resource-policy.nri.io"
COLD = {f"cold-start.{DOMAIN}/pod": "duration: 10s"}
BOTH = machine_from_spec("socket:2 core:4 mem:4G")


def two_kinds() -> Machine:
    """Two sockets with 4 GiB of DRAM each, and as much PMEM near each."""
    slow = tuple(
        NumaNode(id=NumaNodeId(2 + socket), memory_bytes=4 * GIB, kind=MemoryKind.PMEM)
        for socket in range(2)
    )
    return dataclasses.replace(
        BOTH,
        numa_nodes=(*BOTH.numa_nodes, *slow),
        distances=((10, 21, 17, 28), (21, 10, 28, 17), (17, 28, 10, 28), (28, 17, 28, 10)),
    )


def container(
    name: str,
    memory: int = GIB,
    limit: int | None = None,
    annotations: Mapping[str, str] = MappingProxyType({}),
    qos: QosClass = QosClass.BURSTABLE,
    hints: tuple[Hint, ...] = (),
) -> Container:
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=PodId(name), name=name, uid=name, qos=qos, annotations=annotations),
        resources=Resources(
            cpu_request_milli=500,
            cpu_limit_milli=1000,
            memory_request_bytes=memory,
            memory_limit_bytes=limit,
        ),
        hints=hints,
    )


def mems(decision: Decision) -> str:
    return str(decision.pinning.mems)


ASKED = [
    pytest.param({}, "0-1", id="a request and no limit"),
    pytest.param({"limit": 2 * GIB}, "1", id="a limit"),
    pytest.param({"memory": 0}, "1", id="no request"),
    pytest.param({"qos": QosClass.GUARANTEED, "limit": GIB}, "1", id="guaranteed"),
]


@pytest.mark.parametrize(("asked", "expected"), ASKED)
def test_memory_nodes_of_a_container_with(asked: Mapping[str, object], expected: str) -> None:
    engine = Engine(BOTH, Config())
    decision = engine.create(container("a", **asked))  # type: ignore[arg-type]  # a table's row
    assert (decision.pool, mems(decision)) == ("socket #1", expected)
    assert str(decision.pinning.cpus) == "4-7"
    engine.check()


KINDS = [
    pytest.param({}, "0-3", id="DRAM and PMEM, where it says nothing"),
    pytest.param({f"memory-type.{DOMAIN}/pod": "dram"}, "0-1", id="DRAM"),
    pytest.param({f"memory-type.{DOMAIN}/pod": "pmem"}, "2-3", id="PMEM"),
    pytest.param(COLD, "2-3", id="a cold start"),
    pytest.param({f"memory.preserve.{DOMAIN}/pod": "true"}, "None", id="what it has"),
]


@pytest.mark.parametrize(("annotations", "expected"), KINDS)
def test_all_nodes_are_those_of_the_kinds_wanted(
    annotations: Mapping[str, str], expected: str
) -> None:
    engine = Engine(two_kinds(), Config())
    decision = engine.create(container("a", annotations=annotations))
    assert mems(decision) == expected
    assert decision.pool == "socket #1"
    engine.check()


def test_a_cold_start_ends_on_all_nodes_and_stays_there() -> None:
    engine = Engine(two_kinds(), Config())
    engine.create(container("cold", annotations=COLD))
    (change,) = engine.end_cold_start(ContainerId("cold"))
    assert str(change.after.mems) == "0-3"
    again = Engine(engine.machine, engine.config)
    again.synchronize(engine.snapshot().running())
    for one in (engine, again):
        one.create(container("other", limit=2 * GIB))
        assert one.stop(ContainerId("other")) == ()
        assert str(one.grants[ContainerId("cold")].memory) == "0-3"
        one.check()


def test_strict_hints_keep_memory_near() -> None:
    engine = Engine(BOTH, Config())
    near = Hint(
        provider="/sys/devices/nic",
        origin=HintOrigin.DEVICE,
        cpus=CpuSet.parse("4-7"),
        numa_nodes=NodeSet.of(1),
    )
    strict = {f"strict.topologyhints.{DOMAIN}/pod": "true"}
    assert mems(engine.create(container("hinted", hints=(near,)))) == "0-1"
    assert mems(engine.create(container("strict", annotations=strict, hints=(near,)))) == "1"


def test_a_resize_keeps_all_nodes() -> None:
    engine = Engine(BOTH, Config())
    engine.create(container("a"))
    assert mems(engine.update(ContainerId("a"), container("a", 2 * GIB).resources)) == "0-1"
    assert engine.snapshot().memory.usage(NodeSet.of(0, 1)) == 2 * GIB
    engine.check()


def test_a_running_container_keeps_the_nodes_it_has() -> None:
    engine = Engine(BOTH, Config())
    running = structs.replace(container("a"), cpus=CpuSet.parse("4-7"), mems=NodeSet.of(1))
    assert engine.synchronize([running]).changes == ()


def test_where_all_nodes_are_promised_to_others_near_ones_serve() -> None:
    engine = Engine(two_kinds(), Config())
    dram = {f"memory-type.{DOMAIN}/pod": "dram"}
    fat = structs.replace(
        container("fat", 20 * GIB, 20 * GIB, dram, QosClass.GUARANTEED),
        cpus=CpuSet.parse("1"),
        mems=NodeSet.of(0),
    )
    engine.synchronize([fat])
    decision = engine.create(container("late", annotations=dram))
    assert not isinstance(decision.result, Grant) or decision.pinning.mems
    engine.check()
