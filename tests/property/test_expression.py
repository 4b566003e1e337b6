import fnmatch
from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.rules.container_facts import facts, parse_key
from pinfold.policy.rules.evaluation import Steps, charge_making, holds, looking_steps
from pinfold.policy.rules.expression import condition, evaluate
from pinfold.policy.rules.operators import OPERATORS, Arity
from pinfold.policy.rules.residents import Residents
from pinfold.policy.rules.selection import Selection
from pinfold.policy.text.glob import GlobError, check_glob, compile_glob
from pinfold.policy.text.glob_set import GlobSet
from pinfold.policy.text.yaml_nodes import TextError
from pinfold.policy.text.yaml_text import parse_documents
from tests.unit.counted_calls import count_calls

TEXTS = st.text("ab*?[]^-\\/é", max_size=12)
CONTAINERS = st.builds(
    Container,
    id=st.just(ContainerId("c")),
    name=st.sampled_from(["a", "b"]),
    labels=st.dictionaries(st.sampled_from(["app"]), st.sampled_from(["", "a", "b"])),
    pod=st.just(Pod(id=PodId("p"), name="ab")),
)
OPPOSITES = {
    "NotEqual": "Equals",
    "NotIn": "In",
    "NotExists": "Exists",
    "NotExist": "Exists",
    "MatchesNot": "Matches",
    "MatchesNone": "MatchesAny",
}


@given(
    CONTAINERS,
    st.sampled_from(sorted(OPPOSITES)),
    st.sampled_from(["name", "labels/app", ":name:labels/app", ":labels/app:tags/x"]),
    st.lists(st.sampled_from(["", "a", "b", "*", "a:", "?*"]), min_size=1, max_size=3),
)
@settings(deadline=None)
def test_a_negated_operator_is_the_opposite(
    container: Container, operator: str, key: str, values: list[str]
) -> None:
    arity = OPERATORS[operator].arity
    taken = values[: {Arity.NONE: 0, Arity.ONE: 1, Arity.SOME: len(values)}[arity]]
    negated = evaluate(condition(key, operator, *taken), container)
    assert negated is not evaluate(condition(key, OPPOSITES[operator], *taken), container)


def recursive_match(pattern: str, text: str) -> bool:
    """Shell matching of `*` and `?` by its definition."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        can_eat = bool(text) and text[0] != "/"
        return recursive_match(pattern[1:], text) or (
            can_eat and recursive_match(pattern, text[1:])
        )
    is_same = bool(text) and (pattern[0] == text[0] or (pattern[0] == "?" and text[0] != "/"))
    return is_same and recursive_match(pattern[1:], text[1:])


@given(st.text("ab*?/", max_size=8), st.text("ab/", max_size=8))
@settings(deadline=None, max_examples=400)
@example("*", "")
@example("a*/b", "a/b")
def test_a_glob_agrees_with_the_definition(pattern: str, text: str) -> None:
    assert compile_glob(pattern).matches(text) is recursive_match(pattern, text)


@given(
    st.lists(st.text("ab/", max_size=5), min_size=1, max_size=4),
    st.sampled_from(("{}", "*{}", "{}*", "*{}*")),
    st.text("ab/", max_size=8),
)
@settings(deadline=None, max_examples=400)
@example(["b/a"], "*{}*", "ab/ab")
@example(["/"], "*{}*", "a/b/")
def test_patterns_together_agree_with_the_definition(
    texts: list[str], form: str, text: str
) -> None:
    patterns = tuple(form.format(one) for one in texts)
    expected = any(recursive_match(one, text) for one in patterns)
    assert GlobSet(patterns)(text) is expected


LONG = st.text("abc", min_size=1, max_size=63)
PARTS = [f"*{'abcabc'[start:end]}*" for start in range(3) for end in range(start + 1, 7)]


@given(
    LONG,
    st.text("abc", min_size=1, max_size=253),
    st.sampled_from(
        ("name", "pod/name", "labels/app", ":pod/name:name", ":,/labels/app,name,tags/x")
    ),
    st.lists(st.text("abc/*", min_size=1, max_size=6), min_size=1, max_size=60),
)
@settings(deadline=None)
@example("abcabc" * 8, "a", ":,/labels/app,tags/x", PARTS)
@example("abcabc" * 8, "a", ":,/labels/app,tags/x", [one.strip("*") + "/*" for one in PARTS])
def test_a_rule_takes_no_more_steps_than_it_is_rated(
    label: str, name: str, key: str, patterns: list[str]
) -> None:
    """By what it is rated, rules are evaluated without counting."""
    found = condition(key, "MatchesAny", *patterns)
    container = Container(
        id=ContainerId("c"),
        name=label,
        labels={"app": label},
        pod=Pod(id=PodId("p"), name=name),
    )
    steps = Steps(1 << 30)
    charge_making(found, steps)
    before = steps.left
    holds(found, facts(container), steps)
    assert before - steps.left <= looking_steps(found)


@given(
    st.lists(st.text("abc", min_size=1, max_size=63), min_size=1, max_size=40),
    st.sampled_from(
        ("name", "pod/name", "labels/app", ":pod/name:name", ":,/labels/app,name,tags/x")
    ),
    st.sampled_from(("MatchesAny", "MatchesNone", "In")),
    st.sampled_from(("{}", "*{}", "{}*", "*{}*", "a*{}?", "*?{}", "*[ab][!c]{}", "*/{}", "{}/*")),
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=40),
)
@settings(deadline=None, max_examples=200)
@example(["a" * length for length in range(1, 41)], "name", "MatchesAny", "{}*", ["a"])
@example(["a" * length for length in range(1, 41)], "name", "MatchesAny", "*{}", ["a", "aa"])
@example(["a" * length for length in range(1, 5)], "name", "In", "{}", ["a", "aa"])
@example([f"{'a' * 50}{one}" for one in range(40)], "name", "MatchesAny", "*[ab][!c]{}", PARTS)
def test_a_selection_calls_little_for_what_it_is_rated(
    names: list[str], key: str, operator: str, form: str, texts: list[str]
) -> None:
    """A call of Python takes as long as two steps and more."""
    residents = Residents()
    for number, name in enumerate(names):
        pod = Pod(id=PodId(f"{number}"), name=name)
        labels = {"app": name[::-1]} if number % 3 else {}
        residents.add(
            Container(id=ContainerId(f"{number}"), name=name[:63], labels=labels, pod=pod)
        )
    found = condition(key, operator, *(form.format(one) for one in texts))
    for subkey in parse_key(key).subkeys:
        # Found out once for all newcomers.
        residents.column(subkey)
    steps = Steps(1 << 30)
    selection = Selection(residents, steps)
    calls = count_calls(lambda: selection.select(found, residents.everyone))
    assert calls <= 40 + ((1 << 30) - steps.left) // 2


@given(st.text("ab[]!*?", max_size=8), st.text("ab", max_size=6))
@settings(deadline=None, max_examples=400)
def test_a_glob_agrees_with_fnmatch_where_both_understand(pattern: str, text: str) -> None:
    try:
        glob = compile_glob(pattern)
    except ValueError:
        return
    # fnmatch takes a ']' or a '!' at odd places as a member of the class.
    if "[]" in pattern or "[!]" in pattern:
        return
    assert glob.matches(text) is fnmatch.fnmatchcase(text, pattern)


RANGES = st.lists(st.tuples(st.sampled_from("abcdefé"), st.integers(0, 3)), min_size=1, max_size=4)


@given(RANGES, st.sampled_from(["", "!", "^"]), st.text("`abcdefghiéí/", min_size=1, max_size=9))
@settings(deadline=None, max_examples=400)
def test_a_class_has_the_members_of_its_ranges(
    ranges: list[tuple[str, int]], negation: str, text: str
) -> None:
    """However they overlap, and whatever else is in the automaton."""
    pairs = [(low, chr(ord(low) + more)) for low, more in ranges]
    members = "".join(low if low == high else f"{low}-{high}" for low, high in pairs)
    glob = compile_glob(f"*[{negation}{members}]*[b-d]z")
    expected = any(
        any(low <= one <= high for low, high in pairs) is not bool(negation) for one in text
    )
    assert glob.matches(f"{text}cz") is (expected and "/" not in text)


@given(TEXTS | st.text("ab-[]!^\\", max_size=12))
@settings(deadline=None, max_examples=400)
@example("[a-]")
@example("[a-]]")
@example("[]a]")
@example("[a\\]]")
@example("[!]")
@example("a" * 513)
def test_a_pattern_is_checked_as_it_is_compiled(pattern: str) -> None:
    def fault(read: Callable[[str], object]) -> tuple[object, ...] | None:
        try:
            read(pattern)
        except GlobError as error:
            return (*error.args, error.fix)
        return None

    assert fault(check_glob) == fault(compile_glob)


@given(TEXTS, TEXTS)
@settings(deadline=None)
def test_any_pattern_compiles_or_says_why(pattern: str, text: str) -> None:
    try:
        glob = compile_glob(pattern)
    except ValueError:
        return
    # Every character of a pattern but a star, a class or an escape needs one of the text.
    if not set(pattern) & set("*[]\\"):
        assert glob.matches(text) <= (len(text) == len(pattern))
    assert glob.matches(text) == glob.matches(text)


@given(st.text(max_size=40) | st.text(":,;/abdelmnops-", max_size=20))
@settings(deadline=None, max_examples=300)
def test_any_key_is_read_or_says_why(text: str) -> None:
    try:
        key = parse_key(text)
    except ValueError as error:
        what, fix = error.args
        assert what
        assert fix
    else:
        assert key.text == text
        assert key.subkeys


@given(st.text(max_size=80) | st.text("ab:-[]{}&*!|>'\"%@`#?,\n \t\\x0U", max_size=60))
@settings(deadline=None, max_examples=500)
@example("%YAML 99999999999999999999.1\n--- a")
@example('"\\UFFFFFFFF"')
@example("? [a]\n: b")
def test_any_yaml_is_read_or_says_why(text: str) -> None:
    try:
        documents = parse_documents(text)
    except TextError as error:
        documents = ()
        lines = text.splitlines() or [""]
        assert 0 <= error.line <= len(lines) + 1 + text.count("\x85")  # noqa: PT017 - both outcomes are good
    assert all(document.line >= 1 for document in documents)
