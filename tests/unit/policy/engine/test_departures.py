"""Who a refusal says could make room: those alone without whom the newcomer has a place."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.placing.judging.judgement import OWNERS_MAX
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    IGNORED,
    apart,
    container_of,
    engine_of,
    near,
    placed,
    reason,
    term,
)

NODES = "socket:1 numa:2 core:4 mem:4G"
"""Cpu 7 is reserved."""
HERE = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
THERE = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
MAKE_ROOM = " — to make room, stop or move "


def labelled(**labels: str) -> dict[str, Any]:
    """Required affinity to pools with these labels."""
    match = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {"poolAffinity": {IGNORED: {"nodeSelectorTerms": [{"matchExpressions": match}]}}}


FRIEND = container_of("friend", 2, annotations=HERE)
SMALL = container_of("small", 1, annotations=HERE)
OTHER = container_of("other", 1, annotations=HERE)
SHARER = container_of("sharer", 2, annotations=HERE, shares=True)
AWAY = container_of("away", 3, annotations=THERE)
FAR = container_of("far", 1, annotations=THERE)
PEER = container_of("peer", 2, app="peer", annotations=HERE)
OTHER_PEER = container_of("other-peer", 2, app="peer", annotations=HERE)


@pytest.mark.parametrize(
    ("residents", "newcomer", "told"),
    [
        pytest.param(
            (FRIEND, SMALL, OTHER),
            container_of("it", 1, near(term("numa", "friend")), fails=True),
            "one of default/other/main, default/small/main",
            id="either of those who fill the NUMA node of whom it must be with",
        ),
        pytest.param(
            (FRIEND, SMALL, OTHER),
            container_of("it", 2, near(term("numa", "friend")), fails=True),
            "all of default/small/main, default/other/main",
            id="both where one leaves too little",
        ),
        pytest.param(
            (
                FRIEND,
                SMALL,
                OTHER,
                container_of("clings", 1, near(term("socket", "friend")), annotations=THERE),
            ),
            container_of(
                "it",
                2,
                {**near(term("numa", "friend")), **apart(term("core", "clings"))},
                fails=True,
            ),
            "all of default/small/main, default/other/main",
            id="both, whatever comes of it when somebody else leaves",
        ),
        pytest.param(
            (FRIEND, SHARER),
            container_of("it", 1, near(term("numa", "friend")), fails=True),
            "default/sharer/main",
            id="one who shares what is left",
        ),
        pytest.param(
            (FRIEND, SMALL, OTHER),
            container_of("it", 0.5, near(term("numa", "friend")), fails=True),
            "one of default/other/main, default/small/main",
            id="one with own cpus where shares are asked for",
        ),
        pytest.param(
            (FRIEND, SMALL, OTHER),
            container_of("it", 1, annotations=HERE, fails=True),
            "one of default/other/main, default/small/main, default/friend/main",
            id="anybody in the pool that it names",
        ),
        pytest.param(
            (FRIEND, SMALL, OTHER),
            container_of("it", 2, labelled(numa="0"), fails=True),
            "default/friend/main",
            id="who has enough in the pool with the labels",
        ),
        pytest.param(
            (SMALL, AWAY),
            container_of("it", 1, apart(term("numa", "small"), term("numa", "away")), fails=True),
            "one of default/small/main, default/away/main",
            id="either of two whom it must be apart from in two NUMA nodes",
        ),
        pytest.param(
            (FRIEND, AWAY),
            container_of("it", 1, apart(term("core", "friend"), term("socket", "away"))),
            "default/away/main",
            id="whose rule leaves nothing, and nobody who is in the way of one core",
        ),
        pytest.param(
            (
                container_of("one", 1, annotations=HERE),
                container_of("two", 1, annotations=HERE),
                container_of("three", 1, annotations=THERE),
                container_of("four", 1, annotations=THERE),
            ),
            container_of(
                "it", 1, apart(*(term("numa", one) for one in ("one", "two", "three", "four")))
            ),
            "all of default/three/main, default/four/main",
            id="those of one NUMA node of two",
        ),
        pytest.param(
            (FRIEND, SMALL, OTHER),
            container_of("it", 5, near(term("numa", "friend")), fails=True),
            "",
            id="nobody where the NUMA node is too small",
        ),
        pytest.param(
            (container_of("whole", 4, annotations=HERE, app="friend"),),
            container_of("it", 1, near(term("numa", "friend")), fails=True),
            "",
            id="nobody where whom it must be with has all",
        ),
        pytest.param(
            (PEER, OTHER_PEER),
            container_of("it", 1, near(term("numa", "peer")), fails=True),
            "one of default/other-peer/main, default/peer/main",
            id="either of two whom it must be with, and who have all",
        ),
        pytest.param(
            (PEER, OTHER_PEER),
            container_of("it", 3, near(term("numa", "peer")), fails=True),
            "",
            id="neither of two whom it must be with where one leaves too little",
        ),
        pytest.param(
            (PEER, SMALL, container_of("third", 1, app="peer", annotations=HERE)),
            container_of("it", 1, near(term("numa", "peer")), fails=True),
            "default/small/main",
            id="who fills the NUMA node before whom it must be with",
        ),
        pytest.param(
            (PEER, container_of("away-peer", 2, app="peer", annotations=THERE), SMALL, OTHER, FAR),
            container_of("it", 1, near(term("numa", "peer")), fails=True),
            "one of default/far/main, default/other/main, default/small/main",
            id="whoever fills one of two NUMA nodes with those whom it must be with",
        ),
        pytest.param(
            (
                PEER,
                container_of("shy", 1, apart(term("numa", "it")), app="peer", annotations=HERE),
            ),
            container_of("it", 1, near(term("numa", "peer")), fails=True),
            "default/shy/main",
            id="whom it must be with and whose own rule keeps it away, where another one is there",
        ),
        pytest.param(
            (container_of("shy", 1, apart(term("numa", "it")), app="peer", annotations=HERE),),
            container_of("it", 1, near(term("numa", "peer")), fails=True),
            "",
            id="nobody where the only one whom it must be with keeps it away",
        ),
        pytest.param(
            (container_of("first", 1, app="it", annotations=HERE), FAR),
            container_of("it", 1, near(term("numa", "it"), term("numa", "far")), fails=True),
            "default/first/main",
            id="of two in two NUMA nodes the one of its own group, of which it may be the first",
        ),
        pytest.param(
            (FRIEND, FAR),
            container_of("it", 1, near(term("numa", "friend"), term("numa", "far")), fails=True),
            "",
            id="neither of two whom it must be with in two NUMA nodes",
        ),
        pytest.param(
            (
                FRIEND,
                container_of("two-of-both", 1, app="friend", annotations=THERE),
                container_of("both", 2, app="far", annotations=THERE),
            ),
            container_of("it", 1, near(term("numa", "friend"), term("numa", "far")), fails=True),
            "",
            id="nobody of whom each is the only one there",
        ),
        pytest.param(
            (container_of("whole", 4, app="it", annotations=HERE),),
            container_of("it", 1, near(term("numa", "it")), fails=True),
            "default/whole/main",
            id="the only one of its own group, who has all",
        ),
    ],
)
def test_a_refusal_names_those_without_whom_there_is_room(
    residents: Sequence[Container], newcomer: Container, told: str
) -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    for one in residents:
        placed(engine, one)
    _, found, names = reason(engine.create(newcomer)).partition(MAKE_ROOM)
    assert names == told
    assert bool(found) == bool(told)


OF_IT = "(affinity.pinfold.dev/pod:1) of default/it/main"


def spread(app: str, skew: int = 1) -> dict[str, Any]:
    """As many pods of an app in each NUMA node, but for so many."""
    selector = {"matchLabels": {"app": app}}
    rule = {"maxSkew": skew, "topologyKey": "numa", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpread": [{**rule, "labelSelector": selector}]}


@pytest.mark.parametrize(
    ("residents", "newcomer", "told"),
    [
        pytest.param(
            (FRIEND, SMALL, OTHER, AWAY),
            container_of("it", 1, near(term("numa", "friend"))),
            f"affinity at numa to app=friend {OF_IT}: "
            "wanted cpus of one NUMA node with default/friend/main"
            f"{MAKE_ROOM}one of default/other/main, default/small/main",
            id="whom it must be with",
        ),
        pytest.param(
            (container_of("friend", 4, annotations=HERE), AWAY),
            container_of("it", 1, near(term("numa", "friend"))),
            f"affinity at numa to app=friend {OF_IT}: "
            "wanted cpus of one NUMA node with default/friend/main",
            id="whom it must be with, who fills all by itself",
        ),
        pytest.param(
            (FRIEND, SMALL, OTHER, AWAY),
            container_of("it", 1, apart(term("numa", "small"))),
            f"anti-affinity at numa to app=small {OF_IT}: "
            "wanted a NUMA node without default/small/main"
            f"{MAKE_ROOM}one of default/small/main, default/away/main",
            id="whom it must be apart from",
        ),
        pytest.param(
            (
                container_of("shy", 2, apart(term("numa", "it")), annotations=HERE),
                container_of("friend", 2, annotations=HERE),
                AWAY,
            ),
            container_of("it", 1),
            "anti-affinity at numa to app=it (affinity.pinfold.dev/pod:1) of default/shy/main: "
            "wanted a NUMA node without default/shy/main"
            f"{MAKE_ROOM}one of default/shy/main, default/away/main",
            id="who must be apart from it",
        ),
        pytest.param(
            (
                container_of("x1", 1, app="x", annotations=THERE),
                FRIEND,
                SMALL,
                OTHER,
                container_of("away", 2, annotations=THERE),
            ),
            container_of("it", 1, spread("x"), app="x"),
            f"spread over numa, at most 1 apart: app=x {OF_IT}: "
            "wanted a NUMA node with none of these containers, as that of cpus 0-3"
            f"{MAKE_ROOM}one of default/x1/main, default/other/main, default/small/main,"
            " default/friend/main",
            id="how it must be spread",
        ),
        pytest.param(
            (FRIEND, SMALL, OTHER, AWAY),
            container_of("it", 1, annotations=HERE),
            "pool-name 'NUMA node #0' of default/it/main: wanted pool NUMA node #0"
            f"{MAKE_ROOM}one of default/other/main, default/small/main, default/friend/main",
            id="the pool that it names",
        ),
        pytest.param(
            (FRIEND, SMALL, OTHER, AWAY),
            container_of("it", 1, near(term("socket", "friend"))),
            "",
            id="no rule that leaves it everything",
        ),
        pytest.param(
            (FRIEND, SMALL, OTHER, AWAY),
            container_of("it", 1, apart(term("numa", "nobody"))),
            "",
            id="no rule that is about nobody",
        ),
    ],
)
def test_where_every_pool_is_full_a_refusal_names_the_rules_too(
    residents: Sequence[Container], newcomer: Container, told: str
) -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    for one in residents:
        placed(engine, one)
    said = reason(engine.create(newcomer))
    assert " — every pool: exclusive CPUs: wanted " in said
    rules = said.partition(" — besides, ")[2]
    assert rules == told


def test_a_rule_is_named_beside_another_one_that_has_its_name_at_the_end() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    for one in (FRIEND, container_of("friend2", 1, app="friend", annotations=THERE)):
        placed(engine, one)
    both = {**near(term("numa", "friend")), **apart(term("numa", "friend"))}
    said = reason(engine.create(container_of("it", 1, both)))
    assert f": anti-affinity at numa to app=friend {OF_IT}: wanted " in said
    assert f" — besides, affinity at numa to app=friend {OF_IT}: wanted " in said


def test_of_rules_that_give_way_none_is_named_where_every_pool_is_full() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="degrade")
    for one in (FRIEND, SMALL, OTHER, AWAY):
        placed(engine, one)
    rules = apart(term("numa", "small"))
    assert "besides" not in reason(engine.create(container_of("it", 1, rules)))


def test_of_many_rules_the_first_are_named_where_every_pool_is_full() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    for one in (FRIEND, SMALL, AWAY):
        placed(engine, one)
    for number in range(20):
        # Each rule is another one.
        other = {"key": "number", "operator": "NotIn", "values": [str(number)]}
        selector = {"matchLabels": {"app": "it"}, "matchExpressions": [other]}
        rules = apart(term("numa", labelSelector=selector))
        placed(engine, container_of(f"shy{number}", 0.001, rules, annotations=HERE))
    said = reason(engine.create(container_of("it", 1)))
    assert said.count("wanted a NUMA node without default/shy") == 16
    assert "; and 4 more rules — to make room" in said


def test_all_who_have_to_leave_are_named_in_a_note_where_a_refusal_names_some() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    shy = [container_of(f"shy{number}", 0.001, apart(term("socket", "it"))) for number in range(6)]
    for one in shy:
        placed(engine, one)
    refused = engine.create(it := container_of("it", 1))
    some = ", ".join([one.path for one in shy[:4]])
    assert reason(refused).endswith(f"{MAKE_ROOM}some of {some} and 2 more")
    assert engine.note(it.id) == (
        f"to make room, stop or move some of {', '.join([one.path for one in shy])}",
    )
    assert engine.decisions[it.id].notes == engine.note(it.id)


def test_a_resize_names_in_a_note_all_who_have_to_leave() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    rules = apart(term("numa", "shy"))
    placed(engine, it := container_of("it", 2, rules))
    shy = [container_of(f"shy{n}", 0.001, app="shy", annotations=THERE) for n in range(6)]
    for one in shy:
        placed(engine, one)
    refused = engine.update(it.id, container_of("it", 5).resources)
    assert reason(refused).endswith(" and 2 more")
    assert refused.notes == (
        f"to make room, stop or move some of {', '.join([one.path for one in shy])}",
    )


def test_one_rule_of_many_owners_is_named_once_where_every_pool_is_full() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    for one in (FRIEND, SMALL, AWAY):
        placed(engine, one)
    for number in range(20):
        rules = apart(term("numa", "it"))
        placed(engine, container_of(f"shy{number}", 0.001, rules, annotations=HERE))
    said = reason(engine.create(container_of("it", 1)))
    assert said.startswith("no pool has room for 1 exclusive CPU")
    assert (
        " — besides, anti-affinity at numa to app=it (affinity.pinfold.dev/pod:1)"
        " of default/shy0/main and 19 others: wanted a NUMA node without default/shy0/main,"
        " default/shy1/main, default/shy2/main, default/shy3/main and 16 more — to make room, "
    ) in said


def test_a_refusal_for_rules_alone_begins_with_them_and_names_each_once() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    rules = apart(term("numa", "it"))
    for number, where in enumerate((HERE, THERE)):
        placed(engine, container_of(f"it{number}", 1, rules, app="it", annotations=where))
    said = reason(engine.create(container_of("it", 1, rules)))
    rule = "anti-affinity at numa to app=it (affinity.pinfold.dev/pod:1)"
    assert said == (
        "required rules leave no room for 1 exclusive CPU, 16 MiB of memory"
        f" — every pool: {rule} of default/it/main:"
        " wanted a NUMA node without default/it0/main, default/it1/main, available none"
        " — besides, the same rule of default/it0/main and 1 other"
        f"{MAKE_ROOM}one of default/it0/main, default/it1/main"
    )


def test_a_rule_that_others_have_too_is_named_where_another_was_told_before() -> None:
    engine = engine_of("socket:2 numa:2 core:2 mem:2G", onUnsatisfiable="fail")
    rules = apart(term("socket", "it"), term("numa", "it"))
    for number in range(2):
        there = {"pool-name.pinfold.dev/pod": f"socket #{number}"}
        placed(engine, container_of(f"it{number}", 1, rules, app="it", annotations=there))
    said = reason(engine.create(container_of("it", 1, rules)))
    besides = said.partition(" — besides, ")[2].partition(MAKE_ROOM)[0].split("; ")
    assert besides[:2] == [
        "anti-affinity at numa to app=it (affinity.pinfold.dev/pod:1) of default/it/main: wanted a"
        " NUMA node without default/it0/main, default/it1/main",
        "anti-affinity at socket to app=it (affinity.pinfold.dev/pod:1) of default/it0/main and 1"
        " other, too",
    ]


def test_a_refusal_on_a_large_machine_names_the_first_of_many_pools() -> None:
    engine = engine_of("socket:4 numa:8 l3:2 core:4 mem:2G", onUnsatisfiable="fail")
    there = {"pool-selector.pinfold.dev/pod": "socket=3"}
    placed(engine, container_of("shy", 1, apart(term("socket", "it")), annotations=there))
    said = reason(engine.create(container_of("it", 1, app="it", annotations=there)))
    assert " and 60 more pools: " in said
    assert said.endswith(f"{MAKE_ROOM}default/shy/main")
    assert len(said) < 2000


@pytest.mark.parametrize(("reasons", "told"), [(12, 12), (13, 13), (14, 12)])
def test_a_refusal_tells_the_first_of_many_reasons(reasons: int, told: int) -> None:
    """One for the socket, and one for each of its NUMA nodes but the first: the second has it."""
    engine = engine_of(f"socket:1 numa:{reasons} core:{reasons + 1} mem:2G", "cpuset:0")
    for number in range(reasons):
        there = {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}
        placed(engine, container_of(f"c{number}", number + 1, annotations=there))
    said = reason(engine.create(container_of("it", 300)))
    assert said.count(": exclusive CPUs: wanted 300, available ") == told
    assert said.endswith(f"; and {reasons - told} more reasons of other pools") == (told < reasons)


@pytest.mark.parametrize("owners", [3, OWNERS_MAX, OWNERS_MAX + 2])
def test_a_rule_of_many_is_told_once_beside_pools_that_lack_cpus(owners: int) -> None:
    engine = engine_of(f"socket:1 numa:{owners} core:2 mem:2G", onUnsatisfiable="fail")
    rules = apart(term("numa", "it"))
    for number in range(owners):
        there = {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}
        placed(engine, container_of(f"shy{number}", 1, rules, annotations=there))
    said = reason(engine.create(container_of("it", 2, app="it")))
    assert f"of default/shy0/main and {owners - 1} others" in said
    assert ": exclusive CPUs: wanted 2, available " in said
    assert "besides" not in said


def test_a_rule_of_several_who_close_every_pool_is_named_once() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    for number, where in enumerate((HERE, THERE, HERE)):
        rules = apart(term("numa", "it"))
        placed(engine, container_of(f"shy{number}", 1, rules, annotations=where))
    said = reason(engine.create(container_of("it", 1)))
    assert said.startswith("required rules leave no room for 1 exclusive CPU")
    assert said.count("anti-affinity") == 1
    assert " of default/shy0/main and 2 others: wanted a NUMA node without default/shy0/" in said


SHY = container_of("shy", 2, apart(term("socket", "it")))
BOUND = container_of("bound", 1.2, apart(term("socket", "nobody")), fails=True)
SHY_RULE = "anti-affinity at socket to app=it (affinity.pinfold.dev/pod:1) of default/shy/main"


@pytest.mark.parametrize(
    ("shy", "sharer", "told"),
    [
        pytest.param(
            SHY,
            container_of("sharer", 1.2),
            "without rules, default/sharer/main would make way",
            id="who may share other cpus, where a rule keeps the newcomer from those",
        ),
        pytest.param(
            container_of("shy", 2),
            BOUND,
            "rules hold default/bound/main where it is, else it would make way",
            id="who is held by its own rule, where none is about the newcomer",
        ),
        pytest.param(
            SHY,
            BOUND,
            "rules hold default/bound/main where it is, else it would make way",
            id="who is held by its own rule, where another one keeps the newcomer from there",
        ),
        pytest.param(
            container_of("shy", 2),
            container_of("sharer", 1.7),
            "",
            id="nobody where there is no room without rules either",
        ),
    ],
)
def test_a_refusal_begins_with_rules_where_without_them_others_would_make_room(
    shy: Container, sharer: Container, told: str
) -> None:
    """Of six cpus that are left two containers share four, as each is in one socket."""
    engine = engine_of("socket:2 numa:1 core:4 thread:2", "cpuset:0", onUnsatisfiable="fail")
    running = {
        "1": container_of("one", 1),
        "2-3": container_of("two", 2),
        "4-5": shy,
        "6-7": sharer,
        "8-9": container_of("three", 2),
        "10-11": container_of("four", 2),
        "12-15": container_of("five", 1.5, apart(term("socket", "nobody")), fails=True),
    }
    engine.synchronize(
        [
            replace(one, state=ContainerState.RUNNING, cpus=CpuSet.parse(cpus))
            for cpus, one in running.items()
        ],
        {},
    )
    assert engine.grants[sharer.id].pool_id != engine.tree.root.id
    said = reason(engine.create(container_of("it", 3)))
    head, *rest = said.split(" — ")
    who = "required rules leave no room" if told else "no pool has room"
    assert head == f"{who} for 3 exclusive CPUs, 16 MiB of memory"
    assert (rest[0] == told) == bool(told)
    assert "root, socket #1: exclusive CPUs: wanted 3, available 2" in said
    keeps = f"the rules: {SHY_RULE}: wanted a socket without default/shy/main"
    assert (keeps in rest) == (shy is SHY)


def test_a_refusal_says_that_no_cpu_would_be_spared_for_who_asks_for_none_without_rules() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    for name, where in (("here", HERE), ("there", THERE)):
        placed(engine, container_of(name, 0, annotations=where))
    placed(engine, container_of("other", 1, annotations=HERE))
    assert isinstance(engine.create(container_of("large", 6)).result, Grant)
    engine.remove(ContainerId("large-main"))
    head, yielding, *_, rules, _ = reason(
        engine.create(container_of("it", 6, apart(term("numa", "other"))))
    ).split(" — ")
    assert head == "required rules leave no room for 6 exclusive CPUs, 16 MiB of memory"
    assert yielding == "without rules, containers that asked for no CPU would make way"
    assert rules.startswith("the rules: anti-affinity at numa to app=other ")


def test_pools_that_rules_keep_a_container_from_are_told_before_full_ones() -> None:
    engine = engine_of(NODES, "cpuset:7", onUnsatisfiable="fail")
    placed(engine, container_of("full", 3, annotations=THERE))
    placed(engine, container_of("shy", 1, apart(term("numa", "it")), annotations=HERE))
    said = reason(engine.create(container_of("it", 1)))
    assert said.startswith("required rules leave no room for 1 exclusive CPU")
    assert said.index("anti-affinity") < said.index("NUMA node #1: exclusive CPUs: wanted 1, avail")


def test_a_refusal_on_the_reserved_cpus_names_who_is_in_the_way_there() -> None:
    engine: Engine = engine_of(NODES, "cpuset:3,7")
    system = {"prefer-reserved-cpus.resource-policy.nri.io/pod": "true"}
    for name, where in (("one", HERE), ("two", HERE), ("three", THERE)):
        placed(engine, container_of(name, 1, annotations=where, app="shy"))
    rules = apart(term("numa", "shy"))
    decision = engine.create(container_of("it", 0.1, rules, annotations=system, fails=True))
    assert isinstance(decision.result, Refusal)
    assert decision.result.reason.endswith(
        f"{MAKE_ROOM}all of default/one/main, default/two/main, default/three/main"
    )


def grown(engine: Engine, container: Container, cpus: int) -> str:
    """The reason why a container is refused so many cpus of its own."""
    resources = replace(
        container.resources, cpu_request_milli=1000 * cpus, cpu_limit_milli=1000 * cpus
    )
    return reason(engine.update(container.id, resources))


@pytest.mark.parametrize(
    ("rules", "residents", "told", "names"),
    [
        pytest.param(
            apart(term("numa", "far")),
            (FAR, FRIEND),
            "anti-affinity at numa to app=far (affinity.pinfold.dev/pod:1) of default/it/main: "
            "wanted a NUMA node without default/far/main",
            "one of default/far/main, default/friend/main",
            id="who is in its way, or fills its NUMA node",
        ),
        pytest.param(
            near(term("numa", "friend")),
            (FRIEND, SMALL),
            "affinity at numa to app=friend (affinity.pinfold.dev/pod:1) of default/it/main: "
            "wanted cpus of one NUMA node with default/friend/main",
            "default/small/main",
            id="who fills the NUMA node of whom it must be with",
        ),
    ],
)
@pytest.mark.parametrize("fails", [True, False], ids=["fails", "degrades"])
def test_a_resize_that_rules_refuse_names_these_and_who_could_make_room(
    rules: dict[str, Any], residents: Sequence[Container], told: str, names: str, *, fails: bool
) -> None:
    engine = engine_of(NODES, "cpuset:7")
    it = container_of("it", 1, rules, fails=fails)
    for one in (residents[0], it, *residents[1:]):
        placed(engine, one)
    said = grown(engine, it, 3 if residents[0] is FAR else 2)
    assert said.endswith(f" — {told}{MAKE_ROOM}{names}")


def test_a_pod_with_a_pen_that_cannot_grow_names_the_rules_that_keep_it() -> None:
    engine = engine_of(NODES, "cpuset:7")
    pen = {"pod-pool.pinfold.dev/pod": "true"}
    it = container_of("it", 1, apart(term("numa", "far")), annotations=pen)
    for one in (FAR, it, FRIEND):
        placed(engine, one)
    assert "of default/it/main: wanted a NUMA node without default/far/main" in grown(engine, it, 3)


def test_whom_a_container_on_reserved_cpus_must_be_with_is_not_named_there() -> None:
    engine = engine_of(NODES, "cpuset:3,7")
    system = {"prefer-reserved-cpus.resource-policy.nri.io/pod": "true"}
    placed(engine, FRIEND)
    rules = {**near(term("socket", "friend")), **apart(term("socket", "friend"))}
    decision = engine.create(container_of("it", 0.1, rules, annotations=system, fails=True))
    assert MAKE_ROOM not in reason(decision)


def test_who_was_narrowed_for_one_that_leaves_may_be_in_the_way_then() -> None:
    """Without `other` the `shy` one is on all cpus, and so in each core."""
    engine = engine_of("socket:1 core:4 mem:4G", "cpuset:0")
    other = container_of("other", 1, shares=True)
    shy = container_of("shy", 0, apart(term("core", "other"), term("core", "it")), fails=True)
    placed(engine, container_of("owner", 1))
    for one in (other, shy):
        placed(engine, one)
    said = reason(engine.create(container_of("it", 2, shares=True)))
    assert not said.endswith(f"{MAKE_ROOM}default/other/main")
    assert said.endswith(f"{MAKE_ROOM}some of default/shy/main, default/other/main")


def test_nobody_is_named_whose_cpu_goes_to_one_that_made_way_for_him() -> None:
    """Without `own` the cluster of its cpu is the `guard`'s alone, who keeps the others away."""
    engine = engine_of("socket:1 cluster:3 core:2 mem:4G", "cpuset:0")
    own, it = container_of("own", 1, app="web"), container_of("it", 0, app="web")
    small = container_of("small", 0.5, app="web", shares=True)
    big = container_of("big", 1, app="shop", shares=True)
    rules = apart(term("cluster", "web"), term("cluster", "shop"))
    for one in (own, it, small, big, container_of("guard", 1, rules, fails=True, shares=True)):
        placed(engine, one)
    names = "one of default/guard/main, default/small/main, default/big/main"
    assert grown(engine, it, 1).endswith(f"{MAKE_ROOM}{names}")
    engine.stop(own.id)
    engine.remove(own.id)
    assert grown(engine, it, 1).endswith(f"{MAKE_ROOM}{names}")


def test_nobody_is_named_beside_whom_another_comes_who_had_made_way_for_him() -> None:
    """Without `guard` the `shy` one is on all cpus, and so beside `it`, which must be with it."""
    engine = engine_of("socket:1 numa:2 core:2 thread:2 mem:4G")
    guard = container_of(
        "guard", 0.5, apart(term("core", "web")), app="web", shares=True, annotations=HERE
    )
    it = container_of("it", 1, near(term("core", "web")), annotations=HERE)
    wide = {"pool-name.pinfold.dev/pod": "socket #0"}
    for one in (guard, it, container_of("shy", 0.5, app="web", shares=True, annotations=wide)):
        placed(engine, one)
    assert MAKE_ROOM not in grown(engine, it, 2)
    engine.stop(guard.id)
    engine.remove(guard.id)
    assert grown(engine, it, 2)


@pytest.mark.parametrize(
    ("residents", "skew", "told"),
    [
        pytest.param([HERE, HERE], 2, "one of default/x0/main, default/x1/main", id="either"),
        pytest.param([HERE, THERE, HERE], 1, "one of default/x0/main, default/x2/main", id="here"),
        pytest.param([HERE, HERE, HERE], 2, "all of default/x1/main, default/x2/main", id="two"),
    ],
)
def test_a_refusal_names_those_too_many_where_a_spread_rule_leaves_no_place(
    residents: Sequence[dict[str, str]], skew: int, told: str
) -> None:
    engine = engine_of(NODES, "cpuset:7")
    for number, where in enumerate(residents):
        placed(engine, container_of(f"x{number}", 0.3, app="x", annotations=where))
    it = container_of("it", 0.3, spread("x", skew), app="x", annotations=HERE, fails=True)
    _, _, names = reason(engine.create(it)).partition(MAKE_ROOM)
    assert names == told


@pytest.mark.parametrize("friends", [1, 50])
def test_a_refusal_names_on_whose_cpus_those_would_be_whom_the_newcomer_must_be_with(
    friends: int,
) -> None:
    engine = engine_of("socket:1 core:4 thread:2 mem:4G", "cpuset:7")
    for number in range(friends):
        placed(engine, container_of(f"friend{number}", 0.5 / friends, app="friend"))
    placed(engine, container_of("big", 6))
    it = container_of("it", 1, near(term("core", "friend")), fails=True)
    _, _, names = reason(engine.create(it)).partition(MAKE_ROOM)
    assert names == "default/big/main"
    engine.remove(it.id)
    engine.stop(container_of("big").id)
    placed(engine, it)


def test_where_it_need_not_be_with_them_those_are_named_after_all_others() -> None:
    engine = engine_of(NODES, "cpuset:7")
    for one in (PEER, OTHER_PEER, AWAY):
        placed(engine, one)
    it = container_of("it", 1, near(term("numa", "peer")))
    _, _, names = reason(engine.create(it)).partition(MAKE_ROOM)
    assert names == "default/away/main"
    engine.remove(it.id)
    engine = engine_of(NODES, "cpuset:7")
    for one in (PEER, OTHER_PEER, container_of("more", 3, app="peer", annotations=THERE)):
        placed(engine, one)
    _, _, names = reason(engine.create(it)).partition(MAKE_ROOM)
    assert names == "one of default/other-peer/main, default/peer/main, default/more/main"


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        pytest.param({"app": "a"}, "", id="not of one that is no first of all"),
        pytest.param({"app": "a", "tier": "x"}, "default/both/main", id="of the first of all"),
    ],
)
def test_as_kubernetes_code_has_it_all_rules_are_waived_or_none(
    labels: dict[str, str], told: str
) -> None:
    engine = engine_of(NODES, "cpuset:7", kubeCompat="strict")
    both = container_of("both", 4, app="a", labels={"tier": "x"}, annotations=HERE)
    placed(engine, both)
    tier = term("numa", labelSelector={"matchLabels": {"tier": "x"}})
    it = container_of("it", 1, near(term("numa", "a"), tier), labels=labels, fails=True)
    assert reason(engine.create(it)).partition(MAKE_ROOM)[2] == told


def test_one_is_named_where_a_spread_rule_allows_less_without_all_who_are_in_the_way() -> None:
    engine = engine_of(NODES, "cpuset:7")
    keeper = container_of("keeper", 1, app="x", labels={"is": "keeper"}, annotations=THERE)
    counted = container_of("counted", 1, app="x", annotations=HERE)
    for one in (counted, keeper, container_of("far", 2, annotations=THERE)):
        placed(engine, one)
    beside = near(term("numa", labelSelector={"matchLabels": {"is": "keeper"}}))
    away = apart(term("core", labelSelector={"matchLabels": {"pod.name": "counted"}}))
    it = container_of("it", 1, {**beside, **away, **spread("x")}, app="x", fails=True)
    assert reason(engine.create(it)).partition(MAKE_ROOM)[2] == "default/far/main"


def test_nobody_is_named_for_whom_one_that_asks_for_no_cpu_would_be_driven_out() -> None:
    """Cpu 0 is reserved. Without `small` the newcomer would need all that is left beside `it`."""
    engine = engine_of(NODES, "cpuset:0")
    other = container_of("other", 1, annotations=HERE)
    it = container_of("it", 0, apart(term("numa", "other")), fails=True)
    small = container_of("small", 1, annotations=THERE)
    large = container_of("large", 2, annotations=THERE)
    assert [placed(engine, one) for one in (other, it)] == ["1", "4-7"]
    for one in (small, large):
        placed(engine, one)
    newcomer = container_of("newcomer", 2, apart(term("numa", "other")), fails=True)
    _, _, names = reason(engine.create(newcomer)).partition(MAKE_ROOM)
    assert names == "one of default/other/main, default/large/main"
    engine.remove(newcomer.id)
    engine.stop(small.id)
    assert "who asks for no CPU would be left none" in reason(engine.create(newcomer))
    engine.remove(newcomer.id)
    engine.stop(large.id)
    placed(engine, newcomer)


def test_one_is_named_for_whom_another_is_driven_out_that_rules_let_go() -> None:
    """The same, but that the rule of `it` may break."""
    engine = engine_of(NODES, "cpuset:0")
    it = container_of("it", 0, apart(term("numa", "other")))
    small = container_of("small", 1, annotations=THERE)
    large = container_of("large", 2, annotations=THERE)
    for one in (container_of("other", 1, annotations=HERE), it, small, large):
        placed(engine, one)
    newcomer = container_of("newcomer", 2, apart(term("numa", "other")), fails=True)
    _, _, names = reason(engine.create(newcomer)).partition(MAKE_ROOM)
    assert names == "one of default/other/main, default/small/main, default/large/main"
    engine.remove(newcomer.id)
    engine.stop(small.id)
    placed(engine, newcomer)


def test_who_has_isolated_cpus_is_named_to_one_that_needs_more_of_those() -> None:
    """Cpu 7 is isolated and free, and one more is needed; of the others the rule leaves none."""
    engine = engine_of("socket:1 core:8 mem:4G isolated:4-7", "cpuset:0")
    wish = {"require-isolated-cpus.resource-policy.nri.io/pod": "true"}
    far = container_of("far", 0.1)
    placed(engine, far)
    for number in range(3):
        placed(engine, container_of(f"owner{number}", 1, annotations=wish))
    it = container_of("it", 2, apart(term("core", "far")), annotations=wish, fails=True)
    _, _, names = reason(engine.create(it)).partition(MAKE_ROOM)
    assert names == "one of default/owner0/main, default/owner1/main, default/owner2/main"


def test_who_fills_the_only_place_left_is_named_beside_many_who_are_in_the_way() -> None:
    engine = engine_of("numa:6 core:4 mem:4G")
    placed(
        engine, container_of("old", 2, annotations={"pool-name.pinfold.dev/pod": "NUMA node #0"})
    )
    for number in range(5):
        placed(engine, container_of(f"new-{number}", 2, apart(term("numa", "new")), app="new"))
    last = container_of("new-5", 2, apart(term("numa", "new")), app="new", fails=True)
    names = [f"default/new-{number}/main" for number in range(3)]
    told = ", ".join([*names, "default/old/main"])
    assert reason(engine.create(last)).endswith(f"to make room, stop or move one of {told}")
