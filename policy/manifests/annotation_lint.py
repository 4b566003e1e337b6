"""Faults of the annotations in Kubernetes manifests, with their places in the file."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from msgspec import structs

from ..annotations.annotation_budget import admit
from ..annotations.annotation_keys import CRI_DOMAIN, NRI_DOMAIN, domain_of
from ..annotations.annotations import (
    annotation_problems,
    own_annotations,
)
from ..annotations.preferences import parse_preferences
from ..model.container import Container, ContainerId, Pod, PodId
from ..rules.affinity import parse_affinity
from ..text.errors import Problem
from ..text.suggestion import nearest
from ..text.yaml_fields import FieldError
from ..text.yaml_nodes import STRING, TextError, TextMap, TextNode, TextScalar, kind_of
from ..text.yaml_text import parse_documents
from .container_mentions import mentions
from .finding import Finding, finding_at
from .manifest_text import MANIFEST_LIMITS, workloads_of
from .misplaced_fields import misplaced_fields
from .overridden_values import overridden_problems
from .pod_places import distinct
from .workloads import Workload, follow
from .written_pod import container_names, written_pod

_INDENTED = tuple(
    f"metadata.{field}.{one}"
    for field in ("labels", "annotations")
    for one in ("labels", "annotations")
)
"""Fields that are told as indented too far, where they are mappings."""
Check = Callable[[str, str, TextNode | None], Iterable[Problem | Finding]]
"""More problems of a pod: of its name, its namespace and the node that describes it.

A problem's `where` is "ANNOTATION of NAMESPACE/POD…" or the path of a container.
"""


def lint_manifests(text: str, check: Check | None = None) -> tuple[Finding, ...]:
    """Faults of the annotations of all pods in a text, in order of lines.

    `check` finds the faults of annotations together with the rest of their pod. Objects without
    a pod template are passed over. A text that is no YAML is one finding.
    """
    try:
        documents = parse_documents(text, MANIFEST_LIMITS)
    except TextError as error:
        return (finding_at(error.problem("manifest"), error.line, error.column, text.splitlines()),)
    lines = text.splitlines()
    found: dict[Finding, None] = {}
    try:
        for document in documents:
            for workload in workloads_of(document):
                found.update(dict.fromkeys(_lint_workload(workload, lines, check)))
    except FieldError as error:
        problem = error.problem or Problem(where="", what=str(error))
        problem = replace(problem, where="manifest")
        found[finding_at(problem, error.line, error.column, lines)] = None
    return tuple(sorted(found, key=lambda finding: (finding.line, finding.column)))


def _lint_workload(workload: Workload, lines: list[str], check: Check | None) -> Iterator[Finding]:
    template = workload.pod
    strays = [*misplaced_fields(workload)]
    for stray in strays:
        yield finding_at(stray.problem, stray.at.line, stray.at.column, lines)
    texts: dict[str, str] = {}
    without_quotes: set[int] = set()
    annotations = follow(template, ("metadata", "annotations"))
    above: tuple[TextScalar, TextNode] | None = None
    for key, value in annotations.entries if isinstance(annotations, TextMap) else ():
        fault = _fault_of_value(key, value)
        if (outside := _outside(above, key, value)) is not None:
            without_quotes.add(value.line)
            yield finding_at(outside, key.line, key.column, lines)
        above = key, value
        if isinstance(value, TextScalar):
            texts[key.value] = value.value
        if fault is not None and own_annotations({key.value: ""}):
            without_quotes.add(value.line)
            yield finding_at(fault, value.line, value.column, lines)
        if domain_of(key.value) == CRI_DOMAIN:
            yield finding_at(_old_domain(key.value), key.line, key.column, lines)
    written = written_pod(workload, lines)
    admitted = admit(texts, f"{written.namespace}/{written.name}")
    pod = Pod(
        id=PodId("lint"),
        name=written.name,
        namespace=written.namespace,
        annotations=admitted.annotations,
        annotation_problems=admitted.problems,
    )
    names = container_names(template)
    problems = [*_problems(pod, tuple(name.value for name in names))]
    # An object without a template has no pods to check.
    looked_at = check if template is not None else None
    for found in looked_at(pod.name, pod.namespace, template) if looked_at is not None else ():
        if isinstance(found, Finding):
            # A pod with such a value cannot be read, which is said already.
            where = found.problem.where
            is_told = where in _INDENTED and any(
                stray.problem.where.endswith(where) for stray in strays
            )
            if not is_told and found.line not in without_quotes:
                # A patch of what makes pods has no need of containers.
                is_patch = bool(workload.template.path) and follow(template, ("spec",)) is None
                is_advice = found.problem.is_advice or is_patch
                problem = replace(found.problem, is_advice=is_advice)
                yield finding_at(problem, found.line, found.column, lines)
        else:
            problems.append(found)
    yield from map(
        structs.replace(written, annotations=pod.annotations).finding,
        distinct(problems, pod.annotations),
    )


def _old_domain(key: str) -> Problem:
    """Advice about a domain that works, and of which a successor is more widely known."""
    what = f"the domain {CRI_DOMAIN} is that of a program that is not maintained any more"
    fix = f"write {key.replace(CRI_DOMAIN, NRI_DOMAIN)!r}, which means the same"
    return Problem(where=key, what=what, fix=fix, is_advice=True)


def _problems(pod: Pod, names: tuple[str, ...]) -> Iterator[Problem]:
    yield from annotation_problems(pod)
    for name in names:
        container = Container(id=ContainerId(name), name=name, pod=pod)
        yield from parse_preferences(container).problems
    yield from overridden_problems(pod, names)
    yield from parse_affinity(pod.annotations, pod)[1]
    if not names:
        return
    path = f"{pod.namespace}/{pod.name}"
    told: set[tuple[str, str]] = set()
    for key, named in mentions(pod):
        if named.value in names or (key, named.value) in told:
            continue
        told.add((key, named.value))
        near = nearest(named.value, names)
        yield Problem(
            where=f"{key} of {path}",
            what=f"the pod has no container {named.value!r}",
            fix=f"did you mean {near!r}?" if near else "one of " + ", ".join(names),
            line=named.line,
            column=named.column,
        )


def _outside(
    above: tuple[TextScalar, TextNode] | None, key: TextScalar, value: TextNode
) -> Problem | None:
    """The fault of a line that is meant for the text of the annotation above, which is empty."""
    if above is None or isinstance(value, TextScalar) or own_annotations({key.value: ""}):
        return None
    name, text = above[0].value, above[1]
    is_empty = isinstance(text, TextScalar) and not text.value.strip()
    if not is_empty or not own_annotations({name: ""}):
        return None
    what = f"this is an annotation of its own, and {name!r} above is empty"
    return Problem(where=key.value, what=what, fix=f"indent it further than {name!r}")


def _fault_of_value(key: TextScalar, value: TextNode) -> Problem | None:
    if not isinstance(value, TextScalar):
        fix = "write '|' after the colon and indent the lines below"
        return Problem(where=key.value, what="the value is not a string", fix=fix)
    if not value.is_plain or kind_of(value) == STRING:
        return None
    if not value.value:
        fix = "write one after the colon, in quotes"
        return Problem(where=key.value, what="there is no value", fix=fix)
    # The API server refuses a pod with such an annotation as a whole.
    what = f"the value {value.value!r} is not a string"
    return Problem(where=key.value, what=what, fix=f'put it in quotes: "{value.value}"')
