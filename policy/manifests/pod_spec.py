"""Pods and their containers as authors write them, before anything runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from ...topology.sets.cpuset import CpuSet
from ..model.container import QosClass, Resources
from .pod_size import SizedContainer, shown_resources


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
