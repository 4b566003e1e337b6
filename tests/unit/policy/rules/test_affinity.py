from pathlib import Path

import pytest
import yaml

from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.rules.affinity import (
    affinity_rules,
    colocate_namespaces_rule,
    colocate_pods_rule,
    parse_affinity,
)
from pinfold.policy.rules.affinity_reader import MAX_FAULTS, MAX_RULES
from pinfold.policy.rules.affinity_rule import AffinityRule, same_pod
from pinfold.policy.rules.expression import (
    ALWAYS,
    MAX_EXPRESSIONS,
    MAX_PATTERN_CHARACTERS,
    Condition,
    condition,
)
from pinfold.policy.text.errors import Problem

PULL = "resource-policy.nri.io/affinity"
PUSH = "resource-policy.nri.io/anti-affinity"
GIVEN = Path(__file__).parents[5] / "shared/scenarios/given.yaml"


def pod(**annotations: str) -> Pod:
    return Pod(id=PodId("p-1"), name="meadow", namespace="north", annotations=annotations)


def read(text: str, key: str = PULL) -> tuple[dict[str, tuple[AffinityRule, ...]], list[Problem]]:
    rules, problems = parse_affinity({key: text}, pod())
    return dict(rules), list(problems)


def friends(text: str) -> dict[str, list[str]]:
    """The shorthand as it expands: for each container the names it has a rule towards."""
    rules, problems = read(text)
    assert not problems
    found: dict[str, list[str]] = {}
    for name, own in rules.items():
        for rule in own:
            assert rule.weight == 1
            assert rule.scope == same_pod(pod())
            assert isinstance(rule.match, Condition)
            assert rule.match.key is not None
            assert (rule.match.key.text, rule.match.operator.name) == ("name", "In")
            found.setdefault(name, []).extend(rule.match.values)
    return found


SHORTHAND: list[tuple[str, dict[str, list[str]]]] = [
    ("a: [b]", {"a": ["b"], "b": ["a"]}),
    ("a: [b, c]", {"a": ["b", "c"], "b": ["a"], "c": ["a"]}),
    ("a: [b]\nb: [c, d]", {"a": ["b"], "b": ["a", "c", "d"], "c": ["b"], "d": ["b"]}),
    # A pair counts once, whoever names it.
    ("a: [b]\nb: [a]", {"a": ["b"], "b": ["a"]}),
    ("a: [b, b]", {"a": ["b"], "b": ["a"]}),
    ("a:\n- b\n- 7", {"a": ["b", "7"], "b": ["a"], "7": ["a"]}),
    ("a: []", {}),
]


@pytest.mark.parametrize(("text", "expected"), SHORTHAND)
def test_the_shorthand_expands_both_ways(text: str, expected: dict[str, list[str]]) -> None:
    assert friends(text) == expected


def test_a_star_in_the_shorthand_is_everybody_of_the_pod_and_holds_both_ways() -> None:
    rules, problems = read('a: ["*"]')
    assert not problems
    ((name, (rule,)),) = rules.items()
    assert (name, rule.is_symmetric, rule.scope) == ("a", True, same_pod(pod()))


def test_given_affinity_annotations_are_read_as_expected() -> None:
    if not GIVEN.exists():
        pytest.skip(f"no {GIVEN}")
    scenarios = yaml.safe_load(GIVEN.read_text())["scenarios"]
    cases = next(one for one in scenarios if one["id"] == "unit-affinity-annotation")["cases"]
    for case in cases:
        expected = case["expect"]
        if not isinstance(expected, str):
            assert friends(case["value"]) == expected
        else:
            assert expected == "valid" or expected.startswith("invalid")
            assert bool(read(case["value"])[1]) is (expected != "valid")


def test_anti_affinity_pushes() -> None:
    rules, problems = read("wolf: [sheep]", PUSH)
    assert not problems
    assert [rule.weight for rule in rules["wolf"] + rules["sheep"]] == [-1, -1]


def test_the_full_syntax_says_scope_match_and_weight() -> None:
    text = """
peter:
- match: {key: name, operator: Equals, values: [sheep]}
  weight: 5
- scope: {key: pod/name, operator: Matches, values: ["red*"]}
  match: {any: [{key: labels/app, operator: Exists}, {operator: AlwaysTrue}]}
  symmetric: true
- wolf
"""
    rules, problems = read(text)
    assert not problems
    first, second, third = rules["peter"]
    assert first == AffinityRule(
        scope=condition("pod/id", "Equals", "p-1"),
        match=condition("name", "Equals", "sheep"),
        weight=5,
    )
    assert first.source == f"{PULL}:3"
    assert second.scope == condition("pod/name", "Matches", "red*")
    assert second.is_symmetric
    assert second.weight == 1
    assert third.match == condition("name", "In", "wolf")
    assert [rule.match for rule in rules["wolf"]] == [condition("name", "In", "peter")]


@pytest.mark.parametrize(
    ("written", "key", "weight", "has_problem"),
    [
        ("", PULL, 1, False),
        ("", PUSH, -1, False),
        ("0", PULL, 1, False),
        ("-0", PUSH, -1, False),
        ("7", PULL, 7, False),
        ("+7", PUSH, -7, False),
        ("-7", PULL, -7, False),
        ("-7", PUSH, 7, False),
        ("1000", PULL, 1000, False),
        ("1001", PULL, 1000, True),
        ("-1001", PULL, -1000, True),
        ("0999", PULL, 999, False),
        ("9" * 6000, PUSH, -1000, True),
    ],
)
def test_a_weight_is_a_number_within_bounds(
    written: str, key: str, weight: int, has_problem: bool
) -> None:
    rules, problems = read(f"a:\n- match: {{operator: AlwaysTrue}}\n  weight: {written}\n", key)
    assert [rule.weight for rule in rules["a"]] == [weight]
    faults = [problem for problem in problems if not problem.is_advice]
    assert bool(faults) is has_problem
    assert not any(problem.is_fatal for problem in problems)


def test_a_negative_weight_in_an_anti_affinity_pulls_as_ever_and_is_advised_against() -> None:
    text = "a:\n- match: {operator: AlwaysTrue}\n  weight: -7\n"
    rules, (advice,) = read(text, PUSH)
    assert [rule.weight for rule in rules["a"]] == [7]
    assert advice.is_advice
    assert (advice.what, advice.line) == ("the weight -7 in an anti-affinity pulls", 3)
    assert not read(text, PULL)[1]


@pytest.mark.parametrize("key", [PULL, PUSH])
@pytest.mark.parametrize(("written", "used"), [("2000", "1000"), ("-2000", "-1000")])
def test_a_weight_out_of_range_says_which_is_used(written: str, used: str, key: str) -> None:
    _, problems = read(f"a:\n- match: {{operator: AlwaysTrue}}\n  weight: {written}\n", key)
    (problem,) = [one for one in problems if not one.is_advice]
    assert problem.what == f"weight {written} is outside the range, {used} is used"


@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize("written", ["", "~", "null"])
def test_an_empty_symmetric_is_as_good_as_none(written: str, is_symmetric: bool) -> None:
    text = f"a:\n- match: {{operator: AlwaysTrue}}\n  symmetric: {written}\n"
    rules, problems = parse_affinity({PULL: text}, pod(), is_symmetric=is_symmetric)
    assert not problems
    assert [rule.is_symmetric for rule in rules["a"]] == [is_symmetric]


GOOD = "- match: {key: name, operator: Equals, values: [good]}\n"


@pytest.mark.parametrize(
    ("bad", "line", "column", "what", "fix"),
    [
        ("- scope: {operator: AlwaysTrue}", 3, 3, "a rule without match", "write match"),
        (
            "- scope:\n  key: name\n  operator: Exists\n  match: {operator: AlwaysTrue}",
            4,
            3,
            "unknown fields 'key', 'operator' in a rule",
            "indent them further than 'scope'",
        ),
        ("- mach: {operator: AlwaysTrue}", 3, 3, "'mach'", "did you mean 'match'?"),
        ("- match: {operator: AlwaysTrue}\n  weight: 1.5", 4, 11, "not a whole number", "write"),
        ("- match: {operator: AlwaysTrue}\n  weight: '5'", 4, 11, "not a whole number", "write"),
        ("- match: {operator: AlwaysTrue}\n  weight: [5]", 4, 11, "not a whole number", "write"),
        ("- match: {operator: AlwaysTrue}\n  symmetric: yes", 4, 14, "neither true", "write"),
        ("- match: {operator: Sometimes}", 3, 21, "unknown operator 'Sometimes'", "one of"),
        ("- scope: all\n  match: {operator: AlwaysTrue}", 3, 10, "not an expression", "write"),
        ("- [wolf]", 3, 3, "not a rule", "write {match"),
        ("- ''", 3, 3, "an empty container name", "name a container"),
        ("- ", 3, 2, "an empty container name", "name a container"),
        ("- peter", 3, 3, "a rule towards itself", "name another"),
    ],
)
def test_a_bad_rule_is_reported_and_the_others_stay(
    bad: str, line: int, column: int, what: str, fix: str
) -> None:
    rules, (problem,) = read(f"peter:\n{GOOD}{bad}\n{GOOD}")
    assert len(rules["peter"]) == 2
    assert problem.where == f"{PULL} of north/meadow/peter"
    assert problem.container == "peter"
    assert (problem.line, problem.column) == (line, column)
    assert what in problem.what
    assert fix in problem.fix


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "not a mapping"),
        ("sheep", 1, "not a mapping"),
        ("- a", 1, "not a mapping"),
        ("a: sheep", 1, "not a list"),
        ("a: {b: [c]}", 1, "not a list"),
        ("a: [b]\na: [c]", 2, "'a' is given twice"),
        ("a: [b\n", 2, "not valid YAML"),
        ("a: [b]\n\tc: d", 2, "not valid YAML"),
        ("a: &x [b]", 1, "anchor 'x' is not allowed"),
        ("a: *x", 1, "alias 'x' is not allowed"),
        ("a: !!set [b]", 1, "tag"),
        ("[a]: [b]", 1, "a key that is a list"),
        ("a: [b]\n---\nc: [d]", 3, "a second YAML document"),
        ("[" * 40000, 1, "nested deeper than 16 levels"),
        ("a: " + "{all: [" * 10 + "b", 1, "nested deeper"),
        ("x" * 70000, 0, "70000 characters of text"),
        ("a: [" + "b, " * 9000 + "]", 1, "more than 2816 values"),
        ("a: \udc80", 1, "not valid YAML"),
        ("a: \x00", 1, "not valid YAML"),
    ],
)
def test_a_text_that_is_no_affinity(text: str, line: int, what: str) -> None:
    rules, (problem,) = read(text)
    assert not rules
    assert problem.container in ("", "a")
    assert problem.line == line
    assert what in problem.what


def test_an_annotation_has_a_limited_number_of_rules() -> None:
    rules, (problem,) = read("a:\n" + GOOD * (MAX_RULES + 5) + "b: [c]\n")
    assert len(rules["a"]) == MAX_RULES
    assert "b" not in rules
    assert "too many rules" in problem.what


def test_patterns_that_are_read_one_by_one_are_limited() -> None:
    pattern = "[a-z]" * 100
    bad = f"- match: {{key: name, operator: Matches, values: ['{pattern}']}}\n"
    rules, (problem,) = read("a:\n" + bad * 17 + GOOD)
    assert len(rules["a"]) == 17
    assert f"more than {MAX_PATTERN_CHARACTERS} characters" in problem.what


def test_the_expressions_of_a_pod_are_limited() -> None:
    terms = ", ".join(["{operator: AlwaysTrue}"] * 200)
    rules, (problem,) = read("a:\n" + f"- match: {{all: [{terms}]}}\n" * 3)
    assert len(rules["a"]) == 2
    assert f"more than {MAX_EXPRESSIONS} expressions" in problem.what


def test_what_is_superfluous_beside_always_true_is_advice_and_the_rule_stays() -> None:
    text = "a:\n- match: {key: nmae, operator: AlwaysTrue, values: [b]}\n"
    rules, problems = read(text)
    assert [rule.match for rule in rules["a"]] == [ALWAYS]
    assert {(one.what, one.is_advice) for one in problems} == {
        ("'key' has no effect beside AlwaysTrue", True),
        ("'values' has no effect beside AlwaysTrue", True),
    }
    assert not read("a:\n- match: {key: , operator: AlwaysTrue, values: []}\n")[1]


def test_an_annotation_full_of_faults_is_given_up() -> None:
    faulty = "".join(f"- {{macth{number}: x}}\n" for number in range(100))
    rules, problems = read("a:\n" + GOOD + faulty + "b: [c]\n" + "".join("d: x\n"))
    assert (list(rules), len(rules["a"])) == (["a"], 1)
    assert len(problems) == MAX_FAULTS + 1
    assert f"more than {MAX_FAULTS} faults, the rest is left out" in problems[-1].what


def test_containers_full_of_faults_are_given_up() -> None:
    _, problems = read("".join(f"c{number}: x\n" for number in range(100)))
    assert len(problems) == MAX_FAULTS + 1


def test_the_domains_and_which_one_counts() -> None:
    for domain in ("pinfold.dev", "resource-policy.nri.io", "cri-resource-manager.intel.com"):
        assert "a" in read("a: [b]", f"{domain}/affinity")[0]
    texts = {"cri-resource-manager.intel.com/affinity": "a: [b]", PULL: "c: [d]", PUSH: "e: [f]"}
    rules, (problem,) = parse_affinity(texts, pod())
    assert set(rules) == {"c", "d", "e", "f"}
    assert problem.where == "cri-resource-manager.intel.com/affinity of north/meadow"
    assert PULL in problem.what


def container(annotations: dict[str, str]) -> Container:
    owner = Pod(id=PodId("p-1"), name="meadow", namespace="north", annotations=annotations)
    return Container(id=ContainerId("c"), name="a", pod=owner)


def test_implicit_rules_are_for_containers_without_own_rules() -> None:
    plain, rich = container({}), container({PULL: "a: [b]"})
    both, problems = affinity_rules(plain, colocate_pods=True, colocate_namespaces=True)
    assert both == (colocate_pods_rule(plain.pod), colocate_namespaces_rule(plain.pod))
    assert not problems
    assert affinity_rules(plain)[0] == ()
    (own,) = affinity_rules(rich, colocate_pods=True, colocate_namespaces=True)[0]
    assert own.match == condition("name", "In", "b")
    pods, namespaces = both
    assert (pods.scope, pods.match, pods.weight) == (same_pod(plain.pod), ALWAYS, 10)
    assert namespaces.match == condition("namespace", "Equals", "north")
    assert (namespaces.scope, namespaces.weight) == (ALWAYS, 10)


def test_symmetry_of_all_full_rules_can_be_configured() -> None:
    text = (
        "a:\n- match: {operator: AlwaysTrue}\n"
        "- match: {operator: AlwaysTrue}\n  symmetric: false\n- b\n"
    )
    rules, _ = affinity_rules(container({PULL: text}), is_symmetric=True)
    # The shorthand has a rule on both sides already; symmetry would count the pair twice.
    assert [rule.is_symmetric for rule in rules] == [True, False, False]


def test_pods_of_one_workload_share_texts_but_neither_rules_nor_problems() -> None:
    text = 'a:\n- match: {operator: AlwaysTrue}\n- b\nbad: 1\n"\\0": 2\n'
    found: dict[str, tuple[str, ...]] = {}
    for name in ("meadow-1", "meadow-2"):
        owner = Pod(id=PodId(f"id-{name}"), name=name, namespace="north", annotations={PULL: text})
        rules, problems = affinity_rules(Container(id=ContainerId("c"), name="a", pod=owner))
        assert [one.scope for one in rules] == [same_pod(owner)] * 2
        assert rules == parse_affinity(owner.annotations, owner)[0]["a"]
        found[name] = tuple(one.where for one in problems)
    assert found == {
        name: (f"{PULL} of north/{name}/bad", f"{PULL} of north/{name}/\0")
        for name in ("meadow-1", "meadow-2")
    }
