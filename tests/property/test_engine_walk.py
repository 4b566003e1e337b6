"""A long random walk over a container's life; the laws of placement hold after every step."""

import dataclasses
import os
import random
from collections.abc import Callable, Mapping

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.decision import Decision
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
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.model.pinning import Change, Pinning
from pinfold.policy.model.request import CpuType
from pinfold.policy.text.errors import ConfigError
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import (
    Machine,
    MemoryKind,
    NumaNode,
    NumaNodeId,
)
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.property.walk_machines import GIB, hybrid
from tests.unit.topology.model.offline import without

STEPS = int(os.environ.get("PINFOLD_WALK_STEPS", "13000"))


def with_slow_memory() -> Machine:
    """Two sockets with DRAM, each with PMEM and a little HBM near it."""
    plain = machine_from_spec("socket:2 core:4 thread:2 mem:8G")
    extra = tuple(
        NumaNode(id=NumaNodeId(2 + number), memory_bytes=size * GIB, kind=kind)
        for number, (size, kind) in enumerate(
            ((16, MemoryKind.PMEM), (16, MemoryKind.PMEM), (2, MemoryKind.HBM), (2, MemoryKind.HBM))
        )
    )
    near = (10, 21, 17, 28, 13, 24), (21, 10, 28, 17, 24, 13), (17, 28, 10, 28, 30, 40)
    far = (28, 17, 28, 10, 40, 30), (13, 24, 30, 40, 10, 30), (24, 13, 40, 30, 30, 10)
    return dataclasses.replace(
        plain, numa_nodes=(*plain.numa_nodes, *extra), distances=(*near, *far)
    )


MACHINES = {
    "two sockets of two NUMA nodes": machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:8G"),
    "one socket with four L3 groups": machine_from_spec("socket:1 l3:4 core:4 thread:2 mem:16G"),
    "four small sockets with isolated cpus": machine_from_spec(
        "socket:4 core:4 mem:4G isolated:6-7,14-15"
    ),
    "dies and NUMA nodes, no threads": machine_from_spec("socket:2 die:2 numa:2 core:2 mem:4G"),
    "two cpus": machine_from_spec("socket:1 core:2 mem:2G"),
    "sixty-four threads": machine_from_spec("socket:2 numa:4 core:4 thread:2 mem:4G"),
    "memory of three kinds": with_slow_memory(),
    "performance and efficient cores": hybrid(),
}
PREFIX = "resource-policy.nri.io"


class Walk:
    """Events on an engine, and beside it a runtime that believes what it is told."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.random = random.Random(seed)
        self.machine = self.full = machine
        self.config = self.configured(Config(reserved_resources=Amounts(cpu="750m")))
        self.engine = Engine(machine, self.config)
        self.running: dict[ContainerId, Container] = {}
        self.kernel: dict[ContainerId, Pinning] = {}
        self.history: list[str] = []
        self.count = 0

    def configured(self, config: Config) -> Config:
        """A configuration with what all of a walk's have."""
        return config

    def step(self) -> None:
        events = self.events()
        self.random.choices(tuple(events), tuple(events.values()))[0]()
        self.check()

    def events(self) -> dict[Callable[[], None], int]:
        """What may happen next, and how often in comparison."""
        return {
            self.create: 50,
            self.adopt: 3,
            self.stop: 25,
            self.remove: 10,
            self.resize: 12,
            self.warm_up: 3,
            self.observe: 1,
            self.restart: 2,
            self.reconfigure: 1,
            self.plug: 2,
        }

    def newcomer(self) -> Container:
        """A new container; an older instance of it is gone, as the engine releases that itself."""
        container = self.new_container()
        for container_id, one in list(self.running.items()):
            if (one.pod.uid, one.name) == (container.pod.uid, container.name):
                del self.running[container_id]
                del self.kernel[container_id]
        return container

    def create(self) -> None:
        container = self.newcomer()
        decision = self.engine.create(container)
        self.told(decision)
        if isinstance(decision.result, Grant):
            self.running[container.id] = container
            self.kernel[container.id] = decision.pinning
            self.check_spread(container, decision.pinning)
        else:
            self.engine.remove(container.id)

    def adopt(self) -> None:
        """A container runs already when it is heard of; it cannot be refused."""
        container = self.newcomer()
        if self.random.random() < 0.5:
            cpus = self.random.sample(list(self.machine.online), 1)
            container = structs.replace(container, cpus=CpuSet.collect(cpus))
        before = self.engine.decisions
        others = {one: before[one] for one in self.running}
        states = {one: self.engine.containers[one].state for one in self.running}
        decision = self.engine.adopt(container)
        assert isinstance(decision.result, Grant), "who runs already cannot be refused"
        self.told(decision)
        self.check_others(others)
        assert {one: self.engine.containers[one].state for one in states} == states
        self.running[container.id] = container
        self.kernel[container.id] = decision.pinning

    def check_others(self, before: Mapping[ContainerId, Decision]) -> None:
        """Nobody is decided about anew because somebody else runs already."""
        assert {one: self.engine.decisions[one] for one in before} == before

    def stop(self) -> None:
        if self.running:
            self.end(self.engine.stop)

    def remove(self) -> None:
        if self.running:
            self.end(self.engine.remove)

    def end(self, event: Callable[[ContainerId], tuple[Change, ...]]) -> None:
        container_id = self.random.choice(sorted(self.running))
        del self.running[container_id]
        del self.kernel[container_id]
        self.apply(event(container_id))
        assert event(container_id) == (), "a repeated event changes nothing"

    def resize(self) -> None:
        if not self.running:
            return
        container_id = self.random.choice(sorted(self.running))
        container = self.running[container_id]
        before = self.kernel[container_id]
        resources = self.resources(container.pod.qos)
        decision = self.engine.update(container_id, resources)
        self.told(decision)
        if isinstance(decision.result, Refusal):
            assert decision.pinning == before, "a refused resize changes nothing"
            assert not decision.changes
        else:
            self.running[container_id] = structs.replace(container, resources=resources)
            self.kernel[container_id] = decision.pinning

    def warm_up(self) -> None:
        """A cold start is over, if there was one."""
        if self.running:
            self.apply(self.engine.end_cold_start(self.random.choice(sorted(self.running))))

    def observe(self) -> None:
        """Somebody looks how much memory is free; now and then there is hardly any."""
        share = self.random.choice((0, 1, 50, 100))
        self.apply(
            self.engine.observe_memory(
                {
                    node.id: (node.memory_bytes or 0) * share // 100
                    for node in self.machine.numa_nodes
                }
            )
        )

    def restart(self) -> None:
        """The daemon dies and comes back: nothing that runs may move."""
        is_remembered = self.random.random() < 0.5
        advice: Mapping[ContainerId, Advice] = (
            self.engine.snapshot().advice() if is_remembered else {}
        )
        is_degraded = any(
            self.wants_exclusive(key) and self.engine.decisions[key].degraded
            for key in self.engine.grants
        )
        if is_degraded and not is_remembered:
            # Its cpus look like a grant of its own to who remembers nothing.
            return
        self.engine = Engine(self.machine, self.config)
        listed = [
            structs.replace(one, cpus=self.kernel[key].cpus, mems=self.kernel[key].mems)
            for key, one in self.running.items()
        ]
        if listed and self.random.random() < 0.2:
            # Somebody's entry is listed twice.
            listed.append(self.random.choice(listed))
        self.random.shuffle(listed)
        synchronized = self.engine.synchronize(listed, advice)
        assert synchronized.changes == (), "a restart moves nobody"
        assert len(synchronized.decisions) == len(self.running)
        assert not synchronized.faults

    def wants_exclusive(self, container_id: ContainerId) -> bool:
        container = self.running[container_id]
        milli = container.resources.cpu_request_milli
        return container.pod.qos is QosClass.GUARANTEED and milli >= 1000

    def reconfigure(self) -> None:
        """Other reserved and available cpus and memory; a legal container keeps what it has."""
        usable = list(self.machine.online)
        amount = self.random.choice(("750m", "2", f"cpuset:{usable[-1]}", f"cpuset:{usable[0]}"))
        excluded = self.random.choice(usable[:-1]) if len(usable) > 2 else 999
        available, reserved = self.random.choice(self.memory_sets())
        config = Config(
            reserved_resources=Amounts(cpu=amount, memory=reserved),
            available_resources=Amounts(cpu=f"exclude-cpuset:{excluded}", memory=available),
        )
        self.change(self.configured(config), self.machine)

    def memory_sets(self) -> list[tuple[str | None, str | None]]:
        """Available and reserved memory of a configuration, such that some is left."""
        nodes = [node.id for node in self.machine.numa_nodes]
        sets: list[tuple[str | None, str | None]] = [(None, None)]
        if len(nodes) > 1:
            one, other = self.random.sample(nodes, 2)
            sets += [(f"exclude-nodeset:{one}", None), (None, f"nodeset:{other}")]
            sets += [(f"exclude-nodeset:{one}", f"nodeset:{other}")] * (len(nodes) > 2)
        return sets

    def plug(self) -> None:
        """Cpus go offline and come back; the configuration stays."""
        cpus = list(self.full.online)
        offline = self.random.sample(cpus, self.random.randrange(len(cpus) // 2 + 1))
        machine = without(self.full, CpuSet.collect(offline))
        self.change(self.config, machine)
        assert self.machine is machine, "cpus that go offline never refuse what fitted"

    def change(self, config: Config, machine: Machine) -> None:
        before = dict(self.kernel)
        old = self.engine
        try:
            engine, synchronized = self.engine.reconfigured(config, machine)
        except ConfigError:
            assert self.engine is old
            return
        assert {key: old.pinning(key) for key in before} == before, "the old engine stays"
        self.engine, self.config, self.machine = engine, config, machine
        self.apply(synchronized.changes)
        for container_id in self.running:
            # What went offline is taken out of a set silently: the kernel did so already.
            self.kernel[container_id] = engine.pinning(container_id) or Pinning()
        told = {change.container_id for change in synchronized.changes}
        taken = sum(grant.exclusive.mask for grant in engine.grants.values())
        for container_id, pinning in before.items():
            grant = engine.grants[container_id]
            after = self.kernel[container_id]
            if container_id in told or pinning.cpus is None:
                continue
            assert after.cpus == pinning.cpus, "an untold container runs where it ran"
            assert after.mems == pinning.mems, "an untold container has the memory it had"
            assert not pinning.cpus.mask & taken & ~grant.exclusive.mask
            last, now = old.decisions[container_id], engine.decisions[container_id]
            had = old.grants[container_id]
            is_same = (had.exclusive, had.cpu_type) == (grant.exclusive, grant.cpu_type)
            if is_same and last.pool == now.pool and now.decided_by == "kept":
                assert last.decided_by == "kept", "a reload forgets no reason"

    def told(self, decision: Decision) -> None:
        assert all(change.container_id != decision.container_id for change in decision.changes)
        self.apply(decision.changes)

    def apply(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            assert change.before != change.after, "an update that changes nothing"
            assert change.container_id in self.running, "an update of a container that is gone"
            if change.before.cpus is not None:
                assert self.kernel[change.container_id].cpus == change.before.cpus
            self.kernel[change.container_id] = change.after

    def check(self) -> None:
        grants = self.engine.grants
        assert set(grants) == set(self.running)
        taken = 0
        for grant in grants.values():
            assert not taken & grant.exclusive.mask, "an exclusive cpu was granted twice"
            taken |= grant.exclusive.mask
        usable = self.engine.supply.allowed.mask & self.machine.online.mask
        ordinary, all_nodes = self.usable_memory(False), self.usable_memory(True)
        for container_id, pinning in self.kernel.items():
            if not grants[container_id].preserve_memory:
                assert pinning.mems, f"{container_id} has no memory nodes"
                is_ordinary = pinning.mems <= ordinary
                assert is_ordinary or (pinning.mems <= all_nodes and self.is_reserved(container_id))
            assert self.engine.pinning(container_id) == pinning
            if grants[container_id].cpu_type is CpuType.PRESERVE:
                assert pinning.cpus is None, f"{container_id} was to be left alone"
                continue
            assert pinning.cpus, f"{container_id} has no cpus"
            mask = pinning.cpus.mask
            assert not mask & ~usable, f"{container_id} runs on cpus it may not use"
            others = taken & ~grants[container_id].exclusive.mask
            assert not mask & others, f"{container_id} runs on another's exclusive cpus"
        self.count += 1
        if self.count % 50 == 0:
            self.engine.check()

    def check_spread(self, container: Container, pinning: Pinning) -> None:
        """Whom nobody limits is not bound to the nodes near its cpus."""
        resources, said = container.resources, " ".join(container.pod.annotations)
        if container.pod.qos is not QosClass.BURSTABLE or resources.memory_limit_bytes:
            return
        if "memory" in said or "cold-start" in said:
            return
        nodes = self.machine.numa_nodes
        dram = NodeSet.collect(one.id for one in nodes if one.kind is MemoryKind.DRAM)
        dram &= self.usable_memory(False)
        if dram and pinning.mems is not None:
            assert dram <= pinning.mems, f"{container.id} has {pinning.mems} alone"

    def usable_memory(self, may_use_reserved: bool) -> NodeSet:
        """The nodes whose memory containers may have, read off the configuration."""
        nodes = NodeSet.collect(one.id for one in self.machine.numa_nodes)
        denied = [self.config.available_resources.memory]
        if not may_use_reserved:
            denied.append(self.config.reserved_resources.memory)
        for text in filter(None, denied):
            nodes -= NodeSet.parse(text.partition(":")[2])
        return nodes

    def is_reserved(self, container_id: ContainerId) -> bool:
        pod = self.running[container_id].pod
        asks = pod.annotations.get(f"prefer-reserved-cpus.{PREFIX}/pod")
        return pod.namespace == "kube-system" if asks is None else asks == "true"

    def new_container(self) -> Container:
        qos = self.random.choice(tuple(QosClass))
        number = self.random.randrange(40)
        attempt = self.random.randrange(10**9)
        pod = Pod(
            id=PodId(f"sandbox-{number}"),
            name=f"pod-{number}",
            uid=f"uid-{number}",
            namespace=self.random.choice(("default", "default", "kube-system")),
            labels={"app": f"app-{number % 5}"},
            annotations=self.annotations(),
            qos=qos,
        )
        return Container(
            id=ContainerId(f"c-{number}-{attempt}"),
            name=f"c{number % 3}",
            pod=pod,
            resources=self.resources(qos),
            state=ContainerState.RUNNING,
            created_at=self.count,
        )

    def resources(self, qos: QosClass) -> Resources:
        milli = {
            QosClass.GUARANTEED: self.random.choice((100, 500, 1000, 1000, 1500, 2000, 3000, 5000)),
            QosClass.BURSTABLE: self.random.choice((0, 100, 250, 1000, 2000)),
            QosClass.BEST_EFFORT: 0,
        }[qos]
        limit = milli if qos is QosClass.GUARANTEED else self.random.choice((None, milli + 500))
        memory = 0 if qos is QosClass.BEST_EFFORT else self.random.choice((GIB // 8, GIB // 2, GIB))
        is_unlimited = qos is QosClass.BURSTABLE and self.random.random() < 0.5
        return Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=limit,
            memory_request_bytes=memory,
            memory_limit_bytes=None if is_unlimited else memory or None,
        )

    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.random.random() < 0.3:
            weight = self.random.choice((5, -5))
            app = self.random.randrange(5)
            found[f"{PREFIX}/affinity"] = (
                f"c0: [{{scope: {{key: name, operator: AlwaysTrue}}, "
                f"match: {{key: pod/labels/app, operator: Equals, values: [app-{app}]}}, "
                f"weight: {weight}}}]\nc1: [c2]\n"
            )
        for key, chance in (
            ("hide-hyperthreads", 0.05),
            ("prefer-isolated-cpus", 0.2),
            ("prefer-reserved-cpus", 0.05),
            ("prefer-shared-cpus", 0.1),
            ("cpu.preserve", 0.03),
        ):
            if self.random.random() < chance:
                value = self.random.choice(("true", "false"))
                found[f"{key}.{PREFIX}/pod"] = value
        for key, values in (
            (f"memory-type.{PREFIX}", ("dram", "pmem", "dram,pmem", "hbm,dram", "mixed")),
            (f"cold-start.{PREFIX}", ("duration: 5s",)),
            (f"memory.preserve.{PREFIX}", ("true",)),
            (f"prefer-cpu-priority.{PREFIX}", ("high", "normal", "low")),
            (f"unlimited-burstable.{PREFIX}", ("system", "numa", "l3cache")),
            (f"require-isolated-cpus.{PREFIX}", ("true",)),
            ("smt.pinfold.dev", ("pack", "spread", "hide")),
            ("exclusive.pinfold.dev", ("1", "3", "request")),
            (f"hide-hyperthreads.{PREFIX}", ("whole-cores",)),
            ("idle-cpus.pinfold.dev", ("l3", "numa", "socket")),
        ):
            if self.random.random() < (0.2 if key.startswith("idle") else 0.06):
                found[f"{key}/pod"] = self.random.choice(values)
        return found


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_laws_hold_at_every_step(machine: Machine) -> None:
    walk = Walk(machine, seed=len(machine.online))
    for _ in range(STEPS):
        walk.step()
    while walk.running:
        walk.remove()
    # Of the same layout: reserved cpus stay those that were, where others would do as well.
    fresh = Engine(walk.machine, walk.config, layout=walk.engine.snapshot().layout)
    assert walk.engine.snapshot().free_sharable == fresh.snapshot().free_sharable, (
        "nothing was lost"
    )
    assert walk.engine.snapshot().free_isolated == fresh.snapshot().free_isolated
    walk.engine.check()


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_same_events_give_the_same_state(machine: Machine) -> None:
    walks = [Walk(machine, seed=7) for _ in range(2)]
    for _ in range(400):
        for walk in walks:
            walk.step()
    one, other = walks
    assert one.kernel == other.kernel
    assert dict(one.engine.grants) == dict(other.engine.grants)
