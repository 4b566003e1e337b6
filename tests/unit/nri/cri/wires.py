"""Wires: the embedded runtime, a front before the policy, and a kubelet's way to them."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import grpc

from pinfold.nri.api import nri_pb2
from pinfold.nri.cri.cri_proxy import CriProxy
from pinfold.nri.dispatch.front import Front
from pinfold.nri.dispatch.report import Crashed, Happening
from pinfold.nri.embedded.claim_driver import ClaimDriver
from pinfold.nri.embedded.cri_loopback import CriLoopback
from pinfold.nri.embedded.cri_server import cri_resources
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime, RequestError
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import container_message, resources_message, sandbox_message
from pinfold.nri.hints.combined_hints import CombinedHints
from pinfold.nri.hints.hint_finder import HintFinder
from pinfold.nri.plugin.plugin import Plugin, Timing
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import ContainerId, QosClass, Resources
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.policy.model.memory_qos import MemoryQos, memory_entries
from tests.unit.nri.cri.driven_kubelet import DrivenKubelet
from tests.unit.nri.cri.proxied_node import eventually

SECONDS: Final = 20.0
LOOK_SECONDS: Final = 0.5
PATIENT: Final = Timing(deadline_seconds=10.0, first_retry_seconds=0.002, last_retry_seconds=0.004)


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
        self.happenings: list[Happening] = []
        self.front: Front | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def make_front(self, policy: Engine, finder: HintFinder) -> Front: ...

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
    def update_pod(self, pod_id: str, size: nri_pb2.LinuxResources) -> None: ...

    @abstractmethod
    def update(self, container_id: str, resources: Resources, qos: QosClass) -> None: ...

    def update_message(self, resources: Resources, qos: QosClass) -> nri_pb2.LinuxResources:
        message = resources_message(linux_resources(resources, qos, self.memory_bytes))
        message.unified.update(memory_entries(resources, qos, self.memory_bytes, self.memory_qos))
        return message

    @abstractmethod
    def come_back(self, attempts: Mapping[str, int], lists: Callable[[], None]) -> None:
        """The runtime ends and comes back; then it lists other containers, of these attempts."""

    def close(self) -> None:
        self.end()

    @property
    def faults(self) -> list[Crashed]:
        return [one for one in self.happenings if isinstance(one, Crashed)]

    def begin(
        self,
        policy: Engine,
        advice: Mapping[ContainerId, Advice],
        finder: HintFinder | None = None,
    ) -> None:
        self.front = self.make_front(policy, finder or CombinedHints())
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

    def make_front(self, policy: Engine, finder: HintFinder) -> Front:
        return Plugin(
            policy,
            embedded_link(self.runtime),
            self.happenings.append,
            timing=PATIENT,
            machine_memory_bytes=self.memory_bytes,
            finder=finder,
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

    def update_pod(self, pod_id: str, size: nri_pb2.LinuxResources) -> None:
        self.runtime.update_pod(pod_id, size)

    def come_back(self, attempts: Mapping[str, int], lists: Callable[[], None]) -> None:
        lists()
        self.runtime.drop()
        assert self.runtime.wait_until_synchronized(SECONDS)
        assert self.front is not None
        assert self.front.wait_until_ready(SECONDS)

    def update(self, container_id: str, resources: Resources, qos: QosClass) -> None:
        self.runtime.update(container_id, self.update_message(resources, qos))


class CriWire(Wire):
    """The policy as a CRI proxy; while there is none the kubelet talks to the runtime itself."""

    def __init__(
        self, memory_bytes: int | None, folder: Path, memory_qos: MemoryQos = MemoryQos.OFF
    ) -> None:
        super().__init__(memory_bytes, memory_qos)
        self.loopback = CriLoopback(self.runtime, folder, memory_bytes, memory_qos)
        about = memory_bytes, memory_qos, ClaimDriver(folder / "cdi")
        self.kubelet = DrivenKubelet(self.loopback.socket, *about)
        self.direct = DrivenKubelet(self.loopback.runtime_socket, *about)

    def make_front(self, policy: Engine, finder: HintFinder) -> Front:
        return CriProxy(
            policy,
            self.loopback.link(),
            self.happenings.append,
            machine_memory_bytes=self.memory_bytes,
            finder=finder,
            look_seconds=LOOK_SECONDS,
        )

    @property
    def _kubelet(self) -> DrivenKubelet:
        return self.direct if self.front is None else self.kubelet

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

    def update_pod(self, pod_id: str, size: nri_pb2.LinuxResources) -> None:
        try:
            self._kubelet.update_pod(pod_id, cri_resources(nri_pb2.LinuxContainer(resources=size)))
        except grpc.RpcError as error:
            raise RequestError(cast("grpc.Call", error).details() or "") from error

    def come_back(self, attempts: Mapping[str, int], lists: Callable[[], None]) -> None:
        self.loopback.server.stop()
        lists()
        self.loopback.server.attempts.update(attempts)
        self.loopback.server.start(self.loopback.runtime_socket)
        listed = self._lists()
        # One that may be under way, one to find who is there, one to be sure of who is not.
        assert eventually(lambda: self._lists() > listed + 3)

    def _lists(self) -> int:
        return self.loopback.server.calls.count("ListContainers")

    def update(self, container_id: str, resources: Resources, qos: QosClass) -> None:
        message = nri_pb2.LinuxContainer(resources=self.update_message(resources, qos))
        try:
            self._kubelet.update(container_id, cri_resources(message))
        except grpc.RpcError as error:
            raise RequestError(cast("grpc.Call", error).details() or "") from error

    def close(self) -> None:
        super().close()
        self.kubelet.close()
        self.direct.close()
        self.loopback.close()
