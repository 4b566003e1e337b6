"""A scenario over the wire: the embedded runtime, a front before the policy, and a kubelet."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, cast

import grpc

from pinfold.cmd.state.saved_states import SavedStates
from pinfold.nri.api import nri_pb2
from pinfold.nri.cri.cri_proxy import CriProxy
from pinfold.nri.dispatch.front import Front
from pinfold.nri.dispatch.report import Crashed, Happening
from pinfold.nri.embedded.cri_face import cri_resources
from pinfold.nri.embedded.cri_kubelet import CriKubelet
from pinfold.nri.embedded.cri_loopback import CriLoopback
from pinfold.nri.embedded.embedded_cri import embedded_link
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime, RequestError
from pinfold.nri.embedded.kubelet import container_message, resources_message, sandbox_message
from pinfold.nri.hints.combined_hints import Surroundings
from pinfold.nri.plugin.plugin import Plugin, Timing
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.adoption import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.reason import reason_of
from pinfold.policy.hints.hint_text import TEST_APIS
from pinfold.policy.manifests.manifest import ContainerSpec, PodSpec
from pinfold.policy.model.container import ContainerId, QosClass, Resources
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.policy.model.memory_qos import MemoryQos, memory_entries
from pinfold.policy.scenarios.step import (
    CreatePod,
    DeletePods,
    EndContainer,
    Expect,
    Reconfigure,
    Remember,
    SetInterrupts,
    Start,
    Step,
    Stop,
    Synchronize,
    UnsupportedStep,
    UpdateContainer,
    Wait,
)
from pinfold.policy.tuning.interrupts import Interrupt
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.base_errors import PinfoldError
from pinfold.topology.sets.cpuset import NodeSet
from pinfold.topology.sysfs.overrides import override_machine, parse_overrides

SECONDS: Final = 20.0
PATIENT: Final = Timing(deadline_seconds=10.0, first_retry_seconds=0.002, last_retry_seconds=0.004)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a container came to, in words that every way of running it has."""

    pool: str
    cpus: str
    mems: str
    exclusive: str
    decided_by: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Started:
    """A container that runs, as its kubelet knows it."""

    pod: PodSpec
    spec: ContainerSpec
    pod_id: str
    id: str
    attempt: int = 0


class Wire(ABC):
    """A runtime on paper with a front before it, and a kubelet's way to it."""

    def __init__(self, memory_bytes: int | None, memory_qos: MemoryQos = MemoryQos.OFF) -> None:
        self.memory_qos = memory_qos
        self.runtime = EmbeddedRuntime(request_timeout_seconds=SECONDS)
        self.memory_bytes = memory_bytes
        self.faults: list[Crashed] = []
        self.front: Front | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def make_front(self, policy: Engine, *, has_test_hints: bool) -> Front: ...

    @abstractmethod
    def run_pod(self, pod: PodSpec) -> str: ...

    @abstractmethod
    def start(self, one: Started) -> str:
        """The id of the container; raises `RequestError` with the reason where it is refused."""

    @abstractmethod
    def remove(self, container_id: str) -> None: ...

    @abstractmethod
    def remove_pod(self, pod_id: str) -> None: ...

    @abstractmethod
    def update(self, container_id: str, resources: Resources, qos: QosClass) -> None: ...

    def update_message(self, resources: Resources, qos: QosClass) -> nri_pb2.LinuxResources:
        message = resources_message(linux_resources(resources, qos, self.memory_bytes))
        message.unified.update(memory_entries(resources, qos, self.memory_bytes, self.memory_qos))
        return message

    def close(self) -> None:
        self.end()

    def report(self, happening: Happening) -> None:
        if isinstance(happening, Crashed):
            self.faults.append(happening)

    def begin(
        self, policy: Engine, advice: Mapping[ContainerId, Advice], *, has_test_hints: bool
    ) -> None:
        self.front = self.make_front(policy, has_test_hints=has_test_hints)
        self.front.events.advice = advice
        self._thread = threading.Thread(target=self.front.run, daemon=True)
        self._thread.start()
        assert self.front.wait_until_ready(SECONDS)

    def end(self) -> None:
        front, thread, self.front = self.front, self._thread, None
        if front is not None and thread is not None:
            front.stop()
            thread.join()


class NriWire(Wire):
    """The policy as an NRI plugin."""

    def make_front(self, policy: Engine, *, has_test_hints: bool) -> Front:
        return Plugin(
            policy,
            embedded_link(self.runtime),
            self.report,
            timing=PATIENT,
            machine_memory_bytes=self.memory_bytes,
            finder=Surroundings(has_test_hints=has_test_hints),
        )

    def run_pod(self, pod: PodSpec) -> str:
        message = sandbox_message(pod)
        self.runtime.run_pod(message)
        return message.id

    def start(self, one: Started) -> str:
        message = container_message(
            one.spec, one.pod, self.memory_bytes, one.attempt, self.memory_qos
        )
        try:
            created = self.runtime.create(message)
        except RequestError as error:
            raise RequestError(str(error.__cause__ or error)) from error
        self.runtime.start(created.id)
        return created.id

    def remove(self, container_id: str) -> None:
        self.runtime.remove(container_id)

    def remove_pod(self, pod_id: str) -> None:
        self.runtime.remove_pod(pod_id)

    def update(self, container_id: str, resources: Resources, qos: QosClass) -> None:
        self.runtime.update(container_id, self.update_message(resources, qos))


class CriWire(Wire):
    """The policy as a CRI proxy; while there is none the kubelet talks to the runtime itself."""

    def __init__(
        self, memory_bytes: int | None, folder: Path, memory_qos: MemoryQos = MemoryQos.OFF
    ) -> None:
        super().__init__(memory_bytes, memory_qos)
        self._loopback = CriLoopback(self.runtime, folder, memory_bytes, memory_qos)

    def make_front(self, policy: Engine, *, has_test_hints: bool) -> Front:
        return CriProxy(
            policy,
            self._loopback.link(),
            self.report,
            machine_memory_bytes=self.memory_bytes,
            finder=Surroundings(has_test_hints=has_test_hints),
        )

    @property
    def _kubelet(self) -> CriKubelet:
        return self._loopback.direct if self.front is None else self._loopback.kubelet

    def run_pod(self, pod: PodSpec) -> str:
        return self._kubelet.run_pod(pod)

    def start(self, one: Started) -> str:
        try:
            return self._kubelet.start(one.pod_id, one.pod, one.spec, one.attempt)
        except grpc.RpcError as error:
            raise RequestError(cast("grpc.Call", error).details() or "") from error

    def remove(self, container_id: str) -> None:
        self._kubelet.remove(container_id)

    def remove_pod(self, pod_id: str) -> None:
        self._kubelet.remove_pod(pod_id)

    def update(self, container_id: str, resources: Resources, qos: QosClass) -> None:
        message = nri_pb2.LinuxContainer(resources=self.update_message(resources, qos))
        try:
            self._kubelet.update(container_id, cri_resources(message))
        except grpc.RpcError as error:
            raise RequestError(cast("grpc.Call", error).details() or "") from error

    def close(self) -> None:
        super().close()
        self._loopback.close()


class WiredRun:
    """One scenario on its way over a wire: `take` a step, then see the `places`."""

    def __init__(self, wire: Wire, machine: Machine, config: Config) -> None:
        self.wire = wire
        self.refused: dict[str, str] = {}
        self._machine = machine
        self._config = config
        self._pods: dict[tuple[str, str], tuple[PodSpec, str]] = {}
        self._running: dict[str, Started] = {}
        self._advice: Mapping[ContainerId, Advice] = {}
        self._interrupts: tuple[Interrupt, ...] = ()
        self._has_test_hints = False
        self._is_start_spoilt = False
        self._now_ns = 0
        self._cold_until_ns: dict[ContainerId, int] = {}

    def take(self, step: Step) -> None:
        """Do what a step says."""
        match step:
            case Start():
                self._start(step)
            case Stop():
                self._stop()
            case Reconfigure():
                self._reconfigure(step)
            case CreatePod():
                self._create_pod(step.pod)
            case DeletePods():
                names = [name for space, name in self._pods if space == step.namespace]
                for name in names if step.names is None else step.names:
                    self._delete_pod(step.namespace, name)
            case EndContainer():
                self._end(step)
            case UpdateContainer():
                self._update(step)
            case SetInterrupts():
                self._interrupts = tuple(
                    Interrupt(number=number, description=text, affinity=step.affinity)
                    for number, text in step.descriptions.items()
                )
                self._front().events.policy.interrupts = self._interrupts
            case Wait():
                self._wait(step.nanoseconds)
            case UnsupportedStep():
                self._is_start_spoilt |= step.spoils_start
            case Expect() | Remember() | Synchronize():
                pass
        if self.wire.front is not None:
            assert self.wire.front.settle(SECONDS)

    def places(self) -> dict[str, Place]:
        """Where the containers that run are, by path; while no policy runs nobody says."""
        if self.wire.front is None:
            return {}
        front = self.wire.front
        now = front.owner.ask("places", lambda: front.events.policy.snapshot())
        found: dict[str, Place] = {}
        for container_id, grant in now.grants.items():
            container, decision = now.containers[container_id], now.decisions[container_id]
            kernel = self.wire.runtime.kernel[container.shown_id]
            found[container.path] = Place(
                pool=now.tree.pools[grant.pool_id].name,
                cpus=kernel.cpus or str(self._machine.online),
                mems=kernel.mems or str(_all_memory(self._machine)),
                exclusive=str(grant.exclusive),
                decided_by=decision.decided_by,
                reason=reason_of(decision),
            )
        return found

    def _front(self) -> Front:
        assert self.wire.front is not None, "the policy does not run"
        return self.wire.front

    def _start(self, step: Start) -> None:
        if self._is_start_spoilt:
            self._is_start_spoilt = False
            return
        with suppress(PinfoldError):
            self._begin(step)

    def _begin(self, step: Start) -> None:
        config = self._config if step.config is None else config_from_values(step.config)
        if step.environment:
            self._has_test_hints = bool(step.environment.get(TEST_APIS))
            self._machine = override_machine(self._machine, parse_overrides(step.environment))
        engine = Engine(self._machine, config, interrupts=self._interrupts)
        self.wire.begin(engine, self._advice, has_test_hints=self._has_test_hints)

    def _reconfigure(self, step: Reconfigure) -> None:
        front = self._front()

        def reconfigure() -> None:
            with suppress(PinfoldError):
                front.events.reconfigure(config_from_values(step.config))

        front.owner.ask("reconfigure", reconfigure)

    def _stop(self) -> None:
        front = self.wire.front
        if front is None:
            return
        snapshot = front.owner.ask("state", lambda: front.events.policy.snapshot())
        # As the state file keeps it: under the runtime's ids.
        self._advice = SavedStates().of(snapshot).advice()
        self.wire.end()

    def _create_pod(self, pod: PodSpec) -> None:
        pod_id = self.wire.run_pod(pod)
        self._pods[pod.namespace, pod.name] = pod, pod_id
        for spec in (*pod.init_containers, *pod.containers):
            one = Started(pod=pod, spec=spec, pod_id=pod_id, id="")
            if not self._create(one) and spec in pod.init_containers:
                break
            if one.id and not spec.keeps_running:
                self._remove(one)

    def _create(self, one: Started) -> bool:
        path = _path(one)
        try:
            one.id = self.wire.start(one)
        except RequestError as error:
            self.refused[path] = str(error)
            return False
        self.refused.pop(path, None)
        self._running[path] = one
        if (front := self.wire.front) is not None:
            now = front.owner.ask("decisions", lambda: front.events.policy.snapshot())
            for container_id, decision in now.decisions.items():
                if decision.cold_start_ns and now.containers[container_id].shown_id == one.id:
                    self._cold_until_ns[container_id] = self._now_ns + decision.cold_start_ns
        return True

    def _wait(self, nanoseconds: int) -> None:
        self._now_ns += nanoseconds
        over = [one for one, until in self._cold_until_ns.items() if until <= self._now_ns]
        for container_id in sorted(over, key=self._cold_until_ns.__getitem__):
            del self._cold_until_ns[container_id]
            end = partial(self._front().events.end_cold_start, container_id)
            self._front().owner.ask("end of a cold start", end)

    def _remove(self, one: Started) -> None:
        del self._running[_path(one)]
        self.wire.remove(one.id)

    def _delete_pod(self, namespace: str, name: str) -> None:
        _, pod_id = self._pods.pop((namespace, name))
        self.wire.remove_pod(pod_id)
        for known in (self._running, self.refused):
            for path in [one for one in known if one.startswith(f"{namespace}/{name}/")]:
                del known[path]

    def _end(self, step: EndContainer) -> None:
        one = self._find(step.container)
        self._remove(one)
        if step.restarts:
            one.attempt += 1
            self._create(one)

    def _update(self, step: UpdateContainer) -> None:
        one = self._find(step.container)
        with suppress(RequestError):
            self.wire.update(one.id, step.resources, one.pod.qos)

    def _find(self, name: str) -> Started:
        return next(
            one for path, one in reversed(self._running.items()) if name in (path, one.spec.name)
        )


def _all_memory(machine: Machine) -> NodeSet:
    """What a container may use that nobody restricted."""
    return NodeSet.collect(one.id for one in machine.numa_nodes if one.memory_bytes != 0)


def _path(one: Started) -> str:
    return f"{one.pod.namespace}/{one.pod.name}/{one.spec.name}"
