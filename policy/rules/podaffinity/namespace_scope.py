"""Namespaces that a term is about: some by name, those that a selector matches, or the own one.

A node is told the names of namespaces and nothing else: further labels of them are in the
configuration, or nobody knows them. What nobody knows matches nothing, whatever the operator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from ...model.selector_operator import LabelOperator
from .label_selector import LabelRequirement, LabelSelector

NAME_LABEL: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class NamespaceLabels:
    """Labels of namespaces as far as they are known; Kubernetes gives each a label of its name."""

    by_namespace: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]], hash=False
    )

    def labels(self, namespace: str) -> Mapping[str, str]:
        """The known labels of a namespace."""
        return {**self.by_namespace.get(namespace, {}), NAME_LABEL: namespace}

    def is_known(self, namespace: str, key: str) -> bool:
        """Whether it is known of a namespace that it has a label, or that it has not."""
        return key == NAME_LABEL or namespace in self.by_namespace

    def is_given(self, key: str) -> bool:
        """Whether a label is known of at least one namespace."""
        return key == NAME_LABEL or any(key in labels for labels in self.by_namespace.values())


NO_NAMESPACE_LABELS: Final = NamespaceLabels()


class NamespaceScope(Struct, frozen=True):
    """The union of names and of those that the selector matches; without both the owner's own."""

    names: frozenset[str] = frozenset()
    selector: LabelSelector | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is the namespace of the rule's owner."""
        return not self.names and self.selector is None

    @property
    def is_everything(self) -> bool:
        """Whether it is every namespace."""
        return self.selector is not None and not self.selector.requirements

    def holds(self, namespace: str, labels: NamespaceLabels, own: str = "") -> bool:
        """Whether a namespace is one of them; `own` is that of the rule's owner."""
        if self.selector is None:
            return namespace in self.names if self.names else namespace == own
        if namespace in self.names or not self.selector.requirements:
            return True
        known = labels.labels(namespace)
        return all(
            labels.is_known(namespace, requirement.key) and requirement.holds(known)
            for requirement in self.selector.requirements
        )

    def without(self, namespace: str) -> "NamespaceScope | None":
        """The scope without one namespace; None where no other is left."""
        names = self.names - {namespace}
        if self.selector is None:
            return NamespaceScope(names) if names else None
        other = LabelRequirement(NAME_LABEL, LabelOperator.NOT_IN, (namespace,))
        return NamespaceScope(names, LabelSelector((*self.selector.requirements, other)))

    def __str__(self) -> str:
        if self.is_own or self.is_everything:
            return "its own namespace" if self.is_own else "all namespaces"
        parts = [f"namespaces {', '.join(sorted(self.names))}"] if self.names else []
        parts += [f"namespaces with {self.selector}"] if self.selector is not None else []
        return " and ".join(parts)


OWN_NAMESPACE: Final = NamespaceScope()
