"""The placement rules of a container: of its pod's annotations, and of the configuration.

Texts are parsed once for all pods that have them; what depends on the pod is bound to each: label
keys are resolved here, once, and what they come to stays with the container.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from msgspec import structs

from ....topology.model.machine import Level
from ....topology.sets.base_errors import quoted
from ...annotations.annotation_keys import RACK_LABEL, RULE_KEYS
from ...annotations.annotations import read_annotations
from ...configuration.affinity_fields import RULE_WEIGHT_MAX
from ...configuration.config import Config
from ...model.container import Container, Pod
from ...text.errors import PROBLEMS_MAX, Problem
from .configured_rules import ConfiguredRules, latest_rules
from .namespace_scope import OWN_NAMESPACE
from .own_rules import own_rules
from .rule_set import NO_PLACEMENT_RULES, PlacementRules, PreferredTerm, RequiredTerm
from .term import Term, labels_at_first_sight
from .written_rules import LabelKeys, WrittenRules


def placement_rules(
    container: Container, config: Config
) -> tuple[PlacementRules, tuple[Problem, ...]]:
    """The rules of a container, and what is wrong with them. Never raises."""
    configured = latest_rules(config)
    pod = container.pod
    added = configured.for_pod(pod)
    annotations = read_annotations(pod.annotations)
    has_own = bool(annotations.settings) and any(
        annotations.effective(key, container.name) for key in RULE_KEYS
    )
    if not added and not has_own:
        # As most containers are: this costs next to nothing.
        if RACK_LABEL not in pod.labels:
            return NO_PLACEMENT_RULES, ()
        return NO_PLACEMENT_RULES, tuple(configured.problems(pod))
    problems = list(configured.problems(pod))
    own = own_rules(annotations, container, config.on_unsatisfiable)
    problems += own.problems
    for one in added:
        problems += [replace(fault, container=container.name) for fault in one.rules.problems]
    texts = (*(one.rules for one in added), own.written)
    if not any(map(bool, texts)) and own.pool_name is None:
        return NO_PLACEMENT_RULES, tuple(problems)
    binding = _Binding(container, configured, config, own.where)
    bound = binding.bind(texts)
    problems += binding.problems
    bound = structs.replace(bound, pool_name=own.pool_name, on_unsatisfiable=own.on_unsatisfiable)
    return bound, tuple(problems)


def are_labels_heeded(pod: Pod, config: Config) -> bool:
    """Whether the configuration says anything about a pod for its labels' sake."""
    return RACK_LABEL in pod.labels or bool(latest_rules(config).for_pod(pod))


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
        return labels_at_first_sight(self._container)

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
                rule = structs.replace(rule, term=term)
            own, others = self._parts(rule)
            if own is not None:
                required.append(own)
            if others is not None:
                preferred.append(PreferredTerm(term=others, weight=-RULE_WEIGHT_MAX))
                what = (
                    f"{term.text}: antiAffinityLimits do not allow it to be required of other"
                    f" namespaces at {term.level.value}, it counts there as preferred with weight"
                    f" {RULE_WEIGHT_MAX}"
                )
                self._tell(what, "name the own namespace alone, or another level")
        for one in (one for text in texts for one in text.preferred):
            term = self._term(one.rule.term, one.label_keys)
            is_same = term is one.rule.term
            preferred.append(one.rule if is_same else structs.replace(one.rule, term=term))
        spread = [
            structs.replace(
                one.rule, selector=one.label_keys.complete(one.rule.selector, self._labels)
            )
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

    def _parts(self, rule: RequiredTerm) -> tuple[RequiredTerm | None, Term | None]:
        """The part of a rule that may be required, and that of a term which may not."""
        term, own = rule.term, self._container.pod.namespace
        scope = term.namespaces
        is_free = not rule.is_anti or term.is_pod_scope or scope.is_own
        if is_free or term.level in self._allowed:
            return rule, None
        is_about_own = scope.holds(own, term.namespace_labels, own)
        rest = scope.without(own) if is_about_own else scope
        if rest is None:
            return rule, None
        at_home = structs.replace(rule, term=replace(term, namespaces=OWN_NAMESPACE))
        return (at_home if is_about_own else None), replace(term, namespaces=rest)

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
        if not keys and labels == term.namespace_labels:
            return term
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
