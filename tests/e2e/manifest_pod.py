"""A pod of a manifest with its volumes and rights, as a kubelet would hand it to the runtime."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.e2e.api import cri_pb2 as api

_DROP_ALL_CAPABILITIES: Final = b"\x0a\x05\x12\x03ALL"
"""Field 1 of a container's security context, with the one string "ALL" in its field 2: messages of
which the daemon reads nothing are not among ours. Source: CRI, runtime.v1.Capability."""

_SECCOMP_OF_THE_RUNTIME: Final = b"\x7a\x00"
"""Its field 15, a profile of kind 0. Source: CRI, runtime.v1.SecurityProfile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPod:
    """The pod that a workload's template describes, on a node whose folders are elsewhere."""

    workload: Mapping[str, Any]
    cgroup_parent: str
    logs: Path
    volumes: Mapping[str, Path]
    """What a volume of this name is on the machine of the test."""
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def _spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.workload["spec"]["template"]["spec"]
        return spec

    @property
    def _metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.workload["metadata"]
        return metadata

    @property
    def _labels(self) -> dict[str, str]:
        return {
            "io.kubernetes.pod.name": f"{self._metadata['name']}-x7k2p",
            "io.kubernetes.pod.namespace": self._metadata["namespace"],
            "io.kubernetes.pod.uid": self.uid,
        }

    @property
    def _namespaces(self) -> api.NamespaceOption:
        return api.NamespaceOption(
            network=api.NODE if self._spec["hostNetwork"] else api.POD,
            pid=api.NODE if self._spec["hostPID"] else api.CONTAINER,
        )

    def sandbox_config(self) -> api.PodSandboxConfig:
        """The pod for RunPodSandbox."""
        labels = self._labels
        return api.PodSandboxConfig(
            metadata=api.PodSandboxMetadata(
                name=labels["io.kubernetes.pod.name"],
                uid=self.uid,
                namespace=labels["io.kubernetes.pod.namespace"],
            ),
            labels={**labels, **self.workload["spec"]["template"]["metadata"]["labels"]},
            log_directory=str(self.logs),
            linux=api.LinuxPodSandboxConfig(
                cgroup_parent=self.cgroup_parent,
                security_context=api.LinuxSandboxSecurityContext(
                    namespace_options=self._namespaces
                ),
            ),
        )

    def container_config(self, attempt: int) -> api.ContainerConfig:
        """The pod's only container for CreateContainer."""
        (container,) = self._spec["containers"]
        rights = container["securityContext"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
        context = api.LinuxContainerSecurityContext(
            namespace_options=self._namespaces,
            run_as_user=api.Int64Value(value=rights["runAsUser"]),
            readonly_rootfs=rights["readOnlyRootFilesystem"],
            no_new_privs=not rights["allowPrivilegeEscalation"],
        )
        context.MergeFromString(_DROP_ALL_CAPABILITIES + _SECCOMP_OF_THE_RUNTIME)
        return api.ContainerConfig(
            metadata=api.ContainerMetadata(name=container["name"], attempt=attempt),
            image=api.ImageSpec(image=container["image"]),
            args=container["args"],
            mounts=[
                api.Mount(
                    container_path=one["mountPath"],
                    host_path=str(self.volumes[one["name"]]),
                    readonly=one.get("readOnly", False),
                )
                for one in container["volumeMounts"]
            ],
            labels={**self._labels, "io.kubernetes.container.name": container["name"]},
            log_path=f"{container['name']}-{attempt}.log",
            linux=api.LinuxContainerConfig(security_context=context),
        )
