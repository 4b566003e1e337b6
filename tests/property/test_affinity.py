import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.rules import affinity_index, symmetric_rules
from pinfold.policy.rules.affinity import parse_affinity
from pinfold.policy.rules.affinity_index import AffinityIndex
from pinfold.policy.rules.affinity_rule import MAX_WEIGHT, AffinityRule
from pinfold.policy.rules.expression import (
    ALWAYS,
    AllOf,
    AnyOf,
    Expression,
    Not,
    condition,
    evaluate,
)
from pinfold.policy.rules.operators import OPERATORS, Arity
from tests.unit.policy.rules.matching import matching

NAMES = st.sampled_from(["a", "b", "ab", "*"])
LABELS = st.dictionaries(st.sampled_from(["app", "x/y"]), st.sampled_from(["", "a", "b"]))
KEYS = st.sampled_from(
    [
        "id",
        "name",
        "namespace",
        "qosclass",
        "labels/app",
        "labels/x/y",
        "labels/io.kubernetes.container.name",
        "tags/app",
        "pod/id",
        "pod/uid",
        "pod/name",
        "pod/labels/app",
        ":name:labels/app",
        ":,/pod/id,tags/app",
    ]
)
VALUES = st.sampled_from(["", "a", "b", "ab", "c1", "p1", "p2", "*", "a*", "?", "Burstable", "a:"])


@st.composite
def conditions(draw: st.DrawFn) -> Expression:
    operator = OPERATORS[draw(st.sampled_from(sorted(OPERATORS)))]
    low, high = {Arity.NONE: (0, 0), Arity.ONE: (1, 1), Arity.SOME: (1, 3)}[operator.arity]
    values = draw(st.lists(VALUES, min_size=low, max_size=high))
    return condition(draw(KEYS), operator.name, *values)


EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    st.just(ALWAYS) | conditions(),
    lambda terms: (
        st.builds(AllOf, st.lists(terms, max_size=3).map(tuple))
        | st.builds(AnyOf, st.lists(terms, max_size=3).map(tuple))
        | st.builds(Not, terms)
    ),
    max_leaves=5,
)
RULES = st.lists(
    st.builds(
        AffinityRule,
        scope=EXPRESSIONS,
        match=EXPRESSIONS,
        weight=st.integers(-3, 3).filter(bool),
        is_symmetric=st.booleans(),
    ),
    max_size=4,
).map(tuple)
CONTAINERS = st.builds(
    Container,
    id=st.integers(0, 40).map(lambda number: ContainerId(f"c{number}")),
    name=NAMES,
    labels=LABELS,
    tags=LABELS,
    pod=st.builds(
        Pod,
        id=st.sampled_from([PodId("p1"), PodId("p2"), PodId("p3")]),
        name=NAMES,
        namespace=NAMES,
        uid=st.sampled_from(["", "a"]),
        labels=LABELS,
        qos=st.sampled_from(QosClass),
    ),
)
RESIDENTS = st.lists(st.tuples(CONTAINERS, RULES), max_size=30)


def naive(
    residents: dict[ContainerId, tuple[Container, tuple[AffinityRule, ...]]],
    newcomer: Container,
    rules: tuple[AffinityRule, ...],
) -> dict[ContainerId, int]:
    """The definition: every rule tried on every container."""
    totals: dict[ContainerId, int] = {}
    for other, own in residents.values():
        is_instance = (other.pod.id, other.name) == (newcomer.pod.id, newcomer.name)
        if other.id == newcomer.id or is_instance:
            continue
        total = sum(
            rule.weight
            for rule in rules
            if evaluate(rule.scope, other) and evaluate(rule.match, other)
        )
        total += sum(
            rule.weight
            for rule in own
            if rule.is_symmetric
            and evaluate(rule.scope, newcomer)
            and evaluate(rule.match, newcomer)
        )
        if total:
            totals[other.id] = total
    return totals


@settings(max_examples=250, deadline=None)
@given(RESIDENTS, st.sets(st.integers(0, 40)), CONTAINERS, RULES)
def test_the_index_agrees_with_the_definition(
    arrivals: list[tuple[Container, tuple[AffinityRule, ...]]],
    leaving: set[int],
    newcomer: Container,
    rules: tuple[AffinityRule, ...],
) -> None:
    index = AffinityIndex()
    residents: dict[ContainerId, tuple[Container, tuple[AffinityRule, ...]]] = {}
    for other, own in arrivals:
        index.add(other, own)
        residents[other.id] = (other, own)
    assert index.weights(newcomer) == naive(residents, newcomer, ())
    for number in leaving:
        index.remove(ContainerId(f"c{number}"))
        residents.pop(ContainerId(f"c{number}"), None)
    assert index.weights(newcomer, rules) == naive(residents, newcomer, rules)
    for rule in rules:
        expected = {one.id for one, _ in residents.values() if evaluate(rule.match, one)}
        assert matching(index, rule.match) == expected


DEAR = AffinityRule(
    scope=ALWAYS,
    match=AnyOf(tuple(condition("name", "Equals", f"{one}") for one in (*range(60), "a"))),
    weight=2,
    is_symmetric=True,
)
"""A rule for which its owner is filed at once."""


def with_id(container: Container, container_id: str) -> Container:
    return replace(container, id=ContainerId(container_id))


Event = tuple[str, Container, tuple[AffinityRule, ...]]
FEW: st.SearchStrategy[Container] = st.builds(with_id, CONTAINERS, st.sampled_from("01234"))
KEPT: st.SearchStrategy[tuple[AffinityRule, ...]] = RULES | RULES.map(lambda some: (*some, DEAR))
EVENTS: st.SearchStrategy[list[Event]] = st.lists(
    st.tuples(st.sampled_from(("add", "add", "remove", "ask", "look", "file")), FEW, KEPT),
    max_size=16,
)


@pytest.mark.parametrize("has_time", [True, False])
def test_what_was_asked_and_filed_before_changes_no_answer(
    monkeypatch: pytest.MonkeyPatch, *, has_time: bool
) -> None:
    """Nor, for somebody who is not there, which rules are given up where there is little time."""
    if not has_time:
        for name, steps in (("RULE_STEPS", 150), ("NEWCOMER_RULES_STEPS", 400)):
            monkeypatch.setattr(affinity_index, name, steps)
        for name, steps in (("NEWCOMER_STEPS", 150), ("STEPS_PER_OWNER", 20)):
            monkeypatch.setattr(symmetric_rules, name, steps)
    given_up = list[bool]()

    @settings(max_examples=200, deadline=None)
    @given(EVENTS)
    def law(events: list[Event]) -> None:
        index = AffinityIndex()
        residents: dict[ContainerId, tuple[Container, tuple[AffinityRule, ...]]] = {}
        for what, one, some in events:
            rules = () if what == "look" else some
            if what in ("add", "remove"):
                residents.pop(one.id, None)
            if what == "add":
                residents[one.id] = one, rules
                index.add(one, rules)
            elif what == "remove":
                index.remove(one.id)
            elif what == "file":
                index.file()
            elif has_time:
                assert index.weights(one, rules) == naive(residents, one, rules)
            elif one.id not in residents:
                anew = AffinityIndex()
                for each in residents.values():
                    anew.add(*each)
                found = index.affinities(one, rules)
                given_up.append(not found.is_whole)
                assert found == anew.affinities(one, rules)
            assert len(index) == len(residents)

    law()
    assert has_time or {*given_up} == {True, False}


@settings(max_examples=60, deadline=None)
@given(RESIDENTS, CONTAINERS)
def test_an_emptied_index_keeps_nothing(
    arrivals: list[tuple[Container, tuple[AffinityRule, ...]]], newcomer: Container
) -> None:
    index = AffinityIndex()
    for other, own in arrivals:
        index.add(other, own)
    index.weights(newcomer)
    for other, _ in arrivals:
        index.remove(other.id)
    assert index.is_empty


POD = Pod(id=PodId("p1"), name="meadow")
WORDS = st.sampled_from(
    [
        "a", "b", ":", "\n", "- ", "  ", "[", "]", "{", "}", ", ", ": ", "match", "scope", "key",
        "operator", "values", "weight", "all", "any", "not", "Equals", "Matches", "*", "&x ", "'",
        '"', "\\", "|\n", "!!str ", "#", "---\n", "0", "-", "symmetric", "true", "\t", "%", "?",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=60) | st.lists(WORDS, max_size=40).map("".join))
def test_any_text_gives_rules_or_problems_inside_it(text: str) -> None:
    rules, problems = parse_affinity({"resource-policy.nri.io/affinity": text}, POD)
    for own in rules.values():
        assert own
        assert all(1 <= abs(rule.weight) <= MAX_WEIGHT for rule in own)
    for problem in problems:
        assert not problem.is_fatal
        assert problem.what
        assert 0 <= problem.line <= text.count("\n") + text.count("\r") + 2 + len(text)


NAMES_OF_FRIENDS = st.lists(st.sampled_from([*"abcdef", "'*'"]), max_size=4)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from([*"abcdef", "'*'"]), NAMES_OF_FRIENDS, max_size=5))
def test_shorthand_makes_every_pair_mutual_and_counts_it_once(
    friends: dict[str, list[str]],
) -> None:
    text = "\n".join(f"{name}: [{', '.join(others)}]" for name, others in friends.items()) or "{}"
    rules, _ = parse_affinity({"resource-policy.nri.io/affinity": text}, POD)
    everyone = {name: Container(id=ContainerId(name), name=name, pod=POD) for name in "abcdefg"}
    pairs = {
        frozenset((a, b))
        for name, others in friends.items()
        for other in others
        if name != other
        for a in (everyone if name == "'*'" else (name,))
        for b in (everyone if other == "'*'" else (other,))
        if a != b
    }
    for first in everyone.values():
        index = AffinityIndex()
        index.add(first, rules.get(first.name, ()))
        for second in everyone.values():
            is_pair = frozenset((first.name, second.name)) in pairs and first != second
            expected = {first.id: 1} if is_pair else {}
            assert index.weights(second, rules.get(second.name, ())) == expected
