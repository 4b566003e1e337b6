"""An embedded runtime: the other end of the wire, in this process, with containers on paper.

It calls the plugin in the order containerd was seen to do, keeps for every container what it was
told beside what the kernel would have (an update while a container is being started is told and
never reaches the kernel), and gives up on a plugin as containerd does: the container is then
created without an adjustment.
"""

import socket
import threading
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import Message

from ...topology.sets.base_errors import PinfoldError
from ..api import nri_pb2
from ..plugin.runtime_events import STATE_CHANGES
from ..wire.connection import Call
from ..wire.ttrpc import Code
from .plugin_link import CallError, PluginLink
from .runtime_dialects import NEWEST, Dialect, split_synchronize, write_resources

M = TypeVar("M", bound=Message)


class RequestError(PinfoldError):
    """The runtime refuses a request, as it would the kubelet's."""


class EmbeddedRuntime:
    """Pods and containers on paper, and one plugin that may be connected.

    Requests may come from any thread; as in a real runtime they wait for each other.
    """

    def __init__(
        self,
        dialect: Dialect = NEWEST,
        request_timeout_seconds: float = 2.0,
    ) -> None:
        self.pods: dict[str, nri_pb2.PodSandbox] = {}
        self.containers: dict[str, nri_pb2.Container] = {}
        """What the runtime was told last, by container id."""
        self.kernel: dict[str, nri_pb2.LinuxCPU] = {}
        """What the kernel has, by id of a container that runs."""
        self.memory_policies: dict[str, nri_pb2.LinuxMemoryPolicy] = {}
        """How memory was to be taken, by id; older runtimes drop that without a word."""
        self.update_counts: Counter[str] = Counter()
        """How often a container's resources were written after its creation, by id."""
        self.broken_ids: set[str] = set()
        """Containers whose updates fail."""
        self.unsolicited = 0
        """How often the plugin asked for updates by itself, which makes older runtimes hang."""
        self.plugin_name = ""
        self._dialect = dialect
        self._request_timeout_seconds = request_timeout_seconds
        self._ticks = 0
        self._next_pid = 1
        self._starting: dict[str, nri_pb2.LinuxCPU] = {}
        self._event_mask = 0
        self._link: PluginLink | None = None
        self._is_synchronized = threading.Event()
        self._linking = threading.Lock()
        """For which connection is there, and whether its plugin is synchronized."""
        # One lock for every event of every plugin, and for updates: that is how runtimes do it.
        self._lock = threading.RLock()

    def connect(self) -> socket.socket:
        """The plugin's end of a new connection; an older one is dropped."""
        self.drop()
        ours, theirs = socket.socketpair()
        self.serve(ours)
        return theirs

    def serve(self, sock: socket.socket) -> None:
        """Let the plugin at the other end of a connected socket register."""
        link = PluginLink(sock, self._answer, self._forget)
        with self._linking:
            self._link = link
            self._is_synchronized.clear()
        link.start()

    def drop(self) -> None:
        """Cut the connection, as a runtime does that ends or has lost its patience."""
        with self._linking:
            link, self._link = self._link, None
            self._is_synchronized.clear()
        if link is not None:
            link.close()

    def wait_until_synchronized(self, seconds: float) -> bool:
        """Whether a plugin is registered and synchronized within this time."""
        return self._is_synchronized.wait(seconds)

    def exchange(self, method: str, payload: bytes, seconds: float) -> int:
        """Call the plugin with any bytes, sensible or not; returns the code of its answer.

        Raises `OSError` where no plugin answers.
        """
        link = self._link
        if link is None:
            raise ConnectionError("no plugin is connected")
        return link.exchange(method, payload, seconds).code

    def run_pod(self, pod: nri_pb2.PodSandbox) -> None:
        """Run a pod's sandbox."""
        with self._lock:
            self.pods[pod.id] = pod
            self._notify(nri_pb2.RUN_POD_SANDBOX, pod)

    def create(self, container: nri_pb2.Container) -> nri_pb2.Container:
        """Create a container; the plugin adjusts it. Raises `RequestError` where it refuses."""
        with self._lock:
            pod = self.pods[container.pod_sandbox_id]
            created = nri_pb2.Container()
            created.CopyFrom(container)
            request = nri_pb2.CreateContainerRequest(pod=pod, container=created)
            try:
                response = self._call(
                    nri_pb2.CREATE_CONTAINER,
                    "CreateContainer",
                    request,
                    nri_pb2.CreateContainerResponse,
                )
            except RequestError:
                self._undo(created)
                raise
            if response is not None:
                write_resources(created, response.adjust.linux.resources)
                if self._dialect.sets_memory_policies:
                    self.memory_policies[created.id] = response.adjust.linux.memory_policy
                if any(one.container_id == created.id for one in response.update):
                    raise RequestError(f"{created.name}: update of a container during creation")
            created.state = nri_pb2.CONTAINER_CREATED
            created.created_at = self._tick()
            self.containers[created.id] = created
            if response is not None:
                self._apply(response.update)
            self._notify(nri_pb2.POST_CREATE_CONTAINER, pod, created)
            return created

    def create_and_undo(self, container: nri_pb2.Container) -> None:
        """A creation that fails after the plugin's answer, as where two plugins set its cpus."""
        with self._lock:
            self.create(container)
            self._undo(self.containers.pop(container.id))

    def start(self, container_id: str) -> None:
        """Start a created container."""
        self.begin_start(container_id)
        self.finish_start(container_id)

    def begin_start(self, container_id: str) -> None:
        """The first half of a start: the process gets what the container was told until here."""
        with self._lock:
            container = self.containers[container_id]
            self._notify(nri_pb2.START_CONTAINER, self.pods[container.pod_sandbox_id], container)
            process = nri_pb2.LinuxCPU()
            process.CopyFrom(container.linux.resources.cpu)
            self._starting[container_id] = process

    def is_starting(self, container_id: str) -> bool:
        """Whether a container is between the halves of its start."""
        return container_id in self._starting

    def finish_start(self, container_id: str) -> None:
        """The second half: the process runs."""
        with self._lock:
            container = self.containers[container_id]
            self.kernel[container_id] = self._starting.pop(container_id)
            container.state = nri_pb2.CONTAINER_RUNNING
            self._next_pid += 1
            container.pid = self._next_pid if self._dialect.tells_pids else 0
            pod = self.pods[container.pod_sandbox_id]
            self._notify(nri_pb2.POST_START_CONTAINER, pod, container)

    def update(self, container_id: str, resources: nri_pb2.LinuxResources) -> None:
        """Change a container's resources. Raises `RequestError` where the plugin refuses."""
        with self._lock:
            container = self.containers[container_id]
            pod = self.pods[container.pod_sandbox_id]
            request = nri_pb2.UpdateContainerRequest(
                pod=pod, container=container, linux_resources=resources
            )
            response = self._call(
                nri_pb2.UPDATE_CONTAINER,
                "UpdateContainer",
                request,
                nri_pb2.UpdateContainerResponse,
            )
            self._write(container, resources)
            if response is not None:
                self._apply(response.update)
            self._notify(nri_pb2.POST_UPDATE_CONTAINER, pod, container)

    def update_pod(self, pod_id: str, size: nri_pb2.LinuxResources) -> None:
        """Resize a pod, whose sandbox keeps its first size. Raises `RequestError` if refused."""
        asked = nri_pb2.UpdatePodSandboxRequest(pod=self.pods[pod_id], linux_resources=size)
        if not self._dialect.updates_pods:
            raise RequestError("UNIMPLEMENTED: UpdatePodSandboxResources")
        with self._lock:
            self._call(nri_pb2.UPDATE_POD_SANDBOX, "UpdatePodSandbox", asked, nri_pb2.Empty)

    def update_cpuset(self, container_id: str, cpus: str, mems: str) -> None:
        """Change a cpuset as callers of the CRI socket do; the plugin's answer is merged into it.

        Raises `RequestError` where the container is unknown, or cannot be updated.
        """
        with self._lock:
            if container_id not in self.containers:
                raise RequestError(f"NOT_FOUND: no container {container_id}")
            if container_id in self.broken_ids:
                raise RequestError("UNKNOWN: failed to update resources")
            cpu = nri_pb2.LinuxCPU(cpus=cpus, mems=mems)
            self.update(container_id, nri_pb2.LinuxResources(cpu=cpu))

    def stop(self, container_id: str) -> None:
        """A container ends, asked to or not. Stopping it again does nothing."""
        with self._lock:
            container = self.containers[container_id]
            if container.state == nri_pb2.CONTAINER_STOPPED:
                return
            container.state = nri_pb2.CONTAINER_STOPPED
            self.kernel.pop(container_id, None)
            self._starting.pop(container_id, None)
            request = nri_pb2.StopContainerRequest(
                pod=self.pods.get(container.pod_sandbox_id), container=container
            )
            response = self._call(
                nri_pb2.STOP_CONTAINER, "StopContainer", request, nri_pb2.StopContainerResponse
            )
            if response is not None:
                self._apply(response.update)

    def remove(self, container_id: str) -> None:
        """Stop a container and forget it."""
        with self._lock:
            self.stop(container_id)
            container = self.containers.pop(container_id)
            pod = self.pods.get(container.pod_sandbox_id, nri_pb2.PodSandbox())
            self._notify(nri_pb2.REMOVE_CONTAINER, pod, container)

    def remove_pod(self, pod_id: str) -> None:
        """Stop a pod with all its containers and forget it."""
        with self._lock:
            mine = [one.id for one in self.containers.values() if one.pod_sandbox_id == pod_id]
            for container_id in mine:
                self.stop(container_id)
            pod = self.pods[pod_id]
            self._notify(nri_pb2.STOP_POD_SANDBOX, pod)
            for container_id in mine:
                self.remove(container_id)
            del self.pods[pod_id]
            self._notify(nri_pb2.REMOVE_POD_SANDBOX, pod)

    def _undo(self, container: nri_pb2.Container) -> None:
        """A creation failed, for the plugin's refusal or later; it is told of no state then."""
        container.state = nri_pb2.CONTAINER_UNKNOWN
        pod = self.pods[container.pod_sandbox_id]
        request = nri_pb2.StopContainerRequest(pod=pod, container=container)
        response = self._call(
            nri_pb2.STOP_CONTAINER, "StopContainer", request, nri_pb2.StopContainerResponse
        )
        if response is not None:
            self._apply(response.update)
        self._notify(nri_pb2.REMOVE_CONTAINER, pod, container)

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks

    def _forget(self, link: PluginLink) -> None:
        """The plugin is gone, if this was its connection."""
        with self._linking:
            if link is self._link:
                self._is_synchronized.clear()

    def _answer(self, link: PluginLink, call: Call) -> None:
        """Serve one call of the plugin, in a thread of its own as the answer may take long."""
        match call.method:
            case "RegisterPlugin":
                request = nri_pb2.RegisterPluginRequest.FromString(call.payload)
                if not (len(request.plugin_idx) == 2 and request.plugin_idx.isdigit()):
                    text = f"invalid plugin index {request.plugin_idx!r}"
                    link.fail(call.stream_id, Code.UNKNOWN, text)
                    return
                self.plugin_name = f"{request.plugin_idx}-{request.plugin_name}"
                link.respond(call.stream_id, nri_pb2.Empty())
                self._introduce(link)
            case "UpdateContainers":
                updates = nri_pb2.UpdateContainersRequest.FromString(call.payload).update
                with self._lock:
                    self.unsolicited += 1
                    failed = self._apply(updates)
                if failed:
                    link.fail(call.stream_id, Code.UNKNOWN, "NRI update of some containers failed")
                else:
                    link.respond(call.stream_id, nri_pb2.UpdateContainersResponse())
            case _:
                link.fail(call.stream_id, Code.UNIMPLEMENTED, f"no method {call.method}")

    def _introduce(self, link: PluginLink) -> None:
        timeout = self._request_timeout_seconds
        configure = nri_pb2.ConfigureRequest(
            runtime_name=self._dialect.name,
            runtime_version=self._dialect.version,
            NRI_version=self._dialect.nri_version,
        )
        if self._dialect.tells_timeouts:
            configure.registration_timeout = 5000
            configure.request_timeout = int(timeout * 1000)
        try:
            response = link.call("Configure", configure, nri_pb2.ConfigureResponse, timeout)
            if response.events & ~self._dialect.known_events:
                raise CallError(Code.UNKNOWN, f"invalid plugin events: {response.events:#x}")
            with self._lock:
                self._synchronize(link, timeout)
                self._event_mask = response.events or 0x7FF
                with self._linking:
                    # Unless it was dropped meanwhile.
                    if link is self._link:
                        self._is_synchronized.set()
        except (CallError, OSError):
            link.close()

    def _synchronize(self, link: PluginLink, timeout: float) -> None:
        running = [
            one for one in self.containers.values() if one.state != nri_pb2.CONTAINER_STOPPED
        ]
        pods = self.pods.values()
        if self._dialect.splits_synchronize:
            pieces = split_synchronize(pods, running)
        else:
            pieces = [nri_pb2.SynchronizeRequest(pods=pods, containers=running)]
        for piece in pieces:
            response = link.call("Synchronize", piece, nri_pb2.SynchronizeResponse, timeout)
            if response.more != piece.more:
                raise CallError(Code.UNKNOWN, "plugin does not handle split sync requests")
            self._apply(response.update)

    def _notify(
        self,
        event: nri_pb2.Event,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container | None = None,
    ) -> None:
        if self._dialect.has_own_calls:
            # Every such request has the pod as field 1 and the container as field 2.
            request = nri_pb2.StartContainerRequest(pod=pod, container=container)
            try:
                self._call(event, STATE_CHANGES[event].method, request, nri_pb2.Empty)
            except RequestError as error:
                cause = error.__cause__
                if not isinstance(cause, CallError) or cause.code != Code.UNIMPLEMENTED:
                    raise
            else:
                return
        change = nri_pb2.StateChangeEvent(event=event, pod=pod, container=container)
        self._call(event, "StateChange", change, nri_pb2.Empty)

    def _call(self, event: nri_pb2.Event, method: str, request: Message, kind: type[M]) -> M | None:
        """The plugin's answer; None where there is none that is interested or alive."""
        link = self._link
        wanted = self._event_mask & 1 << (int(event) - 1)
        if link is None or not self._is_synchronized.is_set() or not wanted:
            return None
        try:
            return link.call(method, request, kind, self._request_timeout_seconds)
        except CallError as error:
            raise RequestError(
                f"{method}: rpc error: code = {error.code} desc = {error}"
            ) from error
        except OSError:
            # Out of patience, or gone: the plugin is dropped and the request goes on without it.
            self._is_synchronized.clear()
            link.close()
            return None

    def _apply(self, updates: Iterable[nri_pb2.ContainerUpdate]) -> bool:
        """Write updates one by one; whether some failed. Unknown containers are passed over."""
        failed = False
        for update in updates:
            container = self.containers.get(update.container_id)
            if container is not None and container.id in self.broken_ids:
                failed = failed or not update.ignore_failure
            elif container is not None:
                self._write(container, update.linux.resources)
                self.update_counts[container.id] += 1
        return failed

    def _write(self, container: nri_pb2.Container, resources: nri_pb2.LinuxResources) -> None:
        write_resources(container, resources)
        if container.id in self.kernel:
            self.kernel[container.id].CopyFrom(container.linux.resources.cpu)
