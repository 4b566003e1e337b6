"""The values inside false expressions, as people are shown them."""

from collections.abc import Mapping

import pytest

from pinfold.policy.scenarios.expressions.evaluator import EvaluatorError, evaluate
from pinfold.policy.scenarios.expressions.failed_values import failed_values
from pinfold.policy.scenarios.expressions.values import Value

CPUS: Mapping[str, Value] = {
    "a": frozenset({"cpu00", "cpu01", "cpu02"}),
    "b": frozenset({"cpu02", "cpu05"}),
    "none": frozenset(),
}
NAMES: Mapping[str, Value] = {
    "cpus": CPUS,
    "nodes": {"a": frozenset({"node0"}), "b": frozenset({"node0", "node1"})},
    "cores": {"a": frozenset({"node0/core0", "node0/core1"})},
    "quota": {"a": True},
    "name": "a",
    "many": [f"word {number}" for number in range(40)],
    "threads": frozenset(f"cpu{number}" for number in range(0, 1024, 2)),
}


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        pytest.param(
            'cpus["a"] == cpus["b"]',
            ['cpus["a"] is cpus 0-2', 'cpus["b"] is cpus 2,5'],
            id="both sides of a comparison",
        ),
        pytest.param(
            'len(cpus["a"]) == 4',
            ['len(cpus["a"]) is 3', 'cpus["a"] is cpus 0-2'],
            id="a call, and what it is about",
        ),
        pytest.param(
            'cpus["a"] & cpus["b"] == set()',
            ['cpus["a"] & cpus["b"] is cpus 2', 'cpus["a"] is cpus 0-2', 'cpus["b"] is cpus 2,5'],
            id="an operation, and its operands",
        ),
        pytest.param(
            'disjoint_sets(cpus["a"], cpus["b"])',
            ['cpus["a"] is cpus 0-2', 'cpus["b"] is cpus 2,5'],
            id="what a function is asked about",
        ),
        pytest.param(
            'cpus["a"].issubset(cpus["b"])',
            ['cpus["a"] is cpus 0-2', 'cpus["b"] is cpus 2,5'],
            id="what a method is asked about",
        ),
        pytest.param('not quota["a"]', ['quota["a"] is True'], id="what is not to be"),
        pytest.param(
            'len(cpus["a"]) == 3 and nodes["a"] == nodes["b"]',
            ['nodes["a"] is nodes 0', 'nodes["b"] is nodes 0-1'],
            id="the first false one of several conditions",
        ),
        pytest.param(
            'nodes["a"] == {"node1"} or cpus["none"]',
            ['nodes["a"] is nodes 0', 'cpus["none"] is empty'],
            id="all of several alternatives",
        ),
        pytest.param(
            "all(len(cpus[c]) == 3 for c in cpus)",
            ["c is 'b'", "len(cpus[c]) is 2", "cpus[c] is cpus 2,5"],
            id="the first false element of all",
        ),
        pytest.param(
            'all(len(one) == 3 for key, one in cpus.items() if key != "b")',
            ["key is 'none'", "one is empty", "len(one) is 0"],
            id="the first false element by several variables",
        ),
        pytest.param(
            'cpus[name] <= {"cpu00"}',
            ["cpus[name] is cpus 0-2", "name is 'a'"],
            id="a remembered value",
        ),
        pytest.param(
            'cores["a"] == {"node0/core0"}',
            ["cores[\"a\"] is {'node0/core0', 'node0/core1'}"],
            id="names of other kinds as they are",
        ),
        pytest.param(
            'many == ["x"]',
            [f"many is {NAMES['many']}"[: len("many is ") + 80] + "…"],
            id="long values in short",
        ),
        pytest.param(
            "threads == set()",
            [
                f"threads is cpus {','.join(map(str, range(0, 1024, 2)))}"[
                    : len("threads is ") + 320
                ]
                + "…"
            ],
            id="long lists of cpus in short",
        ),
        pytest.param(
            'not any("cpu05" in cpus[c] for c in cpus)',
            ["c is 'b'", "cpus[c] is cpus 2,5"],
            id="the first element that must not be",
        ),
        pytest.param("any(len(cpus[c]) == 7 for c in cpus)", [], id="no element as it should be"),
        pytest.param(
            'not (quota["a"] and name == "a")',
            ['quota["a"] is True', "name is 'a'"],
            id="what must not hold together",
        ),
        pytest.param("1 == 2", [], id="nothing but what is written"),
        pytest.param('"z" in cpus', [], id="a mapping of everything"),
    ],
)
def test_a_false_expression_is_shown_with_its_values(expression: str, values: list[str]) -> None:
    assert not evaluate(expression, NAMES)
    assert list(failed_values(expression, NAMES)) == values


def test_of_many_values_the_first_are_shown() -> None:
    expression = " or ".join(f'len(cpus["a"]) == {number} + len(name)' for number in range(9, 60))
    assert len(failed_values(expression, NAMES)) <= 6


@pytest.mark.parametrize("expression", ["", "((", "x == y", 'cpus["z"] == 1', "f(1)", "lambda: 1"])
def test_what_has_no_value_is_passed_over(expression: str) -> None:
    with pytest.raises(EvaluatorError):
        evaluate(expression, NAMES)
    assert failed_values(expression, NAMES) == ()
