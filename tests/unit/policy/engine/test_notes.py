"""Notes about placements: wishes that are not met, and levels that a machine lacks."""

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    apart,
    container_of,
    engine_of,
    near,
    placed,
    prefer,
    term,
)

CACHES = "socket:1 l3:4 core:2 mem:8G"
PAIR = "socket:1 numa:2 core:4 mem:4G"
SPREAD = {
    "topologySpread": [
        {
            "maxSkew": 1,
            "topologyKey": "numa",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}


def pool(number: int) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}


def notes(engine: Engine, container: Container) -> tuple[str, ...]:
    found = engine.note(container.id)
    assert engine.decisions[container.id].notes == found
    return found


def test_shards_that_are_more_than_caches_say_which_of_them_share_one() -> None:
    engine = engine_of(CACHES, "cpuset:7")
    rules = prefer(50, term("l3", "shard"), is_anti=True)
    shards = [container_of(f"shard{number}", 1, rules, app="shard") for number in range(5)]
    for one in shards:
        placed(engine, one)
    assert sum(bool(notes(engine, one)) for one in shards) == 2
    (note,) = notes(engine, shards[4])
    assert "in one L3 group with default/shard" in note
    assert note.endswith("(5 containers, 4 L3 groups)")
    assert engine.decisions[shards[4].id].unmet == ()


def test_a_wish_to_be_near_somebody_who_is_elsewhere_is_told() -> None:
    engine = engine_of("socket:1 numa:3 core:4 mem:4G")
    placed(engine, container_of("cache", 4, annotations=pool(1)))
    web = container_of("web", 1, prefer(50, term("numa", "cache")))
    placed(engine, web)
    (note,) = notes(engine, web)
    assert "in no NUMA node with default/cache/main" in note


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        pytest.param(
            (1,),
            "met in part, as it is in 2 NUMA nodes, and with default/cache0/main in 1 of them",
            id="one of both is near",
        ),
        pytest.param((0, 1), "", id="both are"),
    ],
)
def test_a_wish_that_draws_a_container_apart_is_told(nodes: tuple[int, ...], told: str) -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G", "cpuset:0")
    for number, node in enumerate(nodes):
        placed(engine, container_of(f"cache{number}", 2, annotations=pool(node), app="cache"))
    web = container_of("web", 3, prefer(50, term("numa", "cache")))
    cpus = CpuSet.parse(placed(engine, web))
    assert cpus & CpuSet.parse("0-3")
    assert cpus & CpuSet.parse("4-7")
    assert [one.partition(": ")[2] for one in notes(engine, web)] == ([told] if told else [])


@pytest.mark.parametrize(
    ("namespace", "told"),
    [
        pytest.param("prod", " (antiAffinityLimits)", id="that blocks too much for others"),
        pytest.param("batch", "", id="that is told as broken anyway"),
    ],
)
def test_a_required_rule_that_others_need_not_keep_is_told_of_its_owner(
    namespace: str, told: str
) -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    rules = apart(term("numa", "trading", namespaceSelector={}))
    noisy = [
        container_of(f"noisy{node}", 0.5, rules, namespace="batch", annotations=pool(node))
        for node in range(2)
    ]
    for one in noisy:
        placed(engine, one)
    cpus = placed(engine, container_of("trading", 2, namespace=namespace, app="trading"))
    beside, other = noisy[::-1] if CpuSet.parse(cpus) <= CpuSet.parse("4-7") else noisy
    assert notes(engine, other) == ()
    found = notes(engine, beside)
    assert [
        one.partition(f"in one NUMA node with {namespace}/trading/main")[2] for one in found
    ] == ([told] if told else [])
    assert bool(engine.decisions[beside.id].unmet) is not bool(told)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        pytest.param((0, 0, 0), "", id="all are near"),
        pytest.param(
            (0, 1, 1),
            "in no NUMA node with default/cache1/main, default/cache2/main, and with 1 of 3 in one",
            id="one of three is",
        ),
        pytest.param(
            (1, 1),
            "in no NUMA node with default/cache0/main, default/cache1/main",
            id="none is",
        ),
    ],
)
def test_a_wish_that_is_met_for_some_alone_is_told_of_the_others(
    nodes: tuple[int, ...], told: str
) -> None:
    engine = engine_of(PAIR)
    for number, node in enumerate(nodes):
        one = container_of(f"cache{number}", 0.5, app="cache", annotations=pool(node))
        placed(engine, one)
    engine.create(refused := container_of("refused", 90, app="cache", annotations=pool(1)))
    assert engine.pinning(refused.id) is None
    rules = prefer(50, term("numa", "cache"))
    placed(engine, web := container_of("web", 1, rules, annotations=pool(0)))
    assert [one.rpartition(": ")[2] for one in notes(engine, web)] == [told] * bool(told)


def test_a_wish_that_is_met_or_about_nobody_is_not_told() -> None:
    engine = engine_of(PAIR)
    placed(engine, alone := container_of("alone", 1, prefer(50, term("numa", "nobody"))))
    placed(engine, web := container_of("web", 1, prefer(50, term("numa", "alone"))))
    placed(engine, shy := container_of("shy", 1, prefer(50, term("numa", "web"), is_anti=True)))
    assert [notes(engine, one) for one in (alone, web, shy)] == [()] * 3


def test_containers_that_are_spread_unevenly_are_told() -> None:
    engine = engine_of(PAIR)
    placed(engine, container_of("one", 1, app="web", annotations=pool(1)))
    placed(engine, container_of("full", 3, annotations=pool(0)))
    two = container_of("two", 1, SPREAD, app="web")
    placed(engine, two)
    (note,) = notes(engine, two)
    assert note.endswith("2 of them in its NUMA node, and 0 in another one")


def test_spread_over_a_domain_of_isolated_cpus_is_told_of_who_may_have_those() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G isolated:4-7")
    for name in ("one", "two"):
        placed(engine, one := container_of(name, 0.5, SPREAD, app="web"))
        assert notes(engine, one) == ()
    placed(engine, own := container_of("own", 1, SPREAD, app="web", annotations=pool(0)))
    (note,) = notes(engine, own)
    assert note.endswith("3 of them in its NUMA node, and 0 in another one")


def test_a_domain_of_isolated_cpus_is_none_to_be_alone_in_on_shared_ones() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G isolated:4-7")
    alone = prefer(10, term("numa", "web"), is_anti=True)
    placed(engine, container_of("one", 0.5, alone, app="web"))
    placed(engine, two := container_of("two", 0.5, alone, app="web"))
    (note,) = notes(engine, two)
    assert note.endswith("with default/one/main (2 containers, 1 NUMA node)")


def test_a_pool_that_is_not_the_preferred_one_is_told() -> None:
    engine = engine_of(PAIR)
    term_ = {"matchExpressions": [{"key": "numa", "operator": "In", "values": ["1"]}]}
    wish = {"weight": 10, "preference": term_}
    rules = {"poolAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    placed(engine, container_of("full", 4, annotations=pool(1)))
    placed(engine, one := container_of("one", 1, rules))
    (note,) = notes(engine, one)
    assert note.endswith("NUMA node #0 is another")


@pytest.mark.parametrize(
    ("weight", "friend", "words"),
    [(100, 1, "affinity: in no one pool with default/friend/main"), (-100, 0, "anti-affinity: ")],
)
def test_weights_that_are_not_met_are_told(weight: int, friend: int, words: str) -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    placed(engine, container_of("friend", 0.5, app="f", annotations=pool(friend)))
    match = "{key: pod/labels/app, operator: Equals, values: [f]}"
    rule = f"- scope: {{operator: AlwaysTrue}}\n  match: {match}\n  weight: {weight}\n"
    text = f"main:\n{rule}"
    told = {"pinfold.dev/affinity": text, **pool(0)}
    placed(engine, one := container_of("one", 1, annotations=told))
    found = notes(engine, one)
    assert [note for note in found if note.startswith(words)], found


def test_a_level_that_the_machine_lacks_is_told() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    placed(engine, container_of("wolf", 1))
    placed(engine, shy := container_of("shy", 1, apart(term("cluster", "wolf"))))
    (note,) = notes(engine, shy)
    assert note == ("this machine has no clusters: what holds at a cluster holds at an L3 group")


def test_a_level_that_the_machine_lacks_is_told_of_who_is_refused_for_it() -> None:
    engine = engine_of("socket:1 core:4 mem:4G")
    placed(engine, container_of("wolf", 1))
    rules = apart(term("cluster", "wolf"))
    engine.create(shy := container_of("shy", 1, rules, fails=True))
    assert engine.pinning(shy.id) is None
    (note,) = notes(engine, shy)
    assert note == "this machine has no clusters: what holds at a cluster holds at an L3 group"


def test_who_wishes_nothing_has_no_notes() -> None:
    engine = engine_of(PAIR)
    placed(engine, one := container_of("one", 1))
    placed(engine, web := container_of("web", 1, near(term("numa", "one"))))
    assert (engine.note(one.id), engine.note(web.id), engine.note(container_of("no").id)) == (
        (),
        (),
        (),
    )


COUNTED = [
    pytest.param(48, False, (), id="nothing where each owner is counted by itself"),
    pytest.param(49, False, ("49 required rules", "counted as 1 rule,"), id="how many there are"),
    pytest.param(49, True, ("49 required rules",), id="the same where it is refused"),
]


@pytest.mark.parametrize(("owners", "fails", "words"), COUNTED)
def test_rules_of_many_owners_that_are_counted_together_are_told(
    owners: int, fails: bool, words: tuple[str, ...]
) -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    for number in range(owners):
        pod = pool(number % 2)
        owner = container_of(
            f"owner{number}", 0.01, apart(term("numa", "web")), fails=fails, annotations=pod
        )
        placed(engine, owner)
    web = container_of("web", 1, app="web")
    decision = engine.create(web)
    assert bool(decision.unmet) is not fails
    found = " ".join(notes(engine, web))
    assert all(word in found for word in words)
    assert ("counted as" in found) is bool(words)


def test_a_rule_that_does_not_hold_names_those_alone_who_are_near() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    for number in range(2):
        wolf = container_of(f"wolf{number}", 1, app="wolf", annotations=pool(number))
        placed(engine, wolf)
    placed(engine, sheep := container_of("sheep", 1, apart(term("numa", "wolf"))))
    here = int(engine.decisions[sheep.id].pool[-1])
    (text,) = engine.decisions[sheep.id].unmet
    assert text.endswith(f"in one NUMA node with default/wolf{here}/main")


def test_of_very_many_those_alone_are_named_who_are_near() -> None:
    engine = engine_of("socket:1 numa:2 core:40 mem:4G")
    for number in range(80):
        where = pool(number % 2)
        placed(engine, container_of(f"db-{number}", 0.1, annotations=where, app="db"))
    rules = prefer(50, term("numa", "db"), is_anti=True)
    web = container_of("web", 0.1, rules, annotations=pool(1))
    placed(engine, web)
    (note,) = notes(engine, web)
    near_it = ", ".join(f"default/db-{number}/main" for number in (1, 3, 5, 7))
    assert f"in one NUMA node with {near_it} and 36 more (80 containers, 2 NUMA nodes)" in note
