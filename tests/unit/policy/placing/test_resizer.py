"""Which cpus a container gets and gives up while it runs."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

NODES = "socket:1 numa:2 core:4 mem:1G"
"""NUMA nodes of cpus 0 to 3 (0 is reserved), and 4 to 7."""


def whole(cpus: int) -> Resources:
    return Resources(cpu_request_milli=1000 * cpus, cpu_limit_milli=1000 * cpus)


def lived(spec: str, life: str) -> str:
    """The exclusive cpus of the last container a life speaks of.

    `+a2` creates a with two exclusive cpus, `a3` resizes it, `-a` stops it. Cpu 0 is reserved.
    """
    engine = Engine(machine_from_spec(spec), Config(reserved_resources=Amounts(cpu="cpuset:0")))
    grant: object = None
    for step in life.split():
        if step[0] == "-":
            engine.stop(ContainerId(step[1:]))
        elif step[0] == "+":
            grant = engine.create(container(step[1], int(step[2:]))).result
        else:
            grant = engine.update(ContainerId(step[0]), whole(int(step[1:]))).result
        assert step[0] == "-" or isinstance(grant, Grant), (step, grant)
    assert isinstance(grant, Grant)
    return str(grant.exclusive)


def container(name: str, cpus: int) -> Container:
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=PodId(name), name=name, namespace="default", qos=QosClass.GUARANTEED),
        resources=whole(cpus),
    )


GROWN = {
    "on the core it has a part of": ("socket:1 core:4 thread:2", "+a1 +b1 +c1 +d1 -a d2", "4-5"),
    "in its cluster": ("socket:1 cluster:4 core:4", "+a3 +b4 +c1 -a c2", "8-9"),
    "in its L3 groups": ("socket:1 l3:4 core:4", "+a3 +b5 -a b6", "4,7-11"),
    "in its NUMA node": ("socket:1 numa:3 core:4", "+a4 +b5 -a b6", "1-3,8-10"),
    "elsewhere if nothing is near": ("socket:1 cluster:3 core:4", "+a3 +b4 -a b6", "1-2,4-7"),
}


@pytest.mark.parametrize(("spec", "life", "expected"), GROWN.values(), ids=GROWN)
def test_it_grows_next_to_what_it_has(spec: str, life: str, expected: str) -> None:
    assert lived(spec, life) == expected


GIVEN_UP = {
    "what it got last, though lower": ("socket:1 core:8", "+a2 +b2 -a b4 b2", "3-4"),
    "the second growth before the first": ("socket:1 core:8", "+a2 +b2 b3 -a b5 b3", "3-5"),
    "both growths": ("socket:1 core:8", "+a2 +b2 b3 -a b5 b2", "3-4"),
}


@pytest.mark.parametrize(("spec", "life", "expected"), GIVEN_UP.values(), ids=GIVEN_UP)
def test_it_gives_up_what_came_last(spec: str, life: str, expected: str) -> None:
    assert lived(spec, life) == expected


def test_who_shared_and_gets_own_cpus_elsewhere_has_its_memory_near_them() -> None:
    """Its NUMA node has no two cpus left by now."""
    reserved = Config(reserved_resources=Amounts(cpu="cpuset:0"))
    engine = Engine(machine_from_spec(NODES), reserved)
    half = Resources(cpu_request_milli=500, cpu_limit_milli=500)
    engine.create(replace(container("a", 0), resources=half))
    engine.create(container("b", 3))
    before = engine.pinning(ContainerId("a"))
    assert before is not None
    assert (str(before.cpus), str(before.mems)) == ("7", "1")
    decision = engine.update(ContainerId("a"), whole(3))
    engine.check()
    assert (str(decision.pinning.cpus), str(decision.pinning.mems)) == ("1-3", "0")


def test_who_gives_up_cpus_after_a_restart_keeps_those_near_its_memory() -> None:
    """Which of them it got last nobody knows any more."""
    reserved, machine = Config(reserved_resources=Amounts(cpu="cpuset:0")), machine_from_spec(NODES)
    engine = Engine(machine, reserved)
    running = replace(container("a", 4), cpus=CpuSet.parse("2-5"), mems=NodeSet.parse("1"))
    engine.synchronize([running])
    decision = engine.update(ContainerId("a"), whole(2))
    engine.check()
    assert (str(decision.pinning.cpus), str(decision.pinning.mems)) == ("4-5", "1")
