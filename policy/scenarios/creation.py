"""Pods and containers as a runtime creates them from specifications."""

from typing import Final

from msgspec import Struct, structs

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import NO_CPUS
from ..annotations.annotation_budget import admit
from ..annotations.cpu_claims import claimed_cpus
from ..annotations.resource_annotation import refined_resources
from ..hints.hint_text import annotated_hints
from ..manifests.pod_spec import ContainerSpec, PodSpec
from ..model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from ..model.cpuset_conflicts import foreign_pin_problem, system_partition_problem
from ..model.kubelet_resources import LinuxResources, as_told, estimate, linux_resources, merge
from ..model.memory_qos import MemoryQos, memory_entries, protected_bytes
from ..rules.label_budget import admit_labels
from ..text.errors import Problem


class NodeMemory(Struct, frozen=True):
    """All memory of a node, and what its kubelet does about it."""

    total_bytes: int
    qos: MemoryQos = MemoryQos.OFF

    @classmethod
    def of(cls, machine: Machine, qos: MemoryQos = MemoryQos.OFF) -> "NodeMemory":
        """The memory of a machine."""
        return cls(sum(node.memory_bytes or 0 for node in machine.numa_nodes), qos)


_SOME_MEMORY: Final = NodeMemory(1 << 40)
"""What counts where there is no machine."""


def created_pod(spec: PodSpec, serial: int) -> Pod:
    """The sandbox of a pod; `serial` tells it from every other."""
    path = f"{spec.namespace}/{spec.name}"
    admitted = admit(spec.annotations, path)
    admitted_labels = admit_labels(spec.labels, path)
    problems = admitted.problems + admitted_labels.problems
    if spec.is_of_system:
        problems += (system_partition_problem(path),)
    return Pod(
        id=PodId(f"sandbox-{serial}"),
        uid=f"uid-{serial}",
        name=spec.name,
        namespace=spec.namespace,
        labels=admitted_labels.labels,
        annotations=admitted.annotations,
        annotation_problems=problems,
        qos=spec.qos,
        # Huge pages are told of single containers, never of a pod.
        resources=None
        if spec.resources is None
        else structs.replace(as_told(spec.resources, spec.qos), hugepage_bytes={}),
    )


def created_container(
    spec: ContainerSpec,
    pod: Pod,
    serial: int,
    *,
    memory: NodeMemory | None = None,
    reads_test_hints: bool = False,
    kubelet_pins: bool = False,
) -> tuple[Container, tuple[Problem, ...]]:
    """A container of a pod, and what is wrong with what the pod says of its resources.

    `memory`: of the node it is created on, where the policy knows no more than its kubelet tells.
    `kubelet_pins`: whether the kubelet's own CPU manager sets cpus there, and is overruled.
    """
    container = Container(
        id=ContainerId(f"{spec.name}-{serial}"), name=spec.name, pod=pod, created_at=serial
    )
    node = memory or _SOME_MEMORY
    linux = _written(spec.resources, spec.own or spec.resources, pod.qos, node)
    known = as_told(spec.resources, pod.qos)
    if memory is not None:
        known = estimate(linux, pod.qos, node.total_bytes)
    resources, problems = refined_resources(known, linux, pod, spec.name, node.total_bytes)
    claimed, unread = claimed_cpus(spec.environment, container.path)
    problems = (*problems, *unread)
    if claimed is None and spec.placed_on is not None and not kubelet_pins:
        # Two plugins that set the cpus of one container keep it from being created.
        claimed = NO_CPUS
        foreign = foreign_pin_problem(container.path, spec.placed_on, has_claims=False)
        problems = (*problems, foreign)
    container = structs.replace(
        container, resources=resources, cpus=spec.placed_on, claimed=claimed
    )
    if not reads_test_hints:
        return container, problems
    hints, odd = annotated_hints(container)
    return structs.replace(container, hints=hints), (*problems, *odd)


def resized(container: Container, asked: Resources, memory: NodeMemory) -> Resources:
    """The resources of a running container as the policy knows them once it asks for others.

    The kubelet does not write anew who is to be killed first.
    """
    qos, before = container.pod.qos, container.resources
    after = structs.replace(_written(asked, asked, qos, memory), oom_score_adj=None)
    linux = merge(_written(before, before, qos, memory), after)
    return estimate(linux, qos, memory.total_bytes)


def _written(
    resources: Resources, own: Resources, qos: QosClass, memory: NodeMemory
) -> LinuxResources:
    """What the kubelet writes for a container that shows these resources, and has these itself."""
    linux = linux_resources(resources, qos, memory.total_bytes)
    entries = memory_entries(own, qos, memory.total_bytes, memory.qos)
    return structs.replace(linux, memory_request_bytes=protected_bytes(entries))
