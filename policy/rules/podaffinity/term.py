"""Terms: which other containers a rule is about, and at which level of the machine."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from ....topology.model.machine import Level
from ...model.container import Container, QosClass
from ...model.selector_operator import PSEUDO_LABEL_NAMES, LabelOperator
from .label_selector import LabelRequirement, LabelSelector
from .namespace_scope import NO_NAMESPACE_LABELS, OWN_NAMESPACE, NamespaceLabels, NamespaceScope

PSEUDO_LABELS: Final = PSEUDO_LABEL_NAMES
"""Labels of a container that selectors may ask for beside those of its pod."""

CONTAINER_NAME, POD_NAME, POD_QOS, POD_UID = PSEUDO_LABELS

_KEYS_MAX: Final = 16
# The value of a member is looked up by calls of Python.
_QOS_NAMES: Final = {qos: qos.value for qos in QosClass}


def pod_identity(container: Container) -> str:
    """The pod of a container, across restarts of its sandbox."""
    return container.pod.uid or container.pod.id


RestartKey = tuple[str, str]


def restart_key(container: Container) -> RestartKey:
    """The pod and name that all instances of a container have, before and after a restart."""
    return container.pod.uid or container.pod.id, container.name


def is_same_instance(one: Container, other: Container) -> bool:
    """Whether both are instances of one container of one pod, before and after a restart."""
    return restart_key(one) == restart_key(other)


def container_labels(container: Container) -> Mapping[str, str]:
    """The labels that terms see: those of the pod, and the pseudo-labels."""
    pod = container.pod
    return {
        **pod.labels,
        CONTAINER_NAME: container.name,
        POD_NAME: pod.name,
        POD_QOS: _QOS_NAMES[pod.qos],
        POD_UID: pod_identity(container),
    }


def labels_at_first_sight(container: Container) -> Mapping[str, str]:
    """The labels by which label keys of a container's own rules are resolved, and stay so."""
    pod = container.pod
    if pod.first_labels is None:
        return container_labels(container)
    as_first_seen = structs.replace(pod, labels=pod.first_labels)
    return container_labels(structs.replace(container, pod=as_first_seen))


class IndexKey(NamedTuple):
    """A namespace and a label that a container must have for a rule to match it.

    An empty namespace, label or value stands for any.
    """

    namespace: str = ""
    label: str = ""
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Containers that a rule is about; without a selector nobody."""

    level: Level
    selector: LabelSelector | None
    namespaces: NamespaceScope = OWN_NAMESPACE
    is_pod_scope: bool = False
    """Whether it is about the containers of the owner's own pod alone."""
    text: str = ""
    """The term for people: who is meant, and where that is written."""
    source: str = field(default="", compare=False)
    """The annotation and line, or the field of the configuration, that it comes from."""
    namespace_labels: NamespaceLabels = NO_NAMESPACE_LABELS

    def matches(
        self, owner: Container, other: Container, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Whether the term of `owner` is about `other`; never about the owner itself.

        `labels`: the `container_labels` of the other where they are at hand.
        """
        return not is_same_instance(owner, other) and self.includes(owner, other, labels)

    def includes(
        self, owner: Container, other: Container, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Whether `other` has what the term of `owner` asks for, even if it is the owner itself.

        What the waiver for the first of a group asks of the newcomer.
        """
        if self.selector is None:
            return False
        own = owner.pod.namespace
        if self.is_pod_scope:
            is_near = pod_identity(owner) == pod_identity(other)
        else:
            is_near = self.namespaces.holds(other.pod.namespace, self.namespace_labels, own)
        return is_near and self.selector.matches(labels or container_labels(other))

    def index_keys(self, owner: Container) -> tuple[IndexKey, ...]:
        """Keys of which every container that the term matches has at least one.

        None of them where the term matches nobody.
        """
        if self.selector is None:
            return ()
        own = owner.pod.namespace
        if self.is_pod_scope:
            return (IndexKey(own, POD_UID, pod_identity(owner)),)
        scope = self.namespaces
        names: tuple[str, ...] = (own,) if scope.is_own else tuple(sorted(scope.names))
        if scope.selector is not None or len(names) > _KEYS_MAX:
            names = ("",)
        labels = _narrowest(self.selector)
        if len(names) * len(labels) > _KEYS_MAX:
            names = ("",)
        return tuple(IndexKey(name, *label) for name in names for label in labels)


def are_about_owner(terms: Iterable[Term], owner: Container) -> bool:
    """Whether all these terms of a container are about itself, too: it may be the first of all."""
    return all([one.includes(owner, owner) for one in terms])


def sought_keys(
    container: Container, labels: Mapping[str, str], names: Collection[str] | None = None
) -> Sequence[tuple[str, str, str | None]]:
    """The keys under which an index has all terms that may match a container with these labels.

    Plain tuples, equal to those of the index: there are many, and each would be made by a call.
    `names`: the labels that the index has any terms for, where that is known.
    """
    asked = [one for one in labels.items() if names is None or one[0] in names]
    found: list[tuple[str, str, str | None]] = []
    for namespace in (container.pod.namespace, ""):
        found.append((namespace, "", None))
        for label, value in asked:
            found += ((namespace, label, None), (namespace, label, value))
    return found


def _narrowest(selector: LabelSelector) -> tuple[tuple[str, str | None], ...]:
    """Labels and values of which whoever the selector matches has one; as few as there are."""
    found: tuple[tuple[str, str | None], ...] = (("", None),)
    best = (2, 0, 0)
    for requirement in selector.requirements:
        rank = _rank(requirement)
        if rank[0] and requirement.key in PSEUDO_LABELS:
            # Every container has one: kept under it, a rule would only be looked at beside more.
            continue
        if rank < best:
            best = rank
            values = requirement.values if rank[0] == 0 else (None,)
            found = tuple((requirement.key, value) for value in dict.fromkeys(values))
    return found


def _rank(requirement: LabelRequirement) -> tuple[int, int, int]:
    count = len(requirement.values)
    match requirement.operator:
        case LabelOperator.IN if count <= _KEYS_MAX:
            # Three values that all pods have tell hardly anything.
            return 0, int(requirement.key == POD_QOS), count
        case LabelOperator.IN | LabelOperator.EXISTS:
            return 1, 0, 0
        case LabelOperator.NOT_IN | LabelOperator.DOES_NOT_EXIST:
            return 2, 0, 0
