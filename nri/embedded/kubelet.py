"""What the kubelet makes of a manifest's pods: the runtime's messages, and the order of events."""

import hashlib
from collections.abc import Mapping
from typing import Final

from ...policy.manifests.manifest import ContainerSpec, PodSpec
from ...policy.model.container import QosClass
from ...policy.model.kubelet_resources import LinuxResources, linux_resources
from ..api import nri_pb2
from .embedded_runtime import EmbeddedRuntime

_CGROUP_PARENTS: Final[Mapping[QosClass, str]] = {
    QosClass.GUARANTEED: "/kubepods/pod",
    QosClass.BURSTABLE: "/kubepods/burstable/pod",
    QosClass.BEST_EFFORT: "/kubepods/besteffort/pod",
}

_PAGE_UNITS: Final = (("GB", 30), ("MB", 20), ("KB", 10))


def sandbox_message(pod: PodSpec) -> nri_pb2.PodSandbox:
    """The sandbox of a pod; ids are made from its name, so that they never change."""
    uid = stable_id(f"pod/{pod.namespace}/{pod.name}")[:32]
    return nri_pb2.PodSandbox(
        id=stable_id(f"sandbox/{pod.namespace}/{pod.name}"),
        name=pod.name,
        uid=uid,
        namespace=pod.namespace,
        labels=pod.labels,
        annotations=pod.annotations,
        linux=nri_pb2.LinuxPodSandbox(cgroup_parent=_CGROUP_PARENTS[pod.qos] + uid),
    )


def container_message(
    container: ContainerSpec, pod: PodSpec, machine_memory_bytes: int | None, attempt: int = 0
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
    message.linux.oom_score_adj.value = linux.oom_score_adj or 0
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


def start_pod(
    runtime: EmbeddedRuntime, pod: PodSpec, machine_memory_bytes: int | None
) -> list[str]:
    """Run a pod as the kubelet does; the ids of the containers that keep running, in order.

    Init containers that are not sidecars have ended before the next container starts. Raises
    `RequestError` where the runtime refuses a container; those before it keep running.
    """
    runtime.run_pod(sandbox_message(pod))
    started: list[str] = []
    for container in (*pod.init_containers, *pod.containers):
        created = runtime.create(container_message(container, pod, machine_memory_bytes))
        runtime.start(created.id)
        if container.keeps_running:
            started.append(created.id)
        else:
            runtime.stop(created.id)
    return started


def stable_id(text: str) -> str:
    """An id that looks like a runtime's, 64 hexadecimal digits, the same for the same text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _page_size(size: int) -> str:
    for unit, shift in _PAGE_UNITS:
        if size >> shift:
            return f"{size >> shift}{unit}"
    return f"{size}B"
