"""The random walk of containers' lives with pods of all kinds: the laws of pens hold, too."""

import os
from collections.abc import Mapping

import pytest
from msgspec import structs

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
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.model.request import CpuType
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.property.test_engine_walk import MACHINES, Walk
from tests.property.walk_machines import GIB

STEPS = int(os.environ.get("PINFOLD_PEN_WALK_STEPS", "3000"))
PODS = 10


class PenWalk(Walk):
    """Pods with resources of their own, with a wish, in groups, and ordinary ones."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.pods: dict[int, Pod] = {}
        super().__init__(machine, seed)

    def new_container(self) -> Container:
        if self.random.random() < 0.3:
            return super().new_container()
        number = self.random.randrange(PODS)
        pod_id = f"pen-{number}"
        if not any(one.pod.id == pod_id for one in self.running.values()):
            self.pods[number] = self.new_pod(pod_id)
        pod = self.pods[number]
        name = f"c{self.random.randrange(4)}"
        return Container(
            id=ContainerId(f"{pod_id}-{name}-{self.random.randrange(10**9)}"),
            name=name,
            pod=pod,
            resources=self.shown(pod),
            state=ContainerState.RUNNING,
            created_at=self.count,
        )

    def new_pod(self, pod_id: str) -> Pod:
        cpus = self.random.choice((1, 2, 2, 3, 4, 6))
        qos = self.random.choice((QosClass.GUARANTEED, QosClass.GUARANTEED, QosClass.BURSTABLE))
        limit = 1000 * cpus if qos is QosClass.GUARANTEED else 1000 * cpus + 1000
        size = Resources(
            cpu_request_milli=1000 * cpus,
            cpu_limit_milli=limit,
            memory_request_bytes=GIB,
            memory_limit_bytes=GIB,
        )
        wish = self.random.choice(("", "", "pod-pool", "group"))
        annotations = self.annotations() if self.random.random() < 0.5 else {}
        if wish == "pod-pool":
            annotations["pod-pool.pinfold.dev/pod"] = "true"
        if wish == "group":
            annotations["group.pinfold.dev/pod"] = self.random.choice(("red", "blue"))
        return Pod(
            id=PodId(pod_id),
            uid=f"uid-{pod_id}",
            name=pod_id,
            labels={"app": f"app-{self.random.randrange(5)}"},
            annotations=annotations,
            qos=qos,
            resources=size if self.random.random() < 0.85 else None,
        )

    def shown(self, pod: Pod) -> Resources:
        """What a container shows: its pod's numbers, or some of its own."""
        size = pod.resources
        if size is None or self.random.random() < 0.4:
            return self.resources(pod.qos)
        if pod.qos is QosClass.BURSTABLE:
            return structs.replace(size, cpu_request_milli=size.cpu_limit_milli or 0)
        return size

    def check_spread(self, container: Container, pinning: Pinning) -> None:
        """In a pen the limit of the pod counts, and its memory is one zone."""
        if self.engine.grants[container.id].pen is None:
            super().check_spread(container, pinning)

    def check_others(self, before: Mapping[ContainerId, Decision]) -> None:
        """Containers outside of pens are not decided about anew."""
        outside = {one: was for one, was in before.items() if not self.engine.grants[one].pen}
        super().check_others(outside)

    def restart(self) -> None:
        """The daemon dies and comes back, with the state file or without."""
        is_remembered = self.random.random() < 0.7
        advice: Mapping[ContainerId, Advice] = (
            self.engine.snapshot().advice() if is_remembered else {}
        )
        before = {key: self.engine.grants[key].pen for key in self.running}
        self.engine = Engine(self.machine, self.config)
        listed = [
            structs.replace(one, cpus=self.kernel[key].cpus, mems=self.kernel[key].mems)
            for key, one in self.running.items()
        ]
        self.random.shuffle(listed)
        synchronized = self.engine.synchronize(listed, advice)
        assert not synchronized.faults
        if is_remembered:
            assert synchronized.changes == (), "a restart moves nobody"
            assert {key: self.engine.grants[key].pen for key in self.running} == before
        self.apply(synchronized.changes)
        self.engine.check()

    def check(self) -> None:
        super().check()
        snapshot = self.engine.snapshot()
        taken = CpuSet()
        for pen_id, pen in snapshot.pens.items():
            inside = {key for key, one in snapshot.grants.items() if one.pen == pen_id}
            assert inside, "a pen of nobody"
            assert not pen.exclusive & taken, "a cpu in two pens"
            taken |= pen.exclusive
            for container_id, pinning in self.kernel.items():
                grant = snapshot.grants[container_id]
                if grant.cpu_type is CpuType.PRESERVE or pinning.cpus is None:
                    continue
                if container_id not in inside:
                    assert not pinning.cpus & pen.exclusive, "a stranger in a pen"
                elif pen.exclusive:
                    assert pinning.cpus <= pen.exclusive, "a member outside of its pen"
                if container_id in inside and not grant.preserve_memory:
                    assert pinning.mems == pen.memory, "a member with other memory"

    def leave_nothing(self) -> None:
        """Everybody goes, and nothing is left of them."""
        while self.running:
            self.remove()
        left = self.engine.snapshot()
        # Of the same layout: reserved cpus stay those that were, where others would do as well.
        fresh = Engine(self.machine, self.config, layout=left.layout).snapshot()
        assert not left.pens
        assert left.free_sharable == fresh.free_sharable, "nothing was lost"
        assert left.free_isolated == fresh.free_isolated
        assert left.memory.holdings == fresh.memory.holdings, "no memory was lost"
        self.engine.check()


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_laws_of_pens_hold_at_every_step(machine: Machine) -> None:
    walk = PenWalk(machine, seed=len(machine.online))
    for _ in range(STEPS):
        walk.step()
    walk.leave_nothing()
