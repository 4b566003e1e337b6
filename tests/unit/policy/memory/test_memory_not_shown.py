"""Machines on which no NUMA node shows any memory: how much there is is not known."""

import dataclasses

import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.pool_drawing import pool_texts, spare_supplies
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine

GIB = 2**30
KNOWN = machine_from_spec("socket:2 numa:2 core:4 mem:8G")
ON_PAPER = machine_from_spec("socket:2 numa:2 core:4 mem:0")
UNREADABLE = dataclasses.replace(
    KNOWN, numa_nodes=tuple(dataclasses.replace(one, memory_bytes=None) for one in KNOWN.numa_nodes)
)


def container(qos: QosClass, milli: int, memory_bytes: int) -> Container:
    name = qos.value
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=PodId(name), name=name, uid=name, qos=qos),
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli or None,
            memory_request_bytes=memory_bytes,
            memory_limit_bytes=memory_bytes or None,
        ),
    )


EVERY_CLASS = (
    container(QosClass.GUARANTEED, 2000, 4 * GIB),
    container(QosClass.BURSTABLE, 1000, GIB),
    container(QosClass.BEST_EFFORT, 0, 0),
)


def pinnings(engine: Engine) -> list[Pinning]:
    found = [engine.create(one) for one in EVERY_CLASS]
    assert all(isinstance(one.result, Grant) for one in found), found
    return [one.pinning for one in found]


@pytest.mark.parametrize("machine", [ON_PAPER, UNREADABLE], ids=["all zero", "unreadable"])
@pytest.mark.parametrize("reserved", [Amounts(cpu="1"), Amounts(cpu="1", memory="1Gi")])
def test_containers_are_placed_as_where_memory_is_plenty(
    machine: Machine, reserved: Amounts
) -> None:
    config = Config(reserved_resources=reserved)
    assert pinnings(Engine(machine, config)) == pinnings(Engine(KNOWN, config))


def test_it_is_said_once_that_no_memory_is_shown() -> None:
    engine = Engine(ON_PAPER, Config())
    assert [text for text in engine.warnings if "MemTotal" in text] == [
        "MemTotal is 0 on every NUMA node: taken as not known, so nobody is refused for want of"
        " memory — look at the meminfo files below /sys/devices/system/node"
    ]
    assert not Engine(KNOWN, Config()).warnings


def test_memory_that_is_not_shown_does_not_run_short() -> None:
    engine = Engine(ON_PAPER, Config())
    pinnings(engine)
    assert engine.observe_memory({one.id: 0 for one in ON_PAPER.numa_nodes}) == ()


def test_a_node_without_memory_among_others_has_none() -> None:
    nodes = (dataclasses.replace(KNOWN.numa_nodes[0], memory_bytes=0), *KNOWN.numa_nodes[1:])
    engine = Engine(dataclasses.replace(KNOWN, numa_nodes=nodes), Config())
    assert not engine.warnings
    assert str(engine.tree.root.memory_nodes) == "1-3"
    assert all(one.mems and 0 not in one.mems for one in pinnings(engine))


def test_pools_show_that_their_memory_has_no_known_size() -> None:
    snapshot = Engine(ON_PAPER, Config()).snapshot()
    for spare in ((), spare_supplies(snapshot)):
        drawn = str(pool_texts(snapshot.tree, ON_PAPER, spare=spare))
        assert "dram unknown size of node 1" in drawn
        assert "no memory" not in drawn
