"""Containers, and the rules that texts give them, for the tests of this folder."""

from collections.abc import Mapping

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import read_config
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.rules.podaffinity.rule_set import PlacementRules
from pinfold.policy.rules.podaffinity.rule_text import placement_rules
from pinfold.policy.rules.podaffinity.term import Term


def container(
    name: str = "main",
    *,
    pod: str = "pod",
    namespace: str = "default",
    sandbox: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    qos: QosClass = QosClass.BEST_EFFORT,
) -> Container:
    """A container; a second sandbox of a pod is the pod restarted."""
    return Container(
        id=ContainerId(f"{sandbox or pod}-{name}"),
        name=name,
        pod=Pod(
            id=PodId(sandbox or pod),
            name=pod,
            namespace=namespace,
            uid=f"uid-{pod}",
            labels=labels or {},
            annotations=annotations or {},
            qos=qos,
        ),
    )


def rules_of(
    text: str,
    *,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    config: str = "",
) -> tuple[Container, PlacementRules, tuple[str, ...]]:
    """The owner of an affinity annotation, its rules, and its problems."""
    owner = container(
        "owner",
        pod="owner",
        namespace=namespace,
        labels=labels,
        annotations={"affinity.pinfold.dev/pod": text},
    )
    rules, problems = placement_rules(owner, read_config(config).config if config else Config())
    return owner, rules, tuple(map(str, problems))


def affinity(term: str) -> str:
    """The text of one required affinity term, written in one line without braces."""
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    return f"podAffinity: {{{field}: [{{{term}}}]}}"


def term_of(
    term: str,
    *,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    config: str = "",
) -> tuple[Container, Term]:
    """The owner of one required affinity term, and the term; it is without fault."""
    owner, rules, problems = rules_of(
        affinity(f"topologyKey: numa, {term}"), labels=labels, namespace=namespace, config=config
    )
    assert problems == ()
    (one,) = rules.required
    return owner, one.term
