"""Conformance items about label selectors; the numbers are those of the conformance list."""

import pytest

from .rule_cases import affinity, container, rules_of, term_of


def test_06_a_null_selector_matches_nobody_and_that_is_said() -> None:
    for text in ("topologyKey: numa", "topologyKey: numa, labelSelector: null"):
        owner, rules, problems = rules_of(affinity(text))
        (rule,) = rules.required
        assert rule.term.selector is None
        assert not rule.term.matches(owner, container())
        assert not rule.term.includes(owner, owner)
        assert rule.term.index_keys(owner) == ()
        (problem,) = problems
        assert "is about nobody" in problem


def test_06_an_empty_selector_matches_everybody_of_the_namespace() -> None:
    owner, term = term_of("labelSelector: {}")
    assert term.matches(owner, container())
    assert term.matches(owner, container(labels={"app": "web"}))
    assert not term.matches(owner, container(namespace="prod"))


@pytest.mark.parametrize(
    ("expression", "without", "other", "same"),
    [
        ("key: app, operator: In, values: [web]", False, False, True),
        ("key: app, operator: NotIn, values: [web]", True, True, False),
        ("key: app, operator: Exists", False, True, True),
        ("key: app, operator: DoesNotExist", True, False, False),
    ],
)
def test_07_not_in_and_does_not_exist_hold_without_the_key(
    expression: str, *, without: bool, other: bool, same: bool
) -> None:
    owner, term = term_of(f"labelSelector: {{matchExpressions: [{{{expression}}}]}}")
    assert term.matches(owner, container()) is without
    assert term.matches(owner, container(labels={"app": "db"})) is other
    assert term.matches(owner, container(labels={"app": "web"})) is same


def test_07_expressions_and_labels_hold_together() -> None:
    owner, term = term_of(
        "labelSelector: {matchLabels: {app: web},"
        " matchExpressions: [{key: tier, operator: NotIn, values: [back]}]}"
    )
    assert term.matches(owner, container(labels={"app": "web"}))
    assert not term.matches(owner, container(labels={"app": "web", "tier": "back"}))
    assert not term.matches(owner, container(labels={"app": "db"}))


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_11_no_numbers_are_compared_between_containers(operator: str) -> None:
    text = affinity(
        "topologyKey: numa, labelSelector:"
        f' {{matchExpressions: [{{key: revision, operator: {operator}, values: ["3"]}}]}}'
    )
    _, rules, (problem,) = rules_of(text)
    assert not rules
    assert f"unknown operator '{operator}'" in problem
    assert "pools do" in problem
