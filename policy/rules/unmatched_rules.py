"""Affinity rules that no container can fulfil, found before their pod runs."""

from collections.abc import Iterator, Sequence
from typing import Final

from ..model.container import Container
from ..text.errors import Problem
from .affinity import affinity_rules, same_pod
from .container_facts import KUBELET_LABELS, Subkey
from .expression import AllOf, AnyOf, Condition, Expression, Not, evaluate

_OF_RUNNING: Final = frozenset({"id", "pod/id", "pod/uid", "tags"})
"""Facts that only a running container has."""


def unmatched_rules(containers: Sequence[Container]) -> Iterator[Problem]:
    """Advice about rules whose scope is the pod and which match no other container of it.

    `containers` are all of one pod. Rules about facts that only running containers have may match
    and are passed over, as is shorthand: the names in it are known to be the pod's or not.
    """
    for container in containers:
        others = [one for one in containers if one is not container]
        scope = same_pod(container.pod)
        for rule in affinity_rules(container)[0]:
            key, _, line = rule.source.rpartition(":")
            if rule.scope != scope or not line.isdigit() or not _is_known(rule.match):
                continue
            if not any(evaluate(rule.match, other) for other in others):
                yield Problem(
                    where=f"{key} of {container.path}",
                    what="the rule matches no other container of its pod, and looks at no others",
                    fix="for containers of other pods write a scope, as in"
                    " 'scope: {operator: AlwaysTrue}'",
                    line=int(line),
                    is_advice=True,
                    container=container.name,
                )


def _is_known(expression: Expression) -> bool:
    """Whether every fact an expression asks for is known of containers that do not run."""
    match expression:
        case Condition(key=key):
            return key is None or not any(map(_is_of_running, key.subkeys))
        case AllOf(terms) | AnyOf(terms):
            return all(map(_is_known, terms))
        case Not(term):
            return _is_known(term)


def _is_of_running(subkey: Subkey) -> bool:
    if subkey.field != "labels":
        return subkey.field in _OF_RUNNING
    # The runtime may add labels of its own.
    return subkey.name not in KUBELET_LABELS or subkey.name.endswith("uid")
