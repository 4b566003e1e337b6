"""Pods as files have them, with the places of what is written there."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, structs

from ..text.errors import Problem
from ..text.yaml_fields import FieldError
from ..text.yaml_nodes import TextError, TextList, TextMap, TextNode, TextScalar
from ..text.yaml_text import parse_documents
from .finding import Finding, finding_at
from .manifest_text import MANIFEST_LIMITS, workloads_of
from .pod_places import PodPlaces
from .workloads import Workload, follow


class WrittenPod(Struct, frozen=True, kw_only=True, eq=False):
    """A pod of a manifest, or the template of one, with its places in the file."""

    name: str
    namespace: str
    template: TextNode | None
    is_named: bool
    """Whether it will be called so: names of pods of other kinds are made up."""
    manifest: TextNode
    """The object that it is of."""
    identity: tuple[str, str, str, str] | None
    """API group, kind, namespace and name of the object, which in a cluster is one.

    None without a name."""
    places: PodPlaces
    annotations: Mapping[str, str]
    lines: Sequence[str]

    def finding(self, problem: Problem) -> Finding:
        """A problem of it at its place."""
        place = self.places.find(problem, self.annotations)
        shown = finding_at(problem, place.line, place.column, self.lines)
        return shown if place.is_exact else structs.replace(shown, excerpt="")


def written_pods(text: str) -> Iterator[WrittenPod]:
    """The pods of a text in their order, each template once; none of a text that is wrong."""
    # One list for all of them: each keeps it.
    lines = text.splitlines()
    try:
        for document in parse_documents(text, MANIFEST_LIMITS):
            for workload in workloads_of(document):
                yield written_pod(workload, lines)
    except (TextError, FieldError):
        return


def written_pod(workload: Workload, lines: Sequence[str]) -> WrittenPod:
    """The pod of a workload in a text of these lines."""
    manifest, template = workload.node, workload.pod
    annotations = follow(template, ("metadata", "annotations"))
    name = _word(manifest, "name")
    shown = name or _word(template, "name") or workload.kind.lower()
    namespace = _word(manifest, "namespace") or "default"
    entries = annotations.entries if isinstance(annotations, TextMap) else ()
    return WrittenPod(
        name=shown,
        namespace=namespace,
        template=template,
        is_named=workload.kind == "Pod" and not workload.group and bool(name),
        manifest=manifest,
        identity=(workload.group, workload.kind, namespace, name) if name else None,
        places=PodPlaces(
            manifest, annotations, container_names(template), f"{namespace}/{shown}", lines
        ),
        annotations={key.value: one.value for key, one in entries if isinstance(one, TextScalar)},
        lines=lines,
    )


def container_names(template: TextNode | None) -> tuple[TextScalar, ...]:
    """The names of a template's containers, as they are written."""
    names: list[TextScalar] = []
    for field in ("initContainers", "containers"):
        containers = follow(template, ("spec", field))
        for one in containers.items if isinstance(containers, TextList) else ():
            name = follow(one, ("name",))
            if isinstance(name, TextScalar):
                names.append(name)
    return tuple(names)


def _word(manifest: TextNode | None, field: str) -> str:
    found = follow(manifest, ("metadata", field))
    return found.value if isinstance(found, TextScalar) else ""
