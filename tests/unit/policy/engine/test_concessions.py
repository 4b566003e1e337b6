"""Rules that hold nowhere are given up, and residents make way for the others all the same."""

from collections import Counter
from collections.abc import Mapping

import pytest

from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Refusal
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.counted_calls import called_modules
from tests.unit.policy.engine.ruled_pods import (
    IGNORED,
    PREFERRED,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    prefer,
    term,
)

ONE_NODE = "socket:1 core:8 mem:4G"
"""Cpu 0 is reserved."""
AWAY_FROM_IT = apart(term("core", "it"))
ALONE = apart(term("numa", "it"))
"""What nobody on the only NUMA node can have."""


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize(
    "hopeless",
    [
        pytest.param(container_of("hopeless", 0.1, ALONE), id="of one that shares"),
        pytest.param(container_of("hopeless", 1, ALONE), id="of one with a cpu of its own"),
    ],
)
def test_a_resident_makes_way_though_the_rule_of_another_holds_nowhere(
    hopeless: Container, *, fails: bool
) -> None:
    engine = engine_of(ONE_NODE)
    sharer = container_of("sharer", 0.5, AWAY_FROM_IT, fails=fails)
    placed(engine, sharer)
    placed(engine, hopeless)
    it = container_of("it", 1, shares=True)
    placed(engine, it)
    (told,) = engine.decisions[it.id].unmet
    assert told.endswith(": in one NUMA node with its owner default/hopeless/main")
    assert not CpuSet.parse(cpus(engine, sharer)) & CpuSet.parse(cpus(engine, it))
    engine.check()


def test_who_must_be_with_another_makes_way_for_whom_both_avoid_though_a_rule_holds_nowhere() -> (
    None
):
    """Its own rule about the newcomer may break, and is no less a reason to make way."""
    engine = engine_of(ONE_NODE)
    sharer = container_of("sharer", 0, AWAY_FROM_IT | near(term("l3", "friend")))
    placed(engine, sharer)
    placed(engine, container_of("friend", 0))
    placed(engine, container_of("hopeless", 0.1, ALONE))
    it = container_of("it", 0, apart(term("core", "sharer")), fails=True)
    placed(engine, it)
    (told,) = engine.decisions[it.id].unmet
    assert told.endswith(": in one NUMA node with its owner default/hopeless/main")
    assert not CpuSet.parse(cpus(engine, sharer)) & CpuSet.parse(cpus(engine, it))
    engine.check()


def test_a_resident_makes_way_though_a_rule_of_the_newcomers_own_holds_nowhere() -> None:
    engine = engine_of(ONE_NODE)
    sharer, neighbour = container_of("sharer", 0.5), container_of("neighbour", 0.5)
    placed(engine, sharer)
    placed(engine, neighbour)
    it = container_of("it", 1, apart(term("core", "sharer"), term("numa", "neighbour")))
    here = placed(engine, it)
    (told,) = engine.decisions[it.id].unmet
    assert told.endswith(": in one NUMA node with default/neighbour/main")
    assert not CpuSet.parse(here) & CpuSet.parse(cpus(engine, sharer))


def test_whom_a_newcomer_need_not_be_with_makes_way_for_it_and_that_is_told() -> None:
    engine = engine_of(ONE_NODE)
    sharer = container_of("sharer", 0.5, AWAY_FROM_IT, fails=True)
    placed(engine, sharer)
    it = container_of("it", 1, near(term("core", "sharer")), shares=True)
    here = placed(engine, it)
    (told,) = engine.decisions[it.id].unmet
    assert told.startswith("affinity at core to app=sharer ")
    assert not CpuSet.parse(here) & CpuSet.parse(cpus(engine, sharer))
    engine.check()


def test_who_makes_way_with_its_share_is_still_beside_a_newcomer_with_its_own_cpus() -> None:
    engine = engine_of("socket:1 l3:2 core:4 mem:4G")
    socket = {"key": "kind", "operator": "In", "values": ["socket"]}
    wish = {"weight": 100, "preference": {"matchExpressions": [socket]}}
    mixed = container_of("mixed", 1.5, {"poolAffinity": {PREFERRED: [wish]}}, is_guaranteed=True)
    assert placed(engine, mixed) == "1-7"
    assert str(engine.grants[mixed.id].exclusive) == "1"
    placed(engine, container_of("other", 0.5, apart(term("l3", "it")), fails=True))
    it = container_of("it", 1, apart(term("core", "mixed"), term("l3", "mixed")), shares=True)
    assert placed(engine, it) == "2-3"
    assert cpus(engine, mixed) == "1,4-7"
    (told,) = engine.decisions[it.id].unmet
    assert told.endswith(": in one L3 group with default/mixed/main")


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        pytest.param(None, [], id="without rules"),
        pytest.param(near(term("core", "nobody")), ["affinity at core"], id="beside nobody"),
        pytest.param(near(term("core", "idle")), ["affinity at core"], id="beside who is driven"),
        pytest.param(apart(term("socket", "idle")), ["anti-affinity at socket"], id="away from it"),
    ],
)
def test_who_asked_for_no_cpu_leaves_its_last_one_though_a_rule_breaks_there(
    rules: Mapping[str, object] | None, told: list[str]
) -> None:
    engine = engine_of("socket:1 core:2 mem:4G")
    idle = container_of("idle", 0)
    assert placed(engine, idle) == "1"
    it = container_of("it", 1, rules)
    assert placed(engine, it) == "1"
    assert cpus(engine, idle) == "0"
    assert [text.partition(" to ")[0] for text in engine.decisions[it.id].unmet] == told
    # A rule that insists keeps it from there.
    engine = engine_of("socket:1 core:2 mem:4G")
    placed(engine, idle)
    insisting = engine.create(container_of("it", 1, rules, fails=True)).result
    assert isinstance(insisting, Refusal) == bool(told)


def test_whom_a_newcomer_has_to_be_with_makes_no_way_for_it() -> None:
    engine = engine_of(ONE_NODE)
    sharer = container_of("sharer", 0.5, AWAY_FROM_IT, fails=True)
    before = placed(engine, sharer)
    it = container_of("it", 1, near(term("core", "sharer")), shares=True, fails=True)
    assert isinstance(engine.create(it).result, Refusal)
    assert cpus(engine, sharer) == before


def test_no_rule_of_those_that_make_way_for_another_is_told() -> None:
    """All want cores without it; the first stays, and the others leave it a cluster."""
    engine = engine_of("socket:1 cluster:2 core:4 mem:4G")
    here = {"pool-name.pinfold.dev/pod": "socket #0"}
    placed(engine, container_of("stays", 0.5, AWAY_FROM_IT, annotations=here))
    rules = apart(term("core", "it"), term("numa", "sharer"))
    sharers = [container_of(f"sharer{number}", 0.1, rules, app="sharer") for number in range(5)]
    for one in sharers:
        placed(engine, one)
    it = container_of("it", 1, apart(term("cluster", "sharer")), shares=True)
    (told,) = engine.create(it).unmet
    assert told.endswith(": in one core with its owner default/stays/main")
    assert not any(
        "default/it/" in text for one in sharers for text in engine.decisions[one.id].unmet
    )


def test_a_resident_makes_way_where_two_other_rules_exclude_each_other() -> None:
    engine = engine_of("socket:2 numa:1 core:4 mem:4G")
    first, second = (
        container_of(name, 0.5, ALONE, annotations={"pool-name.pinfold.dev/pod": f"socket #{node}"})
        for name, node in (("first", 0), ("second", 1))
    )
    friend = container_of("friend", 0.5, AWAY_FROM_IT | prefer(100, term("numa", "second")))
    for one in (first, second, friend):
        placed(engine, one)
    it = container_of("it", 1, near(term("numa", "second")), shares=True)
    placed(engine, it)
    (told,) = engine.decisions[it.id].unmet
    assert told.endswith(": in one NUMA node with its owner default/second/main")
    assert not CpuSet.parse(cpus(engine, friend)) & CpuSet.parse(cpus(engine, it))


def test_nobody_makes_way_for_others_where_one_rule_alone_breaks() -> None:
    """It is asked where the others hold only if that may be fewer than break where all stay."""
    calls = _calls_beside_so_many(1)
    assert calls["breaking"]
    assert not calls["concessions"]


def test_how_much_a_place_is_liked_is_found_once_whichever_rules_are_given_up() -> None:
    two, four = _calls_beside_so_many(2), _calls_beside_so_many(4)
    assert four["concessions"] > two["concessions"] > 0
    assert four["pulls"] < two["pulls"] + 110


def _calls_beside_so_many(number: int) -> Mapping[str, int]:
    """By module, of a newcomer that would be beside each of them, and apart from each."""
    engine = engine_of("socket:2 numa:4 l3:4 core:4 mem:4G")
    names = [f"web{one}" for one in range(number)]
    for one in range(12):
        placed(engine, container_of(f"friend{one}", 0.5, app="friend"))
    for name in names:
        placed(engine, container_of(name, 0.5))
    away = {"weight": 5, "podAffinityTerm": term("core", "friend")}
    rules = near(*(term("l3", name) for name in names))
    rules["podAntiAffinity"] = {
        IGNORED: [term("socket", name) for name in names],
        PREFERRED: [away],
    }
    it, unmet = container_of("it", 1, rules), list[str]()
    modules = called_modules(lambda: unmet.extend(engine.create(it).unmet))
    assert len(unmet) == number
    return Counter(module.rsplit(".", 1)[-1] for module in modules)
