"""Kubernetes objects that describe pods: the kinds there are, and where their pod template is."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from ..text.yaml_fields import Field, FieldError
from ..text.yaml_nodes import TextMap, TextScalar

MAX_OBJECTS: Final = 10_000
"""Objects in one document; aliases could otherwise multiply a small file without end."""


class PodTemplate(Struct, frozen=True, kw_only=True):
    """The place of the pod template in objects of a kind; the path of a pod itself is empty."""

    path: tuple[str, ...]
    counter: str = ""
    """Field of the object's spec that counts its pods on a node; empty where there is one."""
    makes_pods: bool = True


_IN_SPEC: Final = ("spec", "template")
TEMPLATES: Final[Mapping[str, PodTemplate]] = {
    "Pod": PodTemplate(path=()),
    "Deployment": PodTemplate(path=_IN_SPEC, counter="replicas"),
    "StatefulSet": PodTemplate(path=_IN_SPEC, counter="replicas"),
    "ReplicaSet": PodTemplate(path=_IN_SPEC, counter="replicas"),
    "ReplicationController": PodTemplate(path=_IN_SPEC, counter="replicas"),
    "DaemonSet": PodTemplate(path=_IN_SPEC),
    "Job": PodTemplate(path=_IN_SPEC, counter="parallelism"),
    "CronJob": PodTemplate(path=("spec", "jobTemplate", *_IN_SPEC)),
    "PodTemplate": PodTemplate(path=("template",), makes_pods=False),
}


class Workload(Struct, frozen=True):
    """An object of one of the kinds of `TEMPLATES`; `node` is its mapping, with positions."""

    kind: str
    manifest: Field
    node: TextMap

    @property
    def template(self) -> PodTemplate:
        """The place of its pod template."""
        return TEMPLATES[self.kind]


def find_workloads(document: Field) -> Iterator[Workload | FieldError]:
    """Workloads of a document in written order: itself, or the items of a List, nested ones too.

    Objects of other kinds are passed over; an object that is malformed stands here as its error.
    Raises `FieldError` for more than `MAX_OBJECTS`.
    """
    waiting = [document]
    visited = 0
    while waiting:
        one = waiting.pop()
        visited += 1
        if visited > MAX_OBJECTS:
            raise document.error(f"more than {MAX_OBJECTS} objects", "write several files")
        node = one.node
        kind = node.find("kind") if isinstance(node, TextMap) else None
        if isinstance(node, TextMap) and isinstance(kind, TextScalar) and kind.value in TEMPLATES:
            yield Workload(kind.value, one, node)
            continue
        try:
            waiting.extend(reversed(_items(one)))
        except FieldError as error:
            yield error


def _items(one: Field) -> tuple[Field, ...]:
    kind = one["kind"]
    if kind.is_missing:
        raise one.error("no 'kind'", "a Kubernetes manifest begins with apiVersion and kind")
    return one["items"].elements() if kind.text().endswith("List") else ()
