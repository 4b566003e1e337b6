"""Pods as a kubelet would hand them to the runtime."""

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pinfold.policy.model.container import QosClass, Resources
from pinfold.policy.model.kubelet_resources import linux_resources
from tests.e2e import image
from tests.e2e.api import cri_pb2 as api

_CAPACITY_BYTES: Final = 2 << 30
"""Stands for the node's memory where the kubelet derives a score from a memory request."""


class Qos(enum.Enum):
    """A Kubernetes quality of service class, by the folder its pods' cgroups are in."""

    GUARANTEED = ""
    BURSTABLE = "burstable"
    BEST_EFFORT = "besteffort"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container of a pod, as its manifest says. Limits of 0 are no limits."""

    name: str
    request_milli: int = 0
    limit_milli: int = 0
    memory_request_bytes: int = 0
    memory_limit_bytes: int = 0
    shell: str = ""
    """What it runs; it sleeps without."""

    @property
    def is_guaranteed(self) -> bool:
        """Whether limits are given and requests equal them, for cpu and for memory."""
        return 0 < self.limit_milli == self.request_milli and (
            0 < self.memory_limit_bytes == self.memory_request_bytes
        )

    @property
    def asks_nothing(self) -> bool:
        """Whether there is neither a request nor a limit."""
        return not (
            self.request_milli
            or self.limit_milli
            or self.memory_request_bytes
            or self.memory_limit_bytes
        )

    def manifest(self) -> dict[str, object]:
        """The container in its pod's manifest."""
        amounts = {
            "requests": (self.request_milli, self.memory_request_bytes),
            "limits": (self.limit_milli, self.memory_limit_bytes),
        }
        resources = {
            kind: {
                **({"cpu": f"{milli}m"} if milli else {}),
                **({"memory": str(memory)} if memory else {}),
            }
            for kind, (milli, memory) in amounts.items()
        }
        return {"name": self.name, "image": image.NAME, "resources": resources}


def guaranteed(name: str, cpus: int, memory_bytes: int = 64 << 20) -> ContainerSpec:
    """A container with equal requests and limits of whole cpus.

    runc itself runs within the limit for a moment, with a copy of its program in memory: it was
    seen to need more than 16 MiB.
    """
    return ContainerSpec(
        name=name,
        request_milli=cpus * 1000,
        limit_milli=cpus * 1000,
        memory_request_bytes=memory_bytes,
        memory_limit_bytes=memory_bytes,
    )


def burstable(name: str, request_milli: int) -> ContainerSpec:
    """A container with a cpu request and no limit."""
    return ContainerSpec(name=name, request_milli=request_milli)


def best_effort(name: str) -> ContainerSpec:
    """A container that asks for nothing."""
    return ContainerSpec(name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """A pod's manifest."""

    name: str
    containers: tuple[ContainerSpec, ...]
    namespace: str = "default"
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def qos(self) -> Qos:
        """The class Kubernetes gives this pod."""
        if all(one.is_guaranteed for one in self.containers):
            return Qos.GUARANTEED
        if all(one.asks_nothing for one in self.containers):
            return Qos.BEST_EFFORT
        return Qos.BURSTABLE

    def cgroup_parent(self, root: str) -> str:
        """Where the kubelet puts this pod's cgroups, below `root`."""
        parts = ("", root, "kubepods", self.qos.value, f"pod{self.uid}")
        return "/".join(("", *(part for part in parts if part)))

    def manifest(self) -> dict[str, object]:
        """The pod as its author would have written it."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "annotations": dict(self.annotations),
            },
            "spec": {"containers": [one.manifest() for one in self.containers]},
        }

    def sandbox_config(self, cgroup_root: str) -> api.PodSandboxConfig:
        """The pod for RunPodSandbox. It uses the host's network, so none has to be set up."""
        network = api.NamespaceOption(network=api.NODE)
        return api.PodSandboxConfig(
            metadata=api.PodSandboxMetadata(name=self.name, uid=self.uid, namespace=self.namespace),
            labels={
                "io.kubernetes.pod.name": self.name,
                "io.kubernetes.pod.namespace": self.namespace,
                "io.kubernetes.pod.uid": self.uid,
            },
            annotations=self.annotations,
            linux=api.LinuxPodSandboxConfig(
                cgroup_parent=self.cgroup_parent(cgroup_root),
                security_context=api.LinuxSandboxSecurityContext(namespace_options=network),
            ),
        )

    def container_config(self, container: ContainerSpec) -> api.ContainerConfig:
        """One of the pod's containers for CreateContainer. It runs until it is killed."""
        network = api.NamespaceOption(network=api.NODE)
        return api.ContainerConfig(
            metadata=api.ContainerMetadata(name=container.name),
            image=api.ImageSpec(image=image.NAME),
            args=["sh", "-c", container.shell] if container.shell else (),
            labels={
                "io.kubernetes.container.name": container.name,
                "io.kubernetes.pod.name": self.name,
                "io.kubernetes.pod.namespace": self.namespace,
                "io.kubernetes.pod.uid": self.uid,
            },
            linux=api.LinuxContainerConfig(
                resources=self._resources(container),
                security_context=api.LinuxContainerSecurityContext(namespace_options=network),
            ),
        )

    def _resources(self, container: ContainerSpec) -> api.LinuxContainerResources:
        asked = Resources(
            cpu_request_milli=container.request_milli,
            cpu_limit_milli=container.limit_milli or None,
            memory_request_bytes=container.memory_request_bytes,
            memory_limit_bytes=container.memory_limit_bytes or None,
        )
        linux = linux_resources(asked, QosClass[self.qos.name], _CAPACITY_BYTES)
        return api.LinuxContainerResources(
            cpu_shares=linux.cpu_shares,
            cpu_period=linux.cpu_period,
            cpu_quota=linux.cpu_quota,
            memory_limit_in_bytes=linux.memory_limit_bytes,
            oom_score_adj=linux.oom_score_adj or 0,
        )
