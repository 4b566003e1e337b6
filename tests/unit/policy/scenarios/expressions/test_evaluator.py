import pytest

from pinfold.policy.scenarios.expressions.evaluator import EvaluatorError, evaluate
from pinfold.policy.scenarios.expressions.values import Record, Value

CPUS: Value = {
    "a": frozenset({"cpu0", "cpu1"}),
    "b": frozenset({"cpu2"}),
    "pod1c0": frozenset({"cpu3"}),
    "none": frozenset[Value](),
}
NAMES: dict[str, Value] = {
    "cpus": CPUS,
    "x": 3,
    "best_pool": Record({"name": "socket #1", "is_leaf": False}),
}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('len(cpus["a"]) == 2', id="a size"),
        pytest.param('len(cpus["a"]) > len(cpus["b"]) == 1', id="a chain of comparisons"),
        pytest.param('disjoint_sets(cpus["a"], cpus["b"])', id="disjoint sets"),
        pytest.param('not disjoint_sets(cpus["a"], {"cpu1"})', id="sets that meet"),
        pytest.param('disjoint_sets(cpus["a"])', id="one set is disjoint"),
        pytest.param('disjoint_sets(*[cpus[f"pod{i}c0"] for i in range(1, 2)])', id="a formed key"),
        pytest.param('f"{7:02}{\'a\'}{x!s}" == "07a3"', id="padded numbers in a text"),
        pytest.param(
            "len(set.union(*[cpus[c] for c in cpus if c != 'a'])) == 2", id="a union of the others"
        ),
        pytest.param("set.intersection({1, 2}, {2, 3}) == {2}", id="an intersection"),
        pytest.param('cpus["a"] - cpus["b"] == cpus["a"] | set()', id="set operators"),
        pytest.param('cpus["a"] & {"cpu1"} == {"cpu1"}', id="a common part"),
        pytest.param("{1, 2} ^ {2, 3} == {1, 3}", id="a symmetric difference"),
        pytest.param('"cpu2" in cpus["b"] and "z" not in cpus', id="membership"),
        pytest.param(
            "[len(cpus[c]) for c in cpus] == [2, 1, 1, 0]", id="mappings keep their order"
        ),
        pytest.param("[c for c in {10, 9, 'z', 'y'}] == [9, 10, 'y', 'z']", id="sets are sorted"),
        pytest.param("[1] * x == [1, 1, 1] and 'ab' * 2 == 'abab'", id="repetition"),
        pytest.param("{i: i * i for i in range(3)}[2] == 4", id="a mapping built from a range"),
        pytest.param("sum(i for i in range(9) if i % 2 if i > 3) == 12", id="two conditions"),
        pytest.param("[(i, j) for i in range(2) for j in range(i)] == [(1, 0)]", id="two loops"),
        pytest.param("[a + b for a, b in [(1, 2), (3, 4)]] == [3, 7]", id="pairs taken apart"),
        pytest.param("all(cpus[c] <= {'cpu3'} for c in cpus if c == 'pod1c0')", id="subset"),
        pytest.param("max(1, x, 2) == 3 and min([4, 2]) == 2 and abs(-2) == 2", id="numbers"),
        pytest.param("sorted({'b', 'a'}) == ['a', 'b'] and sorted([2, 1]) == [1, 2]", id="sorting"),
        pytest.param("int('12') + 1 == 13 and str(4) == '4'", id="numbers and texts"),
        pytest.param("'cpu7'.removeprefix('cpu') == '7'", id="a method of text"),
        pytest.param("cpus['a'].issuperset({'cpu0'})", id="a method of sets"),
        pytest.param("list(cpus.keys())[0] == 'a' and cpus.get('q', 1) == 1", id="mappings"),
        pytest.param(
            "cpus.keys() - {'none'} == {'a', 'b', 'pod1c0'} and {'a'} <= cpus.keys()",
            id="keys are a set",
        ),
        pytest.param(
            "[(k, v) for k, v in zip({'b': 1, 'a': 2}.keys(), {'b': 1, 'a': 2}.values())]"
            " == list({'b': 1, 'a': 2}.items())",
            id="keys are listed as values are",
        ),
        pytest.param("frozenset(['a']) == {'a'}", id="a set by its other name"),
        pytest.param("best_pool.name == 'socket #1' and not best_pool.is_leaf", id="a record"),
        pytest.param("(1 if x else 2) == 1", id="a choice"),
        pytest.param("1 == 1 or nothing", id="what is not needed is not looked at"),
        pytest.param("{'cpu1'} != {'cpu2'} and {1: 2} == {1: 2} and None == None", id="equality"),
        pytest.param("-x + 7 // 2 == 0 and True", id="arithmetic"),
        pytest.param("[x for x in [1]] == [1] and x == 3", id="loop variables end with the loop"),
        pytest.param(" \n ( 1 ==\n 1 ) ", id="several lines"),
        pytest.param("[1, 2, 3][1:] == [2, 3] and (1, 2)[:-1] == (1,)", id="slices"),
        pytest.param("'cpu07'[3:] == '07' and [1, 2, 3][::-2] == [3, 1]", id="slices with steps"),
        pytest.param(
            "cpus.get('q') is None and True is not False and not 1 is None", id="identity of None"
        ),
        pytest.param("zip([1, 2], ['a', 'b', 'c']) == [(1, 'a'), (2, 'b')]", id="pairs"),
        pytest.param(
            "[i for i, c in enumerate(cpus) if c == 'b'] == [1]"
            " and enumerate('a', 1) == [(1, 'a')]",
            id="numbered elements",
        ),
        pytest.param("reversed([1, 2]) == [2, 1] and (1,) * 2 == (1, 1)", id="the other way round"),
        pytest.param("', '.join(sorted(cpus['a'])) == 'cpu0, cpu1'", id="texts joined by a text"),
        pytest.param("[1, 2, 1].count(1) == 2 == 'a,b,c'.count(',')", id="how often"),
    ],
)
def test_expressions_hold(source: str) -> None:
    assert evaluate(source, NAMES) is True


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("cpus[", "line 1, column 5: '[' was never closed", id="unfinished"),
        pytest.param("", "line 1, column 1: invalid syntax", id="nothing"),
        pytest.param("1; 2", "invalid syntax", id="two expressions"),
        pytest.param("\0", "null bytes", id="a null byte"),
        pytest.param("(1 +\ncpu)", "line 2, column 1: name 'cpu' is not known", id="unknown name"),
        pytest.param("cpu['a']", "did you mean 'cpus'?", id="a name misspelt"),
        pytest.param(
            "'é' == cpus['é']", "line 1, column 8: no key 'é'", id="characters, not bytes"
        ),
        pytest.param("cpus['q']", "no key 'q' — known: 'a', 'b', 'pod1c0'", id="unknown key"),
        pytest.param(
            "lenn([])", "function 'lenn' is not known — did you mean 'len'", id="function"
        ),
        pytest.param("len", "'len' is a function", id="a function that is not called"),
        pytest.param("cpus.pop('a')", "method 'pop' is not known", id="unknown method"),
        pytest.param("cpus.keys", "a mapping of 4 has no attribute 'keys'", id="no such attribute"),
        pytest.param("best_pool.nam", "did you mean 'name'", id="an attribute misspelt"),
        pytest.param("''.__class__", "has no attribute '__class__'", id="Python's inside"),
        pytest.param("set.__mro__", "'set' is a function", id="the inside of set"),
        pytest.param(
            "(lambda: 1)()", "only functions and methods known by name", id="lambda called"
        ),
        pytest.param("(x := 1)", "NamedExpr is not part of the language", id="assignment"),
        pytest.param("1.5", "1.5 is neither text nor an integer", id="a float"),
        pytest.param("2 ** 9", "operator Pow is not part of the language", id="a power"),
        pytest.param("1 is 1", "operator Is is not part of the language", id="identity"),
        pytest.param("'a' is 'a'", "but for None, True and False — write '=='", id="texts alike"),
        pytest.param("cpus['a':]", "a mapping of 4 has no part from 'a' to None", id="a part"),
        pytest.param("[1]['a':2]", "a list of 1 has no part from 'a' to 2", id="a bound"),
        pytest.param("[1][::0]", "slice step cannot be zero", id="a slice without a step"),
        pytest.param("','.join([1])", "expected texts", id="numbers joined by a text"),
        pytest.param("zip(1)", "1 is not a collection", id="a pair of nothing"),
        pytest.param("~1", "no such operator for 1", id="inversion"),
        pytest.param("1 + 'a'", "operator Add takes no number and text", id="mixed kinds"),
        pytest.param("{1} < 2", "not supported", id="an order that is not there"),
        pytest.param("1 // 0", "by zero", id="division by zero"),
        pytest.param("{[1]}", "a list of 1 cannot be in a set", id="a list in a set"),
        pytest.param("[1] in {1}", "a list of 1 cannot be in a set", id="a list sought in a set"),
        pytest.param("len(1)", "1 is not a collection", id="the size of a number"),
        pytest.param("len()", "missing 1 required positional argument", id="too few arguments"),
        pytest.param("sorted([], key=1)", "named arguments", id="named arguments"),
        pytest.param("{**cpus}", "'**' is not part", id="unpacked mappings"),
        pytest.param("f'{x!r}'", "conversions other than", id="a conversion"),
        pytest.param("f'{x:>9999999}'", "format '>9999999' is not part", id="a wide format"),
        pytest.param(
            "f'{cpus}'", "a mapping of 4 is neither text nor a number", id="formed mapping"
        ),
        pytest.param(
            "[a for a, b in [(1,)]]", "1 values for 2 variables", id="taken apart wrongly"
        ),
        pytest.param("disjoint_sets(1)", "1 is not a set", id="no set"),
        pytest.param("set.union()", "missing 1 required", id="the union of nothing"),
        pytest.param("range(1, 2, 0)", "must not be zero", id="a range without a step"),
    ],
)
def test_errors_say_where_and_what(source: str, message: str) -> None:
    with pytest.raises(EvaluatorError) as caught:
        evaluate(source, NAMES)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("1" * 5000, "more than 4000 characters", id="a long text"),
        pytest.param("[" + "1," * 1998 + "]", "more than 2000 parts", id="many parts"),
        pytest.param("-" * 100 + "1", "nested deeper than 60 levels", id="deep nesting"),
        pytest.param("(" * 3000, "", id="deeper than the parser goes"),
        pytest.param("range(10**9)", "Pow", id="powers do not exist"),
        pytest.param("range(1000000000)", "more than 10000 numbers", id="a long range"),
        pytest.param("[1] * 1000000000", "more than 10000 elements", id="a long list"),
        pytest.param("('a' * 9000) * 9000", "more than 10000 elements", id="a long text built"),
        pytest.param(
            "('a' * 9000).join(['b'] * 9000)", "more than 10000 characters", id="texts joined long"
        ),
        pytest.param("'a' * 9000 + 'a' * 9000", "more than 10000 elements", id="texts joined"),
        pytest.param(
            " * ".join(["999999999999999"] * 40), "more than 256 bits", id="a huge number"
        ),
        pytest.param(
            "[1 for a in range(999) for b in range(999)]", "more than 200000 steps", id="long loops"
        ),
        pytest.param(
            "[[1] * 9999 for i in range(99)] == [[1] * 9999 for i in range(99)]",
            "more than 200000 steps",
            id="a long comparison",
        ),
        pytest.param(
            "[r for r in [[s for _ in range(9999)] for s in [[1] * 9999]]] == [1]",
            "more than 200000 steps",
            id="one list repeated weighs all of it",
        ),
    ],
)
def test_limits_stop_what_would_not_end(source: str, message: str) -> None:
    with pytest.raises(EvaluatorError) as caught:
        evaluate(source, NAMES)
    assert message in str(caught.value)


def test_callers_add_functions() -> None:
    def double(value: Value) -> Value:
        if not isinstance(value, int):
            raise TypeError("double takes a number")
        return value * 2

    assert evaluate("double(4)", {}, {"double": double}) == 8
    with pytest.raises(EvaluatorError, match="line 1, column 1: double takes a number"):
        evaluate("double('4')", {}, {"double": double})
