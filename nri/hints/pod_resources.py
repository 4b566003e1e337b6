"""The kubelet's pod-resources service: near which NUMA nodes the devices of containers are.

The kubelet knows no container ids there: its answers are joined by the names of namespace, pod and
container. Source: KEP-606, KEP-2043.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from ...policy.model.cpuset_conflicts import driver_beside, manager_overruled
from ...policy.model.hint import Hint, HintOrigin
from ...topology.sets.base_errors import PinfoldError
from ...topology.sets.cpuset import MAX_IDS, IdSet, NodeSet
from ..dispatch.cri_socket import unary_reply

if TYPE_CHECKING:
    import grpc

    from ..api import podresources_pb2 as api

_Answer = TypeVar("_Answer", bound=Message)

KUBELET_SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"

_SERVICE: Final = "/v1.PodResourcesLister"
_LIST_SECONDS: Final = 2.0
_GET_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 10.0
"""How long a kubelet that did not answer is left alone: no container start waits for it again."""
_RECEIVE_MAX_BYTES: Final = 16 * 2**20
"""The kubelet's own limit for its answers."""

_UNKNOWN: Final = -1
"""What a device plugin that knows no place may still send as a node."""
_ODD_MAX: Final = 100
_NAME_MAX: Final = 253
_CPU_DRIVERS: Final = ("dra.cpu", "cpu.")
"""What the names of drivers that claim cpus begin with. Source: dra-driver-cpu."""


class ContainerName(NamedTuple):
    """A container as the kubelet names it."""

    namespace: str
    pod: str
    container: str


class PodResourcesError(PinfoldError):
    """The kubelet does not tell the devices of containers; alike errors have the same `cause`."""

    def __init__(self, text: str, cause: str) -> None:
        super().__init__(text)
        self.cause = cause


class PodResources:
    """Asks one kubelet; connects at the first question, and again by itself when it is back.

    `clock` counts seconds. Not for several threads at once.
    """

    def __init__(self, clock: Callable[[], float], path: str = KUBELET_SOCKET) -> None:
        self._clock = clock
        self._path = path
        self._channel: grpc.Channel | None = None
        self._has_get = True
        self._odd: dict[str, str] = {}
        self._told: set[str] = set()
        self._failed: PodResourcesError | None = None
        self._quiet_until = 0.0

    def take_warnings(self) -> list[str]:
        """Warnings of answers that hold no hint since the last call, once for each resource.

        For any thread.
        """
        news = [one for one in tuple(self._odd) if one not in self._told]
        self._told.update(news)
        return [self._odd[one] for one in news]

    def close(self) -> None:
        """Close the connection; a later question opens another."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def all_hints(self) -> Mapping[ContainerName, tuple[Hint, ...]]:
        """The hints of all containers that have any, with one question; at most 2 s.

        Raises `PodResourcesError`, and the same at once where it is asked again too early.
        """
        self._respect_silence()
        return self._listed()

    def hints(self, namespace: str, pod: str) -> Mapping[ContainerName, tuple[Hint, ...]]:
        """The hints of a pod's containers; at most 1 s, or 3 s where the kubelet can only list.

        Raises `PodResourcesError`, and the same at once where it is asked again too early.
        """
        self._respect_silence()
        if self._has_get:
            found = self._get(namespace, pod)
            if found is not None:
                return self._hints_of_pod(found)
        every = self._listed()
        return {name: hints for name, hints in every.items() if name[:2] == (namespace, pod)}

    def _respect_silence(self) -> None:
        if self._failed is not None and self._clock() < self._quiet_until:
            raise PodResourcesError(str(self._failed), self._failed.cause)

    def _listed(self) -> Mapping[ContainerName, tuple[Hint, ...]]:
        import grpc

        from ..api import podresources_pb2 as api

        try:
            answer = self._call(
                "List", api.ListPodResourcesRequest(), api.ListPodResourcesResponse, _LIST_SECONDS
            )
        except grpc.RpcError as error:
            raise self._failure("List", error) from error
        found: dict[ContainerName, tuple[Hint, ...]] = {}
        for pod in answer.pod_resources:
            found.update(self._hints_of_pod(pod))
        return found

    def _get(self, namespace: str, pod: str) -> api.PodResources | None:
        """A pod, empty where there is none of the name; None where pods must be listed."""
        import grpc

        from ..api import podresources_pb2 as api

        request = api.GetPodResourcesRequest(pod_name=pod, pod_namespace=namespace)
        try:
            answer = self._call("Get", request, api.GetPodResourcesResponse, _GET_SECONDS)
        except grpc.RpcError as error:
            code, text = error.code(), error.details() or ""
            # Behind a closed feature gate the kubelet knows the method and answers "disabled".
            if code is grpc.StatusCode.UNIMPLEMENTED or "disabled" in text:
                self._has_get = False
                return None
            if code is grpc.StatusCode.NOT_FOUND or "not found" in text:
                return api.PodResources()
            raise self._failure("Get", error) from error
        return answer.pod_resources

    def _call(
        self, method: str, request: Message, answer: type[_Answer], seconds: float
    ) -> _Answer:
        return unary_reply(self._connected(), f"{_SERVICE}/{method}", request, answer, seconds)

    def _connected(self) -> grpc.Channel:
        if self._channel is None:
            # Heavy, and most nodes' daemons never ask.
            import grpc

            options = [
                ("grpc.max_receive_message_length", _RECEIVE_MAX_BYTES),
                ("grpc.max_reconnect_backoff_ms", 1000),
                # A socket has no proxy, whatever the environment says.
                ("grpc.enable_http_proxy", 0),
            ]
            self._channel = grpc.insecure_channel(f"unix:{self._path}", options)
        return self._channel

    def _failure(self, method: str, error: grpc.RpcError) -> PodResourcesError:
        self._quiet_until = self._clock() + _QUIET_SECONDS
        code = error.code().name.lower().replace("_", " ")
        text = (error.details() or "").replace("\n", " ")[:200]
        self._failed = PodResourcesError(
            f"{self._path}: {method}: {code}: {text} — "
            "see whether the kubelet runs and its socket can be opened",
            cause=code,
        )
        return self._failed

    def _hints_of_pod(self, pod: api.PodResources) -> dict[ContainerName, tuple[Hint, ...]]:
        found: dict[ContainerName, tuple[Hint, ...]] = {}
        if pod.cpu_ids:
            self._tell_manager("CPU", f"{pod.namespace}/{pod.name}", pod.cpu_ids)
        for container in pod.containers:
            where = f"{pod.namespace}/{pod.name}/{container.name}"
            if container.cpu_ids:
                self._tell_manager("CPU", where, container.cpu_ids)
            if container.memory:
                nodes = [node.ID for one in container.memory for node in one.topology.nodes]
                self._tell_manager("memory", where, nodes)
            self._tell_drivers(where, container)
            hints = tuple(self._hints_of_container(container))
            if hints:
                found[ContainerName(pod.namespace, pod.name, container.name)] = hints
        return found

    def _tell_manager(self, manager: str, where: str, ids: Iterable[int]) -> None:
        """A manager of the kubelet places containers, too; told once, with the first of them."""
        given = IdSet.collect(one for one in ids if 0 <= one < MAX_IDS)
        self._odd.setdefault(f"{manager} manager", manager_overruled(manager, where, given))

    def _tell_drivers(self, where: str, container: api.ContainerResources) -> None:
        """Drivers of cpus are told once each: they give cpus to containers without claims, too."""
        for claim in container.dynamic_resources:
            for one in claim.claim_resources:
                driver = one.driver_name[:_NAME_MAX]
                if driver.startswith(_CPU_DRIVERS) and len(self._odd) < _ODD_MAX:
                    name = f"{claim.claim_namespace}/{claim.claim_name}"
                    self._odd.setdefault(f"driver {driver}", driver_beside(driver, where, name))

    def _hints_of_container(self, container: api.ContainerResources) -> Iterator[Hint]:
        for device in container.devices:
            every = [node.ID for node in device.topology.nodes]
            nodes = [node for node in every if 0 <= node < MAX_IDS]
            odd = next((one for one in every if one not in nodes and one != _UNKNOWN), None)
            if odd is not None and len(self._odd) < _ODD_MAX:
                self._odd[device.resource_name] = (
                    f"the kubelet's devices {device.resource_name!r}: {odd} is no NUMA node:"
                    f" ids are from 0 to {MAX_IDS - 1} — no hint comes from it; see their plugin"
                )
            if nodes:
                yield Hint(
                    provider=f"podresourceapi:{device.resource_name}",
                    origin=HintOrigin.POD_RESOURCES,
                    numa_nodes=NodeSet.collect(nodes),
                )
