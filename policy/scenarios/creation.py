"""Pods and containers as a runtime creates them from specifications."""

from dataclasses import replace

from ..container import Container, ContainerId, Pod, PodId, Resources
from ..errors import ConfigError, Problem
from ..hints.text import annotated_hints
from ..resources import RESOURCES_ANNOTATION, annotated_resources, as_told
from .manifest import ContainerSpec, PodSpec


def created_pod(spec: PodSpec, serial: int) -> Pod:
    """The sandbox of a pod; `serial` tells it from every other."""
    return Pod(
        id=PodId(f"sandbox-{serial}"),
        uid=f"uid-{serial}",
        name=spec.name,
        namespace=spec.namespace,
        labels=spec.labels,
        annotations=spec.annotations,
        qos=spec.qos,
    )


def created_container(
    spec: ContainerSpec, pod: Pod, serial: int, *, reads_test_hints: bool = False
) -> tuple[Container, tuple[Problem, ...]]:
    """A container of a pod, and what is wrong with what the pod says of its resources."""
    container = Container(
        id=ContainerId(f"{spec.name}-{serial}"), name=spec.name, pod=pod, created_at=serial
    )
    resources, problems = _resources(spec, container)
    container = replace(container, resources=resources)
    if not reads_test_hints:
        return container, problems
    return replace(container, hints=annotated_hints(container)[0]), problems


def _resources(spec: ContainerSpec, container: Container) -> tuple[Resources, tuple[Problem, ...]]:
    """What the pod's annotation says of a container, exactly, or what a runtime can tell."""
    told = as_told(spec.resources)
    text = container.pod.annotations.get(RESOURCES_ANNOTATION)
    if text is None:
        return told, ()
    try:
        return annotated_resources(text, spec.name) or told, ()
    except ConfigError as error:
        where, _, what = str(error).partition(": ")
        return told, (Problem(where=where, what=what),)
