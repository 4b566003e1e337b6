"""The placement rules of a container: of its pod's annotations, and of the configuration.

Texts are parsed once for all pods that have them; what depends on the pod is bound to each: label
keys are resolved here, once, and what they come to stays with the container.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from ....topology.model.machine import Level
from ....topology.sets.base_errors import quoted
from ...annotations.annotations import Annotations, Scope, Setting, read_annotations
from ...configuration.config import Config, OnUnsatisfiable
from ...model.container import Container
from ...model.selector_operator import PoolOperator
from ...text.errors import PROBLEMS_MAX, Problem
from ...text.suggestion import suggestion
from ...text.text_cache import TextCache
from .affinity_text import WrittenRules, parse_affinity_text
from .configured_rules import RACK_LABEL, ConfiguredRules, latest_rules
from .pool_term import PoolExpression, PoolRequirement, PoolTerm
from .rule_set import NO_PLACEMENT_RULES, PlacementRules, PreferredTerm, RequiredTerm
from .term import Term, container_labels
from .term_text import WEIGHT_MAX, LabelKeys

AFFINITY_KEY: Final = "affinity"
POOL_SELECTOR_KEY: Final = "pool-selector"
POOL_NAME_KEY: Final = "pool-name"
ON_UNSATISFIABLE_KEY: Final = "on-unsatisfiable"

_KEYS: Final = (AFFINITY_KEY, POOL_SELECTOR_KEY, POOL_NAME_KEY, ON_UNSATISFIABLE_KEY)

_parse: Final = TextCache(parse_affinity_text)


def placement_rules(
    container: Container, config: Config
) -> tuple[PlacementRules, tuple[Problem, ...]]:
    """The rules of a container, and what is wrong with them. Never raises."""
    configured = latest_rules(config)
    pod = container.pod
    added = configured.for_pod(pod)
    annotations = read_annotations(pod.annotations)
    has_own = bool(annotations.settings) and any(
        annotations.effective(key, container.name) for key in _KEYS
    )
    if not added and not has_own:
        # As most containers are: this costs next to nothing.
        if RACK_LABEL not in pod.labels:
            return NO_PLACEMENT_RULES, ()
        return NO_PLACEMENT_RULES, tuple(configured.problems(pod))
    problems = list(configured.problems(pod))
    own = _own_rules(annotations, container, config.on_unsatisfiable)
    problems += own.problems
    texts = (*(one.rules for one in added), own.written)
    if not any(map(bool, texts)) and not own.rules:
        return NO_PLACEMENT_RULES, tuple(problems)
    binding = _Binding(container, configured, config, own.where)
    bound = binding.bind(texts)
    problems += binding.problems
    return (
        replace(
            bound,
            pool_required=(*bound.pool_required, *own.rules.pool_required),
            pool_name=own.rules.pool_name,
            on_unsatisfiable=own.rules.on_unsatisfiable,
        ),
        tuple(problems),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnRules:
    """What a container's annotations say, each by its own key."""

    written: WrittenRules
    rules: PlacementRules
    problems: tuple[Problem, ...]
    where: str
    """The affinity annotation, for people."""


def _own_rules(
    annotations: Annotations, container: Container, default: OnUnsatisfiable
) -> _OwnRules:
    problems: list[Problem] = []
    settings = {key: annotations.effective(key, container.name) for key in _KEYS}
    written = WrittenRules()
    affinity = settings[AFFINITY_KEY]
    if affinity is not None:
        written = _parse(affinity.value, affinity.key)
        problems += [_of(one, affinity, container) for one in written.problems]
    pool_required: tuple[PoolRequirement, ...] = ()
    selector = settings[POOL_SELECTOR_KEY]
    if selector is not None:
        try:
            pool_required = (parse_pool_selector(selector.value, selector.key),)
        except ValueError as error:
            problems.append(_fault(error, selector, container))
    name = settings[POOL_NAME_KEY]
    pool_name = name.value.strip() if name is not None else None
    if name is not None and not pool_name:
        fix = "write the name of a pool, as 'pinfold pools' prints it"
        problems.append(_fault(ValueError("no name", fix), name, container))
    fate = default
    wanted = settings[ON_UNSATISFIABLE_KEY]
    if wanted is not None:
        try:
            fate = OnUnsatisfiable(wanted.value.strip())
        except ValueError:
            what = f"{quoted(wanted.value)} is not accepted"
            fix = suggestion(wanted.value, [one.value for one in OnUnsatisfiable])
            problems.append(_fault(ValueError(what, fix), wanted, container))
    rules = PlacementRules(
        pool_required=pool_required, pool_name=pool_name or None, on_unsatisfiable=fate
    )
    where = "" if affinity is None else _where(affinity, container)
    return _OwnRules(written=written, rules=rules, problems=tuple(problems), where=where)


def parse_pool_selector(text: str, key: str) -> PoolRequirement:
    """The requirement that "label=value, .." spells in an annotation called `key`.

    Raises `ValueError` with two arguments: what is wrong, and how to fix it.

    >>> parse_pool_selector("socket=1, numa=3", "pool-selector").text
    'a pool with socket=1, numa=3 (pool-selector)'
    """
    expressions: dict[str, PoolExpression] = {}
    for part in text.split(","):
        label, equals, value = map(str.strip, part.partition("="))
        if not label or not equals or value.startswith("="):
            raise ValueError(f"{quoted(part.strip())} is not label=value", "write 'socket=1'")
        if label in expressions:
            raise ValueError(f"{quoted(label)} is given twice", "leave one out")
        expressions[label] = PoolExpression(label, PoolOperator.IN, (value,))
    term = PoolTerm(tuple(expressions.values()))
    return PoolRequirement(terms=(term,), text=f"a pool with {term} ({key})", source=key)


def selected_namespace_labels(container: Container) -> frozenset[str]:
    """The labels of namespaces that the affinity annotation of a container asks for."""
    setting = read_annotations(container.pod.annotations).effective(AFFINITY_KEY, container.name)
    if setting is None:
        return frozenset()
    written = _parse(setting.value, setting.key)
    terms = [one.rule.term for one in written.required]
    terms += [one.rule.term for one in written.preferred]
    scopes = (term.namespaces.selector for term in terms)
    return frozenset(one.key for scope in scopes if scope for one in scope.requirements)


class _Binding:
    """Binds written rules to one container."""

    def __init__(
        self, container: Container, configured: ConfiguredRules, config: Config, where: str
    ) -> None:
        self.problems: list[Problem] = []
        self._container = container
        self._config = config
        self._namespace_labels = configured.namespace_labels
        self._where = where
        # Labels of namespaces that are told to be unknown.
        self._unknown: set[str] = set()

    @cached_property
    def _labels(self) -> Mapping[str, str]:
        return container_labels(self._container)

    @cached_property
    def _allowed(self) -> frozenset[Level]:
        limits = self._config.anti_affinity_limits
        return limits.allowed_levels(self._container.pod.namespace)

    def bind(self, texts: tuple[WrittenRules, ...]) -> PlacementRules:
        """The rules of all texts together."""
        required: list[RequiredTerm] = []
        preferred: list[PreferredTerm] = []
        for written in (one for text in texts for one in text.required):
            rule = written.rule
            term = self._term(rule.term, written.label_keys)
            if term is not rule.term:
                rule = replace(rule, term=term)
            if rule.is_anti and not term.namespaces.is_own and term.level not in self._allowed:
                preferred.append(PreferredTerm(term=term, weight=-WEIGHT_MAX))
                what = (
                    f"{term.text}: antiAffinityLimits do not allow it to be required at"
                    f" {term.level.value}, it counts as preferred with weight {WEIGHT_MAX}"
                )
                self._tell(what, "name the own namespace alone, or another level")
            else:
                required.append(rule)
        for one in (one for text in texts for one in text.preferred):
            preferred.append(replace(one.rule, term=self._term(one.rule.term, one.label_keys)))
        spread = [
            replace(one.rule, selector=one.label_keys.complete(one.rule.selector, self._labels))
            if one.label_keys
            else one.rule
            for text in texts
            for one in text.spread
        ]
        return PlacementRules(
            required=tuple(required),
            preferred=tuple(preferred),
            spread=tuple(spread),
            pool_required=tuple(one for text in texts for one in text.pool_required),
            pool_preferred=tuple(one for text in texts for one in text.pool_preferred),
        )

    def _term(self, term: Term, keys: LabelKeys) -> Term:
        scope = term.namespaces
        if scope.selector is None:
            if not keys:
                return term
            return replace(term, selector=keys.complete(term.selector, self._labels))
        labels = self._namespace_labels
        unknown = next(
            (one.key for one in scope.selector.requirements if not labels.is_given(one.key)), None
        )
        if unknown is not None and unknown not in self._unknown:
            self._unknown.add(unknown)
            what = (
                f"{term.text}: nobody told this node the label {quoted(unknown)} of any"
                " namespace, so it selects none"
            )
            self._tell(what, "use 'namespaces', or configure namespaceLabels")
        return replace(
            term,
            selector=keys.complete(term.selector, self._labels) if keys else term.selector,
            namespace_labels=labels,
        )

    def _tell(self, what: str, fix: str) -> None:
        if len(self.problems) >= PROBLEMS_MAX:
            return
        where = self._where or self._container.path
        self.problems.append(
            Problem(where=where, what=what, fix=fix, container=self._container.name)
        )


def _where(setting: Setting, container: Container) -> str:
    pod = f"{setting.key} of {container.pod.namespace}/{container.pod.name}"
    return f"{pod}/{container.name}" if setting.scope is Scope.CONTAINER else pod


def _of(problem: Problem, setting: Setting, container: Container) -> Problem:
    """A problem of a text as one of a container's annotation."""
    name = container.name if setting.scope is Scope.CONTAINER else ""
    return replace(problem, where=_where(setting, container), container=name)


def _fault(error: ValueError, setting: Setting, container: Container) -> Problem:
    what, fix = map(str, error.args)
    return _of(Problem(where="", what=what, fix=fix), setting, container)
