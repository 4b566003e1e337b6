"""Expansions: the rules of profiles, racks and resource sets as an author would write them."""

from collections.abc import Iterable, Iterator

import yaml

from ...model.container import Pod
from .configured_rules import AddedRules, ConfiguredRules


def expansion(configured: ConfiguredRules) -> str:
    """All rules that a configuration adds, and for which pods: a YAML document for each."""
    return "".join(_documents(configured.added))


def pod_expansion(configured: ConfiguredRules, pod: Pod) -> str:
    """The rules that a configuration adds to those of one pod; empty without any."""
    path = f"{pod.namespace}/{pod.name}"
    return "".join(_documents(configured.for_pod(pod), path))


def _documents(added: Iterable[AddedRules], path: str = "") -> Iterator[str]:
    for one in added:
        whom = path or _whom(one)
        text: str = yaml.safe_dump(
            dict(one.written), sort_keys=False, default_flow_style=None, width=100
        )
        yield f"---\n# {one.name}, for {whom}\n{text}"


def _whom(added: AddedRules) -> str:
    labels = f"pods with {added.selector}" if added.selector.requirements else "all pods"
    if "*" in added.namespaces:
        return labels
    return f"{labels} in namespaces {', '.join(added.namespaces) or '(none)'}"
