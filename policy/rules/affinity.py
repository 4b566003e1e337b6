"""Weighted rules of the containers of a pod, from its annotations and the configuration."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ..annotations.annotation_keys import DOMAINS
from ..model.container import Container, Pod
from ..text.errors import Problem
from ..text.text_cache import TextCache
from .affinity_reader import POD_PATH, AffinityReader
from .affinity_rule import OF_SAME_POD, AffinityRule, same_pod
from .expression import ALWAYS, Reading, condition

COLOCATION_WEIGHT: Final = 10

# Key suffix and the sign of its weights; of several domains the first one present counts.
SIGNS: Final[Mapping[str, int]] = {"affinity": 1, "anti-affinity": -1}
AFFINITY_KEYS: Final = tuple(f"{domain}/{suffix}" for domain in DOMAINS for suffix in SIGNS)

Rules = Mapping[str, "tuple[AffinityRule, ...]"]


def parse_affinity(
    pod_annotations: Mapping[str, str], pod: Pod, *, is_symmetric: bool = False
) -> tuple[Rules, tuple[Problem, ...]]:
    """The rules of a pod by container name, and what is wrong with its annotations.

    `is_symmetric` is for rules in full syntax that do not say. Shorthand expands into a rule for
    each of the two containers, so that the one that is placed later sees the other.
    """
    by_name, problems = _parse_texts(_texts(pod_annotations), is_symmetric)
    bound = {name: bind_rules(rules, pod) for name, rules in by_name.items()}
    return bound, _bind_problems(problems, pod)


def affinity_rules(
    container: Container,
    *,
    is_symmetric: bool = False,
    colocate_pods: bool = False,
    colocate_namespaces: bool = False,
) -> tuple[tuple[AffinityRule, ...], tuple[Problem, ...]]:
    """The rules of one container, and the problems of its pod's affinity annotations.

    The co-location rules are for containers without rules of their own.
    """
    pod = container.pod
    by_name, problems = _parse_texts(_texts(pod.annotations), is_symmetric)
    rules = bind_rules(by_name.get(container.name, ()), pod)
    if not rules:
        rules = (colocate_pods_rule(pod),) if colocate_pods else ()
        rules += (colocate_namespaces_rule(pod),) if colocate_namespaces else ()
    return rules, _bind_problems(problems, pod)


def colocate_pods_rule(pod: Pod) -> AffinityRule:
    """Pulls towards all containers of the same pod."""
    return AffinityRule(
        scope=same_pod(pod), match=ALWAYS, weight=COLOCATION_WEIGHT, source="colocatePods"
    )


def colocate_namespaces_rule(pod: Pod) -> AffinityRule:
    """Pulls towards all containers of the same namespace."""
    return AffinityRule(
        scope=ALWAYS,
        match=condition("namespace", "Equals", pod.namespace),
        weight=COLOCATION_WEIGHT,
        source="colocateNamespaces",
    )


def _texts(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple([(key, annotations[key]) for key in AFFINITY_KEYS if key in annotations])


def bind_rules(rules: tuple[AffinityRule, ...], pod: Pod) -> tuple[AffinityRule, ...]:
    """The rules of a pod without an id, as another pod with the same annotations has them."""
    for rule in rules:
        if rule.scope is OF_SAME_POD:
            break
    else:
        return rules
    scope = same_pod(pod)
    return tuple(
        [replace(rule, scope=scope) if rule.scope is OF_SAME_POD else rule for rule in rules]
    )


def _bind_problems(problems: tuple[Problem, ...], pod: Pod) -> tuple[Problem, ...]:
    if not problems:
        return ()
    path = f"{pod.namespace}/{pod.name}"
    return tuple(replace(one, where=one.where.replace(POD_PATH, path, 1)) for one in problems)


@TextCache
def _parse_texts(
    texts: tuple[tuple[str, str], ...], is_symmetric: bool
) -> tuple[Rules, tuple[Problem, ...]]:
    """The rules in texts of any pod; `OF_SAME_POD` and `POD_PATH` stand for the pod."""
    if not texts:
        return MappingProxyType({}), ()
    rules: dict[str, tuple[AffinityRule, ...]] = {}
    problems: list[Problem] = []
    used: dict[str, str] = {}
    reading = Reading()
    for key, text in texts:
        suffix = key.partition("/")[2]
        if suffix in used:
            what = f"{used[suffix]!r} is there too and counts alone"
            fix = "merge the two"
            problems.append(Problem(where=f"{key} of {POD_PATH}", what=what, fix=fix))
            continue
        used[suffix] = key
        reader = AffinityReader(key, SIGNS[suffix], reading, is_symmetric=is_symmetric)
        reader.read(text)
        problems += reader.problems
        for name, own in reader.rules().items():
            rules[name] = rules.get(name, ()) + own
    return MappingProxyType(rules), tuple(problems)
