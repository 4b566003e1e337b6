"""Kubernetes manifests as the pods they create, with QoS class and defaults as in Kubernetes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Final

from msgspec import Struct

from ..text.yaml_fields import Field, FieldError, read_fields
from ..text.yaml_nodes import TextScalar
from .misplaced_fields import misplaced_fields
from .pod_spec import PodSpec
from .pod_template import pod_of
from .workloads import Around, Workload, find_workloads, follow

MAX_PODS: Final = 10_000
"""What one text may create; aliases could otherwise multiply a small file without end."""
_ENDED: Final = ("Succeeded", "Failed")
_NAMED_MAX: Final = 5


class ManifestPods(Struct, frozen=True, kw_only=True):
    """Pods that manifests create on one node, in their order."""

    pods: tuple[PodSpec, ...]
    remarks: tuple[str, ...] = ()
    """What was left out, what counts for nothing, and what only an operator knows.

    Each is `where: what — how to fix`.
    """


def parse_manifests(text: str, source: str) -> tuple[PodSpec, ...]:
    """The pods a text creates on one node; see `pods_of`.

    `source` names the text in errors. Raises `FieldError`.
    """
    return pods_of(read_fields(text, source)).pods


def pods_of(documents: Iterable[Field]) -> ManifestPods:
    """The pods that manifests create on one node, in their order.

    Deployments, stateful sets and jobs make several pods, named "NAME-0" and so on; a daemon set
    makes one. An operator's own kind makes as many of each template as the replicas and the
    parallelism around it say. Where objects of two kinds share a name, the pods of the later one
    are named "NAME-KIND-0". Kinds that create no pod (services, config maps) are passed over, and
    so are pods of which the API server tells that they have ended.
    Raises `FieldError`; a template of an operator's own kind that is wrong is left out.
    """
    pods: dict[tuple[str, str], PodSpec] = {}
    kinds: dict[tuple[str, str], str] = {}
    remarks: list[str] = []
    generated: dict[str, int] = {}
    ended: list[Workload] = []
    for document in documents:
        for _, group in groupby(map(_read, find_workloads(document)), object_of):
            workloads = tuple(group)
            manifest = workloads[0].manifest
            if _has_ended(workloads[0]):
                ended.append(workloads[0])
                continue
            for one in workloads:
                remarks.extend(each.text(manifest.source) for each in misplaced_fields(one))
            made = islice(_pods_of_all(workloads, generated, remarks), MAX_PODS + 1)
            for pod in _told_apart(tuple(made), workloads[0], kinds):
                if (pod.namespace, pod.name) in pods:
                    raise manifest.error(
                        f"pod '{pod.namespace}/{pod.name}' is defined twice", "rename one"
                    )
                pods[pod.namespace, pod.name] = pod
                kinds[pod.namespace, pod.name] = workloads[0].full_kind
                if len(pods) > MAX_PODS:
                    raise manifest.error(f"more than {MAX_PODS} pods", "write several files")
    remarks.extend(_left_out(ended))
    return ManifestPods(pods=tuple(pods.values()), remarks=tuple(remarks))


def object_name(workload: Workload, generated: dict[str, int]) -> str:
    """The name of the object, or that which the API server would make up: its prefix and a number.

    `generated`: how many names of each prefix are made up. Raises `FieldError` for neither.
    """
    metadata = workload.manifest["metadata"]
    if name := metadata["name"].text(""):
        return name
    prefix = metadata["generateName"].text("")
    if not prefix:
        shown = "pod" if workload.kind == "Pod" else workload.kind
        raise metadata["name"].error("is missing", f"name the {shown}")
    number = generated.get(prefix, 0)
    generated[prefix] = number + 1
    return f"{prefix}{number}"


def object_of(workload: Workload) -> tuple[int, str]:
    """An identity of the object that a template is in; the same text may stand for several."""
    return id(workload.node), workload.manifest.path


def check_counts(workload: Workload) -> None:
    """Raise `FieldError` where an object has no number of pods that can be."""
    if workload.is_of_operator:
        _count_around(workload.around, workload.manifest.source)
    elif workload.template.counter:
        _count_beside(workload)


def template_of(workload: Workload) -> Field:
    """The pod template of an object, the pod itself of one; raises `FieldError` without one."""
    template = workload.manifest
    for key in () if workload.is_of_operator else workload.template.path:
        template = template[key]
    if template.is_missing:
        raise template.error("is missing", f"a {workload.kind} needs a pod template")
    return template


def is_manifest(document: Field) -> bool:
    """Whether a document looks like a Kubernetes object, of whatever kind."""
    return document.is_mapping and {"apiVersion", "kind"} <= document.entries().keys()


def _has_ended(workload: Workload) -> bool:
    """Whether a pod has no container left to place, as a list of what is there has them, too."""
    if workload.is_of_operator or workload.template.path:
        return False
    phase = follow(workload.node, ("status", "phase"))
    return isinstance(phase, TextScalar) and phase.value in _ENDED


def _left_out(ended: Sequence[Workload]) -> Iterator[str]:
    """The remark about pods that have ended; it names the first of very many."""
    if not ended:
        return
    found = [follow(one.node, ("metadata", "name")) for one in ended[:_NAMED_MAX]]
    names = [one.value for one in found if isinstance(one, TextScalar)]
    names += ["…"] * (len(ended) > _NAMED_MAX)
    which = "a pod that has" if len(ended) == 1 else f"{len(ended)} pods that have"
    what = f"without {which} ended: {', '.join(names)}"
    yield f"{ended[0].manifest.where}: {what} — take the status out of what is to be placed"


def _read(workload: Workload | FieldError) -> Workload:
    if isinstance(workload, FieldError):
        raise workload
    return workload


def _told_apart(
    pods: Sequence[PodSpec], workload: Workload, kinds: Mapping[tuple[str, str], str]
) -> Sequence[PodSpec]:
    """The pods of an object, renamed where one of another kind made a pod of the same name.

    `kinds`: of the objects, by namespace and name of their pods. A pod of its own keeps its name.
    """
    kind = workload.full_kind
    if kind == "pod" or all(kinds.get((one.namespace, one.name), kind) == kind for one in pods):
        return pods
    split = [(one, one.name.rpartition("-")) for one in pods]
    short = workload.kind.lower()
    renamed = [replace(one, name=f"{name}-{short}-{n}") for one, (name, _, n) in split]
    if all((one.namespace, one.name) not in kinds for one in renamed):
        return renamed
    return [replace(one, name=f"{name}-{kind}-{n}") for one, (name, _, n) in split]


def _pods_of_all(
    workloads: Sequence[Workload], generated: dict[str, int], remarks: list[str]
) -> Iterator[PodSpec]:
    """The pods of the templates in one object."""
    if workloads[0].is_of_operator:
        yield from _pods_of_other(workloads, generated, remarks)
        return
    for one in workloads:
        if one.template.makes_pods:
            yield from _pods_of(one, generated)
        else:
            what = f"a {one.kind} makes no pods: left out"
            remarks.append(f"{one.manifest.where}: {what} — write a Pod to have one placed")


def _pods_of_other(
    workloads: Sequence[Workload], generated: dict[str, int], remarks: list[str]
) -> Iterator[PodSpec]:
    """The pods of an operator's own kind, as far as its replicas and parallelism tell."""
    kind, manifest = workloads[0].kind, workloads[0].manifest
    metadata = manifest["metadata"]
    namespace, name = metadata["namespace"].text("default"), metadata["name"].text("")
    # Of objects whose names are made up there may be several.
    numbers = dict[str, int]() if name else generated
    name = name or metadata["generateName"].text("").rstrip("-") or kind.lower()
    total, is_counted = 0, False
    for one in workloads:
        template = Field.of(one.pod or one.node, manifest.source)
        try:
            whole = "-".join((name, *_part_names(one, len(workloads))))
            pod = pod_of(template, whole, namespace)
            count = _count_around(one.around, manifest.source)
        except FieldError as error:
            remarks.append(f"{error} (a template of {kind} {name!r} that is left out)")
            continue
        first = numbers.get(whole, 0)
        numbers[whole] = first + count
        total, is_counted = total + count, True
        for number in range(first, first + count):
            yield replace(pod, name=f"{whole}-{number}")
    if not is_counted:
        return
    many = "1 pod" if total == 1 else f"{total} pods"
    what = f"{kind} {name!r} is taken for {many}, as the counts in it tell"
    remarks.append(f"{manifest.where}: {what} — its operator may make others")


def _part_names(workload: Workload, templates: int) -> Iterator[str]:
    """The names of the parts of an object that a template is in; their key where it has several."""
    names = [
        found.value
        for _, inside in workload.around
        for found in (inside.find("name"), inside.find("groupName"))
        if isinstance(found, TextScalar) and found.value
    ]
    if not names and templates > 1:
        names = [key.lower() for key, _ in workload.around if key not in ("spec", "template")][-1:]
    yield from names


def _count_around(around: Around, source: str) -> int:
    """The number of pods of a template by what is written around it; never above `MAX_PODS` + 1."""
    count = 1
    for _, inside in around:
        for counter in ("replicas", "parallelism"):
            count = min(count * _count(Field.of(inside, source), counter), MAX_PODS + 1)
    return count


def _pods_of(workload: Workload, generated: dict[str, int]) -> Iterator[PodSpec]:
    manifest, path = workload.manifest, workload.template.path
    namespace = manifest["metadata"]["namespace"].text("default")
    name = object_name(workload, generated)
    if not path:
        yield pod_of(manifest, name, namespace)
    else:
        template = template_of(workload)
        for number in range(_count_beside(workload)):
            yield pod_of(template, f"{name}-{number}", namespace)


def _count_beside(workload: Workload) -> int:
    """The number of pods of an object of Kubernetes' own kinds, as it says beside its template."""
    beside = workload.manifest
    for key in workload.template.path[:-1]:
        beside = beside[key]
    return _count(beside, workload.template.counter)


def _count(spec: Field, counter: str) -> int:
    if not counter:
        return 1
    count = spec[counter].integer(1)
    if counter == "parallelism":
        count = min(count, spec["completions"].integer(count))
    if not 0 <= count <= MAX_PODS:
        raise spec[counter].error(f"{count} is out of range", f"0 to {MAX_PODS}")
    return count
