"""Laws of the session: whatever happens, the kernel has what the policy believes it has."""

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.nri.api import nri_pb2
from pinfold.nri.dialect import DIALECTS, Dialect
from pinfold.nri.embedded import RequestError
from pinfold.nri.happening import Tally
from pinfold.nri.kubelet import container_message, resources_message, sandbox_message
from pinfold.nri.loopback import Loopback, loopback
from pinfold.nri.plugin import Timing
from pinfold.policy.configuration.config import Config
from pinfold.policy.container import ContainerId, QosClass, Resources
from pinfold.policy.decision import Refusal
from pinfold.policy.engine import Engine
from pinfold.policy.resources import linux_resources
from pinfold.policy.scenarios.manifest import ContainerSpec, PodSpec
from pinfold.topology.cpuset import CpuSet
from pinfold.topology.spec import machine_from_spec

MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:4G")
MEMORY = 8 << 30
PATIENT = Timing(deadline_seconds=1.4, first_retry_seconds=0.001, last_retry_seconds=0.002)


class Step(NamedTuple):
    """Something that happens to the container of a slot."""

    name: str
    slot: int
    milli: int


steps = st.lists(
    st.builds(
        Step,
        name=st.sampled_from(
            [
                "create",
                "create",
                "create",
                "start",
                "update",
                "stop",
                "remove",
                "remove_pod",
                "drop",
            ]
        ),
        slot=st.integers(0, 4),
        milli=st.sampled_from([0, 100, 500, 1000, 1500, 2000, 3000]),
    ),
    max_size=25,
)


class World:
    """A node, and at most one container in each of its slots."""

    def __init__(self, node: Loopback) -> None:
        self.node = node
        self.runtime = node.runtime
        self.pods: dict[int, PodSpec] = {}
        self.containers: dict[int, str] = {}
        self.attempts = 0

    def play(self, step: Step) -> None:
        actions: dict[str, Callable[[Step], None]] = {
            "create": self.create,
            "start": self.start,
            "update": self.update,
            "stop": self.stop,
            "remove": self.remove,
            "remove_pod": self.remove_pod,
            "drop": self.drop,
        }
        try:
            actions[step.name](step)
        except RequestError:
            return  # refused: the laws hold all the more

    def create(self, step: Step) -> None:
        if step.slot in self.containers:
            return
        qos = QosClass.GUARANTEED if step.slot < 3 else QosClass.BURSTABLE
        pod = PodSpec(name=f"pod-{step.slot}", qos=qos)
        self.runtime.run_pod(sandbox_message(pod))
        self.pods[step.slot] = pod
        self.attempts += 1
        spec = ContainerSpec(name="c", resources=resources(step.milli))
        message = container_message(spec, pod, MEMORY, self.attempts)
        self.containers[step.slot] = self.runtime.create(message).id

    def start(self, step: Step) -> None:
        container_id = self.containers.get(step.slot, "")
        container = self.runtime.containers.get(container_id)
        if container is not None and container.state == nri_pb2.CONTAINER_CREATED:
            self.runtime.start(container_id)

    def update(self, step: Step) -> None:
        if step.slot in self.containers:
            linux = linux_resources(resources(step.milli), self.pods[step.slot].qos, MEMORY)
            self.runtime.update(self.containers[step.slot], resources_message(linux))

    def stop(self, step: Step) -> None:
        if step.slot in self.containers:
            self.runtime.stop(self.containers[step.slot])

    def remove(self, step: Step) -> None:
        if step.slot in self.containers:
            self.runtime.remove(self.containers.pop(step.slot))

    def remove_pod(self, step: Step) -> None:
        if step.slot in self.pods:
            self.containers.pop(step.slot, None)
            self.runtime.remove_pod(sandbox_message(self.pods.pop(step.slot)).id)

    def drop(self, _step: Step) -> None:
        self.runtime.drop()
        assert self.runtime.wait_until_synchronized(5)
        assert self.node.plugin.wait_until_ready(5)

    def check(self) -> None:
        assert self.node.plugin.settle()
        engine = self.node.plugin.events.policy
        engine.check()
        alive = {
            ContainerId(one.id): CpuSet.parse(one.linux.resources.cpu.cpus)
            for one in self.runtime.containers.values()
            if one.state != nri_pb2.CONTAINER_STOPPED
        }
        assert set(engine.grants) == set(alive)
        for container_id in engine.containers.keys() - self.runtime.containers.keys():
            # Kept to say why until its next attempt or the end of its pod.
            assert isinstance(engine.decisions[container_id].result, Refusal)
        for container_id, cpus in alive.items():
            told = engine.pinning(container_id)
            assert told is not None
            assert told.cpus == cpus
            assert cpus
            for other, grant in engine.grants.items():
                assert other == container_id or cpus.isdisjoint(grant.exclusive)


def resources(milli: int) -> Resources:
    return Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli or None,
        memory_request_bytes=1 << 20,
        memory_limit_bytes=1 << 20,
    )


@settings(max_examples=40, deadline=None)
@given(dialect=st.sampled_from(DIALECTS), story=steps)
def test_kernel_has_what_the_policy_believes(dialect: Dialect, story: list[Step]) -> None:
    tally = Tally()
    policy = Engine(MACHINE, Config())
    with loopback(
        policy, tally, dialect=dialect, timing=PATIENT, machine_memory_bytes=MEMORY
    ) as node:
        world = World(node)
        for step in story:
            world.play(step)
            world.check()
    assert tally.crashes == 0
    assert tally.failed_updates == 0
