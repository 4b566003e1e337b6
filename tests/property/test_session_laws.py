"""Laws of the session: whatever happens, the kernel has what the policy believes it has."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.events import Events
from pinfold.nri.embedded.embedded_runtime import RequestError
from pinfold.nri.embedded.kubelet import container_message, resources_message, sandbox_message
from pinfold.nri.embedded.runtime_dialects import NEWEST, Dialect
from pinfold.nri.plugin.plugin import Timing
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import ContainerId, QosClass, Resources
from pinfold.policy.model.grant import Refusal
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.topology.made.online_cpus import with_online
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.nri.dialects import DIALECTS
from tests.unit.nri.fault_tally import FaultTally
from tests.unit.nri.loopback import Loopback, loopback

MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:4G")
SMALLER = with_online(MACHINE, CpuSet.parse("0-6"))
RESERVING = config_from_values({"reservedResources": {"cpu": "cpuset:0-1"}})
MEMORY = 8 << 30
SECONDS = 30.0
PATIENT = Timing(deadline_seconds=1.4, first_retry_seconds=0.001, last_retry_seconds=0.002)
HASTY = Timing(
    deadline_seconds=0.01, first_retry_seconds=0.001, last_retry_seconds=0.002, check_seconds=0.0
)


class Step(NamedTuple):
    """Something that happens to a container: `slot` picks one of those it can happen to."""

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
                "create",
                "create",
                "begin_start",
                "begin_start",
                "start",
                "start",
                "update",
                "stop",
                "remove",
                "remove_pod",
                "drop",
                "hold",
                "release",
                "reload",
                "memory",
                "cpus",
                "break",
                "break",
                "own_cpus",
                "agree",
                "agree",
                "agree",
            ]
        ),
        slot=st.integers(0, 4),
        milli=st.sampled_from([0, 100, 500, 1000, 1500, 2000, 3000]),
    ),
    # Short stories are cheap, and nothing happens in them.
    min_size=30,
    max_size=60,
)


class Clock:
    """Time that goes on, and jumps where nobody wants to wait."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class World:
    """A node, and at most one container in each of its slots."""

    def __init__(self, node: Loopback, clock: Clock, *, has_way: bool = True) -> None:
        self.node = node
        self.has_way = has_way
        self.clock = clock
        self.runtime = node.runtime
        self.pods: dict[int, PodSpec] = {}
        self.containers: dict[int, str] = {}
        self.attempts = 0
        self.gate = threading.Event()
        self.gate.set()

    def play(self, step: Step) -> None:
        try:
            getattr(self, step.name.replace("break", "spoil"))(step)
        except RequestError:
            return  # refused: the laws hold all the more

    def submit(self, work: Callable[[Events], object]) -> None:
        """Something of our own for the policy to do, in its turn."""
        events = self.node.plugin.events
        self.node.plugin.owner.submit("law", lambda: work(events))

    def hold(self, _step: Step) -> None:
        """From here on the policy does nothing, and the runtime gets late answers."""
        if self.gate.is_set():
            self.gate.clear()
            self.submit(lambda _: self.gate.wait(SECONDS))

    def release(self, _step: Step) -> None:
        self.gate.set()

    def reload(self, step: Step) -> None:
        self.submit(lambda events: events.reconfigure(RESERVING if step.milli % 1000 else Config()))

    def memory(self, step: Step) -> None:
        free = {0: step.milli << 20, 1: (3000 - step.milli) << 20}
        self.submit(lambda events: events.observe_memory(free))

    def cpus(self, step: Step) -> None:
        machine = SMALLER if step.milli % 1000 else MACHINE
        self.submit(lambda events: events.reconfigure(machine=machine))

    def spoil(self, step: Step) -> None:
        if container_id := self.pick(step, tuple(self.containers.values())):
            self.runtime.broken_ids.add(container_id)

    def own_cpus(self, step: Step) -> None:
        """Somebody else at the CRI socket, who does not know of us."""
        if container_id := self.pick(step, tuple(self.containers.values())):
            self.runtime.update_cpuset(container_id, "0-7", "")

    def pick(self, step: Step, candidates: Sequence[str]) -> str:
        """One of the candidates; empty where there are none."""
        return candidates[step.slot % len(candidates)] if candidates else ""

    def in_state(self, state: int) -> tuple[str, ...]:
        return tuple(
            one
            for one in self.containers.values()
            if (known := self.runtime.containers.get(one)) is not None and known.state == state
        )

    def create(self, step: Step) -> None:
        free = [slot for slot in range(6) if slot not in self.containers]
        if not free:
            return
        slot = free[step.slot % len(free)]
        qos = QosClass.GUARANTEED if slot % 2 else QosClass.BURSTABLE
        pod = PodSpec(name=f"pod-{slot}", qos=qos)
        self.runtime.run_pod(sandbox_message(pod))
        self.pods[slot] = pod
        self.attempts += 1
        spec = ContainerSpec(name="c", resources=resources(step.milli))
        message = container_message(spec, pod, MEMORY, self.attempts)
        self.containers[slot] = self.runtime.create(message).id

    def start(self, step: Step) -> None:
        """The end of a start, or a whole one."""
        created = self.in_state(nri_pb2.CONTAINER_CREATED)
        if container_id := self.pick(step, created):
            if not self.runtime.is_starting(container_id):
                self.runtime.begin_start(container_id)
            self.runtime.finish_start(container_id)

    def begin_start(self, step: Step) -> None:
        created = self.in_state(nri_pb2.CONTAINER_CREATED)
        waiting = [one for one in created if not self.runtime.is_starting(one)]
        if container_id := self.pick(step, waiting):
            self.runtime.begin_start(container_id)

    def update(self, step: Step) -> None:
        if container_id := self.pick(step, tuple(self.containers.values())):
            slot = self.slot(container_id)
            linux = linux_resources(resources(step.milli), self.pods[slot].qos, MEMORY)
            self.runtime.update(container_id, resources_message(linux))

    def stop(self, step: Step) -> None:
        if container_id := self.pick(step, self.in_state(nri_pb2.CONTAINER_RUNNING)):
            self.runtime.stop(container_id)

    def remove(self, step: Step) -> None:
        if container_id := self.pick(step, tuple(self.containers.values())):
            del self.containers[self.slot(container_id)]
            self.runtime.remove(container_id)

    def remove_pod(self, step: Step) -> None:
        if self.pods:
            slot = list(self.pods)[step.slot % len(self.pods)]
            self.containers.pop(slot, None)
            self.runtime.remove_pod(sandbox_message(self.pods.pop(slot)).id)

    def slot(self, container_id: str) -> int:
        return next(slot for slot, one in self.containers.items() if one == container_id)

    def drop(self, _step: Step) -> None:
        self.gate.set()
        self.runtime.drop()
        assert self.runtime.wait_until_synchronized(SECONDS)
        assert self.node.plugin.wait_until_ready(SECONDS)

    def agree(self, _step: Step) -> None:
        self.check()

    def check(self) -> None:
        """Nothing is held back or broken any more, and time passes: all must agree."""
        self.gate.set()
        self.runtime.broken_ids.clear()
        plugin = self.node.plugin
        for _ in range(4):
            # Late answers may have made the runtime drop us.
            assert self.runtime.wait_until_synchronized(SECONDS)
            assert plugin.wait_until_ready(SECONDS)
            self.clock.ahead += 100.0
            assert plugin.settle(SECONDS)
            if not self.has_way:
                # What waits goes out with the next answer.
                self.runtime.run_pod(sandbox_message(PodSpec(name="tick")))
                self.attempts += 1
                spec = ContainerSpec(name="tick")
                tick = container_message(spec, PodSpec(name="tick"), MEMORY, self.attempts)
                self.runtime.create(tick)
                self.runtime.remove(tick.id)
        engine = plugin.events.policy
        plugin.owner.ask("check", engine.check)
        alive = {
            ContainerId(one.id): one
            for one in self.runtime.containers.values()
            if one.state != nri_pb2.CONTAINER_STOPPED
        }
        assert set(engine.grants) <= set(alive)
        for container_id in engine.containers.keys() - self.runtime.containers.keys():
            # Kept to say why until its next attempt or the end of its pod.
            assert isinstance(engine.decisions[container_id].result, Refusal)
        running = {one: CpuSet.parse(cpu.cpus) for one, cpu in self.runtime.kernel.items()}
        for running_id, cpus in running.items():
            told = engine.pinning(ContainerId(running_id))
            assert told is not None, "whatever runs is placed"
            assert told.cpus == cpus
            assert cpus
            assert str(told.mems) == self.runtime.kernel[running_id].mems
            for other, grant in engine.grants.items():
                assert other == running_id or cpus.isdisjoint(grant.exclusive)


def resources(milli: int) -> Resources:
    return Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli or None,
        memory_request_bytes=1 << 20,
        memory_limit_bytes=1 << 20,
    )


@settings(max_examples=80, deadline=None)
@given(dialect=st.sampled_from(DIALECTS), story=steps, reads_back=st.booleans())
def test_kernel_has_what_the_policy_believes(
    dialect: Dialect, story: list[Step], *, reads_back: bool
) -> None:
    tally, clock = FaultTally(), Clock()
    with loopback(
        Engine(MACHINE, Config()),
        tally,
        dialect=dialect,
        timing=HASTY,
        machine_memory_bytes=MEMORY,
        clock=clock,
        reads_back=reads_back,
    ) as node:
        world = World(node, clock)
        for step in story:
            world.play(step)
        world.check()
        assert tally.crashes == 0
        if dialect is not NEWEST:
            assert node.runtime.unsolicited == 0, "it could hang for good"


@settings(max_examples=30, deadline=None)
@given(dialect=st.sampled_from(DIALECTS), story=steps)
def test_it_has_it_too_where_updates_wait_for_the_next_answer(
    dialect: Dialect, story: list[Step]
) -> None:
    tally, clock = FaultTally(), Clock()
    with loopback(
        Engine(MACHINE, Config()),
        tally,
        dialect=dialect,
        timing=HASTY,
        machine_memory_bytes=MEMORY,
        clock=clock,
        has_cri=False,
    ) as node:
        world = World(node, clock, has_way=False)
        for step in story:
            world.play(step)
        world.check()
        assert tally.crashes == 0
        if dialect is not NEWEST:
            assert node.runtime.unsolicited == 0, "it could hang for good"


@settings(max_examples=25, deadline=None)
@given(dialect=st.sampled_from(DIALECTS), story=steps)
def test_it_has_it_after_every_step(dialect: Dialect, story: list[Step]) -> None:
    clock = Clock()
    with loopback(
        Engine(MACHINE, Config()),
        dialect=dialect,
        timing=PATIENT,
        machine_memory_bytes=MEMORY,
        clock=clock,
    ) as node:
        world = World(node, clock)
        for step in story:
            world.play(step)
            world.check()
