"""A kubelet for a CRI socket that also takes away, resizes and asks."""

from pinfold.nri.api import cri_proxy_pb2 as cri
from pinfold.nri.embedded.cri_kubelet import CriKubelet


class DrivenKubelet(CriKubelet):
    """The kubelet of the embedded runtime, with the calls that a demonstration does without."""

    def version(self) -> str:
        """The name of the runtime."""
        return self._call("Version", cri.Empty(), cri.VersionResponse).runtime_name

    def containers(self) -> list[str]:
        """The ids of all containers."""
        found = self._call("ListContainers", cri.Empty(), cri.ContainerList)
        return [one.id for one in found.containers]

    def remove(self, container_id: str) -> None:
        """A container is stopped and forgotten."""
        self._call("StopContainer", cri.OfOneRequest(id=container_id), cri.Empty)
        self._call("RemoveContainer", cri.OfOneRequest(id=container_id), cri.Empty)

    def remove_pod(self, pod_id: str) -> None:
        """A pod is stopped and forgotten with its containers."""
        self._call("StopPodSandbox", cri.OfOneRequest(id=pod_id), cri.Empty)
        self._call("RemovePodSandbox", cri.OfOneRequest(id=pod_id), cri.Empty)

    def update(self, container_id: str, resources: cri.Resources) -> None:
        """A container's resources change; fields that are 0 stay as they are."""
        request = cri.UpdateRequest(container_id=container_id, linux=resources)
        self._call("UpdateContainerResources", request, cri.Empty)

    def update_pod(self, pod_id: str, resources: cri.Resources) -> None:
        """A whole pod is resized."""
        request = cri.UpdateSandboxRequest(pod_sandbox_id=pod_id, resources=resources)
        self._call("UpdatePodSandboxResources", request, cri.Empty)
