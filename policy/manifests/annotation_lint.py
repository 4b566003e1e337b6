"""Faults of the annotations in Kubernetes manifests, with their places in the file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct, structs

from ..annotations.annotation_budget import admit
from ..annotations.annotation_keys import CRI_DOMAIN, NRI_DOMAIN, domain_of
from ..annotations.annotations import (
    annotation_problems,
    own_annotations,
)
from ..annotations.preferences import parse_preferences
from ..configuration.config_text import API_VERSION
from ..model.container import Container, ContainerId, Pod, PodId
from ..rules.affinity import parse_affinity
from ..text.errors import Problem
from ..text.suggestion import nearest
from ..text.yaml_fields import Field, FieldError
from ..text.yaml_nodes import STRING, TextError, TextList, TextMap, TextNode, TextScalar, kind_of
from ..text.yaml_text import Limits, parse_documents
from .container_mentions import mentions
from .misplaced_fields import misplaced_fields
from .overridden_values import overridden_problems
from .pod_places import PodPlaces, distinct
from .workloads import Workload, find_workloads, follow

MANIFEST_LIMITS = Limits(
    characters=4 << 20, depth=64, nodes=200_000, documents=50_000, has_aliases=True
)
_GROUP = API_VERSION.partition("/")[0]
_INDENTED = tuple(
    f"metadata.{field}.{one}"
    for field in ("labels", "annotations")
    for one in ("labels", "annotations")
)
"""Fields that are told as indented too far, where they are mappings."""
_INDENT = "    "
_EXCERPT_MAX = 160
"""Characters of a line that are shown."""


class Finding(Struct, frozen=True, kw_only=True):
    """A problem, its place in the file (0 if unknown), and that line with the place underlined.

    Without the excerpt, line and column of the problem are inside the text that begins there.
    """

    problem: Problem
    line: int = 0
    column: int = 0
    excerpt: str = ""

    @property
    def message(self) -> str:
        """`where: what — fix`, and the place inside the text where that in the file is unknown."""
        problem = self.problem
        fix = f" — {problem.fix}" if problem.fix else ""
        is_told = self.excerpt or (self.line, self.column) == (problem.line, problem.column)
        inside = "" if is_told or not problem.column else f":{problem.line}:{problem.column}"
        return f"{problem.where}{inside}: {problem.what}{fix}"


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
            for workload in _workloads(document):
                found.update(dict.fromkeys(_lint_workload(workload, lines, check)))
    except FieldError as error:
        problem = error.problem or Problem(where="", what=str(error))
        problem = replace(problem, where="manifest")
        found[finding_at(problem, error.line, error.column, lines)] = None
    return tuple(sorted(found, key=lambda finding: (finding.line, finding.column)))


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
            for workload in _workloads(document):
                yield _written_pod(workload, lines)
    except (TextError, FieldError):
        return


def _written_pod(workload: Workload, lines: Sequence[str]) -> WrittenPod:
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
            manifest, annotations, _container_names(template), f"{namespace}/{shown}", lines
        ),
        annotations={key.value: one.value for key, one in entries if isinstance(one, TextScalar)},
        lines=lines,
    )


def has_pods(text: str) -> bool:
    """Whether a text describes pods at all. False for a text that cannot be read."""
    try:
        documents = parse_documents(text, MANIFEST_LIMITS)
        return any(True for document in documents for _ in _workloads(document))
    except (TextError, FieldError):
        return False


def is_configuration(text: str) -> bool:
    """Whether a text looks like a configuration: one document without a kind, or of ours."""
    try:
        documents = parse_documents(text, MANIFEST_LIMITS)
    except TextError:
        return False
    if len(documents) != 1 or not isinstance(documents[0], TextMap):
        return False
    kind = documents[0].find("kind")
    if kind is None:
        return documents[0].find("scenarios") is None and not _lacks_kind(documents[0])
    return isinstance(kind, TextScalar) and kind.value == "TopologyAwarePolicy"


def _lacks_kind(document: TextMap) -> bool:
    """Whether a document without a kind is of another API than a configuration: a manifest."""
    version = document.find("apiVersion")
    group = version.value.partition("/")[0] if isinstance(version, TextScalar) else _GROUP
    return group != _GROUP


def _workloads(document: TextNode) -> Iterator[Workload]:
    for one in find_workloads(Field.of(document, "")):
        if isinstance(one, Workload):
            yield one


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
    written = _written_pod(workload, lines)
    admitted = admit(texts, f"{written.namespace}/{written.name}")
    pod = Pod(
        id=PodId("lint"),
        name=written.name,
        namespace=written.namespace,
        annotations=admitted.annotations,
        annotation_problems=admitted.problems,
    )
    names = _container_names(template)
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


def finding_at(problem: Problem, line: int, column: int, lines: Sequence[str]) -> Finding:
    """A problem at a place in a text of these lines, with the excerpt."""
    excerpt = ""
    if line and column and line <= len(lines):
        written, at = lines[line - 1], column - 1
        # A manifest of a machine may be one line of megabytes.
        begin = at - _EXCERPT_MAX // 2 if len(written) > _EXCERPT_MAX else 0
        begin = min(begin, len(written) - _EXCERPT_MAX) if begin > 0 else 0
        part = _printable(written[begin : begin + _EXCERPT_MAX].rstrip())
        margin = 0 if begin else min(len(part) - len(part.lstrip()), at)
        before = "…" if begin else ""
        after = "…" if len(written.rstrip()) > begin + _EXCERPT_MAX else ""
        indent = " " * (len(before) + at - begin - margin)
        excerpt = f"{_INDENT}{before}{part[margin:]}{after}\n{_INDENT}{indent}^"
    return Finding(problem=problem, line=line, column=column, excerpt=excerpt)


def _printable(line: str) -> str:
    # What a stranger wrote must not steer the terminal.
    return "".join(one if one.isprintable() else " " for one in line)


def _container_names(template: TextNode | None) -> tuple[TextScalar, ...]:
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
