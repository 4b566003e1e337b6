"""A Kubernetes node without its kubelet: pods are started and ended through the runtime alone."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from tests.e2e import image
from tests.e2e.cri import Cri
from tests.e2e.pins import Pins, read_pins
from tests.e2e.pods import PodSpec

IMAGE_WITHIN_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod that runs: its sandbox's id and its containers' ids by name."""

    spec: PodSpec
    id: str
    containers: dict[str, str] = field(default_factory=dict[str, str])


class Node:
    """The pods of one runtime, below one cgroup root."""

    def __init__(self, cri: Cri, cgroup_root: str, direct: Cri | None = None) -> None:
        """`cri`: the kubelet's way to the runtime; `direct`: past a proxy, where there is one."""
        self.cri = cri
        self.direct = direct or cri
        self.cgroup_root = cgroup_root

    def wait_for_image(self) -> None:
        """Returns when the image is known: an import shows in CRI a moment later."""
        until = time.monotonic() + IMAGE_WITHIN_SECONDS
        while not self.direct.has_image(image.NAME):
            if time.monotonic() > until:
                raise TimeoutError(f"{image.NAME}: imported but not seen through CRI")
            time.sleep(0.1)

    def start_pod(self, spec: PodSpec, cri: Cri | None = None) -> RunningPod:
        """Starts a pod and its containers, in order; where one is refused, the pod ends.

        `cri`: another way than the kubelet's. Raises `grpc.RpcError`.
        """
        cri = cri or self.cri
        config = spec.sandbox_config(self.cgroup_root)
        pod = RunningPod(spec, cri.run_pod(config))
        try:
            for container in spec.containers:
                created = cri.create_container(pod.id, spec.container_config(container), config)
                pod.containers[container.name] = created
                cri.start_container(created)
        except grpc.RpcError:
            self.end_pod(pod)
            raise
        return pod

    def end_pod(self, pod: RunningPod) -> None:
        """Stops and removes a pod with its containers."""
        self.cri.stop_pod(pod.id)
        self.cri.remove_pod(pod.id)

    def end_all(self) -> None:
        """Stops and removes every pod of the runtime."""
        for pod in self.direct.pods():
            self.direct.stop_pod(pod)
            self.direct.remove_pod(pod)

    def pid(self, pod: RunningPod, container: str) -> int:
        """The process id of a running container."""
        return self.direct.pid(pod.containers[container])

    def pins(self, pod: RunningPod, container: str) -> Pins:
        """What the kernel holds a running container to."""
        return read_pins(self.pid(pod, container))


def remove_cgroups(name: str) -> None:
    """Removes the cgroup of this name with all below it, in every hierarchy.

    Only empty ones can be removed: end the pods first.
    """
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    for _, where, kind, *_ in mounts:
        root = Path(where) / name
        if kind in ("cgroup", "cgroup2") and root.is_dir():
            below = sorted((one for one in root.rglob("*") if one.is_dir()), reverse=True)
            for folder in (*below, root):
                folder.rmdir()
