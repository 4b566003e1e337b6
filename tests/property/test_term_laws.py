"""Laws of terms: indexes find exactly the containers and the rules that `Term.matches` says."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.model.selector_operator import LabelOperator
from pinfold.policy.rules.podaffinity.label_selector import (
    LabelRequirement,
    LabelSelector,
)
from pinfold.policy.rules.podaffinity.namespace_scope import NamespaceLabels, NamespaceScope
from pinfold.policy.rules.podaffinity.rule_set import (
    PlacementRules,
    PreferredTerm,
    RequiredTerm,
    SpreadRule,
)
from pinfold.policy.rules.podaffinity.standing_rules import StandingRules
from pinfold.policy.rules.podaffinity.term import Term
from pinfold.policy.rules.podaffinity.term_selection import select_spread, select_term
from pinfold.policy.rules.residents import Residents
from pinfold.topology.model.machine import Level

KEYS = ("app", "tier", "container.name", "pod.name", "pod.qos", "pod.uid")
VALUES = ("a", "b", "u1", "Burstable")
SPACES = ("x", "y")
LABELS = NamespaceLabels({"x": {"team": "red"}})


@st.composite
def containers(draw: st.DrawFn) -> list[Container]:
    found: list[Container] = []
    for number in range(draw(st.integers(1, 6))):
        pod = draw(st.integers(0, 3))
        sandbox = draw(st.sampled_from(("", "-again")))
        uid = "" if pod == 3 else f"u{pod}"
        keys = st.sampled_from([*KEYS[:2], "pod.name"])
        values = st.sampled_from([*VALUES])
        labels: Mapping[str, str] = draw(st.dictionaries(keys, values))
        of_pod = Pod(
            id=PodId(f"p{pod}{sandbox}"),
            name=draw(st.sampled_from(VALUES)),
            namespace=SPACES[pod % 2],
            uid=uid,
            labels=labels,
            qos=draw(st.sampled_from(QosClass)),
        )
        name = draw(st.sampled_from(VALUES))
        found.append(Container(id=ContainerId(f"c{number}"), name=name, pod=of_pod))
    return found


def requirements() -> st.SearchStrategy[LabelRequirement]:
    values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple)
    with_values = st.builds(
        LabelRequirement,
        st.sampled_from(KEYS),
        st.sampled_from((LabelOperator.IN, LabelOperator.NOT_IN)),
        values,
    )
    without = st.builds(
        LabelRequirement,
        st.sampled_from(KEYS),
        st.sampled_from((LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST)),
    )
    return with_values | without


_OF_NOBODY = tuple(
    LabelRequirement(f"k{n}", operator, values)
    for n in range(5)
    for operator, values in ((LabelOperator.DOES_NOT_EXIST, ()), (LabelOperator.NOT_IN, ("a",)))
)


def selectors() -> st.SearchStrategy[LabelSelector]:
    few = st.lists(requirements(), max_size=2).map(tuple)
    return st.builds(LabelSelector, few | few.map(lambda some: (*some, *_OF_NOBODY)))


@given(
    st.lists(requirements(), max_size=3),
    st.dictionaries(st.sampled_from([*KEYS, "k0", "k4"]), st.sampled_from(VALUES)),
)
def test_a_selector_of_very_many_requirements_matches_where_each_of_them_holds(
    some: list[LabelRequirement], labels: Mapping[str, str]
) -> None:
    selector = LabelSelector((*_OF_NOBODY, *some))
    assert selector.matches(labels) == all(one.holds(labels) for one in selector.requirements)


def scopes() -> st.SearchStrategy[NamespaceScope]:
    of_namespaces = (
        LabelSelector(),
        LabelSelector.equals(team="red"),
        LabelSelector((LabelRequirement("team", LabelOperator.DOES_NOT_EXIST),)),
    )
    return st.builds(
        NamespaceScope,
        st.frozensets(st.sampled_from(SPACES)),
        st.none() | st.sampled_from(of_namespaces),
    )


def terms() -> st.SearchStrategy[Term]:
    return st.builds(
        Term,
        level=st.just(Level.NUMA),
        selector=st.none() | selectors(),
        namespaces=scopes(),
        is_pod_scope=st.booleans(),
        namespace_labels=st.just(LABELS),
    )


def rules_of(standing: StandingRules, owner: Container) -> list[RequiredTerm | PreferredTerm]:
    rules = standing.of(owner.id)
    return [*rules.required, *rules.preferred]


@given(containers(), terms())
@settings(max_examples=120, deadline=None)
def test_a_selection_is_what_the_term_matches(found: list[Container], term: Term) -> None:
    residents = Residents()
    for one in found:
        residents.add(one)
    for owner in found:
        places = select_term(residents, owner, term)
        assert {*residents.ids(places)} == {one.id for one in found if term.matches(owner, one)}
        spread = SpreadRule(max_skew=1, level=Level.NUMA, selector=term.selector)
        counted = {one.id for one in found if spread.matches(owner, one)}
        assert {*residents.ids(select_spread(residents, owner, spread))} == counted


@given(containers(), st.lists(st.lists(terms(), max_size=3), min_size=6, max_size=6))
@settings(max_examples=120, deadline=None)
def test_standing_rules_of_a_newcomer_are_those_that_match_it(
    found: list[Container], of_each: list[list[Term]]
) -> None:
    newcomer, *residents = found
    standing = StandingRules()
    for owner, terms in zip(residents, of_each, strict=False):
        required = tuple(RequiredTerm(term=one) for one in terms[:2])
        preferred = tuple(PreferredTerm(term=one, weight=3) for one in terms[2:])
        standing.add(owner, PlacementRules(required=required, preferred=preferred))
        # What is known by then is not what holds once the next one has come.
        standing.matching(newcomer)
    told = {(owner, one.rule) for one in standing.matching(newcomer) for owner in one.owners}
    expected = {
        (owner.id, rule)
        for owner in residents
        for rule in rules_of(standing, owner)
        if rule.term.matches(owner, newcomer)
    }
    assert told == expected
    crowds = {(one.crowd, frozenset(one.owners)) for one in standing.matching(newcomer)}
    assert len({crowd for crowd, _ in crowds}) == len({some for _, some in crowds}) == len(crowds)
    for owner in residents:
        standing.remove(owner.id)
    assert not standing.rules
    assert standing.matching(newcomer) == []
