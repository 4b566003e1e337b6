"""Pods of manifests on the embedded runtime, where one refused container stops no other."""

from dataclasses import dataclass

from ...nri.embedded.embedded_runtime import EmbeddedRuntime, RequestError
from ...nri.embedded.kubelet import container_message, sandbox_message
from ...policy.manifests.manifest import ContainerSpec, PodSpec


@dataclass(frozen=True, slots=True)
class Refused:
    """A container that was not created, and why."""

    pod: PodSpec
    container: str
    reason: str


def start_pods(
    runtime: EmbeddedRuntime, pods: list[PodSpec], machine_memory_bytes: int | None
) -> list[Refused]:
    """Run pods one after another as the kubelet does; the containers that were refused.

    Behind a refused container its pod goes on; behind a refused init container it ends, as
    Kubernetes starts nothing else before that one.
    """
    refused: list[Refused] = []
    for pod in pods:
        runtime.run_pod(sandbox_message(pod))
        for container in (*pod.init_containers, *pod.containers):
            reason = _start(runtime, pod, container, machine_memory_bytes)
            if reason is None:
                continue
            refused.append(Refused(pod, container.name, reason))
            if container in pod.init_containers:
                break
    return refused


def _start(
    runtime: EmbeddedRuntime, pod: PodSpec, container: ContainerSpec, memory_bytes: int | None
) -> str | None:
    """Why the container does not run; None where it does, or did and has ended well."""
    try:
        created = runtime.create(container_message(container, pod, memory_bytes))
    except RequestError as error:
        # The plugin's own words; around them is what a runtime makes of an answer on its wire.
        return str(error.__cause__ or error)
    runtime.start(created.id)
    if not container.keeps_running:
        runtime.stop(created.id)
    return None
