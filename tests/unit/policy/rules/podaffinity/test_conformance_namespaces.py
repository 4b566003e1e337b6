"""Conformance items about namespaces; the numbers are those of the conformance list."""

import pytest

from .rule_cases import affinity, container, rules_of, term_of

CACHE = "labelSelector: {matchLabels: {app: cache}}"


def test_05_a_container_matches_its_own_term_only_in_a_namespace_of_the_term() -> None:
    owner, term = term_of(CACHE, labels={"app": "cache"})
    assert term.includes(owner, owner)
    owner, term = term_of(f"{CACHE}, namespaces: [prod]", labels={"app": "cache"})
    assert not term.includes(owner, owner)
    owner, term = term_of(CACHE, labels={"app": "web"})
    assert not term.includes(owner, owner)


LABELS = "namespaceLabels: {gold: {tier: gold}, team-a: {tier: silver}, bare: {}}"


@pytest.mark.parametrize(
    ("scope", "namespaces"),
    [
        ("", {"default"}),
        ("namespaces: []", {"default"}),
        ("namespaces: [team-a, gold]", {"team-a", "gold"}),
        ("namespaceSelector: {}", {"default", "team-a", "gold", "bare", "stranger"}),
        (
            "namespaces: [team-a], namespaceSelector: {}",
            {"default", "team-a", "gold", "bare", "stranger"},
        ),
        ("namespaceSelector: {matchLabels: {tier: gold}}", {"gold"}),
        (
            "namespaces: [default], namespaceSelector: {matchLabels: {tier: gold}}",
            {"default", "gold"},
        ),
        (
            "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: stranger}}",
            {"stranger"},
        ),
        (
            "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name,"
            " operator: NotIn, values: [stranger, gold]}]}",
            {"default", "team-a", "bare"},
        ),
        # Of default and stranger nobody knows whether they have the label.
        (
            "namespaceSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}",
            {"bare"},
        ),
    ],
)
def test_08_a_term_is_about_the_union_of_names_and_selector(
    scope: str, namespaces: set[str]
) -> None:
    more = f", {scope}" if scope else ""
    owner, term = term_of(CACHE + more, config=LABELS)
    found = {
        namespace
        for namespace in ("default", "team-a", "gold", "bare", "stranger")
        if term.matches(owner, container(namespace=namespace, labels={"app": "cache"}))
    }
    assert found == namespaces


def test_08_labels_that_nobody_gave_select_none_and_that_is_said() -> None:
    scope = "namespaces: [prod], namespaceSelector: {matchLabels: {tier: gold}}"
    owner, rules, (problem,) = rules_of(affinity(f"topologyKey: numa, {CACHE}, {scope}"))
    (rule,) = rules.required
    assert rule.term.matches(owner, container(namespace="prod", labels={"app": "cache"}))
    assert not rule.term.matches(owner, container(namespace="gold", labels={"app": "cache"}))
    assert "nobody told this node the label 'tier'" in problem
    assert "configure namespaceLabels" in problem
