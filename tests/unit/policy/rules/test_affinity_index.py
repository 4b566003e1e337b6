import pytest

from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.rules.affinity import parse_affinity
from pinfold.policy.rules.affinity_index import AffinityIndex
from pinfold.policy.rules.affinity_rule import AffinityRule, same_pod
from pinfold.policy.rules.container_facts import Subkey
from pinfold.policy.rules.expression import ALWAYS, AllOf, AnyOf, Expression, Not, condition
from pinfold.policy.rules.residents import Residents
from tests.unit.policy.rules.matching import matching

NORTH = Pod(id=PodId("p1"), name="meadow", namespace="north", labels={"app": "farm"})
# The same name and namespace, another sandbox.
NORTH_AGAIN = Pod(id=PodId("p2"), name="meadow", namespace="north", labels={"app": "farm"})
SOUTH = Pod(id=PodId("p3"), name="wood", namespace="south", qos=QosClass.GUARANTEED)


def container(id_: str, name: str, pod: Pod, **labels: str) -> Container:
    return Container(id=ContainerId(id_), name=name, pod=pod, labels=labels)


SHEEP = container("c1", "sheep", NORTH, coat="wool")
DOG = container("c2", "dog", NORTH)
OTHER_SHEEP = container("c3", "sheep", NORTH_AGAIN, coat="")
WOLF = container("c4", "wolf", SOUTH, coat="fur")
EVERYONE = (SHEEP, DOG, OTHER_SHEEP, WOLF)
NEWCOMER = container("c9", "lamb", NORTH)


def rule(
    match: Expression, weight: int = 1, scope: Expression = ALWAYS, *, symmetric: bool = False
) -> AffinityRule:
    return AffinityRule(scope=scope, match=match, weight=weight, is_symmetric=symmetric)


def index(*containers: Container) -> AffinityIndex:
    made = AffinityIndex()
    for one in containers:
        made.add(one)
    return made


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (ALWAYS, "c1 c2 c3 c4"),
        (Not(ALWAYS), ""),
        (condition("name", "Equals", "sheep"), "c1 c3"),
        (condition("name", "Equals", "*"), "c1 c2 c3 c4"),
        (condition("name", "In", "sheep", "wolf", "wolf"), "c1 c3 c4"),
        (condition("name", "NotIn", "sheep", "none"), "c2 c4"),
        (condition("name", "NotEqual", "none"), "c1 c2 c3 c4"),
        (condition("labels/coat", "Exists"), "c1 c3 c4"),
        (condition("labels/coat", "NotExists"), "c2"),
        (condition("labels/coat", "NotIn", "fur"), "c1 c2 c3"),
        (condition("labels/coat", "Matches", "?*"), "c1 c4"),
        (condition("labels/coat", "MatchesNone", "w*", "f*"), "c2 c3"),
        (condition("labels/io.kubernetes.container.name", "In", "dog"), "c2"),
        (condition("pod/id", "Equals", "p1"), "c1 c2"),
        (condition("qosclass", "Equals", "Guaranteed"), "c4"),
        (condition("tags/any", "Exists"), ""),
        (condition(":namespace:name", "Equals", "north:sheep"), "c1 c3"),
        (AllOf((condition("namespace", "Equals", "north"), Not(same_pod(NORTH)))), "c3"),
        (AnyOf((same_pod(SOUTH), condition("name", "Equals", "dog"))), "c2 c4"),
        (AllOf(()), "c1 c2 c3 c4"),
        (AnyOf(()), ""),
    ],
    ids=str,
)
def test_an_expression_finds_its_containers(match: Expression, expected: str) -> None:
    assert matching(index(*EVERYONE), match) == set(expected.split())
    # Above the size where each container is looked at, the answer is the same.
    many = [container(f"x{n}", f"x{n}", Pod(id=PodId(f"x{n}"), name="x")) for n in range(40)]
    found = matching(index(*EVERYONE, *many), match)
    assert {one for one in found if one.startswith("c")} == set(expected.split())


def test_weights_add_up_and_zeros_are_dropped() -> None:
    rules = (
        rule(condition("name", "Equals", "sheep"), 5),
        rule(condition("labels/coat", "Exists"), -5),
        rule(ALWAYS, 2, scope=same_pod(NORTH)),
    )
    assert index(*EVERYONE).weights(NEWCOMER, rules) == {"c1": 2, "c2": 2, "c4": -5}


def test_a_container_is_in_the_index_from_its_addition_to_its_removal_filed_or_not() -> None:
    made = index(SHEEP)
    assert SHEEP.id in made, "not filed yet"
    made.file()
    assert SHEEP.id in made
    made.remove(SHEEP.id)
    assert SHEEP.id not in made


def test_same_pod_is_the_pods_id_not_its_name() -> None:
    (shorthand,) = parse_affinity({"pinfold.dev/affinity": "lamb: [sheep]"}, NORTH)[0]["lamb"]
    assert index(*EVERYONE).weights(NEWCOMER, (shorthand,)) == {"c1": 1}


def test_a_container_has_no_affinity_to_itself_or_its_older_instance() -> None:
    older = container("c8", "lamb", NORTH)
    of_other_pod = container("c7", "lamb", NORTH_AGAIN)
    made = index(NEWCOMER, older, of_other_pod, SHEEP)
    assert made.weights(NEWCOMER, (rule(ALWAYS, 3),)) == {"c7": 3, "c1": 3}


def test_a_symmetric_rule_of_a_resident_counts_for_a_newcomer_it_matches() -> None:
    made = AffinityIndex()
    lamb = condition("name", "Equals", "lamb")
    made.add(SHEEP, (rule(lamb, 4, symmetric=True), rule(lamb, 50)))
    made.add(DOG, (rule(lamb, 1, symmetric=True), rule(ALWAYS, -3, symmetric=True)))
    made.add(WOLF, (rule(lamb, -9, scope=same_pod(SOUTH), symmetric=True),))
    assert made.weights(NEWCOMER) == {"c1": 4, "c2": -2}
    assert made.weights(NEWCOMER, (rule(same_pod(NORTH), 10),)) == {"c1": 14, "c2": 8}
    made.remove(SHEEP.id)
    assert made.weights(NEWCOMER) == {"c2": -2}


def test_nobodys_facts_are_filed_for_a_newcomer_without_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filed: list[ContainerId] = []
    add = Residents.add

    def noted(residents: Residents, one: Container, known: dict[Subkey, str] | None = None) -> None:
        filed.append(one.id)
        add(residents, one, known)

    monkeypatch.setattr(Residents, "add", noted)
    made = index(*EVERYONE)
    wolf = condition("name", "Equals", "wolf")
    made.add(SHEEP, (rule(wolf, 4, symmetric=True),))
    assert not made.weights(NEWCOMER)
    assert not filed
    # Only where a rule matches: older instances of the newcomer do not count.
    assert made.weights(container("c8", "wolf", NORTH)) == {"c1": 4}
    assert sorted(filed) == ["c1", "c2", "c3", "c4"]
    made.remove(SHEEP.id)
    assert not made.weights(container("c8", "wolf", NORTH))


def test_equal_rules_of_one_resident_count_each() -> None:
    made = AffinityIndex()
    made.add(SHEEP, (rule(ALWAYS, 2, symmetric=True), rule(ALWAYS, 3, symmetric=True)))
    assert made.weights(NEWCOMER) == {"c1": 5}


def test_adding_the_same_id_again_replaces_it() -> None:
    made = AffinityIndex()
    made.add(SHEEP, (rule(ALWAYS, 2, symmetric=True),))
    made.add(container("c1", "goat", NORTH))
    assert made.weights(NEWCOMER, (rule(condition("name", "In", "sheep", "goat")),)) == {"c1": 1}
    assert matching(made, condition("name", "Equals", "sheep")) == set()
    assert len(made) == 1


def test_removing_an_unknown_id_changes_nothing() -> None:
    made = index(*EVERYONE)
    made.remove(ContainerId("none"))
    assert len(made) == 4
