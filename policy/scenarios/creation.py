"""Pods and containers as a runtime creates them from specifications."""

from dataclasses import replace
from typing import Final

from ...topology.sets.cpuset import NO_CPUS
from ..annotations.annotation_budget import admit
from ..annotations.cpu_claims import claimed_cpus
from ..annotations.resource_annotation import refined_resources
from ..hints.hint_text import annotated_hints
from ..manifests.manifest import ContainerSpec, PodSpec
from ..model.container import Container, ContainerId, Pod, PodId
from ..model.kubelet_resources import as_told, linux_resources
from ..rules.label_budget import admit_labels
from ..text.errors import Problem

SOME_MEMORY_BYTES: Final = 1 << 40
"""What counts where there is no machine."""


def created_pod(spec: PodSpec, serial: int) -> Pod:
    """The sandbox of a pod; `serial` tells it from every other."""
    path = f"{spec.namespace}/{spec.name}"
    admitted = admit(spec.annotations, path)
    admitted_labels = admit_labels(spec.labels, path)
    return Pod(
        id=PodId(f"sandbox-{serial}"),
        uid=f"uid-{serial}",
        name=spec.name,
        namespace=spec.namespace,
        labels=admitted_labels.labels,
        annotations=admitted.annotations,
        annotation_problems=admitted.problems + admitted_labels.problems,
        qos=spec.qos,
        resources=None if spec.resources is None else as_told(spec.resources, spec.qos),
    )


def created_container(
    spec: ContainerSpec,
    pod: Pod,
    serial: int,
    *,
    memory_bytes: int = SOME_MEMORY_BYTES,
    reads_test_hints: bool = False,
) -> tuple[Container, tuple[Problem, ...]]:
    """A container of a pod, and what is wrong with what the pod says of its resources.

    `memory_bytes`: all memory of the machine it is created on.
    """
    container = Container(
        id=ContainerId(f"{spec.name}-{serial}"), name=spec.name, pod=pod, created_at=serial
    )
    linux = linux_resources(spec.resources, pod.qos, memory_bytes)
    known = as_told(spec.resources, pod.qos)
    resources, problems = refined_resources(known, linux, pod, spec.name, memory_bytes)
    claimed, unread = claimed_cpus(spec.environment, container.path)
    if claimed is None and spec.placed_on is not None:
        # Two plugins that set the cpus of one container keep it from being created.
        claimed = NO_CPUS
    problems = (*problems, *unread)
    container = replace(container, resources=resources, cpus=spec.placed_on, claimed=claimed)
    if not reads_test_hints:
        return container, problems
    return replace(container, hints=annotated_hints(container)[0]), problems
