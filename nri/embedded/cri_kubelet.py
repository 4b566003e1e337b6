"""A kubelet for a CRI socket: pods of manifests, run as `kubelet` runs them without a socket."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar, cast

import grpc
from google.protobuf.message import Message

from ...policy.annotations.cpu_claims import CLAIM_PREFIX
from ...policy.manifests.pod_spec import ContainerSpec, PodSpec
from ...policy.model.memory_qos import MemoryQos
from ..api import cri_proxy_pb2 as cri
from ..api import nri_pb2
from ..cri.cdi_specs import DeviceNode
from ..cri.upstream import MESSAGE_OPTIONS, RUNTIME
from ..dispatch.cri_socket import unary_reply
from ..plugin.string_entries import write_entries
from .claim_driver import ClaimDriver
from .cri_server import cri_resources
from .kubelet import RefusedCreation, container_message, sandbox_message

_Reply = TypeVar("_Reply", bound=Message)
_SECONDS: Final = 30.0


class CriKubelet:
    """A client of one socket, until `close`. Its calls raise `grpc.RpcError`."""

    def __init__(
        self,
        path: str,
        machine_memory_bytes: int | None,
        memory_qos: MemoryQos = MemoryQos.OFF,
        driver: ClaimDriver | None = None,
    ) -> None:
        """`driver`: of the cpus that containers claim; without one they claim none."""
        self._memory_qos = memory_qos
        self._driver = driver
        self._machine_memory_bytes = machine_memory_bytes
        options = (*MESSAGE_OPTIONS, ("grpc.max_reconnect_backoff_ms", 500))
        self._channel = grpc.insecure_channel(f"unix:{path}", options=options)

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def start_pods(self, pods: Iterable[PodSpec]) -> list[RefusedCreation]:
        """Containers that were refused while pods were run one after another; see `kubelet`."""
        refused: list[RefusedCreation] = []
        for pod in pods:
            pod_id = self.run_pod(pod)
            for container in pod.all_containers:
                try:
                    self.start(pod_id, pod, container)
                except grpc.RpcError as error:
                    reason = cast("grpc.Call", error).details() or "no details"
                    refused.append(RefusedCreation(pod, container.name, reason))
                    if container in pod.init_containers:
                        break
        return refused

    def run_pod(self, pod: PodSpec) -> str:
        """The id of a pod's sandbox, which runs."""
        request = cri.RunSandboxRequest(config=sandbox_config(pod))
        return self._call("RunPodSandbox", request, cri.RunSandboxResponse).pod_sandbox_id

    def start(self, pod_id: str, pod: PodSpec, container: ContainerSpec, attempt: int = 0) -> str:
        """The id of a container, which runs, or did and has ended well."""
        created = self.create(pod_id, pod, container, attempt)
        self._call("StartContainer", cri.OfOneRequest(id=created), cri.Empty)
        if not container.keeps_running:
            self.end(created)
        return created

    def create(self, pod_id: str, pod: PodSpec, container: ContainerSpec, attempt: int = 0) -> str:
        """The id of a container, which was created."""
        message = container_message(
            container, pod, self._machine_memory_bytes, attempt, self._memory_qos
        )
        config = cri.Config(
            metadata=cri.ContainerMetadata(name=container.name, attempt=attempt),
            labels=write_entries(message.labels),
            linux=cri.LinuxConfig(resources=cri_resources(message.linux)),
        )
        for mount in message.mounts:
            is_read_only = "ro" in mount.options
            place = mount.destination
            config.mounts.add(container_path=place, host_path=mount.source, readonly=is_read_only)
        claims = [one for one in message.env if one.startswith(CLAIM_PREFIX)]
        files = [
            DeviceNode(one.path, one.type, one.major, one.minor) for one in message.linux.devices
        ]
        if self._driver is not None and (claims or files):
            config.CDI_devices.add(name=self._driver.device(message.id, claims, files))
        request = cri.CreateRequest(
            pod_sandbox_id=pod_id, config=config, sandbox_config=sandbox_config(pod)
        )
        return self._call("CreateContainer", request, cri.CreateResponse).container_id

    def end(self, container_id: str) -> None:
        """A container is stopped."""
        self._call("StopContainer", cri.OfOneRequest(id=container_id), cri.Empty)

    def _call(self, name: str, request: Message, kind: type[_Reply]) -> _Reply:
        return unary_reply(
            self._channel, RUNTIME + name, request, kind, _SECONDS, waits_for_ready=True
        )


def sandbox_config(pod: PodSpec) -> cri.SandboxConfig:
    """The configuration of a pod's sandbox, as the kubelet makes it."""
    sandbox = sandbox_message(pod)
    linux = cri.LinuxSandbox(cgroup_parent=sandbox.linux.cgroup_parent)
    if sandbox.linux.HasField("pod_resources"):
        found = nri_pb2.LinuxContainer(resources=sandbox.linux.pod_resources)
        linux.resources.CopyFrom(cri_resources(found))
    return cri.SandboxConfig(
        metadata=cri.SandboxMetadata(
            name=sandbox.name, uid=sandbox.uid, namespace=sandbox.namespace
        ),
        labels=sandbox.labels,
        annotations=sandbox.annotations,
        linux=linux,
    )
