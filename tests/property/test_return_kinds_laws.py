"""Laws of crashes where no rule keeps containers apart: whoever is back has all that it had.

Of pods that are a unit and of ordinary ones, with init containers and sidecars, with memory that is
scarce; and a daemon that dies meanwhile moves nobody who runs.
"""

import os
import random
from collections.abc import Mapping, Sequence

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.advice import Advice
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
from pinfold.policy.model.pinning import Change, Pinning
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine

STEPS = int(os.environ.get("PINFOLD_RETURN_STEPS", "60"))
SEEDS = range(int(os.environ.get("PINFOLD_RETURN_SEEDS", "60")))
GROUPS_FOUND = (76, 102, 107, 151, 157, 173, 177, 196, 217, 228, 244, 253, 257)
"""In these a group was back on other cpus, or with more or fewer."""
FOUND = (1053, 7035)
"""In these one that had shared its pod's cpus was back with some of them for itself."""
MIB = 2**20
MACHINES = (
    machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"),
    machine_from_spec("socket:1 l3:4 core:2 thread:2 mem:4G"),
    machine_from_spec("socket:2 core:4 mem:2G isolated:3,7"),
    machine_from_spec("socket:1 numa:3 core:2 thread:2 mem:1G"),
)


class Node:
    """A node on which pods of all kinds crash, and beside it what a runtime would have."""

    remembered = 0.6
    """How many restarts of the daemon find a state file."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.random = random.Random(seed)
        self.machine = machine
        self.engine = self.new_engine()
        self.running: dict[ContainerId, Container] = {}
        self.kernel: dict[ContainerId, Pinning] = {}
        self.count = 0
        self.history: list[str] = []

    def new_engine(self) -> Engine:
        return Engine(self.machine, Config(reserved_resources=Amounts(cpu="cpuset:0")))

    def step(self) -> None:
        events = (self.create_pod, self.end_pod, self.crash, self.restart)
        self.random.choices(events, (5, 3, 3, 1))[0]()
        self.engine.check()

    def create_pod(self) -> None:
        """Its init containers run and end one after the other, its sidecars stay."""
        containers = self.new_pod()
        for one in containers:
            if self.start(one) and one.name.startswith("init"):
                self.stop(one.id)
                self.remove(one.id)

    def end_pod(self) -> None:
        if self.running:
            pod = self.random.choice(sorted({one.pod.id for one in self.running.values()}))
            for one in [key for key, one in self.running.items() if one.pod.id == pod]:
                self.stop(one)
                self.remove(one)

    def crash(self) -> None:
        """Some end, of the same pod or of several, and are back in whatever order."""
        if not self.running:
            return
        draw = self.random
        count = 1 if draw.random() < 0.4 else draw.randint(2, 6)
        crashed = draw.sample(sorted(self.running), min(count, len(self.running)))
        if draw.random() < 0.3:
            pod = self.running[crashed[0]].pod.id
            crashed = sorted(key for key, one in self.running.items() if one.pod.id == pod)
        before, was_short = self.state(), self.is_short()
        mems = {key: one.mems for key, one in self.kernel.items()}
        gone = {one: self.running[one] for one in crashed}
        for one in crashed:
            self.stop(one)
            # Who had to be on more nodes comes home to what it leaves: there is no room for both.
            was_short |= any(mems[key] != one.mems for key, one in self.kernel.items())
        if draw.random() < 0.3:
            # They count as gone for good then: of several each finds what the others left.
            was_short |= len(crashed) > 1
            for one in crashed:
                self.remove(one)
        if draw.random() < 0.3:
            self.restart_now()
            was_short = True
        draw.shuffle(crashed)
        for one in crashed:
            self.count += 1
            again = structs.replace(gone[one], id=ContainerId(f"{one}-{self.count}"))
            assert self.start(again) or was_short, "no room where it was"
        after = self.state()
        assert was_short or after == before, {
            key: (before[key], after[key]) for key in before if before[key] != after[key]
        }

    def restart(self) -> None:
        """A daemon that comes back moves nobody."""
        self.restart_now()

    def restart_now(self) -> None:
        draw = self.random
        advice: Mapping[ContainerId, Advice] = (
            self.engine.snapshot().advice() if draw.random() < self.remembered else {}
        )
        listed = [
            structs.replace(one, cpus=self.kernel[key].cpus, mems=self.kernel[key].mems)
            for key, one in self.running.items()
        ]
        draw.shuffle(listed)
        self.engine = self.new_engine()
        adopted = self.engine.synchronize(listed, advice)
        self.note(f"restart {bool(advice)}")
        assert not adopted.changes, adopted.changes
        assert {one: self.engine.pinning(one) for one in self.running} == self.kernel

    def start(self, container: Container) -> bool:
        decision = self.engine.create(container)
        is_placed = isinstance(decision.result, Grant)
        if is_placed:
            self.running[container.id] = container
            self.kernel[container.id] = decision.pinning
        self.tell(decision.changes)
        self.note(f"create {container.id} {decision.result} {decision.decided_by}")
        if not is_placed:
            self.remove(container.id)
        return is_placed

    def stop(self, one: ContainerId) -> None:
        changes = self.engine.stop(one)
        del self.running[one], self.kernel[one]
        self.tell(changes)
        self.note(f"stop {one}")

    def remove(self, one: ContainerId) -> None:
        self.tell(self.engine.remove(one))

    def tell(self, changes: Sequence[Change]) -> None:
        for one in changes:
            assert self.kernel[one.container_id] == one.before
            self.kernel[one.container_id] = one.after
        assert {one: self.engine.pinning(one) for one in self.running} == self.kernel

    def state(self) -> Mapping[str, object]:
        """Where everybody is, by its pod and name."""
        found: dict[str, object] = {}
        for key, one in self.running.items():
            grant, pinning = self.engine.grants[key], self.kernel[key]
            pool = self.engine.tree.pools[grant.pool_id].name
            found[one.path] = (str(grant.exclusive), pool, str(pinning.cpus), str(pinning.mems))
        return found

    def is_short(self) -> bool:
        """Whether somebody lacks what it asked for, or more is promised than there is."""
        snapshot = self.engine.snapshot()
        if min(snapshot.room.shared_milli) < 0:
            return True
        return any(self.engine.decisions[one].degraded for one in self.running)

    def new_pod(self) -> Sequence[Container]:
        self.count += 1
        draw, name = self.random, f"p{self.count}"
        kind = draw.choice(("plain", "plain", "unit", "unit", "system", "idle"))
        qos = draw.choice((QosClass.GUARANTEED, QosClass.GUARANTEED, QosClass.BURSTABLE))
        if kind == "idle":
            qos = QosClass.BEST_EFFORT
        annotations: dict[str, str] = {}
        if kind == "unit":
            annotations["pod-pool.pinfold.dev/pod"] = "true"
        if kind == "plain" and draw.random() < 0.2:
            annotations["prefer-isolated-cpus.resource-policy.nri.io/pod"] = "true"
        if draw.random() < 0.2:
            annotations["memory-type.resource-policy.nri.io/pod"] = "dram"
        sizes = [self.resources(qos) for _ in range(draw.choice((1, 1, 2, 3)))]
        limited = all(one.cpu_limit_milli for one in sizes)
        whole = Resources(
            cpu_request_milli=sum(one.cpu_request_milli for one in sizes),
            cpu_limit_milli=sum(one.cpu_limit_milli or 0 for one in sizes) if limited else None,
            memory_request_bytes=sum(one.memory_request_bytes for one in sizes),
            memory_limit_bytes=sum(one.memory_limit_bytes or 0 for one in sizes) or None,
        )
        pod = Pod(
            id=PodId(name),
            name=name,
            uid=f"uid-{name}",
            namespace="kube-system" if kind == "system" else "default",
            annotations=annotations,
            qos=qos,
            resources=whole if kind == "unit" and qos is not QosClass.BEST_EFFORT else None,
        )
        names = [f"main{number}" for number in range(len(sizes))]
        if draw.random() < 0.3:
            names, sizes = ["init", *names], [self.resources(qos), *sizes]
        if draw.random() < 0.2:
            names, sizes = ["sidecar", *names], [self.resources(qos), *sizes]
        return [
            Container(
                id=ContainerId(f"{name}-{one}"),
                name=one,
                pod=pod,
                resources=size,
                state=ContainerState.RUNNING,
                created_at=self.count,
            )
            for one, size in zip(names, sizes, strict=True)
        ]

    def resources(self, qos: QosClass) -> Resources:
        draw = self.random
        if qos is QosClass.BEST_EFFORT:
            return Resources()
        milli = draw.choice((200, 500, 1000, 1000, 2000, 1500))
        memory = MIB * draw.choice((16, 128, 400, 700))
        if qos is QosClass.GUARANTEED:
            return Resources(
                cpu_request_milli=milli,
                cpu_limit_milli=milli,
                memory_request_bytes=memory,
                memory_limit_bytes=memory,
            )
        return Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=draw.choice((None, milli + 500)),
            memory_request_bytes=memory,
            memory_limit_bytes=draw.choice((None, memory)),
        )

    def note(self, event: str) -> None:
        placed = {key: f"{one.cpus}/{one.mems}" for key, one in self.kernel.items()}
        self.history.append(f"{event}\n    {placed}")

    def live(self, steps: int) -> None:
        """Take so many steps, each of which asserts the laws; where one breaks, print the last."""
        try:
            for _ in range(steps):
                self.step()
        except AssertionError:
            print(*self.history[-16:], sep="\n")
            raise


class GroupedNode(Node):
    """A node on which most pods are in groups of several; a group's memory is no part of the law.

    What a group has of its own no cpuset tells, so a daemon always finds its state file.
    """

    remembered = 1

    def new_pod(self) -> Sequence[Container]:
        containers = super().new_pod()
        pod = containers[0].pod
        is_plain = pod.namespace == "default" and pod.resources is None
        if not is_plain or self.random.random() < 0.4:
            return containers
        group = {"group.pinfold.dev/pod": self.random.choice(("red", "blue"))}
        pod = structs.replace(pod, annotations={**pod.annotations, **group})
        return [structs.replace(one, pod=pod) for one in containers]

    def state(self) -> Mapping[str, object]:
        return {
            one.path: (self.engine.grants[key].exclusive, self.kernel[key].cpus)
            for key, one in self.running.items()
        }

    def is_short(self) -> bool:
        """Or whether a group has less than its containers ask for."""
        asked: dict[ContainerId, int] = {}
        for key, grant in self.engine.grants.items():
            if grant.pen is not None and self.running[key].pod.resources is None:
                milli = self.running[key].resources.cpu_request_milli
                asked[grant.pen] = asked.get(grant.pen, 0) + milli
        pens = self.engine.snapshot().pens
        return super().is_short() or any(
            milli > (1000 * len(pens[key].exclusive) or pens[key].shared_milli)
            for key, milli in asked.items()
        )


@pytest.mark.parametrize("seed", dict.fromkeys((*SEEDS, *FOUND)))
def test_who_crashes_and_is_back_has_all_that_it_had_and_so_has_everybody(seed: int) -> None:
    Node(MACHINES[seed % len(MACHINES)], seed).live(STEPS)


@pytest.mark.parametrize("seed", dict.fromkeys((*SEEDS, *GROUPS_FOUND)))
def test_a_group_whose_containers_crash_has_the_cpus_that_it_had(seed: int) -> None:
    GroupedNode(MACHINES[seed % len(MACHINES)], seed).live(STEPS)
