"""What affinity rules cost, counted in steps; how long anything takes is nobody's concern."""

import string
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pytest
from msgspec.structs import replace

from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.rules import symmetric_rules
from pinfold.policy.rules.affinity_index import (
    NEWCOMER_RULES_STEPS,
    RULE_STEPS,
    AffinityIndex,
)
from pinfold.policy.rules.affinity_reader import MAX_RULES
from pinfold.policy.rules.affinity_rule import AffinityRule
from pinfold.policy.rules.container_facts import Subkey, facts
from pinfold.policy.rules.evaluation import Steps, TooManyStepsError, holds
from pinfold.policy.rules.expression import ALWAYS, AllOf, AnyOf, Expression, Not, condition
from pinfold.policy.rules.residents import Residents
from pinfold.policy.rules.selection import Selection
from pinfold.policy.rules.symmetric_rules import (
    OWNER_STEPS,
    TRIGGERS_MADE_MAX,
    TRIGGERS_MAX,
    SymmetricRules,
)
from pinfold.policy.rules.trigger import (
    Background,
    background,
    background_value,
    triggers_made,
)
from pinfold.policy.text.glob_set import GlobSet
from tests.unit.counted_calls import count_calls

JOINT = ":" + ":".join(["pod/name"] * 16)


def container(number: int, name_length: int = 30) -> Container:
    name = "a" * (name_length - 5) + f"{number:05}"
    pod = Pod(id=PodId(f"p{number}"), name=name, namespace=f"team-{number % 8}")
    return Container(id=ContainerId(f"c{number}"), name="main", pod=pod)


def rule(
    match: Expression, weight: int = 1, *, symmetric: bool = False, source: str = "affinity:1"
) -> AffinityRule:
    return AffinityRule(
        scope=ALWAYS, match=match, weight=weight, is_symmetric=symmetric, source=source
    )


def index(count: int, rules: Iterable[AffinityRule] = ()) -> AffinityIndex:
    made, own = AffinityIndex(), tuple(rules)
    for number in range(count):
        made.add(container(number), own)
    return made


NEWCOMER = container(9999)
PRODUCT = [
    rule(condition(JOINT, "MatchesAny", *(f"*{n}*a*" for n in range(249))), weight + 1)
    for weight in range(25)
]


def test_rules_whose_parts_multiply_are_given_up_and_the_others_count() -> None:
    good = rule(condition("namespace", "Equals", "team-1"), 7)
    found = index(110).affinities(NEWCOMER, (*PRODUCT, good))
    assert found.given_up == tuple(PRODUCT)
    assert set(found.weights.values()) == {7}
    (problem,) = found.problems(NEWCOMER)
    assert problem.is_advice
    assert problem.what.startswith("25 rules would take too long")
    assert problem.what.endswith(", ...")


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(":namespace:pod/name", id="joint keys"),
        pytest.param("pod/name", id="single keys"),
    ],
)
@pytest.mark.parametrize(
    ("operator", "text"),
    [
        pytest.param("Equals", "team-1:aaaaaaaaaaaaaaaaaaaaaaaaa{:05}", id="whole values"),
        pytest.param("Matches", "*{:03}", id="ends"),
        pytest.param("Matches", "team-1:*", id="begins"),
        pytest.param("MatchesNot", "*{:03}", id="other ends"),
    ],
)
def test_as_many_ordinary_rules_as_there_may_be_all_count(
    key: str, operator: str, text: str
) -> None:
    rules = [rule(condition(key, operator, text.format(n)), n + 1) for n in range(MAX_RULES)]
    assert not index(1000).affinities(NEWCOMER, rules).given_up


def test_what_is_given_up_depends_on_rules_and_containers_alone() -> None:
    rules = [rule(condition("pod/name", "Matches", f"*{n}?*[0-9]"), n + 1) for n in range(40)]
    fresh, used = index(500), index(500)
    used.affinities(NEWCOMER, rules[20:])
    for number in range(0, 500, 3):
        used.remove(ContainerId(f"c{number}"))
        used.add(container(number))
    first, second = fresh.affinities(NEWCOMER, rules), used.affinities(NEWCOMER, rules)
    assert first == second
    assert first == fresh.affinities(NEWCOMER, rules)
    assert 0 < len(first.given_up) < len(rules)


@pytest.mark.parametrize(
    "match",
    [
        pytest.param(condition(JOINT, "Matches", "*a*b*c"), id="patterns over long joint texts"),
        pytest.param(condition("pod/name", "Matches", "*?" * 200), id="patterns of many stars"),
        pytest.param(condition("pod/name", "Matches", f"*{'a' * 250}*"), id="long parts"),
        pytest.param(condition(JOINT, "Matches", "b*"), id="long joint keys"),
    ],
)
def test_a_selection_takes_no_more_steps_than_it_is_given(match: Expression) -> None:
    residents = Residents()
    for number in range(1000):
        residents.add(container(number, name_length=253))
    with pytest.raises(TooManyStepsError):
        Selection(residents, Steps(RULE_STEPS)).select(match, residents.everyone)
    steps = Steps(10**9)
    Selection(residents, steps).select(match, residents.everyone)
    assert steps.left < 10**9 - RULE_STEPS


def test_the_longer_texts_are_the_more_steps_their_ends_take() -> None:
    taken: list[int] = []
    for length in (20, 250):
        residents = Residents()
        for number in range(100):
            residents.add(container(number, name_length=length))
        steps = Steps(10**9)
        match = condition("pod/name", "MatchesAny", "*7", "?*8")
        Selection(residents, steps).select(match, residents.everyone)
        taken.append(10**9 - steps.left)
    assert taken[1] - taken[0] > 100 * 230 // 32


def test_a_joint_key_for_which_there_is_no_time_is_not_joined_to_its_end() -> None:
    residents = Residents()
    for number in range(300):
        residents.add(container(number, name_length=253))
    steps = Steps(40_000)
    with pytest.raises(TooManyStepsError):
        Selection(residents, steps).select(condition(JOINT, "Matches", "b*"), residents.everyone)
    assert not steps.left
    assert not vars(residents)["_joint"]


def test_whether_a_joint_key_has_a_value_is_known_without_joining_any() -> None:
    residents = Residents()
    for number in range(1000):
        residents.add(container(number, name_length=253))
    steps = Steps(1000)
    selection = Selection(residents, steps)
    assert selection.select(condition(JOINT, "Exists"), residents.everyone) == residents.everyone
    missing = condition(":labels/a:tags/b", "Exists")
    assert selection.select(missing, residents.everyone) == 0
    assert steps.left > 0


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(
            [
                rule(
                    condition("name", "In", *(f"{n}-{one}" for one in range(240))),
                    1,
                    symmetric=True,
                )
                for n in range(20)
            ],
            id="rules of many values",
        ),
        pytest.param(
            [
                rule(
                    AnyOf(tuple(condition("name", "In", f"{n}") for n in range(5000))),
                    1,
                    symmetric=True,
                )
            ],
            id="a rule of many terms",
        ),
        pytest.param(
            [
                rule(
                    AllOf(
                        (
                            condition("name", "Equals", f"{n}"),
                            AnyOf(tuple(condition("name", "In", f"{one}") for one in range(600))),
                        )
                    ),
                    1,
                    symmetric=True,
                )
                for n in range(8)
            ],
            id="rules of which few triggers are kept",
        ),
    ],
)
def test_no_more_triggers_are_made_than_are_looked_for(
    rules: list[AffinityRule], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    def counted(expression: Expression) -> Background:
        nonlocal made
        made += triggers_made(expression)
        return background(expression)

    # The work alone is counted: what is made of it stays the same.
    monkeypatch.setattr(symmetric_rules, "background", counted)
    index = SymmetricRules()
    index.add(ContainerId("c"), rules)
    assert 0 <= made <= TRIGGERS_MADE_MAX
    kept = vars(index)["_groups"]
    assert sum(len(group.background.triggers) for group in kept.values()) <= (
        TRIGGERS_MAX + len(rules)
    )
    index.remove(ContainerId("c"))
    assert index.is_empty


@pytest.mark.parametrize(
    "expression",
    [
        condition("name", "In", "a", "b"),
        Not(condition("name", "NotIn", "a")),
        AllOf((condition("name", "NotEqual", "a"), condition(JOINT, "NotExists"))),
        AnyOf((condition("name", "Equals", "a"), ALWAYS)),
        AllOf((Not(AnyOf((condition("name", "Exists"),))), ALWAYS)),
    ],
    ids=str,
)
def test_the_value_of_a_background_alone_is_that_of_the_whole(expression: Expression) -> None:
    assert background_value(expression) == background(expression).value
    assert len(background(expression).triggers) <= triggers_made(expression)


def test_a_condition_of_many_rules_is_looked_at_once() -> None:
    residents = Residents()
    for number in range(500):
        residents.add(container(number))
    steps = Steps(NEWCOMER_RULES_STEPS)
    selection = Selection(residents, steps)
    match = condition("pod/name", "Matches", "*?7")
    selection.select(match, residents.everyone)
    before = steps.left
    selection.select(condition("pod/name", "Matches", "*?7"), residents.everyone)
    assert before - steps.left < 10


def test_symmetric_rules_cost_a_newcomer_only_where_they_could_match() -> None:
    made = AffinityIndex()
    for number in range(1000):
        rules = [
            rule(condition("pod/name", "Matches", f"*x{number}-{n}"), 2, symmetric=True)
            for n in range(4)
        ]
        rules += [
            rule(condition(":namespace:name", "NotEqual", f"n{number}:x{n}"), 3, symmetric=True)
            for n in range(4)
        ]
        made.add(container(number), rules)
    found = made.affinities(NEWCOMER)
    assert found.is_whole
    assert set(found.weights.values()) == {12}
    assert len(found.weights) == 1000


def test_where_symmetric_rules_are_too_many_the_first_of_each_container_count() -> None:
    made = AffinityIndex()
    for number in range(300):
        rules = [
            rule(condition("pod/name", "Matches", f"*a*{number % 10}*?"), 1, symmetric=True)
            if number % 2 == 0 and n
            else rule(condition("name", "MatchesAny", "m*", f"{number}-{n}"), 100, symmetric=True)
            for n in range(16)
        ]
        made.add(container(number), rules)
    found = made.affinities(NEWCOMER)
    assert not found.are_all_symmetric
    assert all(weight >= 100 for weight in found.weights.values())
    assert len(found.weights) == 300
    (problem,) = found.problems(NEWCOMER)
    assert problem.is_advice
    # In another order of arrival the same.
    again = AffinityIndex()
    for number in reversed(range(300)):
        again.add(container(number))
    assert again.affinities(NEWCOMER).is_whole


def test_a_hog_of_symmetric_rules_does_not_silence_the_others() -> None:
    made = index(50, [rule(condition("name", "MatchesAny", "m*"), 5, symmetric=True)])
    hog = [
        rule(condition(JOINT, "Matches", f"*a*{n}*"), 9, symmetric=True) for n in range(MAX_RULES)
    ]
    made.add(container(100), hog)
    found = made.affinities(NEWCOMER)
    assert {found.weights[ContainerId(f"c{number}")] for number in range(50)} == {5}
    assert found.weights.get(ContainerId("c100"), 0) < 10 * 9


def test_steps_of_one_container_are_counted_too() -> None:
    known = facts(NEWCOMER)
    match = condition(JOINT, "Matches", "*a*b*c*d*e")
    with pytest.raises(TooManyStepsError):
        holds(match, known, Steps(100))
    assert holds(match, known, Steps(OWNER_STEPS)) is False


def test_rules_for_which_there_is_no_time_are_not_even_counted() -> None:
    made = AffinityIndex()
    name = NEWCOMER.pod.name
    for number in range(400):
        rules = [
            rule(condition("pod/name", "In", name, f"x{number}-{n}"), n + 1, symmetric=True)
            for n in range(50)
        ]
        made.add(container(number), rules)
    made.file()
    looks, are_all, _ = looked_at(made)
    assert not are_all
    assert 400 <= looks < 3000


K = TypeVar("K")
V = TypeVar("V")


class Watched(dict[K, V]):
    """A dictionary that counts what is gone through."""

    visits = 0

    def __iter__(self) -> Iterator[K]:
        self.visits += len(self)
        return super().__iter__()

    def keys(self) -> list[K]:  # type: ignore[override]  # dict_keys would not count
        return [*self]

    def items(self) -> list[tuple[K, V]]:  # type: ignore[override]  # as above
        return [(key, self[key]) for key in self]


def looked_at(made: AffinityIndex) -> tuple[int, bool, int]:
    """Rules that are gone through for a newcomer, whether these are all, and weights added.

    What is gone through without an evaluation leaves no other trace.
    """
    made.file()
    rules = vars(made)["_symmetric"]
    weights: list[Watched[ContainerId, int]] = []
    for group in rules._groups.values():
        group.weights = Watched(group.weights)
        weights.append(group.weights)
    looks: list[Watched[int, object]] = []
    for buckets in rules._by_value.values():
        for bucket in buckets.values():
            bucket.groups = {level: Watched(some) for level, some in bucket.groups.items()}
            looks += bucket.groups.values()
    found = made.affinities(NEWCOMER)
    added = sum(one.visits for one in weights)
    return sum(one.visits for one in looks), found.are_all_symmetric, added


def _values(number: int, one: int) -> Expression:
    return condition("name", "In", *(f"{number}-{one}-{value}" for value in range(240)))


def _joint(number: int, one: int) -> Expression:
    return condition(f":name:labels/x{number}-{one}", "Exists")


def _the_same(_: int, one: int) -> Expression:
    return condition("name", "In", "main", f"{one}")


@pytest.mark.parametrize("count", [30, 200])
@pytest.mark.parametrize(
    ("match", "rules"),
    [
        pytest.param(_values, 20, id="rules of more values than they are found by"),
        pytest.param(_joint, MAX_RULES, id="rules about two facts, of which the newcomer has one"),
        pytest.param(_the_same, MAX_RULES, id="the same rules of all"),
    ],
)
def test_hostile_rules_of_many_containers_cost_a_newcomer_little(
    match: Callable[[int, int], Expression], rules: int, count: int
) -> None:
    made = AffinityIndex()
    for number in range(count):
        own = [rule(match(number, one), one + 1, symmetric=True) for one in range(rules)]
        made.add(container(number), own)
    looks, _, added = looked_at(made)
    assert looks <= 2 * count + 150
    assert added <= max(2000, 14 * count)


def test_patterns_for_which_there_is_no_time_are_not_compiled() -> None:
    patterns = [f"*{one:x}?{'a' * 60}?*" for one in range(240)]
    match = condition("pod/name", "MatchesAny", *patterns)
    made = index(1, [rule(match, symmetric=True)])
    made.file()
    assert vars(made)["_symmetric"].is_empty
    assert isinstance(match.test, GlobSet)
    assert not match.test.is_compiled


class Label(str):
    """A label's key that counts how often somebody looks for it, or files something under it."""

    __slots__ = ()
    hashes = 0

    def __hash__(self) -> int:
        Label.hashes += 1
        return super().__hash__()


@pytest.mark.parametrize(
    "match",
    [
        pytest.param(condition("pod/name", "Matches", "*?7"), id="a fact that all have"),
        pytest.param(condition(":pod/name:name", "Matches", "*7:m*"), id="a joint key"),
        pytest.param(
            AllOf((condition("id", "In", "c1", "c2"), condition("pod/name", "Matches", "*?7"))),
            id="a fact of two containers",
        ),
    ],
)
def test_what_nobody_asks_for_is_not_looked_at(match: Expression) -> None:
    made = AffinityIndex()
    for number in range(20):
        made.add(replace(container(number), labels={Label(f"k{one}"): "v" for one in range(100)}))
    made.file()
    Label.hashes = 0
    made.affinities(NEWCOMER, [rule(match)])
    assert Label.hashes == 0


def test_the_first_text_of_a_pattern_of_many_classes_costs_as_little_as_the_next_one() -> None:
    letters = string.ascii_lowercase + string.digits
    of_two = [f"[{one}{other}]" for one in letters for other in letters]
    patterns = tuple("*" + "".join(of_two[at : at + 100]) for at in range(0, len(of_two), 100))
    globs = GlobSet(patterns)
    assert globs.automata
    calls = count_calls(lambda: globs(letters))
    assert calls < 2 * count_calls(lambda: GlobSet(("*?",))(letters)) * len(globs.automata) + 50


@pytest.mark.parametrize(
    ("rules", "is_filed"),
    [
        pytest.param((), False, id="none"),
        pytest.param(
            [rule(_the_same(0, one), symmetric=True) for one in range(4)], False, id="few"
        ),
        pytest.param([rule(_the_same(0, one)) for one in range(MAX_RULES)], False, id="its own"),
        pytest.param([rule(_values(0, 0), symmetric=True)], True, id="one of many values"),
        pytest.param(
            [rule(_joint(0, one), symmetric=True) for one in range(MAX_RULES)], True, id="many"
        ),
    ],
)
def test_whoever_has_many_symmetric_rules_is_filed_before_the_next_one_comes(
    rules: list[AffinityRule], *, is_filed: bool
) -> None:
    made = AffinityIndex()
    made.add(container(1), rules)
    assert bool(vars(made)["_unfiled"]) is not is_filed


def test_a_fact_that_nobody_has_is_looked_for_once() -> None:
    residents, uid = Residents(), Subkey("pod/uid")
    for number in range(50):
        residents.add(container(number))
    assert residents.column(uid).by_value == {}
    assert count_calls(lambda: residents.column(uid)) < 5
    later = replace(container(50), pod=replace(container(50).pod, uid="u50"))
    residents.add(later)
    assert residents.column(uid).by_value == {"u50": residents.place(later.id)}
    for number in range(51):
        residents.remove(ContainerId(f"c{number}"))
    assert residents.is_empty
