"""What is wrong with the annotations in Kubernetes manifests, and at which line of the file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from ..container import Container, ContainerId, Pod, PodId
from ..errors import Problem
from .affinity import parse_affinity
from .annotations import annotation_problems, own_annotations
from .mention import mentions
from .preferences import parse_preferences
from .suggestion import nearest
from .yamltext import Limits, TextError, TextList, TextMap, TextNode, TextScalar, parse_documents

# Where the pod of a kind is described.
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
MANIFEST_LIMITS = Limits(characters=4 << 20, depth=64, nodes=200_000, has_aliases=True)
_RESOLVER = yaml.resolver.Resolver()
_STRING_TAG = "tag:yaml.org,2002:str"
_INDENT = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem, its line in the file (0 if unknown), and that line with the place underlined.

    Without the excerpt, line and column of the problem are inside the annotation's text.
    """

    problem: Problem
    line: int = 0
    excerpt: str = ""

    def text(self, source: str) -> str:
        """`file:line: where: what — fix`, with the excerpt below."""
        place = f"{source}:{self.line}" if self.line else source
        problem = self.problem
        fix = f" — {problem.fix}" if problem.fix else ""
        inside = f":{problem.line}:{problem.column}" if problem.line and not self.excerpt else ""
        lines = [f"{place}: {problem.where}{inside}: {problem.what}{fix}"]
        return "\n".join(lines + ([self.excerpt] if self.excerpt else []))


def lint_manifests(text: str) -> tuple[Finding, ...]:
    """Everything wrong with the annotations of the pods in a text, in order of lines.

    Kinds without pods are passed over. A text that is no YAML is one finding.
    """
    try:
        documents = parse_documents(text, MANIFEST_LIMITS)
    except TextError as error:
        return (_finding(error.problem("manifest"), error.line, error.column, text.splitlines()),)
    lines = text.splitlines()
    found: dict[Finding, None] = {}
    for document in documents:
        for kind, manifest in _manifests(document):
            found.update(dict.fromkeys(_lint_manifest(kind, manifest, lines)))
    return tuple(sorted(found, key=lambda finding: finding.line))


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
        return documents[0].find("scenarios") is None
    return isinstance(kind, TextScalar) and kind.value == "TopologyAwarePolicy"


def _manifests(document: TextNode) -> Iterator[tuple[str, TextMap]]:
    if not isinstance(document, TextMap):
        return
    kind, items = document.find("kind"), document.find("items")
    if isinstance(items, TextList):
        for item in items.items:
            yield from _manifests(item)
    elif isinstance(kind, TextScalar) and kind.value in TEMPLATES:
        yield kind.value, document


def _lint_manifest(kind: str, manifest: TextMap, lines: list[str]) -> Iterator[Finding]:
    template = _follow(manifest, TEMPLATES[kind])
    annotations = _follow(template, ("metadata", "annotations"))
    if not isinstance(annotations, TextMap):
        return
    texts: dict[str, str] = {}
    places: dict[str, tuple[TextScalar, TextScalar]] = {}
    for key, value in annotations.entries:
        fault = _fault_of_value(key, value)
        if isinstance(value, TextScalar):
            texts[key.value] = value.value
            places[key.value] = (key, value)
        if fault is not None and own_annotations({key.value: ""}):
            yield _finding(fault, value.line, value.column, lines)
    pod = Pod(
        id=PodId("lint"),
        name=_word(manifest, "name") or _word(template, "name") or kind.lower(),
        namespace=_word(manifest, "namespace") or "default",
        annotations=texts,
    )
    seen: set[tuple[str, str, int, int]] = set()
    for problem in _problems(pod, _container_names(template)):
        annotation = problem.where.partition(" of ")[0]
        # A setting of the whole pod is wrong for every container alike.
        identity = (annotation, problem.what, problem.line, problem.column)
        if identity not in seen:
            seen.add(identity)
            line, column = _place(problem, places.get(annotation), lines)
            yield _finding(problem, line, column, lines)


def _problems(pod: Pod, names: tuple[str, ...]) -> Iterator[Problem]:
    yield from annotation_problems(pod)
    for name in names:
        container = Container(id=ContainerId(name), name=name, pod=pod)
        yield from parse_preferences(container).problems
    yield from parse_affinity(pod.annotations, pod)[1]
    if not names:
        return
    path = f"{pod.namespace}/{pod.name}"
    told: set[tuple[str, str]] = set()
    for key, named in mentions(pod):
        if named.value in names or named.value == "*" or (key, named.value) in told:
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


def _fault_of_value(key: TextScalar, value: TextNode) -> Problem | None:
    if not isinstance(value, TextScalar):
        fix = "write '|' after the colon and indent the lines below"
        return Problem(where=key.value, what="the value is not a string", fix=fix)
    if not value.is_plain or _tag_of(value.value) == _STRING_TAG:
        return None
    # The API server refuses a pod with such an annotation as a whole.
    what = f"the value {value.value!r} is not a string"
    return Problem(where=key.value, what=what, fix=f'put it in quotes: "{value.value}"')


def _tag_of(plain: str) -> str:
    # PyYAML's resolver is without types in its stubs.
    tag = _RESOLVER.resolve(yaml.ScalarNode, plain, (True, False))  # type: ignore[no-untyped-call]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return str(tag)  # pyright: ignore[reportUnknownArgumentType]


def _place(
    problem: Problem, place: tuple[TextScalar, TextScalar] | None, lines: list[str]
) -> tuple[int, int]:
    """The line and column in the file; column 0 where only the line is known."""
    if place is None:
        return 0, 0
    key, value = place
    if not problem.line:
        return key.line, key.column
    if not value.is_literal:
        written = lines[value.line - 1][value.column - 1 :] if value.line <= len(lines) else ""
        quote = 0 if value.is_plain else 1
        # Where nothing is escaped or folded, the text stands in the file as it is.
        is_same = written[quote:].startswith(value.value) and problem.line == 1
        return value.line, value.column + quote + problem.column - 1 if is_same else 0
    line = value.line + problem.line
    inner = value.value.splitlines()[problem.line - 1 : problem.line]
    if line > len(lines) or not inner:
        return value.line, 0
    indent = len(lines[line - 1]) - len(inner[0])
    return line, indent + problem.column


def _finding(problem: Problem, line: int, column: int, lines: list[str]) -> Finding:
    excerpt = ""
    if line and column and line <= len(lines):
        written = _printable(lines[line - 1].rstrip())
        margin = min(len(written) - len(written.lstrip()), column - 1)
        excerpt = f"{_INDENT}{written[margin:]}\n{_INDENT}{' ' * (column - 1 - margin)}^"
    return Finding(problem=problem, line=line, excerpt=excerpt)


def _printable(line: str) -> str:
    # What a stranger wrote must not steer the terminal.
    return "".join(one if one.isprintable() else " " for one in line)


def _container_names(template: TextNode | None) -> tuple[str, ...]:
    names: list[str] = []
    for field in ("initContainers", "containers"):
        containers = _follow(template, ("spec", field))
        for one in containers.items if isinstance(containers, TextList) else ():
            name = _follow(one, ("name",))
            if isinstance(name, TextScalar):
                names.append(name.value)
    return tuple(names)


def _word(manifest: TextNode | None, field: str) -> str:
    found = _follow(manifest, ("metadata", field))
    return found.value if isinstance(found, TextScalar) else ""


def _follow(node: TextNode | None, path: tuple[str, ...]) -> TextNode | None:
    for step in path:
        node = node.find(step) if isinstance(node, TextMap) else None
    return node
