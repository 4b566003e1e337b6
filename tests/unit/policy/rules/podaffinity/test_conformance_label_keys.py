"""Conformance items about label keys; the numbers are those of the conformance list."""

import pytest

from .rule_cases import affinity, container, rules_of, term_of

KEYS = "labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [rev, zone]"


def test_09_a_key_that_the_owner_has_joins_the_selector_and_an_absent_one_does_not() -> None:
    owner, term = term_of(KEYS, labels={"rev": "3"})
    assert str(term.selector) == "app=web, rev=3"
    assert term.matches(owner, container(labels={"app": "web", "rev": "3", "zone": "x"}))
    assert not term.matches(owner, container(labels={"app": "web", "rev": "4"}))


def test_09_a_label_that_is_edited_later_changes_nothing() -> None:
    _, term = term_of(KEYS, labels={"rev": "3"})
    edited = container("owner", pod="owner", labels={"rev": "4"})
    assert term.matches(edited, container(labels={"app": "web", "rev": "3"}))
    assert not term.matches(edited, container(labels={"app": "web", "rev": "4"}))


@pytest.mark.parametrize(
    ("term", "what"),
    [
        ("matchLabelKeys: [rev]", "label keys without labelSelector"),
        (
            "labelSelector: {matchLabels: {rev: a}}, matchLabelKeys: [rev]",
            "'rev' is in matchLabelKeys and in labelSelector",
        ),
        (
            "labelSelector: {}, matchLabelKeys: [rev], mismatchLabelKeys: [rev]",
            "'rev' is in matchLabelKeys and in mismatchLabelKeys",
        ),
    ],
)
def test_09_keys_that_contradict_are_told(term: str, what: str) -> None:
    _, rules, (problem,) = rules_of(affinity(f"topologyKey: numa, {term}"))
    assert not rules
    assert what in problem


def test_10_mismatching_matches_those_without_the_label_too() -> None:
    owner, term = term_of("labelSelector: {}, mismatchLabelKeys: [team]", labels={"team": "a"})
    assert term.matches(owner, container(labels={"team": "b"}))
    assert not term.matches(owner, container(labels={"team": "a"}))
    assert term.matches(owner, container())


def test_10_mismatching_with_exists_matches_those_with_the_label_alone() -> None:
    owner, term = term_of(
        "labelSelector: {matchExpressions: [{key: team, operator: Exists}]},"
        " mismatchLabelKeys: [team]",
        labels={"team": "a"},
    )
    assert term.matches(owner, container(labels={"team": "b"}))
    assert not term.matches(owner, container(labels={"team": "a"}))
    assert not term.matches(owner, container())


def test_10_mismatching_may_be_one_of_several() -> None:
    owner, term = term_of(
        "labelSelector: {matchExpressions: [{key: team, operator: In, values: [a, b]}]},"
        " mismatchLabelKeys: [team]",
        labels={"team": "a"},
    )
    found = [
        team for team in ("a", "b", "c") if term.matches(owner, container(labels={"team": team}))
    ]
    assert found == ["b"]


def test_10_other_pods_are_those_of_another_pod_uid() -> None:
    owner, term = term_of("labelSelector: {}, mismatchLabelKeys: [pod.uid]")
    assert term.matches(owner, container())
    assert not term.matches(owner, container("sidecar", pod="owner"))
