"""A client of the container runtime interface: what the kubelet would say to containerd."""

import json
from pathlib import Path
from typing import Final, TypeVar, cast

import grpc
from google.protobuf.message import Message

from tests.e2e.api import cri_pb2 as api

HANGS_AFTER_SECONDS: Final = 20
"""What takes longer has no answer coming: the slowest call takes a few seconds."""

_UNLIMITED: Final = -1
_Reply = TypeVar("_Reply", bound=Message)


class Cri:
    """One connection to a runtime's socket. Every call raises `grpc.RpcError` on failure."""

    def __init__(self, socket: Path, timeout_seconds: float = 60) -> None:
        self._timeout_seconds = timeout_seconds
        self._channel = grpc.insecure_channel(
            f"unix://{socket}",
            options=[
                ("grpc.max_receive_message_length", _UNLIMITED),
                ("grpc.max_send_message_length", _UNLIMITED),
                # A restarted runtime is met again soon, not after two minutes of back-off.
                ("grpc.max_reconnect_backoff_ms", 500),
            ],
        )

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def _call(self, method: str, request: Message, reply: type[_Reply]) -> _Reply:
        call = cast(
            "grpc.UnaryUnaryMultiCallable[Message, _Reply]",
            # The stubs leave the serializers' types open.
            self._channel.unary_unary(  # pyright: ignore[reportUnknownMemberType]
                f"/runtime.v1.{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=reply.FromString,
            ),
        )
        return call(request, timeout=self._timeout_seconds, wait_for_ready=True)

    def version(self) -> api.VersionResponse:
        """Which runtime this is."""
        return self._call("RuntimeService/Version", api.VersionRequest(), api.VersionResponse)

    def has_image(self, name: str) -> bool:
        """Whether the runtime has the image."""
        request = api.ImageStatusRequest(image=api.ImageSpec(image=name))
        reply = self._call("ImageService/ImageStatus", request, api.ImageStatusResponse)
        return reply.HasField("image")

    def run_pod(self, config: api.PodSandboxConfig) -> str:
        """Starts a pod's sandbox and returns its id."""
        request = api.RunPodSandboxRequest(config=config)
        reply = self._call("RuntimeService/RunPodSandbox", request, api.RunPodSandboxResponse)
        return reply.pod_sandbox_id

    def stop_pod(self, pod: str) -> None:
        """Ends all processes of a pod."""
        request = api.StopPodSandboxRequest(pod_sandbox_id=pod)
        self._call("RuntimeService/StopPodSandbox", request, api.StopPodSandboxResponse)

    def remove_pod(self, pod: str) -> None:
        """Forgets a pod and its containers."""
        request = api.RemovePodSandboxRequest(pod_sandbox_id=pod)
        self._call("RuntimeService/RemovePodSandbox", request, api.RemovePodSandboxResponse)

    def pods(self) -> list[str]:
        """The ids of all pods, stopped ones too."""
        request = api.ListPodSandboxRequest()
        reply = self._call("RuntimeService/ListPodSandbox", request, api.ListPodSandboxResponse)
        return [one.id for one in reply.items]

    def create_container(
        self, pod: str, config: api.ContainerConfig, pod_config: api.PodSandboxConfig
    ) -> str:
        """Creates a container in a pod and returns its id."""
        request = api.CreateContainerRequest(
            pod_sandbox_id=pod, config=config, sandbox_config=pod_config
        )
        reply = self._call("RuntimeService/CreateContainer", request, api.CreateContainerResponse)
        return reply.container_id

    def start_container(self, container: str) -> None:
        """Starts a created container."""
        request = api.StartContainerRequest(container_id=container)
        self._call("RuntimeService/StartContainer", request, api.StartContainerResponse)

    def stop_container(self, container: str) -> None:
        """Kills a container at once."""
        request = api.StopContainerRequest(container_id=container, timeout=0)
        self._call("RuntimeService/StopContainer", request, api.StopContainerResponse)

    def remove_container(self, container: str) -> None:
        """Forgets a container."""
        request = api.RemoveContainerRequest(container_id=container)
        self._call("RuntimeService/RemoveContainer", request, api.RemoveContainerResponse)

    def update_resources(self, container: str, resources: api.LinuxContainerResources) -> None:
        """Changes a container's resources; fields that are zero or empty stay as they are."""
        request = api.UpdateContainerResourcesRequest(container_id=container, linux=resources)
        reply = api.UpdateContainerResourcesResponse
        self._call("RuntimeService/UpdateContainerResources", request, reply)

    def running_containers(self) -> list[api.Container]:
        """All containers that run, as the runtime lists them."""
        state = api.ContainerStateValue(state=api.CONTAINER_RUNNING)
        request = api.ListContainersRequest(filter=api.ContainerFilter(state=state))
        reply = self._call("RuntimeService/ListContainers", request, api.ListContainersResponse)
        return list(reply.containers)

    def pid(self, container: str) -> int:
        """The process id of a running container. Source: containerd's verbose status."""
        request = api.ContainerStatusRequest(container_id=container, verbose=True)
        reply = self._call("RuntimeService/ContainerStatus", request, api.ContainerStatusResponse)
        if reply.status.state != api.CONTAINER_RUNNING:
            state = api.ContainerState.Name(reply.status.state)
            raise LookupError(f"container {container}: is not running but {state}")
        return int(json.loads(reply.info["info"])["pid"])


def is_unanswered(error: grpc.RpcError) -> bool:
    """Whether a call had no answer within its time."""
    # What a call raises is a call, too, which the stubs do not say.
    return isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def is_kept_by_a_task(error: grpc.RpcError) -> bool:
    """Whether a container cannot be removed as containerd has lost sight of its process.

    Source: containerd#11037. A caller that goes away at the wrong moment of a start (a proxy that
    is killed) leaves the process waiting to be started; containerd neither ends nor removes it
    until it is itself started again.
    """
    return (
        isinstance(error, grpc.Call)
        and error.code() is grpc.StatusCode.FAILED_PRECONDITION
        and "cannot delete running task" in (error.details() or "")
    )
