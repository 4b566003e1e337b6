import time

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.scenarios.expressions.evaluator import EvaluatorError, evaluate
from pinfold.policy.scenarios.expressions.values import Record, Value

NAMES: dict[str, Value] = {
    "cpus": {"a": frozenset({"cpu0", "cpu1"}), "b": frozenset({"cpu1"})},
    "n": 3,
    "s": frozenset({1, 2}),
    "r": Record({"name": "root"}),
}

ATOMS = [
    "cpus",
    "n",
    "s",
    "r",
    "set",
    "'a'",
    "0",
    "-7",
    "None",
    "True",
    "[]",
    "{1}",
    "{}",
    "()",
    "''",
]
WORDS = [
    *ATOMS, "==", "<", "in", "not", "and", "or", "if", "else", "for", "i", "range", "len", "sorted",
    "sum", "max", "set.union", ".union", ".items", ".get", ".split", ".name", "(", ")", "[", "]",
    "{", "}", ",", ":", "*", "**", "+", "-", "|", "&", "^", "~", "//", "%", "f'{", "}'", "lambda",
    ":=",
    "await", "1.5", "b'x'", "...", "9" * 90, "\n", "é",
]  # fmt: skip
SHAPES = [
    "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} | {1})", "({0} & {1})", "({0} // {1})",
    "({0} % {1})", "({0} == {1})", "({0} < {1})", "({0} in {1})", "({0} and {1})", "(not {0})",
    "(-{0})", "({0} if {1} else {0})", "{0}[{1}]", "[{0}, *{1}]", "{{{0}, {1}}}", "{{{0}: {1}}}",
    "[i for i in {0} if {1}]", "{{i for i in {0}}}", "{{i: {1} for i in {0}}}", "len({0})",
    "set({0})", "sorted({0})", "range({0}, {1})", "sum({0})", "max({0}, {1})",
    "set.union({0}, {1})", "{0}.union({1})", "{0}.get({1})", "{0}.split({1})", "{0}.items()",
    "disjoint_sets({0}, *{1})",
    "{0}[{1}:]", "{0}[:{1}]", "{0}[::{1}]", "({0} is {1})", "zip({0}, {1})", "enumerate({0}, {1})",
    "reversed({0})", "{0}.join({1})", "{0}.count({1})",
    "int({0})", "str({0})", "list({0})", "tuple({0})", "f'{{{0}}}'", "{0}.name", "all({0})",
]  # fmt: skip


def _combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def fill(parts: tuple[str, str, str]) -> str:
        shape, one, other = parts
        return shape.format(one, other)

    return st.tuples(st.sampled_from(SHAPES), inner, inner).map(fill)


TREES = st.recursive(st.sampled_from(ATOMS), _combine, max_leaves=12)


def _evaluate(source: str) -> None:
    value, complaint = None, "none"
    try:
        value = evaluate(source, NAMES)
    except EvaluatorError as error:
        complaint = str(error)
    assert complaint, "an error has words"
    assert not callable(value), "no function gets out"


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14))
def test_words_in_any_order_are_read_or_refused(words: list[str]) -> None:
    _evaluate(" ".join(words))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    _evaluate(text)


@settings(max_examples=600, deadline=None)
@given(TREES)
def test_well_formed_expressions_have_a_value_or_an_error(source: str) -> None:
    _evaluate(source)


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_the_same_expression_has_the_same_value(source: str) -> None:
    answers: list[object] = []
    for _ in range(2):
        try:
            answers.append(evaluate(source, NAMES))
        except EvaluatorError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 6))
def test_an_evaluation_is_over_soon(one: int, other: int, depth: int) -> None:
    source = f"[1] * {one}"
    for _ in range(depth):
        source = f"[{source} for i in range({other})]"
    # Of this thread: what else the machine does is nobody's fault here.
    started = time.thread_time()
    _evaluate(f"sorted({source}) == {source}")
    assert time.thread_time() - started < 20


@settings(max_examples=200, deadline=None)
@given(st.lists(st.frozensets(st.integers(0, 9)), min_size=1, max_size=4))
def test_set_functions_agree_with_python(sets: list[frozenset[int]]) -> None:
    names: dict[str, Value] = {"sets": [frozenset[Value](one) for one in sets]}
    union = frozenset[int]().union(*sets)
    assert evaluate("set.union(*sets)", names) == union
    assert evaluate("set.intersection(*sets)", names) == sets[0].intersection(*sets)
    assert evaluate("disjoint_sets(*sets)", names) == (len(union) == sum(map(len, sets)))
