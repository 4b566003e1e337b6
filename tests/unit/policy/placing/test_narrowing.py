"""Narrowing: who makes way for a newcomer, and where nobody need be asked."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Grant
from tests.unit.counted_calls import called_modules
from tests.unit.policy.engine.ruled_pods import (
    NODES,
    PREFERRED,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    reason,
    term,
)

_NAME = "pool-name.pinfold.dev/pod"


def _labelled(labels: Mapping[str, str]) -> Mapping[str, Any]:
    """A selector of the pools with these labels."""
    wanted = [{"key": key, "operator": "In", "values": [one]} for key, one in labels.items()]
    return {"matchExpressions": wanted}


def _resident(name: str, level: str, **labels: str) -> Container:
    """A container that wants to be in a pool with these labels, and away from `web`."""
    wish = {"weight": 100, "preference": _labelled(labels)}
    rules: dict[str, Any] = {**apart(term(level, "web")), "poolAffinity": {PREFERRED: [wish]}}
    return container_of(name, 0.1, rules)


def _engine(in_sockets: int, nodes: Sequence[int], level: str = "numa") -> Engine:
    """Residents spread over the sockets, and one in each of some NUMA nodes."""
    engine = engine_of(NODES)
    for number in range(in_sockets):
        engine.create(_resident(f"wide{number}", level, kind="socket", socket=str(number % 2)))
    for number in nodes:
        engine.create(_resident(f"narrow{number}", level, kind="numa", numa=str(number)))
    return engine


@pytest.mark.parametrize(
    ("nodes", "level", "place"),
    [
        pytest.param([], "numa", "1-3", id="all of a socket leave a node of it"),
        pytest.param([0], "numa", "4-7", id="they leave a node that nobody has as his pool"),
        pytest.param([0, 1, 2], "numa", "12-15", id="they leave the last node without such"),
        pytest.param([0, 1, 2, 3], "numa", "", id="nobody leaves a node that is his pool"),
        pytest.param([0, 1, 2, 3], "core", "2-3", id="everybody leaves a core of his pool"),
        pytest.param([], "socket", "", id="nobody leaves a socket that is his pool"),
    ],
)
def test_who_shares_a_pool_makes_way_inside_it_alone(
    nodes: Sequence[int], level: str, place: str
) -> None:
    engine = _engine(8, nodes, level)
    web = container_of("web", 0.1)
    told = engine.create(web).unmet
    assert bool(told) is not bool(place)
    assert not place or cpus(engine, web) == place
    engine.check()


@pytest.mark.parametrize(
    ("cpu", "place"),
    [
        pytest.param(2, "2-3", id="one core is enough"),
        pytest.param(4, "2-5", id="two cores"),
        pytest.param(12, "2-13", id="all but the core of those who make way"),
        pytest.param(13, "", id="nothing would be left for them"),
    ],
)
def test_a_large_newcomer_has_several_domains_left_to_it(cpu: int, place: str) -> None:
    engine = engine_of("socket:1 core:8 thread:2 mem:4G", "cpuset:0-1")
    for number in range(3):
        engine.create(container_of(f"noisy{number}", 0.1, app="noisy"))
    rules = apart(term("core", "noisy"))
    web = container_of("web", cpu, rules, fails=True)
    result = engine.create(web).result
    assert isinstance(result, Grant) is bool(place)
    assert not place or cpus(engine, web) == place
    engine.check()


@pytest.mark.parametrize(
    ("kind", "level", "place"),
    [
        pytest.param("numa", "numa", "8-9", id="in its NUMA node it counts on fewer cpus, too"),
        pytest.param("socket", "socket", "2-3", id="and in its socket"),
        pytest.param("socket", "numa", "", id="a NUMA node of two would have one less"),
    ],
)
def test_who_is_spread_with_others_makes_way_inside_the_domain_where_it_counts(
    kind: str, level: str, place: str
) -> None:
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G", "cpuset:0-1")
    spread = {
        "maxSkew": 1,
        "topologyKey": level,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "twin"}},
    }
    labels = {"kind": kind, kind: "1" if kind == "numa" else "0"}
    wish = {"weight": 100, "preference": _labelled(labels)}
    rules = {"topologySpread": [spread], "poolAffinity": {PREFERRED: [wish]}}
    twin = container_of("twin", 0.1, rules)
    there = {"pool-name.pinfold.dev/pod": "NUMA node #1" if kind == "numa" else "socket #0"}
    web = container_of("web", 0.1, apart(term("core", "twin")), fails=True, annotations=there)
    whole = placed(engine, twin)
    result = engine.create(web).result
    assert isinstance(result, Grant) is bool(place)
    assert not place or cpus(engine, web) == place
    assert (cpus(engine, twin) != whole) is bool(place)
    engine.check()


@pytest.mark.parametrize(
    ("rules", "annotations", "places"),
    [
        pytest.param({}, {"pool-selector": "numa=1"}, ["12-15", "8-9", "10-11"], id="in a pool"),
        pytest.param(
            {}, {"pool-name": "socket #1"}, ["20-31", "16-17", "18-19"], id="in one by its name"
        ),
        pytest.param(
            near(term("numa", "cache")), {}, ["20-23", "16-17", "18-19"], id="with a container"
        ),
    ],
)
def test_replicas_that_must_be_apart_make_way_for_each_other_wherever_they_must_be(
    rules: Mapping[str, Any], annotations: Mapping[str, str], places: Sequence[str]
) -> None:
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G", "cpuset:0-1")
    engine.create(container_of("cache", 0.1, annotations={_NAME: "NUMA node #2"}))
    told = {f"{key}.pinfold.dev/pod": value for key, value in annotations.items()}
    both = {**rules, **apart(term("core", "web"))}
    names = ("web-0", "web-1", "web-2")
    replicas = [container_of(n, 0.1, both, app="web", fails=True, annotations=told) for n in names]
    for one in replicas:
        placed(engine, one)
    assert [cpus(engine, one) for one in replicas] == places
    assert not any(engine.decisions[one.id].unmet for one in replicas)


@pytest.mark.parametrize("rules", [{}, near(term("numa", "cache"))], ids=["alone", "with another"])
def test_who_gets_back_what_it_left_keeps_it_from_those_that_came_later(
    rules: Mapping[str, Any],
) -> None:
    engine = engine_of("socket:1 core:8 thread:2 mem:4G", "cpuset:0-1")
    engine.create(container_of("cache", 0.1))
    both, names = {**apart(term("core", "web")), **rules}, ("web-0", "web-1", "web-2", "web-3")
    replicas = [container_of(name, 0.1, both, app="web", fails=True) for name in names]
    for one in replicas:
        placed(engine, one)
    assert [cpus(engine, one) for one in replicas] == ["8-15", "2-3", "4-5", "6-7"]
    for gone, left in ((3, ["6-15", "2-3", "4-5"]), (2, ["4-15", "2-3"]), (1, ["2-15"])):
        engine.stop(replicas[gone].id)
        engine.remove(replicas[gone].id)
        assert [cpus(engine, one) for one in replicas[:gone]] == left
        engine.check()


@pytest.mark.parametrize("reloads", [False, True])
def test_who_stood_beside_another_gets_back_all_that_others_left_meanwhile(
    *, reloads: bool
) -> None:
    engine = engine_of("socket:1 core:4 thread:2 mem:4G", "cpuset:0-1")
    rules = apart(term("core", "web"))
    first, *others = [container_of(f"web-{n}", 0.1, rules, app="web") for n in range(6)]
    for one in (first, *others):
        placed(engine, one)
    assert cpus(engine, first) == cpus(engine, others[-1]) == "6-7"
    for one in others:
        assert cpus(engine, first) == "6-7"
        if reloads:
            engine, _ = engine.reconfigured(engine.config)
        engine.stop(one.id)
        engine.remove(one.id)
        engine.check()
    assert not engine.decisions[first.id].unmet
    assert cpus(engine, first) == "2-7"


def test_replicas_that_must_be_apart_have_a_domain_each_however_many_they_are() -> None:
    engine = engine_of("socket:1 core:96 thread:2 mem:4G", "cpuset:0-1")
    rules = apart(term("core", "web"))
    for number in range(95):
        replica = container_of(f"web-{number}", 0.1, rules, app="web", fails=True)
        assert isinstance(engine.create(replica).result, Grant), number
    engine.check()
    more = container_of("web-95", 0.1, rules, app="web", fails=True)
    assert reason(engine.create(more)).startswith("required rules leave no room")


@pytest.mark.parametrize(
    ("rules", "annotations"),
    [
        pytest.param(near(term("numa", "nobody")), {}, id="with a container that there is not"),
        pytest.param({}, {_NAME: "NUMA node #9"}, id="in a pool that there is not"),
    ],
)
def test_a_replica_gets_back_what_it_left_to_another_though_it_is_not_where_it_must_be(
    rules: Mapping[str, Any], annotations: Mapping[str, str]
) -> None:
    engine = engine_of("socket:1 core:3 thread:2 mem:4G", "cpuset:0-1")
    both = {**rules, **apart(term("core", "web"))}
    replicas = [
        container_of(name, 0.1, both, app="web", annotations=annotations)
        for name in ("web-0", "web-1")
    ]
    assert [placed(engine, one) for one in replicas] == ["2-5", "2-3"]
    assert cpus(engine, replicas[0]) == "4-5"
    engine.stop(replicas[1].id)
    engine.remove(replicas[1].id)
    assert cpus(engine, replicas[0]) == "2-5"
    assert len(engine.decisions[replicas[0].id].unmet) == 1
    engine.check()


@pytest.mark.parametrize(
    ("rules", "annotations"),
    [
        pytest.param({}, {"pool-selector": "numa=1"}, id="in a pool"),
        pytest.param({}, {"pool-name": "NUMA node #1"}, id="in one by its name"),
        pytest.param(near(term("numa", "cache")), {}, id="with a container"),
    ],
)
def test_who_must_be_somewhere_makes_no_way_for_the_rule_of_a_newcomer_alone(
    rules: Mapping[str, Any], annotations: Mapping[str, str]
) -> None:
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G", "cpuset:0-1")
    engine.create(container_of("cache", 0.1, annotations={_NAME: "NUMA node #1"}))
    told = {f"{key}.pinfold.dev/pod": value for key, value in annotations.items()}
    held = container_of("held", 0.1, rules, annotations=told)
    assert placed(engine, held) == "8-15"
    beside = {_NAME: "NUMA node #1"}
    web = container_of("web", 0.1, apart(term("core", "held")), fails=True, annotations=beside)
    assert "wanted a core without default/held/main" in reason(engine.create(web))
    assert cpus(engine, held) == "8-15"
    engine.check()


@pytest.mark.parametrize(
    ("labels", "others", "place"),
    [
        pytest.param({"numa": "1"}, [], "8-9", id="in its NUMA node it is with it all the same"),
        pytest.param({"kind": "socket"}, [], "16-17", id="in two NUMA nodes it leaves neither"),
        pytest.param({"numa": "1"}, ["app"], "", id="and nobody leaves whom others must be with"),
    ],
)
def test_a_container_makes_way_for_who_must_be_with_it_on_other_cores(
    labels: Mapping[str, str], others: Sequence[str], place: str
) -> None:
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G", "cpuset:0-1")
    wish = {"weight": 100, "preference": _labelled(labels)}
    cache = container_of("cache", 0.1, {"poolAffinity": {PREFERRED: [wish]}})
    whole = placed(engine, cache)
    for name in others:
        placed(engine, container_of(name, 0.1, near(term("numa", "cache")), fails=True))
    both = {**near(term("numa", "cache")), **apart(term("core", "cache"))}
    web = container_of("web", 0.1, both, fails=True)
    assert isinstance(engine.create(web).result, Grant) is bool(place)
    assert not place or cpus(engine, web) == place
    assert (cpus(engine, cache) != whole) is bool(place)
    engine.remove(web.id)
    assert cpus(engine, cache) == whole
    engine.check()


def test_who_has_cpus_of_its_own_makes_way_with_its_share_alone() -> None:
    engine = engine_of("socket:1 core:3 thread:2 mem:4G", "cpuset:0-1")
    mixed = container_of("mixed", 1.5, is_guaranteed=True)
    assert placed(engine, mixed) == "2-5"
    assert str(engine.grants[mixed.id].exclusive) == "2"
    web = container_of("web", 0.5, apart(term("core", "mixed")), fails=True)
    assert placed(engine, web) == "4-5"
    assert cpus(engine, mixed) == "2-3"
    engine.remove(web.id)
    assert cpus(engine, mixed) == "2-5"
    wide = container_of("wide", 2.5, apart(term("core", "mixed")), fails=True)
    assert reason(engine.create(wide)).endswith("stop or move default/mixed/main")
    engine.check()


def test_nobody_leaves_a_domain_without_isolated_cpus_for_who_needs_those() -> None:
    """They are in the first socket and in the last; the resident has room in two others."""
    engine = engine_of("socket:4 core:4 mem:4G isolated:1,13")
    wide = container_of("wide", 4.5, apart(term("socket", "web")), fails=True)
    assert placed(engine, wide) == "2-12,14-15"
    needs_isolated = {"require-isolated-cpus.resource-policy.nri.io/pod": "true"}
    web = container_of("web", 2, annotations=needs_isolated, fails=True)
    assert placed(engine, web) == "1,13"
    assert cpus(engine, wide) == "4-11"
    assert engine.decisions[wide.id].unmet == ()


def test_who_makes_way_at_a_narrow_level_does_so_whatever_others_ask_for_at_wider_ones() -> None:
    engine = engine_of("socket:2 core:4 thread:2 mem:4G", "cpuset:0-1")
    owner = container_of("owner", 0.1, apart(term("socket", "web")))
    engine.create(owner)
    wide = "0" if cpus(engine, owner).startswith("8") else "1"
    noisy = _resident("noisy", "core", kind="socket", socket=wide)
    engine.create(noisy)
    web = container_of("web", 1)
    assert not engine.create(web).unmet
    assert not engine.grants[noisy.id].exclusive
    engine.check()


def test_who_made_way_does_not_follow_where_others_give_back_cpus_to_the_newcomer() -> None:
    engine = engine_of(NODES)
    in_node = {"pool-name.pinfold.dev/pod": "NUMA node #2"}
    full = container_of("full", 2, annotations=in_node)
    narrowed = _resident("narrowed", "core", kind="socket", socket="1")
    elsewhere = _resident("elsewhere", "core", kind="socket", socket="0")
    for one in (full, narrowed, elsewhere):
        engine.create(one)
    rules = apart(term("numa", "elsewhere"))
    web = container_of("web", 0, rules, fails=True, annotations=in_node)
    assert not engine.create(web).unmet
    assert (cpus(engine, web), cpus(engine, narrowed)) == ("10-11", "12-15")
    engine.remove(full.id)
    assert (cpus(engine, web), cpus(engine, narrowed)) == ("8-11", "12-15")
    engine.check()


def test_a_further_resident_that_stays_costs_no_call() -> None:
    calls: list[int] = []
    for residents in (8, 80):
        create = partial(_engine(residents, range(4)).create, container_of("web", 0.1))
        calls.append(called_modules(create).count("pinfold.policy.placing.openings.narrowing"))
    few, many = calls
    assert 0 < many <= few < 20


@pytest.mark.parametrize(
    ("nodes", "is_any_asked"),
    [
        pytest.param([0, 1, 2], True, id="one node can be left"),
        pytest.param([0, 1, 2, 3], False, id="in each there is one who shares no cpus elsewhere"),
    ],
)
def test_nobody_is_asked_to_make_way_where_some_stay_in_each_domain(
    nodes: Sequence[int], *, is_any_asked: bool
) -> None:
    engine = _engine(2, nodes)
    engine.create(container_of("lonely", 0.1, near(term("socket", "friend"))))
    names = [f"wide{number}" for number in range(2)] + [f"narrow{number}" for number in nodes]
    others = {"matchExpressions": [{"key": "app", "operator": "In", "values": names}]}
    newcomer = container_of("new", 0.1, apart(term("numa", labelSelector=others)))
    called = called_modules(partial(engine.create, newcomer))
    assert bool(engine.decisions[newcomer.id].unmet) is not is_any_asked
    assert ("pinfold.policy.books.required_residents" in called) is is_any_asked


def test_who_is_in_the_way_of_two_rules_is_asked_about_once() -> None:
    def asked(rules: dict[str, Any]) -> int:
        engine = engine_of("socket:1 core:8 thread:2 mem:4G", "cpuset:0-1")
        engine.create(container_of("lonely", 0.1, near(term("socket", "friend"))))
        for number in range(3):
            engine.create(container_of(f"web{number}", 0.1, rules, app="web"))
        newcomer = container_of("new", 0.1, apart(term("core", "web")), app="new")
        create = partial(engine.create, newcomer)
        found = called_modules(create).count("pinfold.policy.books.ties")
        assert not engine.decisions[newcomer.id].unmet
        return found

    # Its own rule alone, or theirs as well.
    assert 0 < asked({}) == asked(apart(term("core", "new")))


@pytest.mark.parametrize("names", [("one", "other"), ("other", "one")])
def test_residents_make_way_in_one_order_whoever_came_first(names: Sequence[str]) -> None:
    """A plan is made on a copy, which knows them in another order, and has to come true."""
    engine = engine_of("socket:1 core:4 thread:2 mem:4G")
    for name in names:
        placed(engine, container_of(name, 0.5, app="noisy"))
    decision = engine.create(container_of("shy", 0.5, apart(term("core", "noisy"))))
    assert [one.container_id for one in decision.changes] == ["one-main", "other-main"]
    engine.check()


@pytest.mark.parametrize(
    ("machine", "level", "cpu", "place", "left"),
    [
        pytest.param("socket:2 core:4", "numa", 4, "4-7", "1-3", id="all of a NUMA node"),
        pytest.param(
            "socket:2 core:4", "core", 1, "4", "1-3,5-7", id="all of a core of one thread"
        ),
        pytest.param("core:4 thread:2", "core", 2, "2-3", "1,4-7", id="all of a core of two"),
        pytest.param("core:4 thread:2", "core", 1, "", "1-7", id="a thread beside it stays shared"),
        pytest.param("socket:2 core:4", "numa", 3, "", "1-7", id="beside a reserved cpu"),
    ],
)
@pytest.mark.parametrize("is_own", [True, False])
def test_nobody_has_to_make_way_where_a_newcomer_takes_all_cpus_of_a_domain(
    machine: str, level: str, cpu: int, place: str, left: str, is_own: bool
) -> None:
    """Who is held by a rule loses what any newcomer may take, whoever of the two has the rule."""
    engine = engine_of(machine, "cpuset:0")
    everywhere = {"pool-selector.pinfold.dev/pod": "cpus=8"}
    rules = None if is_own else apart(term(level, "web"))
    held = container_of("held", 0.3, rules, annotations=everywhere, fails=True)
    assert placed(engine, held) == "1-7"
    web = container_of("web", cpu, apart(term(level, "held")) if is_own else None, fails=is_own)
    assert isinstance(engine.create(web).result, Grant) is bool(place)
    assert not place or cpus(engine, web) == place
    assert cpus(engine, held) == left
    assert not any(decision.unmet for decision in engine.decisions.values())
    engine.check()
    if place:
        engine.remove(web.id)
        assert cpus(engine, held) == "1-7", "who is gone keeps nobody away"
