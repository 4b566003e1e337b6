"""The kubelet of the embedded runtime: messages made of manifests, and the order of events."""

import hashlib
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...policy.manifests.pod_spec import ContainerSpec, PodSpec
from ...policy.model.kubelet_resources import LinuxResources, linux_resources, pod_cgroup
from ...policy.model.memory_qos import MemoryQos, memory_entries
from ...topology.sysfs.device_names import NVIDIA_MAJOR
from ..api import nri_pb2
from ..cri.cdi_specs import DeviceNode
from ..cri.nri_messages import add_node
from ..plugin.string_entries import write_entries
from .claim_driver import metadata_folders
from .embedded_runtime import EmbeddedRuntime, RequestError

_SYSTEM_PARTITION: Final = "/kubepods/system/"
_PAGE_UNITS: Final = (("GB", 30), ("MB", 20), ("KB", 10))


class RefusedCreation(Struct, frozen=True):
    """A container that was not created, and why."""

    pod: PodSpec
    container: str
    reason: str


def sandbox_message(pod: PodSpec) -> nri_pb2.PodSandbox:
    """The sandbox of a pod; ids are made from its name, so that they never change."""
    uid = stable_id(f"pod/{pod.namespace}/{pod.name}")[:32]
    parent = pod_cgroup(pod.qos, uid)
    if pod.is_of_system:
        parent = parent.replace("/kubepods/", _SYSTEM_PARTITION)
    linux = nri_pb2.LinuxPodSandbox(cgroup_parent=parent)
    if pod.resources is not None:
        # Huge pages are told of single containers, never of a pod.
        size = linux_resources(replace(pod.resources, hugepage_bytes={}), pod.qos, None)
        linux.pod_resources.CopyFrom(resources_message(size))
    return nri_pb2.PodSandbox(
        id=stable_id(f"sandbox/{pod.namespace}/{pod.name}"),
        name=pod.name,
        uid=uid,
        namespace=pod.namespace,
        labels=write_entries(pod.labels),
        annotations=write_entries(pod.annotations),
        linux=linux,
    )


def container_message(
    container: ContainerSpec,
    pod: PodSpec,
    machine_memory_bytes: int | None,
    attempt: int = 0,
    memory_qos: MemoryQos = MemoryQos.OFF,
) -> nri_pb2.Container:
    """A container before it is created; `attempt` tells its restarts apart."""
    name = f"{pod.namespace}/{pod.name}/{container.name}"
    message = nri_pb2.Container(
        id=stable_id(f"container/{name}/{attempt}"),
        pod_sandbox_id=stable_id(f"sandbox/{pod.namespace}/{pod.name}"),
        name=container.name,
        labels={
            "io.kubernetes.container.name": container.name,
            "io.kubernetes.pod.name": pod.name,
            "io.kubernetes.pod.namespace": pod.namespace,
        },
    )
    linux = linux_resources(container.resources, pod.qos, machine_memory_bytes)
    message.linux.resources.CopyFrom(resources_message(linux))
    own = container.own or container.resources
    entries = memory_entries(own, pod.qos, machine_memory_bytes, memory_qos)
    message.linux.resources.unified.update(entries)
    message.linux.oom_score_adj.value = linux.oom_score_adj or 0
    message.env.extend(container.environment)
    for resource in container.claims:
        source, place = metadata_folders(pod.namespace, pod.name, container.name, resource)
        message.mounts.add(source=source, destination=place, type="bind", options=["rbind", "ro"])
    for number in container.gpus:
        add_node(message.linux, DeviceNode(f"/dev/nvidia{number}", "c", NVIDIA_MAJOR, number))
    if container.placed_on is not None:
        message.linux.resources.cpu.cpus = str(container.placed_on)
    return message


def resources_message(linux: LinuxResources) -> nri_pb2.LinuxResources:
    """Cgroup values as a message; what is 0 stays unset."""
    message = nri_pb2.LinuxResources()
    if linux.cpu_shares:
        message.cpu.shares.value = linux.cpu_shares
    if linux.cpu_quota:
        message.cpu.quota.value = linux.cpu_quota
    if linux.cpu_period:
        message.cpu.period.value = linux.cpu_period
    if linux.memory_limit_bytes:
        message.memory.limit.value = linux.memory_limit_bytes
    for size, limit in sorted(linux.hugepage_bytes.items()):
        message.hugepage_limits.add(page_size=_page_size(size), limit=limit)
    return message


def start_pods(
    runtime: EmbeddedRuntime,
    pods: Iterable[PodSpec],
    machine_memory_bytes: int | None,
    memory_qos: MemoryQos = MemoryQos.OFF,
) -> list[RefusedCreation]:
    """Containers that the runtime refused while pods were run one after another.

    Init containers that are not sidecars have ended before the next container starts. Behind a
    refused container its pod goes on; behind a refused init container it ends, as Kubernetes starts
    nothing else before that one.
    """
    refused: list[RefusedCreation] = []
    for pod in pods:
        runtime.run_pod(sandbox_message(pod))
        for container in pod.all_containers:
            message = container_message(container, pod, machine_memory_bytes, memory_qos=memory_qos)
            reason = _start(runtime, message, keeps_running=container.keeps_running)
            if reason is None:
                continue
            refused.append(RefusedCreation(pod, container.name, reason))
            if container in pod.init_containers:
                break
    return refused


def stable_id(text: str) -> str:
    """An id that looks like a runtime's, 64 hexadecimal digits, the same for the same text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _start(
    runtime: EmbeddedRuntime, message: nri_pb2.Container, *, keeps_running: bool
) -> str | None:
    """Why the container does not run; None where it does, or did and has ended well."""
    try:
        created = runtime.create(message)
    except RequestError as error:
        # The plugin's own words; around them is what a runtime makes of an answer on its wire.
        return str(error.__cause__ or error)
    runtime.start(created.id)
    if not keeps_running:
        runtime.stop(created.id)
    return None


def _page_size(size: int) -> str:
    for unit, shift in _PAGE_UNITS:
        if size >> shift:
            return f"{size >> shift}{unit}"
    return f"{size}B"
