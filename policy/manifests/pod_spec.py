"""Pods and their containers as authors write them, before anything runs, and their sizes.

And what a container of a pod with resources of its own shows to the runtime. Sources: Kubernetes,
`component-helpers/resource` (PodRequests, PodLimits) and the kubelet,
`pkg/kubelet/kuberuntime/kuberuntime_container_linux.go`; KEP 2837 (pod-level resources).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...topology.sets.cpuset import CpuSet
from ..model.container import QosClass, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedContainer:
    """A container's resources, and when it runs: init containers before all others, in order."""

    resources: Resources
    is_init: bool = False
    keeps_running: bool = True
    """False for an init container that ends before the next one starts."""


def pod_size(containers: Sequence[SizedContainer]) -> Resources:
    """The most that the containers of a pod have at one time, sidecars among them."""
    return Resources(
        cpu_request_milli=_most(containers, lambda one: one.cpu_request_milli),
        cpu_limit_milli=_most(containers, lambda one: one.cpu_limit_milli or 0) or None,
        memory_request_bytes=_most(containers, lambda one: one.memory_request_bytes),
        memory_limit_bytes=_most(containers, lambda one: one.memory_limit_bytes or 0) or None,
    )


def defaulted_whole(whole: Resources, containers: Sequence[SizedContainer]) -> Resources:
    """A pod's own resources with what the API server adds: requests and pages that are left out.

    Requests are those of the containers together where some have any, else the limits. `whole` has
    0 where they are left out.
    """
    total = pod_size(containers)
    cpu = whole.cpu_request_milli or total.cpu_request_milli or whole.cpu_limit_milli or 0
    memory = whole.memory_request_bytes or total.memory_request_bytes
    return replace(
        with_pages_of(whole, containers),
        cpu_request_milli=cpu,
        memory_request_bytes=memory or whole.memory_limit_bytes or 0,
    )


def with_pages_of(whole: Resources, containers: Sequence[SizedContainer]) -> Resources:
    """A pod's own resources with the huge pages that the API server adds.

    Those of a size that is left out are those of the containers together.
    """
    sizes = sorted({size for one in containers for size in one.resources.hugepage_bytes})
    pages = {size: _most(containers, partial(_pages, size)) for size in sizes}
    return replace(whole, hugepage_bytes={**pages, **whole.hugepage_bytes})


def _pages(size: int, resources: Resources) -> int:
    return resources.hugepage_bytes.get(size, 0)


def shown_resources(
    own: Resources, whole: Resources, containers: Sequence[SizedContainer]
) -> Resources:
    """The resources that a container's cgroup shows in a pod with resources of its own.

    Without a limit it has the pod's, and without a request either its shares are those of the limit
    that it has. Without huge pages of a size it has the pod's. What is left of the pod's memory
    request is divided among all containers in what the kernel is told of who is to be killed first.
    """
    cpu_limit = own.cpu_limit_milli or whole.cpu_limit_milli
    memory_limit = own.memory_limit_bytes or whole.memory_limit_bytes
    asked = sum(one.resources.memory_request_bytes for one in containers)
    left = max(whole.memory_request_bytes - asked, 0) // max(len(containers), 1)
    is_limited = whole.memory_request_bytes == whole.memory_limit_bytes == memory_limit
    return Resources(
        cpu_request_milli=own.cpu_request_milli or cpu_limit or 0,
        cpu_limit_milli=cpu_limit,
        memory_request_bytes=(memory_limit or 0) if is_limited else own.memory_request_bytes + left,
        memory_limit_bytes=memory_limit,
        hugepage_bytes={**whole.hugepage_bytes, **own.hugepage_bytes},
    )


def _most(containers: Sequence[SizedContainer], amount: Callable[[Resources], int]) -> int:
    """The most that containers have at one time."""
    running = most = 0
    for one in containers:
        if one.is_init and not one.keeps_running:
            most = max(most, running + amount(one.resources))
        else:
            running += amount(one.resources)
    return max(most, running)


class ContainerSpec(Struct, frozen=True, kw_only=True):
    """A container of a pod, with resources as the kubelet reads them.

    Requests left out are its limits, and in a pod with resources of its own what is left out is the
    pod's.
    """

    name: str
    resources: Resources = msgspec.field(default_factory=Resources)
    own: Resources | None = None
    """Its resources without those of its pod, where these count among `resources`."""
    devices: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """Numbers of devices by the names of their extended resources."""
    claims: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """Numbers of devices that it claims of drivers of dynamic resource allocation."""
    gpus: tuple[int, ...] = ()
    """Numbers of the files of NVIDIA's GPUs that it has: `/dev/nvidia0` and so on."""
    keeps_running: bool = True
    """False for an init container that ends before the next one starts (not for sidecars)."""
    environment: tuple[str, ...] = ()
    """As in `NAME=value`: what drivers of dynamic resource allocation add to it."""
    placed_on: CpuSet | None = None
    """Cpus on which another plugin places it before the policy is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """A pod as its author wrote it. Init containers run before the containers, in order."""

    name: str
    namespace: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    qos: QosClass = QosClass.BEST_EFFORT
    resources: Resources | None = None
    """The size of the pod; None where nobody tells."""
    is_of_system: bool = False
    """Whether the kubelet runs it in its system partition."""
    init_containers: tuple[ContainerSpec, ...] = ()
    containers: tuple[ContainerSpec, ...] = ()

    @property
    def all_containers(self) -> tuple[ContainerSpec, ...]:
        """Every container, in the order in which they start."""
        return (*self.init_containers, *self.containers)


def sized(
    init_containers: Iterable[ContainerSpec], containers: Iterable[ContainerSpec]
) -> tuple[SizedContainer, ...]:
    """Containers of a pod as far as its size goes."""
    return (
        *(
            SizedContainer(resources=one.resources, is_init=True, keeps_running=one.keeps_running)
            for one in init_containers
        ),
        *(SizedContainer(resources=one.resources) for one in containers),
    )


def as_shown(
    container: ContainerSpec, whole: Resources, containers: Sequence[SizedContainer]
) -> ContainerSpec:
    """A container in a pod with these resources of its own, as the runtime is told of it."""
    own = container.resources
    return msgspec.structs.replace(
        container, resources=shown_resources(own, whole, containers), own=own
    )


def qos_class(containers: tuple[ContainerSpec, ...]) -> QosClass:
    """The QoS class of a pod of these containers, init containers among them.

    Source: Kubernetes, "Pod Quality of Service Classes": Guaranteed if every container has cpu and
    memory limits equal to its requests, BestEffort if no container has any of them.
    """
    resources = [container.resources for container in containers]
    if not any(
        one.cpu_request_milli
        or one.memory_request_bytes
        or one.cpu_limit_milli
        or one.memory_limit_bytes
        for one in resources
    ):
        return QosClass.BEST_EFFORT
    # A limit of 0 counts as none.
    if all(
        one.cpu_limit_milli
        and one.memory_limit_bytes
        and one.cpu_request_milli == one.cpu_limit_milli
        and one.memory_request_bytes == one.memory_limit_bytes
        for one in resources
    ):
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE
