"""Affinity rules that no container can fulfil when they count, found before their pod runs."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from ..model.container import Container
from ..text.errors import Problem
from .affinity import AffinityRule, affinity_rules, same_pod
from .container_facts import KUBELET_LABELS, Subkey
from .expression import AllOf, AnyOf, Condition, Expression, Not, evaluate

_OF_RUNNING: Final = frozenset({"id", "pod/id", "pod/uid", "tags"})
"""Facts that only a running container has."""
_FOR_PODS: Final = "app.kubernetes.io/"
"""Labels that Kubernetes recommends. Source: its documentation, "Recommended Labels"."""


def unmatched_rules(
    containers: Sequence[Container], *, is_symmetric: bool = False
) -> Iterator[Problem]:
    """Advice about rules whose scope is the pod and which match no other container in time.

    And about those that look for labels of pods among those of containers.

    `containers` are all of one pod in the order of their creation; `is_symmetric` is for rules that
    do not say. Rules about facts that only running containers have may match and are passed over,
    as is shorthand: the names in it are known to be the pod's or not.
    """
    by_owner = [affinity_rules(one, is_symmetric=is_symmetric)[0] for one in containers]
    for place, container in enumerate(containers):
        for rule in by_owner[place]:
            yield from _of_pods(rule, container)
            if not _is_told_of(rule, container):
                continue
            meant = [
                at
                for at, other in enumerate(containers)
                if at != place and evaluate(rule.match, other)
            ]
            if not meant:
                what = "the rule matches no other container of its pod, and looks at no others"
                fix = (
                    "for containers of other pods write a scope, as in"
                    " 'scope: {operator: AlwaysTrue}'"
                )
                yield rule_advice(rule, container, what, fix)
            elif not (
                rule.is_symmetric
                or min(meant) < place
                or any(_is_matched(by_owner[at], containers[at], container) for at in meant)
            ):
                yield _one_sided(rule, container, containers[meant[0]])


def _of_pods(rule: AffinityRule, owner: Container) -> Iterator[Problem]:
    """Advice about the first label of pods that a rule looks for among those of containers."""
    place = rule.source.rpartition(":")[2]
    for subkey in chain(_subkeys(rule.scope), _subkeys(rule.match)) if place.isdigit() else ():
        name = subkey.name
        # Runtimes and images have a domain of their own in their labels.
        is_of_pod = "." not in name or name.startswith(_FOR_PODS) or name in owner.pod.labels
        if subkey.field == "labels" and name not in KUBELET_LABELS and is_of_pod:
            what = f"{f'labels/{name}'!r} is about labels that the kubelet gives to containers"
            fix = f"write {f'pod/labels/{name}'!r} for what is under metadata.labels of a pod"
            yield rule_advice(rule, owner, what, fix)
            return


def _is_told_of(rule: AffinityRule, owner: Container) -> bool:
    """Whether a rule is about the pod's own containers, in full, and known before these run."""
    has_line = rule.source.rpartition(":")[2].isdigit()
    return has_line and rule.scope == same_pod(owner.pod) and _is_known(rule.match)


def _is_matched(rules: Sequence[AffinityRule], owner: Container, other: Container) -> bool:
    """Whether a rule of the owner may be about the other container."""
    scope = same_pod(owner.pod)
    return any(one.scope != scope or evaluate(one.match, other) for one in rules)


def _one_sided(rule: AffinityRule, owner: Container, other: Container) -> Problem:
    what = (
        f"the rule counts when {owner.name!r} is placed, and container {other.name!r} does not"
        " exist yet then"
    )
    fix = f"write 'symmetric: true', so that it counts for {other.name!r} too"
    return rule_advice(rule, owner, what, fix)


def rule_advice(rule: AffinityRule, owner: Container, what: str, fix: str) -> Problem:
    """Advice about a rule of a container, at its place in the annotation."""
    key, _, line = rule.source.rpartition(":")
    return Problem(
        where=f"{key} of {owner.path}",
        what=what,
        fix=fix,
        line=int(line),
        is_advice=True,
        container=owner.name,
    )


def _is_known(expression: Expression) -> bool:
    """Whether every fact an expression asks for is known of containers that do not run."""
    return not any(map(_is_of_running, _subkeys(expression)))


def _subkeys(expression: Expression) -> Iterator[Subkey]:
    """Every fact that an expression asks for, in its order."""
    match expression:
        case Condition(key=key):
            yield from key.subkeys if key else ()
        case AllOf(terms) | AnyOf(terms):
            yield from chain.from_iterable(map(_subkeys, terms))
        case Not(term):
            yield from _subkeys(term)


def _is_of_running(subkey: Subkey) -> bool:
    if subkey.field != "labels":
        return subkey.field in _OF_RUNNING
    # The runtime may add labels of its own.
    return subkey.name not in KUBELET_LABELS or subkey.name.endswith("uid")
