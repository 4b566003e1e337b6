"""The CRI server of the embedded runtime: a socket at which a kubelet, or a proxy, finds it.

Calls that change pods and containers are served; others are answered as an older runtime would,
with UNIMPLEMENTED.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

import grpc
from google.protobuf.message import DecodeError, Message

from ..api import cri_proxy_pb2 as cri
from ..api import nri_pb2
from ..cri.cdi_specs import FOLDERS
from ..cri.nri_messages import container_of_config, nri_resources, sandbox_of_config
from ..cri.relay import RawHandler
from ..cri.upstream import MESSAGE_OPTIONS, RUNTIME
from ..plugin.string_entries import write_entries
from .embedded_runtime import EmbeddedRuntime, RequestError
from .kubelet import stable_id

_THREADS: Final = 64
_NAME: Final = "embedded"
_VERSION: Final = "1.0.0"
_STATES: Final = {
    nri_pb2.CONTAINER_CREATED: cri.CONTAINER_CREATED,
    nri_pb2.CONTAINER_RUNNING: cri.CONTAINER_RUNNING,
    nri_pb2.CONTAINER_STOPPED: cri.CONTAINER_EXITED,
}


class EmbeddedCriServer(RawHandler):
    """A CRI socket of an embedded runtime, from `start` until `stop`."""

    def __init__(self, runtime: EmbeddedRuntime, cdi_folders: Sequence[Path] = FOLDERS) -> None:
        """`cdi_folders`: where drivers say what comes with their devices."""
        self.runtime = runtime
        self._cdi_folders = cdi_folders
        self.calls: list[str] = []
        """The methods called so far."""
        self.before: Callable[[str], None] = _at_once
        """Called with the method before a call is served; may wait, or raise `RequestError`."""
        self.after: Callable[[str], None] = _at_once
        """Called once it is done, before the answer."""
        self.watch: Callable[[str, bytes], None] = _unseen
        """Shown every call with its request."""
        self.attempts: dict[str, int] = {}
        """Of containers, by id; those that were not created here are first ones."""
        self._sandboxes: dict[str, cri.SandboxConfig] = {}
        self._mounts: dict[str, list[cri.Mount]] = {}
        self._readers: list[queue.SimpleQueue[bytes | None]] = []
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None
        self._methods: Mapping[str, Callable[[bytes], Message]] = {
            "Version": lambda _: cri.VersionResponse(runtime_name=_NAME, runtime_version=_VERSION),
            "RunPodSandbox": self._run_pod,
            "StopPodSandbox": self._stop_pod,
            "RemovePodSandbox": self._remove_pod,
            "CreateContainer": self._create,
            "StartContainer": self._start,
            "StopContainer": self._stop,
            "RemoveContainer": self._remove,
            "UpdateContainerResources": self._update,
            "UpdatePodSandboxResources": self._update_pod,
            "ListContainers": self._list_containers,
            "ListPodSandbox": self._list_pods,
            "ContainerStatus": self._status,
            "PodSandboxStatus": self._pod_status,
        }

    def start(self, path: str) -> None:
        """Serve at a path, instead of whatever is there."""
        if os.path.exists(path):
            os.unlink(path)
        # The stubs leave the handlers' types open, here and below.
        server = grpc.server(  # pyright: ignore[reportUnknownMemberType]
            ThreadPoolExecutor(_THREADS, thread_name_prefix="cri-server"),
            handlers=[self],
            options=MESSAGE_OPTIONS,
        )
        server.add_insecure_port(f"unix:{path}")
        server.start()
        self._server = server

    def stop(self) -> None:
        """End the socket as a runtime does that ends; pods and containers stay."""
        with self._lock:
            readers, self._readers = self._readers, []
        for one in readers:
            one.put(None)
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None

    def exit(self, container_id: str) -> None:
        """A container ends by itself."""
        self.runtime.stop(container_id)
        self._tell(container_id, cri.CONTAINER_STOPPED_EVENT)

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """The handler of a method; None for those that there are not."""
        name = handler_call_details.method.removeprefix(RUNTIME)
        if name == "GetContainerEvents":
            return cast(
                "grpc.RpcMethodHandler[bytes, bytes]",
                grpc.unary_stream_rpc_method_handler(  # pyright: ignore[reportUnknownMemberType]
                    self._events
                ),
            )
        serve = self._methods.get(name)
        if serve is None:
            return None

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.calls.append(name)
            self.watch(name, request)
            try:
                self.before(name)
                reply = serve(request).SerializeToString()
                self.after(name)
                return reply
            except DecodeError as error:
                context.abort(grpc.StatusCode.INTERNAL, str(error))
            except KeyError as error:
                context.abort(grpc.StatusCode.NOT_FOUND, f"no {error.args[0]} here")
            except RequestError as error:
                is_missing = str(error).startswith(grpc.StatusCode.UNIMPLEMENTED.name)
                code = grpc.StatusCode.UNIMPLEMENTED if is_missing else grpc.StatusCode.UNKNOWN
                context.abort(code, str(error))
            raise AssertionError("abort raises")

        return cast(
            "grpc.RpcMethodHandler[bytes, bytes]",
            grpc.unary_unary_rpc_method_handler(  # pyright: ignore[reportUnknownMemberType]
                answer
            ),
        )

    def _events(self, _request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        reader: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with self._lock:
            self._readers.append(reader)
        context.add_callback(lambda: reader.put(None))
        # So that a reader may know that it hears of everything from here on.
        context.send_initial_metadata(())
        while (event := reader.get()) is not None:
            yield event

    def _tell(self, container_id: str, kind: cri.ProxyEventType) -> None:
        event = cri.EventResponse(container_id=container_id, container_event_type=kind)
        with self._lock:
            readers = tuple(self._readers)
        for one in readers:
            one.put(event.SerializeToString())

    def _run_pod(self, request: bytes) -> Message:
        config = cri.RunSandboxRequest.FromString(request).config
        metadata = config.metadata
        pod_id = stable_id(f"sandbox/{metadata.namespace}/{metadata.name}")
        self._sandboxes[pod_id] = config
        self.runtime.run_pod(sandbox_of_config(pod_id, config))
        return cri.RunSandboxResponse(pod_sandbox_id=pod_id)

    def _stop_pod(self, request: bytes) -> Message:
        pod_id = cri.OfOneRequest.FromString(request).id
        for one in self._of_pod(pod_id):
            self.runtime.stop(one)
            self._tell(one, cri.CONTAINER_STOPPED_EVENT)
        return cri.Empty()

    def _remove_pod(self, request: bytes) -> Message:
        pod_id = cri.OfOneRequest.FromString(request).id
        of_pod = self._of_pod(pod_id)
        if pod_id in self.runtime.pods:
            self.runtime.remove_pod(pod_id)
            del self._sandboxes[pod_id]
        for one in of_pod:
            self._tell(one, cri.CONTAINER_DELETED_EVENT)
        return cri.Empty()

    def _create(self, request: bytes) -> Message:
        message = cri.CreateRequest.FromString(request)
        pod, config = self.runtime.pods[message.pod_sandbox_id], message.config
        metadata = config.metadata
        name = f"{pod.namespace}/{pod.name}/{metadata.name}"
        container_id = stable_id(f"container/{name}/{metadata.attempt}")
        if container_id in self.runtime.containers:
            raise RequestError(f"name {name}_{metadata.attempt} is reserved for {container_id}")
        container = container_of_config(container_id, pod.id, config, self._cdi_folders)
        created = self.runtime.create(container)
        self.attempts[container_id] = metadata.attempt
        self._mounts[container_id] = list(config.mounts)
        self._tell(created.id, cri.CONTAINER_CREATED_EVENT)
        return cri.CreateResponse(container_id=created.id)

    def _start(self, request: bytes) -> Message:
        container_id = cri.OfOneRequest.FromString(request).id
        self.runtime.start(container_id)
        self._tell(container_id, cri.CONTAINER_STARTED_EVENT)
        return cri.Empty()

    def _stop(self, request: bytes) -> Message:
        self.exit(cri.OfOneRequest.FromString(request).id)
        return cri.Empty()

    def _remove(self, request: bytes) -> Message:
        container_id = cri.OfOneRequest.FromString(request).id
        if container_id in self.runtime.containers:
            self.runtime.remove(container_id)
            self._tell(container_id, cri.CONTAINER_DELETED_EVENT)
        return cri.Empty()

    def _update(self, request: bytes) -> Message:
        message = cri.UpdateRequest.FromString(request)
        if message.container_id in self.runtime.broken_ids:
            raise RequestError("failed to update resources")
        self.runtime.update(message.container_id, nri_resources(message.linux))
        return cri.Empty()

    def _update_pod(self, request: bytes) -> Message:
        message = cri.UpdateSandboxRequest.FromString(request)
        size = nri_resources(message.resources)
        self.runtime.update_pod(message.pod_sandbox_id, size)
        return cri.Empty()

    def _list_containers(self, _request: bytes) -> Message:
        return cri.ContainerList(
            containers=[
                cri.ListedContainer(
                    id=one.id,
                    pod_sandbox_id=one.pod_sandbox_id,
                    metadata=self._metadata(one),
                    state=_STATES[one.state],
                    created_at=one.created_at,
                )
                for one in tuple(self.runtime.containers.values())
            ]
        )

    def _list_pods(self, _request: bytes) -> Message:
        return cri.SandboxList(
            items=[
                cri.Sandbox(
                    id=one,
                    metadata=config.metadata,
                    labels=config.labels,
                    annotations=config.annotations,
                )
                for one, config in tuple(self._sandboxes.items())
            ]
        )

    def _status(self, request: bytes) -> Message:
        one = self.runtime.containers[cri.StatusRequest.FromString(request).id]
        info: dict[str, Any] = {
            "pid": one.pid,
            "runtimeSpec": {"process": {"env": [*one.env]}},
        }
        return cri.StatusResponse(
            status=cri.Status(
                id=one.id,
                metadata=self._metadata(one),
                state=_STATES[one.state],
                created_at=one.created_at,
                mounts=self._mounts.get(one.id, ()),
                resources=cri.StatusResources(linux=cri_resources(one.linux)),
            ),
            info={"info": json.dumps(info)},
        )

    def _pod_status(self, request: bytes) -> Message:
        config = self._sandboxes[cri.StatusRequest.FromString(request).id]
        linux: dict[str, object] = {"cgroup_parent": config.linux.cgroup_parent}
        if config.linux.HasField("resources"):
            linux["resources"] = {
                one.name: value
                for one, value in config.linux.resources.ListFields()
                if isinstance(value, int)
            }
        info = {"config": {"linux": linux}}
        return cri.SandboxStatusResponse(info={"info": json.dumps(info)})

    def _metadata(self, one: nri_pb2.Container) -> cri.ContainerMetadata:
        return cri.ContainerMetadata(name=one.name, attempt=self.attempts.get(one.id, 0))

    def _of_pod(self, pod_id: str) -> list[str]:
        every = tuple(self.runtime.containers.values())
        return [one.id for one in every if one.pod_sandbox_id == pod_id]


def _at_once(_method: str) -> None:
    """Let a call go on."""


def _unseen(_method: str, _request: bytes) -> None:
    """Show a call to nobody."""


def cri_resources(linux: nri_pb2.LinuxContainer) -> cri.Resources:
    """The cgroup values of a container as CRI tells them."""
    found = linux.resources
    return cri.Resources(
        cpu_shares=found.cpu.shares.value,
        cpu_quota=found.cpu.quota.value,
        cpu_period=found.cpu.period.value,
        memory_limit_in_bytes=found.memory.limit.value,
        oom_score_adj=linux.oom_score_adj.value,
        cpuset_cpus=found.cpu.cpus,
        cpuset_mems=found.cpu.mems,
        unified=write_entries(found.unified),
        hugepage_limits=[
            cri.HugepageLimit(page_size=one.page_size, limit=one.limit)
            for one in found.hugepage_limits
        ],
    )
