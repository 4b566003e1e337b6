"""The law of memory sets: no container is ever given memory of a node that is not for it."""

import dataclasses
from collections.abc import Mapping
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pinfold.policy.configuration.config import Amounts, Config
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
from pinfold.policy.model.grant import Grant
from pinfold.policy.text.errors import ConfigError
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

GIB = 2**30
PREFIX = "resource-policy.nri.io"
SPECS = ("socket:1 numa:2 core:2 mem:2G", "socket:2 core:2 mem:2G", "socket:2 numa:2 core:2 mem:2G")
SEEDS = st.integers(0, 1 << 32).map(Random)


def random_machine(random: Random) -> Machine:
    """Two to four nodes with cpus, some without memory, and up to two nodes of memory alone."""
    plain = machine_from_spec(random.choice(SPECS))
    nodes = [
        dataclasses.replace(node, memory_bytes=random.choice((0, *(2 * GIB,) * 6)))
        for node in plain.numa_nodes
    ]
    for _ in range(random.randrange(3)):
        one = NumaNodeId(len(nodes))
        kind, is_normal = random.choice(tuple(MemoryKind)), random.random() < 0.7
        nodes.append(NumaNode(id=one, memory_bytes=2 * GIB, kind=kind, is_normal=is_normal))
    far = {(i, j): random.choice((11, 21, 28)) for i in range(len(nodes)) for j in range(i)}
    rows = [
        tuple(far.get((max(i, j), min(i, j)), 10) for j in range(len(nodes)))
        for i in range(len(nodes))
    ]
    return dataclasses.replace(plain, numa_nodes=tuple(nodes), distances=tuple(rows))


def random_set(random: Random, machine: Machine) -> tuple[str | None, set[int]]:
    """An amount of memory, and the nodes it names (those of its cpus), whether it wants them."""
    cpus = random.sample(tuple(machine.online), random.randrange(1, 4))
    nodes = random.sample([node.id for node in machine.numa_nodes], random.choice((1, 1, 2)))
    near: set[int] = {
        node.id for node in machine.numa_nodes if not node.cpus.isdisjoint(CpuSet.of(*cpus))
    }
    form = random.choice((None, "3Gi", "nodeset", "exclude-nodeset", "cpuset", "exclude-cpuset"))
    if form is None or form == "3Gi":
        return form, set()
    if form.endswith("nodeset"):
        return f"{form}:{NodeSet.of(*nodes)}", set(nodes)
    return f"{form}:{CpuSet.of(*cpus)}", near


class Wanted:
    """A configuration of random sets, and in plain words who may have which memory."""

    def __init__(self, random: Random, machine: Machine) -> None:
        everything: set[int] = {node.id for node in machine.numa_nodes}
        available, chosen = random_set(random, machine)
        reserved, kept = random_set(random, machine)
        self.all_nodes = self._selected(available, chosen, everything, everything)
        aside = self._selected(reserved, kept, self.all_nodes, set())
        self.ordinary = self.all_nodes - aside
        self.config = Config(
            available_resources=Amounts(memory=available),
            reserved_resources=Amounts(cpu="cpuset:0", memory=reserved),
        )

    @staticmethod
    def _selected(text: str | None, named: set[int], among: set[int], plain: set[int]) -> set[int]:
        if text is None or ":" not in text:
            return plain
        return among - named if text.startswith("exclude") else named

    def check(self, engine: Engine, namespaces: Mapping[ContainerId, str]) -> None:
        for container_id, grant in engine.grants.items():
            told = engine.pinning(container_id)
            assert told is not None
            if grant.preserve_memory:
                assert told.mems is None
                continue
            is_system = namespaces[container_id] == "kube-system"
            assert told.mems
            assert set(told.mems) <= (self.all_nodes if is_system else self.ordinary)
        engine.check()


def random_container(random: Random, number: int) -> Container:
    qos = random.choice(tuple(QosClass))
    memory = 0 if qos is QosClass.BEST_EFFORT else random.choice((1, GIB // 4, GIB, 3 * GIB))
    annotations: dict[str, str] = {}
    for key, values in (
        (f"memory-type.{PREFIX}/pod", ("dram", "pmem", "hbm,dram", "cxl")),
        (f"cold-start.{PREFIX}/pod", ("duration: 5s",)),
        (f"memory.preserve.{PREFIX}/pod", ("true",)),
    ):
        if random.random() < 0.2:
            annotations[key] = random.choice(values)
    milli = 0 if qos is QosClass.BEST_EFFORT else random.choice((100, 500))
    name = f"c{number}"
    return Container(
        id=ContainerId(name),
        name=name,
        state=ContainerState.RUNNING,
        pod=Pod(
            id=PodId(name),
            name=name,
            uid=name,
            qos=qos,
            namespace=random.choice(("default", "kube-system")),
            annotations=annotations,
        ),
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli or None,
            memory_request_bytes=memory,
            memory_limit_bytes=memory or None,
        ),
    )


def engine_of(random: Random) -> tuple[Engine, Wanted] | None:
    machine = random_machine(random)
    for _ in range(8):
        wanted = Wanted(random, machine)
        try:
            return Engine(machine, wanted.config), wanted
        except ConfigError:
            continue
    return None


def live(random: Random, engine: Engine, wanted: Wanted) -> dict[ContainerId, str]:
    """Containers come, run short of memory, grow warm and go; the law is looked at throughout."""
    names: dict[ContainerId, str] = {}
    for number in range(random.randrange(1, 12)):
        one = random_container(random, number)
        names[one.id] = one.pod.namespace
        if isinstance(engine.create(one).result, Grant):
            engine.start(one.id)
        wanted.check(engine, names)
        nodes = [node.id for node in engine.machine.numa_nodes]
        chosen = random.choice(tuple(names))
        match random.randrange(5):
            case 0:
                engine.observe_memory({node: random.choice((0, GIB)) for node in nodes})
            case 1:
                engine.end_cold_start(chosen)
            case 2:
                engine.stop(chosen)
            case 3:
                resources = random_container(random, 0).resources
                engine.update(chosen, resources)
            case _:
                pass
        wanted.check(engine, names)
    return names


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_no_container_has_memory_of_a_node_that_is_not_for_it(random: Random) -> None:
    if (found := engine_of(random)) is not None:
        live(random, *found)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_nor_has_it_after_another_configuration_which_keeps_legal_sets(random: Random) -> None:
    found = engine_of(random)
    if found is None:
        return
    engine, wanted = found
    names = live(random, engine, wanted)
    before = {one: engine.pinning(one) for one in engine.grants}
    other = Wanted(random, engine.machine)
    try:
        after, _ = engine.reconfigured(other.config)
    except ConfigError:
        return
    other.check(after, names)
    for container_id, told in before.items():
        assert told is not None
        now = after.pinning(container_id)
        assert now is not None
        usable = other.all_nodes if names[container_id] == "kube-system" else other.ordinary
        if told.mems is not None and set(told.mems) <= usable:
            assert now.mems == told.mems


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_nor_has_it_where_it_was_found_running(random: Random) -> None:
    found = engine_of(random)
    if found is None:
        return
    engine, wanted = found
    nodes = [node.id for node in engine.machine.numa_nodes]
    listed: list[Container] = []
    for number in range(random.randrange(1, 8)):
        one = random_container(random, number)
        mems = NodeSet.of(*random.sample(nodes, random.randrange(len(nodes) + 1)))
        cpus = (
            engine.supply.reserved if one.pod.namespace == "kube-system" else engine.supply.sharable
        )
        listed.append(structs.replace(one, cpus=cpus, mems=mems))
    engine.synchronize(listed)
    wanted.check(engine, {one.id: one.pod.namespace for one in listed})
