"""Annotations by central rule: those that the configuration gives to containers it selects.

A rule's annotation counts where the pod has none of that key that holds for the container, not even
at a wider scope: what an author writes wins. Of several rules that give one key the first counts.
Nothing else of the policy knows of rules: a container has its own annotations and the given ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from msgspec import Struct, structs

from ...topology.sets.base_errors import quoted
from ..annotations.annotation_keys import RESOURCES_KEY, domain_of
from ..annotations.annotations import Annotations, effective, read_annotations
from ..annotations.preferences import parse_preferences
from ..configuration.annotation_rule_fields import AnnotationRule, ContainerSelector
from ..configuration.config import Config
from ..model.container import Container, ContainerId, GivenAnnotation, Pod, PodId, QosClass
from ..text.errors import ConfigError, Problem
from ..text.glob_set import GlobSet
from ..text.yaml_nodes import TextError
from .affinity import AFFINITY_KEYS, affinity_rules
from .expression import ALWAYS, Expression, evaluate, parse_expression
from .podaffinity.configured_rules import LOAD_LABEL, label_selector, text_node
from .podaffinity.label_selector import LabelSelector
from .podaffinity.rule_text import placement_rules

_Fault = tuple[tuple[str | int, ...], str]
"""A path of the configuration, or of a rule in it, and what is wrong there."""

_UNREAD: Final = (RESOURCES_KEY,)
"""Keys that a rule cannot give: they are about amounts of one pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralRule:
    """One rule of the configuration, read."""

    name: str
    selector: "CentralSelector"
    annotations: Annotations
    """Settings by (key, container name)."""
    keys: tuple[str, ...]
    """The names of its settings, each once."""
    plain: Mapping[str, str]
    """Rules by container name, by their annotation."""


class CentralSelector(Struct, frozen=True, kw_only=True):
    """The containers that a rule is for; an empty part is for all."""

    namespaces: GlobSet | None
    pods: GlobSet | None
    containers: GlobSet | None
    labels: LabelSelector
    container_labels: LabelSelector
    qos: tuple[QosClass, ...]
    expression: Expression

    def selects(self, container: Container) -> bool:
        """Whether all parts are for a container."""
        pod = container.pod
        return (
            (self.namespaces is None or self.namespaces(pod.namespace))
            and (self.pods is None or self.pods(pod.name))
            and (self.containers is None or self.containers(container.name))
            and (not self.qos or pod.qos in self.qos)
            and self.labels.matches(pod.labels)
            and self.container_labels.matches(container.labels)
            and (self.expression is ALWAYS or evaluate(self.expression, container))
        )


class CentralRules:
    """The rules of one configuration that give annotations."""

    def __init__(self, config: Config) -> None:
        """Raises `ConfigError` where an annotation or an expression of a rule is wrong."""
        faults: list[_Fault] = []
        self._rules = tuple(_read(at, one, faults) for at, one in enumerate(config.rules))
        for at, one in enumerate(config.rules):
            found = dict.fromkeys(_faults(one, config))
            place = _place(at, "annotations")
            faults += [(("rules", at, *path), f"{place}: {what}") for path, what in found]
        self._has_loads = bool(config.load_classes)
        if faults:
            paths, lines = zip(*faults, strict=True)
            raise ConfigError("\n".join(lines), paths)

    def completed(self, container: Container) -> Container:
        """The container with what the rules give it; what older rules gave it is taken away."""
        if not self._rules and not self._has_loads and not container.given:
            # As on most nodes: this costs nothing.
            return container
        return self._labelled(self._annotated(container))

    def _labelled(self, container: Container) -> Container:
        """The container with its class of load among the labels of its pod.

        Rules of the configuration keep those of one class apart, as any others by their labels.
        """
        pod = container.pod
        load = effective(pod.annotations, "load", container.name) if self._has_loads else None
        name = None if load is None else load.value.strip()
        if pod.labels.get(LOAD_LABEL) == name:
            return container
        labels = {key: one for key, one in pod.labels.items() if key != LOAD_LABEL}
        if name is not None:
            labels[LOAD_LABEL] = name
        return structs.replace(container, pod=structs.replace(pod, labels=labels))

    def _annotated(self, container: Container) -> Container:
        pod, before = container.pod, {one.key for one in container.given}
        own = {key: text for key, text in pod.annotations.items() if key not in before}
        given = tuple(self._given(container, own))
        if given == container.given:
            return container
        annotations = own | {one.key: one.value for one in given}
        return structs.replace(
            container, pod=structs.replace(pod, annotations=annotations), given=given
        )

    def _given(self, container: Container, own: Mapping[str, str]) -> Iterator[GivenAnnotation]:
        authored = read_annotations(own)
        taken = {key.partition("/")[2] for key in AFFINITY_KEYS if key in own}
        settled: set[str] = set()
        for rule in self._rules:
            if not rule.selector.selects(container):
                continue
            for name in rule.keys:
                setting = rule.annotations.effective(name, container.name)
                if setting is None or name in settled:
                    continue
                settled.add(name)
                if authored.effective(name, container.name) is None:
                    yield GivenAnnotation(key=setting.key, value=setting.value, rule=rule.name)
            for key, text in rule.plain.items():
                kind = key.partition("/")[2]
                if kind not in taken:
                    yield GivenAnnotation(key=key, value=text, rule=rule.name)
            taken.update(key.partition("/")[2] for key in rule.plain)


def naming_rules(
    problems: tuple[Problem, ...], given: tuple[GivenAnnotation, ...]
) -> tuple[Problem, ...]:
    """Problems of a container, each of a given annotation with the name of the rule."""
    if not given or not problems:
        return problems
    rules = {one.key: one.rule for one in given}
    for one in given:
        # Some problems name an annotation without its domain.
        names = (name for name, _ in read_annotations({one.key: one.value}).settings)
        rules.update(dict.fromkeys(names, one.rule))
    return tuple(
        replace(one, where=f"{one.where}, given by rule {rules[key]!r}")
        if (key := one.where.partition(" of ")[0]) in rules
        else one
        for one in problems
    )


def _read(at: int, rule: AnnotationRule, faults: list[_Fault]) -> CentralRule:
    annotations = read_annotations(rule.annotations)
    return CentralRule(
        name=rule.name,
        selector=_selector(at, rule.match, faults),
        annotations=annotations,
        keys=tuple(dict.fromkeys(name for name, _ in annotations.settings)),
        plain={key: text for key, text in rule.annotations.items() if key in AFFINITY_KEYS},
    )


def _selector(at: int, fields: ContainerSelector, faults: list[_Fault]) -> CentralSelector:
    expression: Expression = ALWAYS
    if fields.expression is not None:
        try:
            expression = parse_expression(text_node(fields.expression))
        except TextError as error:
            place = _place(at, "match", "expression")
            path = ("rules", at, "match", "expression")
            faults.append((path, str(error.problem(place))))
    return CentralSelector(
        namespaces=_globs(fields.namespaces),
        pods=_globs(fields.pods),
        containers=_globs(fields.containers),
        labels=label_selector(fields.label_selector),
        container_labels=label_selector(fields.container_label_selector),
        qos=fields.qos,
        expression=expression,
    )


def _globs(patterns: tuple[str, ...]) -> GlobSet | None:
    return GlobSet(patterns) if patterns else None


def _place(at: int, *fields: str) -> str:
    return ".".join((f"rules[{at}]", *fields))


def _faults(rule: AnnotationRule, config: Config) -> Iterator[_Fault]:
    """What is wrong with the annotations of a rule, for whichever container it is."""
    at = "annotations"
    texts = rule.annotations
    for key in texts:
        if key in _UNREAD or domain_of(key) is None:
            what = f"{quoted(key)} is no annotation that a rule can give — see the guide's table"
            yield (at, key), what
    read = read_annotations(texts)
    yield from (((at, one.where.partition(" of ")[0]), str(one)) for one in read.problems)
    pod = Pod(id=PodId(""), name="any", annotations=texts)
    for name in dict.fromkeys(("", *(name for _, name in read.settings))):
        container = Container(id=ContainerId(""), name=name, pod=pod)
        for one in (
            *parse_preferences(container).problems,
            *affinity_rules(container)[1],
            *placement_rules(container, config)[1],
        ):
            if not one.is_advice and one.where.partition(" of ")[0] in texts:
                key = one.where.partition(" of ")[0]
                yield (at, key), str(replace(one, where=key))
