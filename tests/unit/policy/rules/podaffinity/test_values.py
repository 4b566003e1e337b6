import pytest

from pinfold.policy.model.selector_operator import LabelOperator
from pinfold.policy.rules.podaffinity.label_selector import LabelRequirement, LabelSelector
from pinfold.policy.rules.podaffinity.namespace_scope import NamespaceScope
from pinfold.policy.rules.podaffinity.rule_set import NO_PLACEMENT_RULES, PlacementRules, SpreadRule
from pinfold.policy.rules.podaffinity.term import (
    IndexKey,
    Term,
    container_labels,
    is_same_instance,
    sought_keys,
)
from pinfold.topology.model.machine import Level

from .rule_cases import container

EVERY_NAMESPACE = NamespaceScope(selector=LabelSelector())


def term(selector: LabelSelector | None = None, **more: object) -> Term:
    return Term(level=Level.NUMA, selector=selector, **more)  # type: ignore[arg-type]  # as given


def test_a_term_never_matches_its_owner_not_even_restarted_in_a_new_sandbox() -> None:
    owner = container(labels={"app": "web"})
    again = container(sandbox="second", labels={"app": "web"})
    everyone = term(LabelSelector())
    assert is_same_instance(owner, again)
    assert not everyone.matches(owner, again)
    assert everyone.includes(owner, owner)
    assert everyone.matches(owner, container("sidecar", labels={"app": "web"}))


def test_a_term_of_pod_scope_matches_siblings_alone() -> None:
    owner = container("main")
    within = term(LabelSelector(), is_pod_scope=True)
    assert within.matches(owner, container("sidecar"))
    assert not within.matches(owner, container("sidecar", pod="other"))


def test_pseudo_labels_are_seen_beside_those_of_the_pod_and_win() -> None:
    labels = container_labels(container("main", labels={"app": "web", "pod.name": "forged"}))
    assert labels == {
        "app": "web",
        "container.name": "main",
        "pod.name": "pod",
        "pod.qos": "BestEffort",
        "pod.uid": "uid-pod",
    }


def test_every_container_that_a_term_matches_has_one_of_its_keys() -> None:
    owner = container("owner", pod="owner")
    others = [
        container(pod=pod, namespace=namespace, labels=labels)
        for pod in ("a", "b")
        for namespace in ("default", "prod")
        for labels in ({}, {"app": "web"}, {"app": "db", "tier": "back"})
    ]
    requirements = [
        LabelRequirement("app", LabelOperator.IN, ("web", "db")),
        LabelRequirement("app", LabelOperator.IN, tuple(map(str, range(20)))),
        LabelRequirement("app", LabelOperator.NOT_IN, ("web",)),
        LabelRequirement("tier", LabelOperator.EXISTS),
        LabelRequirement("tier", LabelOperator.DOES_NOT_EXIST),
        LabelRequirement("pod.qos", LabelOperator.IN, ("BestEffort",)),
        LabelRequirement("pod.name", LabelOperator.EXISTS),
        LabelRequirement("pod.name", LabelOperator.IN, (*map(str, range(20)), "a")),
    ]
    selectors = [LabelSelector(), *(LabelSelector((one,)) for one in requirements)]
    selectors += [LabelSelector((one, other)) for one in requirements for other in requirements]
    scopes = [NamespaceScope(), NamespaceScope(frozenset({"prod"})), EVERY_NAMESPACE]
    for one in (term(selector, namespaces=scope) for selector in selectors for scope in scopes):
        for other in others:
            keys, labels = {*one.index_keys(owner)}, container_labels(other)
            names = {key.label for key in keys}
            sought = {*sought_keys(other, labels)}
            if one.matches(owner, other):
                assert sought & keys, (one, other)
            assert sought & keys == {*sought_keys(other, labels, names)} & keys


def test_the_narrowest_requirement_is_the_key() -> None:
    exists = LabelRequirement("tier", LabelOperator.EXISTS)
    equals = LabelRequirement("app", LabelOperator.IN, ("web",))
    selector = LabelSelector((exists, equals))
    owner = container()
    assert term(selector).index_keys(owner) == (IndexKey("default", "app", "web"),)
    everywhere = term(selector, namespaces=EVERY_NAMESPACE)
    assert everywhere.index_keys(owner) == (IndexKey("", "app", "web"),)
    within = term(selector, is_pod_scope=True)
    assert within.index_keys(owner) == (IndexKey("default", "pod.uid", "uid-pod"),)
    assert term(None).index_keys(owner) == ()


def test_what_every_container_has_is_no_key() -> None:
    owner = container()
    exists = LabelRequirement("pod.name", LabelOperator.EXISTS)
    many = LabelRequirement("container.name", LabelOperator.IN, tuple(map(str, range(20))))
    tier = LabelRequirement("tier", LabelOperator.EXISTS)
    for one in (exists, many):
        assert term(LabelSelector((one,))).index_keys(owner) == (IndexKey("default"),)
        assert term(LabelSelector((one, tier))).index_keys(owner) == (IndexKey("default", "tier"),)


@pytest.mark.parametrize(
    ("counts", "domains", "least"),
    [
        pytest.param([2, 3], 4, 2, id="the emptiest of enough domains"),
        pytest.param([2, 3], 2, 0, id="fewer domains than there must be count as an empty one"),
        pytest.param([], 4, 0, id="nothing is counted where there is no domain"),
    ],
)
def test_a_spread_rule_holds_domains_against_the_emptiest_one(
    counts: list[int], domains: int, least: int
) -> None:
    rule = SpreadRule(max_skew=1, level=Level.CORE, selector=LabelSelector(), min_domains=3)
    assert rule.least_of(counts, domains) == least


@pytest.mark.parametrize(
    ("selector", "is_counted"),
    [
        pytest.param(LabelSelector.equals(app="web"), True, id="of those that it selects"),
        pytest.param(LabelSelector.equals(app="db"), False, id="not of others"),
        pytest.param(None, False, id="a rule without a selector counts nobody"),
    ],
)
def test_a_spread_rule_may_count_its_owner(
    selector: LabelSelector | None, *, is_counted: bool
) -> None:
    rule = SpreadRule(max_skew=1, level=Level.CORE, selector=selector)
    assert rule.counts_itself(container(labels={"app": "web"})) is is_counted


def test_no_rules_are_false() -> None:
    assert not NO_PLACEMENT_RULES
    assert PlacementRules(pool_name="root")
