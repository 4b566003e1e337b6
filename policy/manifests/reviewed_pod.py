"""Pods that are reviewed together, before they run: what is known of their containers then.

A pod of a workload has neither a name nor its controller's labels before it runs: rules that ask
for these are passed over.
"""

from typing import Final

from msgspec import Struct

from ..configuration.config import Config
from ..model.container import Container
from ..rules.affinity import affinity_rules
from ..rules.affinity_rule import AffinityRule
from ..rules.container_facts import KUBELET_LABELS, Subkey
from ..rules.expression import AllOf, AnyOf, Condition, Expression, Not, evaluate
from ..rules.podaffinity.rule_set import PlacementRules
from ..rules.podaffinity.rule_text import placement_rules
from ..rules.podaffinity.term import POD_NAME, POD_UID, Term
from ..rules.review.rule_finding import is_written

_OF_RUNNING: Final = frozenset({"id", "pod/id", "pod/uid", "tags"})
_OF_CONTROLLERS: Final = frozenset(
    {
        "pod-template-hash",
        "pod-template-generation",
        "controller-revision-hash",
        "controller-uid",
        "job-name",
    }
)
"""Labels that controllers give to pods; further ones are in domains of Kubernetes."""
_LABEL_KEYS: Final = "atchLabelKeys"
"""`matchLabelKeys` and `mismatchLabelKeys` are mostly about labels of controllers."""


class ReviewedPod(Struct, frozen=True, kw_only=True):
    """A pod as it would be created, its containers in the order of their creation."""

    containers: tuple[Container, ...]
    is_named: bool
    """Whether its name is known before it runs."""


class Member(Struct, frozen=True, kw_only=True, eq=False):
    """A container of a pod at one place of those reviewed, and its rules."""

    place: int
    container: Container
    is_named: bool
    weights: tuple[AffinityRule, ...]
    placement: PlacementRules

    @classmethod
    def of(cls, place: int, pod: ReviewedPod, container: Container, config: Config) -> "Member":
        """A container of the pod at a place of the list."""
        placement = placement_rules(container, config)[0]
        if any(_LABEL_KEYS in text for text in container.pod.annotations.values()):
            placement = PlacementRules()
        weights = affinity_rules(container, is_symmetric=config.symmetric_affinity)[0]
        return cls(
            place=place,
            container=container,
            is_named=pod.is_named,
            weights=weights,
            placement=placement,
        )

    @property
    def path(self) -> str:
        """The path of the container."""
        return self.container.path

    @property
    def has_rules(self) -> bool:
        """Whether it has rules for others."""
        return bool(self.weights or self.placement.required or self.placement.preferred)

    def is_about(self, term: Term, other: "Member") -> bool:
        """Whether a term of its own is about another one, as far as that is known."""
        return (
            is_written(term)
            and _is_known_of(term, other)
            and term.matches(self.container, other.container)
        )

    def rules_about(self, other: "Member") -> list[AffinityRule]:
        """The weights for another one, as far as they are known."""
        return [
            one
            for one in self.weights
            if one.source.rpartition(":")[2].isdigit()
            and _is_answered(one.scope, other)
            and _is_answered(one.match, other)
            and evaluate(one.scope, other.container)
            and evaluate(one.match, other.container)
        ]


def _is_known_of(term: Term, other: Member) -> bool:
    """Whether all that a term asks for is known of another container before it runs."""
    requirements = term.selector.requirements if term.selector is not None else ()
    return not any(
        one.key == POD_UID
        or (one.key == POD_NAME and not other.is_named)
        or _is_of_controllers(one.key)
        for one in requirements
    )


def _is_answered(expression: Expression, other: Member) -> bool:
    """Whether every fact an expression asks for is known of another container before it runs."""
    match expression:
        case Condition(key=key):
            return key is None or not any(_is_unknown(one, other) for one in key.subkeys)
        case AllOf(terms) | AnyOf(terms):
            return all(_is_answered(one, other) for one in terms)
        case Not(term):
            return _is_answered(term, other)


def _is_unknown(subkey: Subkey, other: Member) -> bool:
    if subkey.field == "labels":
        return subkey.name not in KUBELET_LABELS or _is_unnamed(subkey.name, other)
    if subkey.field == "pod/name":
        return not other.is_named
    if subkey.field == "pod/labels":
        return _is_of_controllers(subkey.name)
    return subkey.field in _OF_RUNNING


def _is_unnamed(label: str, other: Member) -> bool:
    return label.endswith("uid") or (label.endswith("pod.name") and not other.is_named)


def _is_of_controllers(label: str) -> bool:
    domain = label.rpartition("/")[0]
    is_kubernetes = domain == "kubernetes.io" or domain.endswith((".kubernetes.io", ".k8s.io"))
    return label in _OF_CONTROLLERS or (is_kubernetes and domain != "app.kubernetes.io")
