"""A node on paper for tests of the session: the embedded runtime, the plugin, all that happens."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from pinfold.nri.dispatch.report import (
    Answered,
    Happening,
    Outcome,
)
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import EmbeddedUpdates, kernel_reader
from pinfold.nri.embedded.kubelet import container_message, sandbox_message
from pinfold.nri.embedded.runtime_dialects import (
    NEWEST,
    Dialect,
)
from pinfold.nri.plugin.plugin import FindSender, Plugin, RuntimeLink, Timing
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import Container, QosClass, Resources
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from tests.unit.nri.fault_tally import FaultTally

MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")
MEMORY = 8 << 30
FAST = Timing(deadline_seconds=0.05, first_retry_seconds=0.002, last_retry_seconds=0.004)
PATIENT = Timing(deadline_seconds=7.0, first_retry_seconds=0.002, last_retry_seconds=0.004)


class Node:
    """A node with the embedded runtime, the plugin, and everything that happened."""

    def __init__(
        self,
        dialect: Dialect,
        policy: Engine,
        timing: Timing,
        timeout: float = 10.0,
        *,
        way: FindSender | None = None,
        reads_back: bool = True,
    ) -> None:
        self.runtime = EmbeddedRuntime(dialect, timeout)
        self.tally = FaultTally()
        self.outcomes: Counter[Outcome] = Counter()
        """Of the runtime's calls."""
        self.happenings: list[Happening] = []
        self.policy = policy
        self._link = RuntimeLink(
            connect=self.runtime.connect,
            find_sender=self._way if way is None else way,
            read_back=kernel_reader(self.runtime) if reads_back else None,
        )
        self._timing = timing
        self.plugin, self.thread = self._made()

    def _made(self) -> tuple[Plugin, threading.Thread]:
        plugin = Plugin(
            self.policy,
            self._link,
            self._report,
            timing=self._timing,
            machine_memory_bytes=MEMORY,
        )
        return plugin, threading.Thread(target=plugin.run, name="plugin")

    def _way(self, _runtime: str) -> EmbeddedUpdates:
        return EmbeddedUpdates(self.runtime)

    def _report(self, happening: Happening) -> None:
        self.tally(happening)
        if isinstance(happening, Answered):
            self.outcomes[happening.outcome] += 1
        self.happenings.append(happening)

    def start(self) -> None:
        self.thread.start()
        self.await_synchronization()

    def restart(self, policy: Engine) -> None:
        """The daemon ends, and another one comes that knows what the runtime tells it alone."""
        self.stop()
        self.policy = policy
        self.plugin, self.thread = self._made()
        self.start()

    def stop(self) -> None:
        self.plugin.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()

    def reconnect(self) -> None:
        self.runtime.drop()
        self.await_synchronization()

    def await_synchronization(self) -> None:
        assert self.runtime.wait_until_synchronized(5)
        assert self.plugin.wait_until_ready(5)
        self.settled()

    def add(self, name: str, resources: Resources | None = None, pod: PodSpec | None = None) -> str:
        """Create and start a container in a pod of its own; returns its id."""
        container_id = self.create(name, resources, pod)
        self.runtime.start(container_id)
        return container_id

    def create(
        self, name: str, resources: Resources | None = None, pod: PodSpec | None = None
    ) -> str:
        container = ContainerSpec(name=name, resources=resources or Resources())
        pod = pod or PodSpec(name=name, qos=qos_of(container.resources))
        self.runtime.run_pod(sandbox_message(pod))
        return self.runtime.create(container_message(container, pod, MEMORY)).id

    def cpus(self, container_id: str) -> str:
        """The cpus the kernel has, or, before it runs, those the runtime was told."""
        process = self.runtime.kernel.get(container_id)
        told = self.runtime.containers[container_id].linux.resources.cpu
        return (told if process is None else process).cpus

    def settled(self) -> "Node":
        assert self.plugin.settle()
        return self

    def answered(self, outcome: Outcome, times: int) -> bool:
        """Whether calls ended so, so many times: told once the runtime has its answers."""
        return eventually(lambda: self.outcomes[outcome] == times)

    def seen(self, kind: type) -> list[Happening]:
        return [one for one in self.happenings if isinstance(one, kind)]


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether something holds within a time that is never needed."""
    until = time.monotonic() + 5
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


def qos_of(resources: Resources) -> QosClass:
    if resources.cpu_limit_milli:
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE if resources.cpu_request_milli else QosClass.BEST_EFFORT


def exclusive(cpus: int) -> Resources:
    milli = 1000 * cpus
    return Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=1 << 20,
        memory_limit_bytes=1 << 20,
    )


SHARED = Resources(cpu_request_milli=500)


@contextmanager
def running(
    dialect: Dialect = NEWEST,
    policy: Engine | None = None,
    timing: Timing = PATIENT,
    timeout: float = 10.0,
    *,
    way: FindSender | None = None,
    reads_back: bool = True,
) -> Generator[Node]:
    policy = policy or Engine(MACHINE, Config())
    node = Node(dialect, policy, timing, timeout, way=way, reads_back=reads_back)
    node.start()
    try:
        yield node
    finally:
        node.stop()


class GatedEngine(Engine):
    """Thinks about each creation until the gate is open."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Config())
        self.gate = threading.Event()

    def create(self, container: Container) -> Decision:
        if not self.gate.wait(10):
            raise AssertionError("the test forgot the gate")
        return super().create(container)
