import pytest

from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.rules.container_facts import FIELDS, ContainerFacts, Subkey, facts, parse_key
from pinfold.policy.rules.expression import Expression, condition, evaluate, parse_expression
from pinfold.policy.rules.operators import OPERATORS, Arity, meant_operator
from pinfold.policy.text.glob import MAX_LENGTH, GlobError, compile_glob
from pinfold.policy.text.yaml_nodes import TextError
from pinfold.policy.text.yaml_text import parse_text

CONTAINER = Container(
    id=ContainerId("c-1"),
    name="sheep",
    labels={"app.kubernetes.io/name": "wool", "empty": ""},
    tags={"kind": "farm"},
    pod=Pod(
        id=PodId("p-1"),
        name="meadow",
        namespace="north",
        uid="u-1",
        labels={"team": "dogs"},
        qos=QosClass.BURSTABLE,
    ),
)


def parse(text: str) -> Expression:
    node = parse_text(text)
    assert node is not None
    return parse_expression(node)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "c-1"),
        ("name", "sheep"),
        ("namespace", "north"),
        ("qosclass", "Burstable"),
        ("labels/app.kubernetes.io/name", "wool"),
        ("labels/io.kubernetes.container.name", "sheep"),
        ("labels/io.kubernetes.pod.namespace", "north"),
        ("labels/empty", ""),
        ("labels/none", None),
        ("tags/kind", "farm"),
        ("tags/none", None),
        ("pod/id", "p-1"),
        ("pod/uid", "u-1"),
        ("pod/name", "meadow"),
        ("pod/namespace", "north"),
        ("pod/qosclass", "Burstable"),
        ("pod/labels/team", "dogs"),
        ("pod/labels/none", None),
        (":pod/qosclass:pod/name:name", "Burstable:meadow:sheep"),
        (":::pod/qosclass:pod/name:name", "Burstable:meadow:sheep"),
        ("pod/qosclass:pod/name:name", "Burstable:meadow:sheep"),
        (":,-name,labels/app.kubernetes.io/name", "sheep-wool"),
        (":;/namespace;name", "north/sheep"),
        (":name:labels/none:tags/kind", "sheep::farm"),
        (":labels/none:tags/none", None),
        (":name", "sheep"),
    ],
)
def test_the_value_of_a_key(key: str, value: str | None) -> None:
    assert parse_key(key).value_of(ContainerFacts(CONTAINER)) == value


def test_facts_are_the_values_of_all_single_keys() -> None:
    found = facts(CONTAINER)
    assert all(subkey.value(CONTAINER) == value for subkey, value in found.items())
    assert {subkey.field for subkey in found} == set(FIELDS)
    assert found[Subkey("labels", "io.kubernetes.pod.uid")] == "u-1"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("nmae", "did you mean 'name'?"),
        ("pod/nam", "did you mean 'pod/name'?"),
        ("lables/app", "did you mean 'labels/app'?"),
        ("pod/label/app", "did you mean 'pod/labels/app'?"),
        ("uid", "did you mean 'pod/uid'?"),
        ("qosClass", "did you mean 'qosclass'?"),
        ("labels/", "write 'labels/' and its key"),
        ("pod/labels", "write 'pod/labels/' and its key"),
        ("pod/tags/x", "unknown key 'pod/tags/x'"),
        ("", "an empty key"),
        (":", "an empty key"),
        (":name::id", "an empty key"),
        (":name:nmae", "did you mean 'name'?"),
        (":,name,id", "has no separator of values"),
        (":" + ":".join(["name"] * 17), "17 keys in a joint key"),
    ],
)
def test_a_wrong_key_is_refused_with_what_was_meant(key: str, message: str) -> None:
    with pytest.raises(ValueError, match="key") as caught:
        parse_key(key)
    assert message in " ".join(map(str, caught.value.args))


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("name", "Equals", ["sheep"], True),
        ("name", "Equals", ["wolf"], False),
        ("name", "Equals", ["*"], True),
        ("name", "NotEqual", ["wolf"], True),
        ("name", "NotEqual", ["sheep"], False),
        ("name", "In", ["wolf", "sheep"], True),
        ("name", "In", ["wolf", "*"], True),
        ("name", "In", ["wolf"], False),
        ("name", "NotIn", ["wolf"], True),
        ("name", "NotIn", ["wolf", "sheep"], False),
        ("labels/empty", "Exists", [], True),
        ("labels/empty", "NotExists", [], False),
        ("labels/empty", "NotExist", [], False),
        ("name", "AlwaysTrue", [], True),
        ("name", "Matches", ["sh*p"], True),
        ("name", "Matches", ["sh?p"], False),
        ("name", "MatchesNot", ["w*"], True),
        ("name", "MatchesNot", ["s*"], False),
        ("name", "MatchesAny", ["w*", "[r-t]heep"], True),
        ("name", "MatchesAny", ["w*", "[!r-t]heep"], False),
        ("name", "MatchesNone", ["w*", "x*"], True),
        ("name", "MatchesNone", ["w*", "s*"], False),
        # A missing key: positive operators do not hold, negated ones do.
        ("labels/none", "Equals", [""], False),
        ("labels/none", "Equals", ["*"], False),
        ("labels/none", "NotEqual", ["x"], True),
        ("labels/none", "In", ["", "*"], False),
        ("labels/none", "NotIn", ["x"], True),
        ("labels/none", "Exists", [], False),
        ("labels/none", "NotExists", [], True),
        ("labels/none", "NotExist", [], True),
        ("labels/none", "AlwaysTrue", [], True),
        ("labels/none", "Matches", ["*"], False),
        ("labels/none", "MatchesNot", ["*"], True),
        ("labels/none", "MatchesAny", ["*"], False),
        ("labels/none", "MatchesNone", ["*"], True),
        # A joint key exists if one of its keys does.
        (":labels/none:name", "Exists", [], True),
        (":labels/none:tags/none", "Exists", [], False),
        (":labels/none:name", "Equals", [":sheep"], True),
        (":pod/qosclass:name", "Matches", ["Burstable:*"], True),
    ],
)
def test_an_operator_holds(key: str, operator: str, values: list[str], expected: bool) -> None:
    assert evaluate(condition(key, operator, *values), CONTAINER) is expected


def test_every_operator_has_a_row_above() -> None:
    rows = test_an_operator_holds.pytestmark[0].args[1]  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    assert {row[1] for row in rows} == set(OPERATORS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{key: name, operator: Equals, values: [sheep]}", True),
        ("{operator: AlwaysTrue}", True),
        ("{operator: AlwaysTrue, key: name, values: }", True),
        ("{not: {operator: AlwaysTrue}}", False),
        ("{all: [{operator: AlwaysTrue}, {key: name, operator: Exists}]}", True),
        ("{all: [{operator: AlwaysTrue}, {key: tags/x, operator: Exists}]}", False),
        ("{any: [{key: tags/x, operator: Exists}, {key: name, operator: Exists}]}", True),
        ("{any: [{key: tags/x, operator: Exists}, {not: {key: id, operator: Exists}}]}", False),
        ("key: name\noperator: In\nvalues:\n- sheep\n- 7\n", True),
    ],
)
def test_an_expression_is_read_and_evaluated(text: str, expected: bool) -> None:
    assert evaluate(parse(text), CONTAINER) is expected


@pytest.mark.parametrize(
    ("text", "line", "column", "what", "fix"),
    [
        ("{key: name}", 1, 1, "without operator", "one of Equals"),
        ("{operator: Exists}", 1, 1, "without key", "write key: name"),
        ("{key: name, operator: Equal, values: [a]}", 1, 23, "'Equal'", "did you mean 'Equals'?"),
        ("{key: x, operator: DoesNotExist}", 1, 20, "DoesNotExist", "did you mean 'NotExists'?"),
        ("{key: name, operator: exists}", 1, 23, "'exists'", "did you mean 'Exists'?"),
        ("key: name\noperator: Exists\nvalue: [a]", 3, 1, "'value'", "did you mean 'values'?"),
        ("{key: name, operator: In, values: a}", 1, 35, "not a list", "write a list: [a, b]"),
        ("{key: name, operator: In, values: [[a]]}", 1, 36, "not a string", "write a list"),
        ("{key: name, operator: In, values: [~]}", 1, 36, "not a string", "write a list"),
        ("{key: nmae, operator: Exists}", 1, 7, "unknown key 'nmae'", "did you mean 'name'?"),
        ("{key: [a], operator: Exists}", 1, 7, "not a word", "write key: name"),
        ("{key: name, operator: [a]}", 1, 23, "not a word", "one of"),
        ("{key: a, all: [{operator: AlwaysTrue}]}", 1, 10, "beside other fields", "its own"),
        ("{all: []}", 1, 7, "'all' without expressions", "write a list"),
        ("{not: [{operator: AlwaysTrue}]}", 1, 7, "not an expression", "write {key"),
        ("{}", 1, 1, "not an expression", "write {key"),
        ("{key: name, operator: Matches, values: ['[a']}", 1, 41, "a '[' without its ']'", "["),
        ("{key: name, operator: MatchesAny, values: [a, 'b\\']}", 1, 47, "malformed", "\\\\"),
    ],
)
def test_a_fault_has_its_place(text: str, line: int, column: int, what: str, fix: str) -> None:
    with pytest.raises(TextError) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert what in error.what
    assert fix in error.fix


@pytest.mark.parametrize("operator", list(OPERATORS))
def test_an_operator_takes_its_number_of_values(operator: str) -> None:
    fitting = {Arity.NONE: {0}, Arity.ONE: {1}, Arity.SOME: {1, 2}}[OPERATORS[operator].arity]
    for count in range(3):
        text = f"{{key: name, operator: {operator}, values: {['a', 'b'][:count]}}}"
        # What is superfluous beside AlwaysTrue is advice.
        if count in fitting or operator == "AlwaysTrue":
            parse(text)
        else:
            with pytest.raises(TextError, match=f"not {count}"):
                parse(text)


def test_values_are_limited() -> None:
    with pytest.raises(TextError, match="300 values"):
        parse(f"{{key: name, operator: In, values: {['a'] * 300}}}")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "", True),
        ("*", "", True),
        ("*", "a/b", False),
        ("a/*", "a/b", True),
        ("?", "/", False),
        ("**a**", "bab", True),
        ("a*b*c", "aXbYbZc", True),
        ("a*b*c", "aXcYb", False),
        ("[^a-c]", "d", True),
        ("[^a-c]", "b", False),
        ("[a\\]]", "]", True),
        ("\\*", "*", True),
        ("\\*", "x", False),
        ("redis-*", "redis-", True),
        ("redis-*", "redi", False),
        ("é*", "école", True),
    ],
)
def test_a_glob_matches(pattern: str, text: str, expected: bool) -> None:
    assert compile_glob(pattern).matches(text) is expected


def test_a_glob_without_separator_crosses_slashes() -> None:
    assert compile_glob("*eth0*", "").matches("a/eth0/b")


@pytest.mark.parametrize(
    ("pattern", "what", "fix"),
    [
        ("[", "an empty or open [...]", "write \\[ for a ["),
        ("[]", "an empty or open [...]", "write \\[ for a ["),
        ("[a", "a '[' without its ']'", "write \\[ for a ["),
        ("[a-", "a '[' without its ']'", "write \\[ for a ["),
        ("[b-a]", "the range b-a is backwards", "write [a-b]"),
        ("a\\", "it ends after a '\\'", "write \\\\ for a \\"),
        ("[a\\", "it ends after a '\\'", "write \\\\ for a \\"),
        ("x" * (MAX_LENGTH + 1), f"{MAX_LENGTH + 1} characters", f"write at most {MAX_LENGTH}"),
    ],
)
def test_a_malformed_glob_is_refused(pattern: str, what: str, fix: str) -> None:
    with pytest.raises(GlobError) as caught:
        compile_glob(pattern)
    assert str(caught.value) == what
    assert caught.value.fix == fix
    with pytest.raises(TextError) as told:
        parse(f"{{key: name, operator: Matches, values: ['{pattern}']}}")
    assert what in told.value.what
    assert told.value.fix == fix


MEANT = {
    "NotMatch": "MatchesNot",
    "NotMatches": "MatchesNot",
    "DoesNotMatch": "MatchesNot",
    "MatchNot": "MatchesNot",
    "NotMatchesAny": "MatchesNone",
    "NotMatchAny": "MatchesNone",
    "not_match_any": "MatchesNone",
    "match": "Matches",
    "nin": "NotIn",
    "not-in": "NotIn",
    "NOTIN": "NotIn",
    "NotContains": "NotIn",
    "Contains": "In",
    "IsIn": "In",
    "Absent": "NotExists",
    "does_not_exist": "NotExists",
    "!": "NotExists",
    "ne": "NotEqual",
    "neq": "NotEqual",
    "!=": "NotEqual",
    "<>": "NotEqual",
    "DoesNotEqual": "NotEqual",
    "eq": "Equals",
    "=": "Equals",
    "==": "Equals",
    "Equalls": "Equals",
    "always_true": "AlwaysTrue",
    "AlwaysFalse": None,
    "Never": None,
    "Gt": None,
    "xyzzy": None,
}


@pytest.mark.parametrize(("written", "meant"), MEANT.items())
def test_another_spelling_of_an_operator_finds_what_was_meant(
    written: str, meant: str | None
) -> None:
    with pytest.raises(TextError) as caught:
        parse(f"{{key: name, operator: '{written}', values: [a]}}")
    fix = f"did you mean {meant!r}?" if meant else "one of Equals, NotEqual, In, "
    assert caught.value.fix.startswith(fix)


STEMS = ["Equal", "Equals", "In", "Exist", "Exists", "Match", "Matches", "MatchAny", "MatchesAny"]


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("negation", ["Not", "DoesNot", "IsNot", "No", "Doesnt", "!", "Never"])
def test_the_opposite_of_what_is_written_is_never_suggested(negation: str, stem: str) -> None:
    for word in (negation + stem, f"{negation}_{stem}".lower(), negation + stem[:-1] + "x"):
        assert word in OPERATORS or (meant := meant_operator(word)) is None or is_negative(meant)
    for word in (stem.lower(), stem + "s", stem + "x"):
        assert (
            word in OPERATORS or (meant := meant_operator(word)) is None or not is_negative(meant)
        )


def is_negative(operator: str) -> bool:
    return OPERATORS[operator].is_negated and operator != "AlwaysTrue"


class CountedText(str):
    """Counts how many of its characters are looked at."""

    steps = 0

    def __iter__(self):  # type: ignore[no-untyped-def]  # the type of str's own is not public
        for character in str(self):
            CountedText.steps += 1
            yield character


def test_a_glob_looks_at_every_character_once() -> None:
    text = CountedText("a" * 1000)
    CountedText.steps = 0
    assert not compile_glob("*a" * 250 + "*b").matches(text)
    assert 0 < CountedText.steps <= 1000
