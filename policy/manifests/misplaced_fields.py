"""Misplaced fields of workloads: annotations, labels and levels of ours where nobody reads them."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ...topology.sets.base_errors import quoted
from ..annotations.annotation_keys import KEYS, OWN_DOMAIN, OWN_LABELS, domain_of, near_label
from ..model.level_name import LEVEL_DOMAIN
from ..text.errors import Problem, placed_text, position_text
from ..text.suggestion import nearest
from ..text.yaml_nodes import TextList, TextMap, TextNode, TextScalar
from .workloads import Workload, follow

_METADATA: Final = ("annotations", "labels")
_KINDS: Final = {"annotations": "an annotation", "labels": "a label"}
_NEAR_FIELD: Final = 0.85
_NAMES: Final = frozenset(known.name for known in KEYS)
_OF_SCHEDULER: Final = (
    ("affinity", "affinity"),
    ("topologySpreadConstraints", "affinity"),
    ("nodeSelector", "pool-selector"),
)
"""Fields of a pod's spec that Kubernetes' scheduler reads, and what is meant inside a node."""


class MisplacedField(Struct, frozen=True):
    """A problem of a field, and its place."""

    problem: Problem
    at: TextScalar

    def text(self, source: str) -> str:
        """`file:line:column: where: what — fix`."""
        place = position_text(source, self.at.line, self.at.column)
        return placed_text(place, str(self.problem), is_advice=self.problem.is_advice)


class _Part(Struct, frozen=True):
    """A mapping of a workload and the path of fields to it."""

    path: tuple[str, ...]
    node: TextMap


def misplaced_fields(workload: Workload) -> Iterator[MisplacedField]:
    """Fields of a workload of which its author means that they count, and which do not.

    Of an operator's own kind only the pod template is looked at, and what is found is advice:
    whether anything else reaches the pods its operator alone knows.
    """
    path = workload.template.path
    if not workload.is_of_operator:
        for length in range(len(path)):
            for part in _parts(workload.node, path[:length]):
                yield from _of_owner(part, workload)
    template = () if workload.is_of_operator else path
    for step in ((), ("metadata",), ("spec",)):
        for part in _parts(workload.pod, step):
            yield from _strays(_Part((*template, *part.path), part.node), workload)
    yield from _indented(workload, template)
    for part in _containers(workload.pod):
        yield from _strays(_Part((*template, *part.path), part.node), workload)
    for key, _ in _entries(follow(workload.pod, ("metadata", "labels"))):
        yield from _label(key, workload)
    yield from _levels(workload.pod)


def _of_owner(part: _Part, workload: Workload) -> Iterator[MisplacedField]:
    """Fields of ours in what is around a pod template, none of which reaches a pod."""
    yield from _strays(part, workload)
    metadata = part.node.find("metadata")
    if not isinstance(metadata, TextMap):
        return
    yield from _strays(_Part((*part.path, "metadata"), metadata), workload)
    owner = f"{workload.kind}'s jobTemplate" if part.path else f"{workload.kind} itself"
    # What the pods have as well, as kustomize writes it everywhere, need not be moved.
    own = {
        key.value
        for field in _METADATA
        for key, _ in _entries(follow(workload.pod, ("metadata", field)))
    }
    for field in _METADATA:
        for key, _ in _entries(metadata.find(field)):
            name = key.value
            if name in own or domain_of(name) is None:
                continue
            if field == "labels" and name not in OWN_LABELS:
                yield from _label(key, workload, f" of a {owner}")
                continue
            # Whatever else it is written among: there it would count for the pods.
            place = _METADATA[name in OWN_LABELS]
            what = f"the {field} of a {owner} do not reach its pods"
            fix = f"move it to {_path(*workload.template.path, 'metadata', place)}"
            yield MisplacedField(Problem(where=name, what=what, fix=fix), key)


def _strays(part: _Part, workload: Workload) -> Iterator[MisplacedField]:
    """Annotations and labels of a mapping that is not their place."""
    template = () if workload.is_of_operator else workload.template.path
    is_metadata = part.path[-1:] == ("metadata",)
    for key, value in part.node.entries:
        if domain_of(key.value) is not None:
            field = _METADATA[key.value in OWN_LABELS]
            what = f"{_KINDS[field]} counts only among {field}"
        elif is_metadata:
            near = None if key.value in _METADATA else nearest(key.value, _METADATA, _NEAR_FIELD)
            if near:
                what = f"unknown field {quoted(key.value)}"
                yield _found(part, what, f"did you mean {near!r}?", key, workload)
            continue
        elif key.value in _METADATA and (not workload.is_of_operator or _has_ours(value)):
            what, field = f"nobody reads {key.value} here", key.value
        else:
            continue
        pronoun = "them" if key.value in _METADATA else "it"
        fix = f"move {pronoun} to {_path(*template, 'metadata', field)}"
        yield _found(part, what, fix, key, workload)


def _indented(workload: Workload, template: tuple[str, ...]) -> Iterator[MisplacedField]:
    """Annotations that are indented as if they were a label, and labels likewise."""
    for field in _METADATA:
        path = ("metadata", field)
        for part in _parts(workload.pod, path):
            for key, value in part.node.entries:
                if key.value in _METADATA and isinstance(value, TextMap):
                    what = f"they are among {field}, as they are indented too far"
                    fix = f"indent them as {_path(*template, 'metadata', key.value)}"
                    yield _found(_Part((*template, *path), part.node), what, fix, key, workload)


def _found(part: _Part, what: str, fix: str, key: TextScalar, workload: Workload) -> MisplacedField:
    where = _path(workload.manifest.path, *part.path, key.value)
    is_advice = workload.is_of_operator
    return MisplacedField(Problem(where=where, what=what, fix=fix, is_advice=is_advice), key)


def _label(key: TextScalar, workload: Workload, of_owner: str = "") -> Iterator[MisplacedField]:
    """What is wrong with the name of a label of a pod, or of what makes it.

    Rules may ask for labels of any name, so that one that is written as labels are is advised of.
    """
    domain = domain_of(key.value)
    if domain is None or key.value in OWN_LABELS:
        return
    prefix, _, tail = key.value.partition("/")
    name = prefix.removesuffix(domain).removesuffix(".") or tail
    if near := near_label(name):
        what, fix = "unknown label", f"did you mean {near!r}?"
        if of_owner:
            place = _path(*workload.template.path, "metadata", "labels")
            what, fix = f"unknown label{of_owner}", f"write {near!r} under {place}"
    elif name in _NAMES:
        what = f"this is an annotation, and has no effect among labels{of_owner}"
        fix = f"move it to {_path(*workload.template.path, 'metadata', 'annotations')}"
        forms = [one.written(domain) for one in KEYS if one.name == name and domain in one.domains]
        if prefix == domain and forms and key.value not in forms:
            # Labels are written so; of annotations few are.
            fix += f" as {forms[0]!r}"
    else:
        return
    is_advice = workload.is_of_operator or prefix == domain
    problem = Problem(where=f"label {key.value}", what=what, fix=fix, is_advice=is_advice)
    yield MisplacedField(problem, key)


def _levels(pod: TextNode | None) -> Iterator[MisplacedField]:
    """Levels of ours in fields of a pod that Kubernetes' scheduler reads."""
    for field, meant in _OF_SCHEDULER:
        for word in _words(follow(pod, ("spec", field))):
            if not word.value.startswith(f"{LEVEL_DOMAIN}/"):
                continue
            problem = Problem(
                where=f"spec.{field}",
                what=f"to Kubernetes' scheduler {quoted(word.value)} is a label of whole nodes",
                fix=f"for places inside a node write the annotation '{meant}.{OWN_DOMAIN}/pod'",
                is_advice=True,
            )
            yield MisplacedField(problem, word)


def _words(node: TextNode | None) -> Iterator[TextScalar]:
    """All keys and values inside a node, in written order; an alias once."""
    waiting: list[TextNode] = [] if node is None else [node]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, TextScalar):
            yield one
            continue
        if id(one) in seen:
            continue
        seen.add(id(one))
        inner: Sequence[TextNode] = (
            one.items
            if isinstance(one, TextList)
            else [each for entry in one.entries for each in entry]
        )
        waiting.extend(reversed(inner))


def _has_ours(annotations: TextNode) -> bool:
    return any(domain_of(key.value) is not None for key, _ in _entries(annotations))


def _parts(node: TextNode | None, path: tuple[str, ...]) -> Iterator[_Part]:
    """The mapping at a path; none where there is something else, or nothing."""
    found = follow(node, path)
    if isinstance(found, TextMap):
        yield _Part(path, found)


def _containers(pod: TextNode | None) -> Iterator[_Part]:
    for field in ("initContainers", "containers"):
        containers = follow(pod, ("spec", field))
        for index, one in enumerate(containers.items if isinstance(containers, TextList) else ()):
            if isinstance(one, TextMap):
                yield _Part(("spec", f"{field}[{index}]"), one)


def _entries(node: TextNode | None) -> Sequence[tuple[TextScalar, TextNode]]:
    return node.entries if isinstance(node, TextMap) else ()


def _path(*steps: str) -> str:
    return ".".join(filter(None, steps))
