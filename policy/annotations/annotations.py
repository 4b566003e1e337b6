"""Annotations of a pod: the ones that hold for a container, and the ones written wrongly.

A setting is written `KEY.DOMAIN/container.NAME`, `KEY.DOMAIN/pod` or `KEY.DOMAIN`; the first of
these present counts. The older style `DOMAIN/KEY` with lines `container: value` comes after
`container.NAME`. A plain key is written `DOMAIN/KEY` only.
"""

import enum
import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from msgspec import Struct, field

from ...topology.sets.base_errors import quoted
from ..model.container import Pod
from ..text.errors import Problem
from ..text.suggestion import nearest, suggestion
from ..text.text_cache import TextCache
from ..text.yaml_nodes import TextError, TextList, TextMap, TextNode, TextScalar
from ..text.yaml_text import parse_text
from .annotation_budget import is_ours
from .annotation_keys import (
    CRI_DOMAIN,
    DOMAINS,
    KEYS,
    NRI_DOMAIN,
    OWN_DOMAIN,
    RESOURCES_KEY,
    KnownKey,
    domain_of,
    near_label,
)


class Scope(enum.IntEnum):
    """The scope of a setting; the more specific one counts."""

    UNSCOPED = 0
    POD = 1
    CONTAINER = 2


class Setting(Struct, frozen=True):
    """The value that holds for a container, how specific it was given, and under which key."""

    value: str
    scope: Scope
    key: str


class Annotations(Struct, frozen=True):
    """Settings in a pod's annotations by (key, container name), and the problems in them.

    The container name is empty for settings of the whole pod.
    """

    settings: Mapping[tuple[str, str], Setting] = field(
        default_factory=lambda: MappingProxyType(dict[tuple[str, str], Setting]())
    )
    problems: tuple[Problem, ...] = ()

    def effective(self, key: str, container_name: str) -> Setting | None:
        """The setting that holds for a container; None where nobody gave one."""
        return self.settings.get((key, container_name)) or self.settings.get((key, ""))


NO_ANNOTATIONS = Annotations()


def effective(annotations: Mapping[str, str], key: str, container_name: str) -> Setting | None:
    """The setting of a key that holds for a container; None where nobody gave one."""
    return read_annotations(annotations).effective(key, container_name)


def annotation_problems(pod: Pod) -> tuple[Problem, ...]:
    """Problems of the keys and sizes of a pod's annotations, not of the values."""
    return pod.annotation_problems + tuple(
        replace(problem, where=f"{problem.where} of {pod.namespace}/{pod.name}")
        for problem in read_annotations(pod.annotations).problems
    )


def read_annotations(annotations: Mapping[str, str]) -> Annotations:
    """The settings in a pod's annotations. Never raises; a pod without ours costs next to nothing.

    `where` of its problems is the annotation alone.
    """
    ours = own_annotations(annotations)
    return _read(ours) if ours else NO_ANNOTATIONS


def own_annotations(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The annotations under our domains or names that look like them, in their order."""
    return tuple([item for item in annotations.items() if is_ours(item[0])])


_SCOPED: Mapping[tuple[str, str], KnownKey] = {
    (domain, key.name): key for key in KEYS if not key.is_plain for domain in key.domains
}
_PLAIN: Mapping[tuple[str, str], KnownKey] = {
    (domain, key.name): key for key in KEYS if key.is_plain for domain in key.domains
}
_NAMES = frozenset(key.name for key in KEYS)
# Each suggestion compares a word with all of ours.
_SUGGESTIONS_MAX = 16
_FAULTS_MAX = 32
# A domain that the peer's documentation once had by mistake.
_OF_KUBERNETES: Mapping[str, str] = {
    "nodeselector": "did you mean 'pool-selector.pinfold.dev/{}'?",
    "nodename": "did you mean 'pool-name.pinfold.dev/{}'?",
    "nodeaffinity": "write poolAffinity in 'affinity.pinfold.dev/{}'",
    "podaffinity": "write podAffinity in 'affinity.pinfold.dev/{}'",
    "podantiaffinity": "write podAntiAffinity in 'affinity.pinfold.dev/{}'",
    "topologyspread": "write topologySpread in 'affinity.pinfold.dev/{}'",
    "topologyspreadconstraints": "write topologySpread in 'affinity.pinfold.dev/{}'",
}
"""Fields of a pod's spec that somebody may write as annotations, without dashes and capitals."""
_NEAR_FIELD = 0.9
_MISTAKEN_DOMAINS: Mapping[str, str] = {"resource-manager.nri.io": NRI_DOMAIN}
# How alike two domains are that people mix up: resource-manager.nri.io, resource-policy.nri.com.
_NEAR_DOMAIN = 0.85
_NEAR_DOMAIN_WITH_KNOWN_KEY = 0.7


@TextCache
def _read(annotations: tuple[tuple[str, str], ...]) -> Annotations:
    reader = _Reader()
    for key, value in annotations:
        reader.read(key, value)
    return Annotations(MappingProxyType(reader.settings()), reader.found_problems())


class _Reader:
    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._untold = 0
        self._suggested = 0
        # (precedence, setting) by (key, container): the highest precedence counts.
        self._found: dict[tuple[str, str], tuple[tuple[int, ...], Setting]] = {}

    def settings(self) -> dict[tuple[str, str], Setting]:
        return {place: setting for place, (_, setting) in self._found.items()}

    def found_problems(self) -> tuple[Problem, ...]:
        """Problems of the first faulty annotations, at last the number of the others."""
        if not self._untold:
            return tuple(self._problems)
        what = f"and {self._untold} more faults in the keys of annotations"
        return (*self._problems, Problem(where=self._problems[-1].where, what=what))

    def read(self, key: str, value: str) -> None:
        if key == RESOURCES_KEY:
            return
        head, slash, tail = key.partition("/")
        domain = domain_of(key)
        if domain is None:
            self._check_foreign(key, head, tail)
        elif head == domain:
            self._read_plain(key, domain, tail, value)
        else:
            name = head[: -len(domain) - 1]
            if (domain, name) not in _SCOPED:
                self._report_unknown(key, domain, name, tail)
            elif not slash or tail == "pod":
                scope = Scope.POD if slash else Scope.UNSCOPED
                self._put(domain, name, "", Setting(value, scope, key), is_map=False)
            elif tail.startswith("container.") and tail != "container.":
                setting = Setting(value, Scope.CONTAINER, key)
                self._put(domain, name, tail.removeprefix("container."), setting, is_map=False)
            else:
                self._report(
                    key, f"unknown scope {quoted(tail)}", self._scope_fix(domain, name, tail)
                )

    def _put(
        self, domain: str, name: str, container: str, setting: Setting, *, is_map: bool
    ) -> None:
        known = _SCOPED[domain, name]
        if len(setting.value) > known.characters_max:
            what = f"{len(setting.value)} characters, left out"
            self._report(setting.key, what, f"write at most {known.characters_max}")
            return
        precedence = (setting.scope.value, -int(is_map), -DOMAINS.index(domain))
        before = self._found.get((name, container))
        if before is None or precedence > before[0]:
            self._found[name, container] = precedence, setting

    def _read_plain(self, key: str, domain: str, name: str, value: str) -> None:
        if (domain, name) in _PLAIN:
            return
        known = _SCOPED.get((domain, name))
        if known is None or domain == OWN_DOMAIN:
            self._report_unknown(key, domain, name, "pod")
            return
        try:
            node = parse_text(value)
        except TextError as error:
            self._add(error.problem(key))
            return
        if isinstance(node, TextMap) and not _is_one_value(known, node):
            for container, item in node.entries:
                setting = Setting(_item_text(known, item), Scope.CONTAINER, key)
                self._put(domain, name, container.value, setting, is_map=True)
        elif node is not None and domain == CRI_DOMAIN:
            self._put(domain, name, "", Setting(value, Scope.POD, key), is_map=True)
        else:
            fix = f"write '{known.written(domain)}', or lines 'container: value'"
            self._report(key, "not a mapping of container names", fix)

    def _scope_fix(self, domain: str, name: str, tail: str) -> str:
        """The scopes that there are, or the field of the value that stands in the place of one."""
        fields = _SCOPED[domain, name].fields
        if fields and self._suggested < _SUGGESTIONS_MAX:
            self._suggested += 1
            if near := nearest(tail.replace("-", ""), fields):
                return f"write {near} inside '{name}.{domain}/pod'"
        return f"write '{name}.{domain}/pod' or '{name}.{domain}/container.NAME'"

    def _check_foreign(self, key: str, head: str, tail: str) -> None:
        if self._suggested >= _SUGGESTIONS_MAX:
            return
        self._suggested += 1
        parts = head.split(".")
        for start in range(min(len(parts), 4)):
            domain, name = ".".join(parts[start:]), ".".join(parts[:start])
            is_known = (name or tail) in _NAMES
            cutoff = _NEAR_DOMAIN_WITH_KNOWN_KEY if is_known else _NEAR_DOMAIN
            near = _MISTAKEN_DOMAINS.get(domain) or nearest(domain, DOMAINS, cutoff)
            if near:
                meant = f"{name}.{near}" if name else near
                fix = f"did you mean '{meant}/{tail}'?" if tail else f"did you mean '{meant}'?"
                self._report(key, f"unknown domain {quoted(domain)}", fix)
                return

    def _report_unknown(self, key: str, domain: str, name: str, tail: str) -> None:
        # What may have been meant is looked up among all keys, which takes its time.
        self._suggested += 1
        fix = _fix_name(domain, name, tail) if self._suggested <= _SUGGESTIONS_MAX else ""
        self._report(key, f"unknown annotation {quoted(name)}", fix)

    def _report(self, key: str, what: str, fix: str) -> None:
        self._add(Problem(where=key, what=what, fix=fix))

    def _add(self, problem: Problem) -> None:
        if len(self._problems) < _FAULTS_MAX:
            self._problems.append(problem)
        else:
            self._untold += 1


def _is_one_value(known: KnownKey, node: TextNode) -> bool:
    """Whether a mapping is a value for the whole pod, not one value per container."""
    return (
        isinstance(node, TextMap)
        and bool(known.fields)
        and all(name.value in known.fields for name, _ in node.entries)
    )


def _item_text(known: KnownKey, item: TextNode) -> str:
    if isinstance(item, TextList) and not known.fields:
        return ",".join(map(_text_of, item.items))
    return _text_of(item)


def _text_of(node: TextNode) -> str:
    """A node as the text of a document of its own: a scalar's value, otherwise JSON."""
    return node.value if isinstance(node, TextScalar) else json.dumps(_plain(node))


def _plain(node: TextNode) -> object:
    match node:
        case TextScalar():
            return node.value
        case TextList():
            return [_plain(item) for item in node.items]
        case TextMap():
            return {key.value: _plain(value) for key, value in node.entries}


def _fix_name(domain: str, name: str, tail: str) -> str:
    """The key that may be meant, as a fix: in the domain it belongs to, or a similar one."""
    if not name:
        return f"write 'KEY.{domain}/pod'"
    for known in KEYS:
        if known.name == name:
            home = domain if domain in known.domains else known.domains[0]
            return f"did you mean '{_written(known, home, tail)}'?"
    if of_kubernetes := nearest(name.replace("-", ""), _OF_KUBERNETES, _NEAR_FIELD):
        return _OF_KUBERNETES[of_kubernetes].format(tail or "pod")
    if label := near_label(name):
        return f"it is a label: write '{label}' under metadata.labels"
    near = nearest(name, [known.name for known in KEYS])
    if near:
        # Of two keys of one name that of this domain is meant, and of this form.
        meant = max(
            (known for known in KEYS if known.name == near),
            key=lambda known: (domain in known.domains, known.is_plain != bool(tail)),
        )
        home = domain if domain in meant.domains else meant.domains[0]
        return f"did you mean '{_written(meant, home, tail)}'?"
    return suggestion(name, sorted({known.name for known in KEYS if domain in known.domains}))


def _written(known: KnownKey, domain: str, tail: str) -> str:
    if known.is_plain or not tail:
        return known.written(domain)
    return f"{known.name}.{domain}/{tail}"
