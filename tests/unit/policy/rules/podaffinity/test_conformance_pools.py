"""Conformance items about terms over pool labels; the numbers are those of the conformance list."""

import pytest

from pinfold.policy.model.selector_operator import PoolOperator
from pinfold.policy.rules.podaffinity.pool_term import PoolExpression

from .rule_cases import rules_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("operator", "bound", "label", "holds"),
    [
        (PoolOperator.GT, "32", "33", True),
        (PoolOperator.GT, "32", "32", False),
        (PoolOperator.LT, "32", "31", True),
        (PoolOperator.LT, "32", "32", False),
        (PoolOperator.GT, "-2", "-1", True),
        (PoolOperator.LT, "0", "-9223372036854775808", True),
        (PoolOperator.GT, "32", "33.5", False),
        (PoolOperator.GT, "32", "many", False),
        (PoolOperator.LT, "32", "", False),
        (PoolOperator.LT, "32", "-9223372036854775809", False),
        (PoolOperator.GT, "32", None, False),
        (PoolOperator.LT, "32", None, False),
    ],
)
def test_11_numbers_are_compared_strictly_and_anything_else_is_false(
    operator: PoolOperator, bound: str, label: str | None, *, holds: bool
) -> None:
    labels = {} if label is None else {"cpus": label}
    assert PoolExpression("cpus", operator, (bound,)).holds(labels) is holds


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ('["1", "2"]', 'Gt takes one value, not 2 — write values: ["1"]'),
        ("[]", "Gt takes one value, not 0"),
        ('["many"]', "'many' is no whole number"),
        ('["1.5"]', "'1.5' is no whole number"),
        ('["9223372036854775808"]', "'9223372036854775808' is no whole number"),
    ],
)
def test_11_a_bound_is_one_integer(values: str, what: str) -> None:
    expression = f"{{key: cpus, operator: Gt, values: {values}}}"
    text = f"{{nodeSelectorTerms: [{{matchExpressions: [{expression}]}}]}}"
    _, rules, (problem,) = rules_of(f"poolAffinity: {{{REQUIRED}: {text}}}")
    assert not rules
    assert what in problem


TERMS = """\
poolAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - {key: numa, operator: In, values: ["0"]}
      - {key: cpus, operator: Gt, values: ["7"]}
    - matchExpressions: [{key: isolated, operator: Exists}]
"""


@pytest.mark.parametrize(
    ("labels", "holds"),
    [
        ({"numa": "0", "cpus": "8"}, True),
        ({"numa": "0", "cpus": "7"}, False),
        ({"numa": "1", "cpus": "8"}, False),
        ({"isolated": "true"}, True),
        ({}, False),
    ],
)
def test_12_terms_are_alternatives_of_expressions_that_hold_together(
    labels: dict[str, str], *, holds: bool
) -> None:
    _, rules, problems = rules_of(TERMS)
    (requirement,) = rules.pool_required
    assert requirement.holds(labels) is holds
    assert problems == ()


@pytest.mark.parametrize("term", ["{}", "null", "{matchExpressions: []}"])
def test_12_an_empty_term_matches_no_pool_and_that_is_said(term: str) -> None:
    _, rules, (problem,) = rules_of(
        f"poolAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{term}]}}}}"
    )
    (requirement,) = rules.pool_required
    assert not requirement.holds({"numa": "0"})
    assert "an empty term matches no pool" in problem


@pytest.mark.parametrize("term", ["{}", "{matchExpressions: []}"])
def test_13_an_empty_preference_does_nothing_and_that_is_said(term: str) -> None:
    _, rules, (problem,) = rules_of(
        f"poolAffinity: {{{PREFERRED}: [{{weight: 5, preference: {term}}}]}}"
    )
    assert not rules
    assert "an empty preference has no effect" in problem
