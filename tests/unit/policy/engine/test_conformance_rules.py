"""Required and preferred rules between containers, item by item of their conformance list."""

import dataclasses
import re
from itertools import permutations
from typing import Any

import pytest
from msgspec import structs

from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Dropped, Grant, Refusal
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    LASTING,
    NODES,
    PREFERRED,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    prefer,
    reason,
    term,
)
from tests.unit.topology.model.offline import without

CACHES = "socket:1 numa:2 l3:2 core:4 mem:8G"
"""NUMA nodes 0-7, 8-15, each with two L3 groups of four cores."""
CORES = "socket:1 core:4 thread:2 mem:4G"


def domains_of(engine: Engine, container: Container, size: int) -> set[int]:
    """The numbers of the domains of so many cpus that a container runs in."""
    return {cpu // size for cpu in CpuSet.parse(cpus(engine, container))}


def test_01_required_affinity_is_met_where_a_match_is() -> None:
    engine = engine_of(NODES)
    cache = container_of("cache", 1)
    web = container_of("web", 0.5, near(term("numa", "cache")))
    placed(engine, cache)
    placed(engine, web)
    assert domains_of(engine, web, 4) == domains_of(engine, cache, 4)


def test_01_required_affinity_without_any_match_is_unmet() -> None:
    engine = engine_of(NODES)
    decision = engine.create(container_of("web", 0.5, near(term("numa", "cache")), fails=True))
    assert "affinity at numa to app=cache" in reason(decision)
    assert "default/web/main" in reason(decision)
    degrading = engine.create(container_of("other", 0.5, near(term("numa", "cache"))))
    assert isinstance(degrading.result, Grant)
    (unmet,) = degrading.unmet
    assert "affinity at numa to app=cache" in unmet
    assert any(str(one) == f"unmet: {unmet}" for one in degrading.problems)


@pytest.mark.parametrize("level", ["socket", "numa", "core"])
@pytest.mark.parametrize("is_rule_first", [True, False])
def test_02_anti_affinity_holds_in_both_orders(level: str, *, is_rule_first: bool) -> None:
    engine = engine_of(NODES)
    # Whatever else draws them to each other.
    rules = {**apart(term(level, "wolf")), **prefer(100, term(level, "wolf"))}
    sheep = container_of("sheep", 1, rules, fails=True)
    wolf = container_of("wolf", 1)
    size = {"socket": 8, "numa": 4, "core": 2}[level]
    for one in (sheep, wolf) if is_rule_first else (wolf, sheep):
        placed(engine, one)
    assert domains_of(engine, sheep, size).isdisjoint(domains_of(engine, wolf, size))


def test_03_a_newcomer_without_rules_is_blocked_by_a_residents() -> None:
    engine = engine_of("socket:1 numa:2 core:2 mem:2G", "cpuset:0")
    sheep = container_of("sheep", 0.5, apart(term("socket", "wolf")), fails=True)
    placed(engine, sheep)
    decision = engine.create(container_of("wolf", 0.5))
    assert "anti-affinity at socket to app=wolf" in reason(decision)
    assert "default/sheep/main" in reason(decision)
    candidates = [one for one in decision.candidates if isinstance(one, Dropped)]
    assert len(candidates) == len(engine.tree.pools)
    assert all("of default/sheep/main" in one.criterion for one in candidates)


def test_04_the_first_of_a_group_need_not_find_it() -> None:
    engine = engine_of(NODES)
    rules = near(term("numa", "group"))
    first = container_of("one", 1, rules, app="group", fails=True)
    second = container_of("two", 1, rules, app="group", fails=True)
    placed(engine, first)
    placed(engine, second)
    assert domains_of(engine, first, 4) == domains_of(engine, second, 4)


def test_04_no_waiver_once_a_match_is_elsewhere() -> None:
    engine = engine_of(NODES)
    rules = near(term("numa", "group"))
    for number in range(3):
        placed(engine, container_of(f"g{number}", 1, rules, app="group", fails=True))
    full = container_of("last", 3, rules, app="group", fails=True)
    assert "affinity at numa to app=group" in reason(engine.create(full))


def test_05_the_waiver_needs_the_own_namespace_too() -> None:
    engine = engine_of(NODES)
    elsewhere = near(term("numa", "web", namespaces=["other"]))
    decision = engine.create(container_of("web", 1, elsewhere, fails=True))
    assert isinstance(decision.result, Refusal)
    here = near(term("numa", "web", namespaces=["default"]))
    placed(engine, container_of("web", 1, here, fails=True))


def test_06_a_null_selector_keeps_from_nobody_and_an_empty_one_from_everybody() -> None:
    engine = engine_of(NODES)
    first, second = (
        {"pool-selector.pinfold.dev/pod": f"socket={socket},kind=socket"} for socket in range(2)
    )
    placed(engine, container_of("any", 1, annotations=first))
    everybody: dict[str, Any] = {"labelSelector": {}, "topologyKey": "socket"}
    shy = container_of("shy", 1, apart(everybody), fails=True)
    placed(engine, shy)
    assert domains_of(engine, shy, 8) == {1}
    engine.stop(shy.id)
    placed(engine, container_of("other", 1, annotations=second))
    nobody = container_of("calm", 1, apart(term("socket")), fails=True)
    placed(engine, nobody)
    told = reason(engine.create(structs.replace(shy, id=ContainerId("shy again"))))
    assert "anti-affinity at socket to everything" in told


def test_07_not_in_also_matches_pods_without_the_label() -> None:
    engine = engine_of(NODES)
    quiet = container_of("quiet", 1, labels={"tier": "gold"})
    noisy = container_of("noisy", 1)
    placed(engine, quiet)
    placed(engine, noisy)
    selector = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}
    shy = container_of(
        "shy", 1, apart({"labelSelector": selector, "topologyKey": "numa"}), fails=True
    )
    placed(engine, shy)
    assert domains_of(engine, shy, 4).isdisjoint(domains_of(engine, noisy, 4))


@pytest.mark.parametrize(
    ("scope", "is_blocked"),
    [
        ({}, False),
        ({"namespaces": []}, False),
        ({"namespaces": ["a"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaces": ["b"], "namespaceSelector": {"matchLabels": {"team": "red"}}}, True),
        ({"namespaces": ["b"], "namespaceSelector": {"matchLabels": {"team": "blue"}}}, False),
    ],
)
def test_08_namespaces_of_a_term(scope: dict[str, Any], *, is_blocked: bool) -> None:
    engine = engine_of(CORES, namespaceLabels={"a": {"team": "red"}})
    placed(engine, container_of("wolf", 1, namespace="a"))
    sheep = container_of("sheep", 1, apart(term("socket", "wolf", **scope)), fails=True)
    assert isinstance(engine.create(sheep).result, Refusal) is is_blocked


@pytest.mark.parametrize("is_told_again", [False, True], ids=["restart", "list"])
def test_09_label_keys_stay_resolved_as_at_first_sight(*, is_told_again: bool) -> None:
    engine = engine_of(CORES)
    rules = apart(term("socket", "wolf", matchLabelKeys=["rev", "zone"]))
    placed(engine, container_of("sheep", 1, rules, fails=True, labels={"rev": "3"}))
    # Somebody edits a label meanwhile, and adds the one that was absent.
    edited = {"app": "sheep", "rev": "4", "zone": "east"}
    for _ in range(2):
        advice = engine.snapshot().advice()
        running = [
            structs.replace(one, pod=structs.replace(one.pod, labels=edited, first_labels=None))
            for one in engine.snapshot().running()
        ]
        engine = engine if is_told_again else engine_of(CORES)
        engine.synchronize(running, advice)
    (sheep,) = engine.containers.values()
    assert sheep.pod.labels == edited, "others' rules are about what it has by now"
    young = container_of("young", 1, app="wolf", labels={"rev": "4", "zone": "east"})
    placed(engine, young)
    old = container_of("old", 1, app="wolf", labels={"rev": "3"})
    assert "anti-affinity at socket to app=wolf, the same rev" in reason(engine.create(old))


@pytest.mark.parametrize("empty", [{}, {"matchExpressions": []}])
def test_13_an_empty_preference_beside_another_changes_no_rank_and_refuses_nobody(
    empty: dict[str, Any],
) -> None:
    """Not even where faults in annotations refuse: it is legal in Kubernetes."""
    here = {"matchExpressions": [{"key": "numa", "operator": "In", "values": ["2"]}]}
    meant = {"weight": 1, "preference": here}
    found = [
        engine_of(NODES, onBadAnnotation="fail").create(
            container_of("web", 1, {"poolAffinity": {PREFERRED: terms}})
        )
        for terms in ([meant], [{"weight": 100, "preference": empty}, meant])
    ]
    assert [one.pool for one in found] == ["NUMA node #2"] * 2
    assert found[0].candidates == found[1].candidates


def test_14_weights_add_per_match() -> None:
    engine = engine_of(NODES)
    for name, node in (("a", 0), ("b", 1), ("c", 1)):
        pool = {"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
        app = "friend" if node else "one friend"
        placed(engine, container_of(name, 0.5, app=app, annotations=pool))
    rules = prefer(15, term("numa", "one friend"))["podAffinity"][PREFERRED]
    rules += prefer(10, term("numa", "friend"))["podAffinity"][PREFERRED]
    placed(engine, guest := container_of("guest", 0.5, {"podAffinity": {PREFERRED: rules}}))
    assert domains_of(engine, guest, 4) == {1}, "two of weight 10 are more than one of 15"
    hostile = prefer(10, term("numa", "friend"), is_anti=True)
    placed(engine, other := container_of("other", 0.5, hostile))
    assert domains_of(engine, other, 4).isdisjoint({0, 1})


def test_14_a_preference_counts_in_both_directions() -> None:
    engine = engine_of(NODES)
    placed(engine, one := container_of("one", 1, prefer(50, term("numa", "two"))))
    placed(engine, two := container_of("two", 1))
    assert domains_of(engine, one, 4) == domains_of(engine, two, 4)


def test_15_required_affinity_pulls_softly_the_other_way() -> None:
    engine = engine_of(NODES)
    rules = near(term("numa", "cache"))
    placed(engine, web := container_of("web", 1, rules))
    placed(engine, cache := container_of("cache", 1))
    assert domains_of(engine, cache, 4) == domains_of(engine, web, 4)
    engine = engine_of(NODES, hardAffinityWeight=0)
    placed(engine, web)
    placed(engine, cache)
    assert domains_of(engine, cache, 4) != domains_of(engine, web, 4)


@pytest.mark.parametrize("is_rule_first", [True, False])
def test_16_a_container_of_several_domains_keeps_all_of_them_clear(*, is_rule_first: bool) -> None:
    engine = engine_of(NODES)
    # Cpus are left beside it, and the other would rather be there.
    rules = apart(term("numa", "wolf" if is_rule_first else "wide"))
    wish = prefer(100, term("socket", "wide"))
    wide = container_of("wide", 6, rules if is_rule_first else None, fails=is_rule_first)
    placed(engine, wide)
    assert len(domains_of(engine, wide, 4)) == 2
    wolf = container_of("wolf", 1, {**wish, **({} if is_rule_first else rules)}, fails=True)
    placed(engine, wolf)
    assert domains_of(engine, wolf, 4).isdisjoint(domains_of(engine, wide, 4))


@pytest.mark.parametrize(
    "cpu", [pytest.param(1, id="cpus of its own"), pytest.param(0.5, id="a share, no limit")]
)
def test_16_who_fits_one_domain_is_in_one_that_a_match_is_in(cpu: float) -> None:
    engine = engine_of(NODES)
    for number in (2, 3):
        pool = {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}
        placed(engine, container_of(f"cache{number}", 1, app="cache", annotations=pool))
    # It would rather spread over the socket of both.
    wide = {"unlimited-burstable.resource-policy.nri.io/pod": "socket"}
    rules = near(term("numa", "cache"))
    web = container_of("web", cpu, rules, fails=True, annotations=wide)
    placed(engine, web)
    (domain,) = domains_of(engine, web, 4)
    assert domain in (2, 3)
    # It fits a domain of four by its size, and there is room for it in two of them alone.
    large = container_of("large", 3.5, rules, fails=True, annotations=wide)
    assert "affinity at numa to app=cache" in reason(engine.create(large))


def test_17_a_spanning_shared_container_is_narrowed_first() -> None:
    engine = engine_of(CACHES, "cpuset:15")
    wide = container_of("wide", 0.5)
    for number in range(2):
        placed(engine, container_of(f"full{number}", 3))
    decision = engine.create(wide)
    assert isinstance(decision.result, Grant)
    before = CpuSet.parse(cpus(engine, wide))
    shy = container_of("shy", 1, apart(term("l3", "wide")), fails=True)
    found = engine.create(shy)
    assert isinstance(found.result, Grant), found.result
    assert domains_of(engine, shy, 4).isdisjoint(domains_of(engine, wide, 4))
    assert CpuSet.parse(cpus(engine, wide)) <= before


def test_17_the_whole_machine_shared_by_one_makes_way_inside_its_pool() -> None:
    engine = engine_of(CORES, "cpuset:7")
    placed(engine, wide := container_of("wide", 0.5))
    assert cpus(engine, wide) == "0-6"
    shy = container_of("shy", 1, apart(term("core", "wide")), fails=True)
    decision = engine.create(shy)
    assert isinstance(decision.result, Grant)
    assert [change.container_id for change in decision.changes] == [wide.id]
    assert domains_of(engine, shy, 2).isdisjoint(domains_of(engine, wide, 2))
    assert decision.decided_by == "only_candidate"


def test_17_replicas_on_shared_cpus_make_way_for_each_other() -> None:
    engine = engine_of(CORES, "cpuset:0")
    rules = apart(term("core", "replica"))
    replicas = [container_of(f"r{n}", 0.2, rules, app="replica", fails=True) for n in range(4)]
    for one in replicas:
        placed(engine, one)
        assert not any(decision.unmet for decision in engine.decisions.values())
    found = [domains_of(engine, one, 2) for one in replicas]
    assert sorted(map(sorted, found)) == [[0], [1], [2], [3]]
    last = container_of("last", 0.2, rules, app="replica", fails=True)
    assert isinstance(engine.create(last).result, Refusal)


def test_17_who_is_held_by_rules_does_not_make_way() -> None:
    engine = engine_of(CORES, "cpuset:7")
    selector = {"pool-selector.pinfold.dev/pod": "kind=socket"}
    placed(engine, wide := container_of("wide", 0.5, annotations=selector))
    shy = container_of("shy", 1, apart(term("core", "wide")), fails=True)
    assert "default/wide/main" in reason(engine.create(shy))
    assert cpus(engine, wide) == "0-6"


def test_18_a_restarted_container_keeps_its_place() -> None:
    engine = engine_of(NODES)
    placed(engine, container_of("cache", 1))
    web = container_of("web", 1, near(term("numa", "cache")), fails=True)
    before = placed(engine, web)
    engine.stop(ContainerId("cache-main"))
    engine.stop(web.id)
    again = structs.replace(web, id=ContainerId("web-again"))
    assert placed(engine, again) == before, "its rules are not judged again"
    assert engine.decisions[again.id].decided_by == "restarted"


def test_18_a_restarted_container_goes_elsewhere_where_its_place_is_taken() -> None:
    engine = engine_of(NODES)
    shy = container_of("shy", 1, apart(term("numa", "wolf")), fails=True)
    placed(engine, shy)
    engine.stop(shy.id)
    for number in range(3):
        placed(engine, container_of(f"wolf{number}", 1, app="wolf"))
    again = structs.replace(shy, id=ContainerId("shy-again"))
    placed(engine, again)
    wolves = [container_of(f"wolf{number}", 1) for number in range(3)]
    assert all(domains_of(engine, again, 4).isdisjoint(domains_of(engine, w, 4)) for w in wolves)


def test_18_a_restarted_container_takes_nobodys_cpus() -> None:
    engine = engine_of(NODES)
    shy = container_of("shy", 1, apart(term("numa", "wolf")), fails=True)
    placed(engine, shy)
    (node,) = domains_of(engine, shy, 4)
    engine.stop(shy.id)
    pool = {"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
    count = 4 - (node == 0)
    placed(engine, full := container_of("full", count, annotations=pool, fails=True))
    placed(engine, again := structs.replace(shy, id=ContainerId("shy-again")))
    assert domains_of(engine, again, 4).isdisjoint(domains_of(engine, full, 4))


def test_19_an_exited_init_container_counts_for_nothing() -> None:
    engine = engine_of(CORES)
    placed(engine, init := container_of("pod", 1, app="wolf", main="init"))
    rules = apart(term("socket", "wolf"))
    sheep = container_of("sheep", 1, rules, fails=True)
    assert isinstance(engine.create(sheep).result, Refusal)
    engine.remove(sheep.id)
    engine.stop(init.id)
    placed(engine, sheep)


def test_20_a_level_that_the_machine_lacks_is_the_next_wider_one() -> None:
    machine = dataclasses.replace(machine_from_spec(NODES), l3_groups=(), caches=())
    engine = engine_of(machine)
    for number in range(4):
        rules = apart(term("l3", "replica"))
        placed(engine, container_of(f"r{number}", 1, rules, app="replica", fails=True))
    found = [domains_of(engine, container_of(f"r{number}", 1), 4) for number in range(4)]
    assert sorted(map(sorted, found)) == [[0], [1], [2], [3]]


def test_21_levels_need_not_nest() -> None:
    plain = machine_from_spec("socket:1 numa:4 core:2 mem:2G")
    shared = CpuSet.parse("0-3"), CpuSet.parse("4-7")
    engine = engine_of(dataclasses.replace(plain, l3_groups=shared))
    placed(engine, wolf := container_of("wolf", 1))
    sheep = container_of("sheep", 1, apart(term("l3", "wolf")), fails=True)
    placed(engine, sheep)
    assert domains_of(engine, sheep, 4).isdisjoint(domains_of(engine, wolf, 4))
    friend = container_of("friend", 2, near(term("l3", "wolf")), fails=True)
    placed(engine, friend)
    assert domains_of(engine, friend, 4) == domains_of(engine, wolf, 4)


def test_22_offline_cpus_do_not_make_a_domain_large_enough() -> None:
    whole = machine_from_spec("socket:1 numa:2 core:4 mem:2G")
    for machine, count in ((whole, 1), (without(whole, CpuSet.parse("2-3,6-7")), 2)):
        engine = engine_of(machine, "cpuset:0")
        for node in range(2):
            pool = {"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
            placed(engine, container_of(f"cache{node}", 0.2, app="cache", annotations=pool))
        # It has to be in one NUMA node where one of them is large enough.
        web = container_of("web", 2.5, near(term("numa", "cache")), fails=True)
        placed(engine, web)
        assert len(domains_of(engine, web, 4)) == count


def test_22_a_domain_whose_cpus_are_all_offline_is_not_spread_over() -> None:
    whole = machine_from_spec("socket:1 numa:3 core:3 mem:2G")
    spread = {
        "topologySpread": [
            {**term("numa", "replica"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        ]
    }
    engine = engine_of(without(whole, CpuSet.parse("6-8")), "cpuset:0")
    found: list[int] = []
    for number in range(4):
        one = container_of(f"r{number}", 1, spread, app="replica", fails=True)
        placed(engine, one)
        found += domains_of(engine, one, 3)
    assert sorted(found) == [0, 0, 1, 1]


ISOLATED_LAST = "socket:1 numa:3 core:4 mem:4G isolated:8-11"


@pytest.mark.parametrize(
    ("machine", "reserved", "cpu", "annotations", "nodes"),
    [
        pytest.param(ISOLATED_LAST, "cpuset:0", 0.5, {}, [0, 0, 1, 1], id="shared cpus"),
        pytest.param(
            ISOLATED_LAST,
            "cpuset:0",
            1,
            {"prefer-isolated-cpus.resource-policy.nri.io/pod": "false"},
            [0, 0, 1, 1],
            id="its own cpus, and no isolated ones",
        ),
        pytest.param(ISOLATED_LAST, "cpuset:0", 1, {}, [0, 1, 2, 2], id="isolated cpus if any"),
        pytest.param(
            ISOLATED_LAST,
            "cpuset:0",
            1,
            {"require-isolated-cpus.resource-policy.nri.io/pod": "true"},
            [2, 2, 2, 2],
            id="isolated cpus alone",
        ),
        pytest.param(
            "socket:1 numa:3 core:4 mem:4G", "cpuset:8-11", 0.5, {}, [0, 0, 1, 1], id="reserved"
        ),
    ],
)
def test_22_a_domain_whose_cpus_are_all_none_for_the_container_is_not_spread_over(
    machine: str, reserved: str, cpu: float, annotations: dict[str, str], nodes: list[int]
) -> None:
    engine = engine_of(machine, reserved)
    spread = {
        "topologySpread": [
            {**term("numa", "replica"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        ]
    }
    found: list[int] = []
    for number in range(4):
        one = container_of(
            f"r{number}", cpu, spread, app="replica", fails=True, annotations=annotations
        )
        placed(engine, one)
        found += domains_of(engine, one, 4)
    assert sorted(found) == nodes


def test_16_who_has_isolated_and_shared_cpus_is_in_one_domain_if_it_fits_one() -> None:
    """No domain has room at present: one has no isolated cpu left, the other too few to share."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G isolated:3,7")
    isolated = {
        "require-isolated-cpus.resource-policy.nri.io/pod": "true",
        "prefer-shared-cpus.resource-policy.nri.io/pod": "false",
    }
    plain = {"prefer-isolated-cpus.resource-policy.nri.io/pod": "false"}
    for name, cpu, node, annotations in (
        ("first", 0.1, 0, {}),
        ("second", 0.1, 1, {}),
        ("isolated", 1, 0, isolated),
        ("wide", 2, 1, plain),
    ):
        place = {"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
        app = "friend" if cpu < 1 else ""
        placed(engine, container_of(name, cpu, app=app, annotations={**annotations, **place}))
    owner = container_of(
        "owner",
        1.95,
        near(term("numa", "friend")),
        fails=True,
        is_guaranteed=True,
        annotations=isolated,
    )
    assert reason(engine.create(owner)).startswith("required rules leave no room")


def test_22_nobody_is_moved_to_where_spread_without_isolated_domains_would_be_uneven() -> None:
    engine = engine_of(ISOLATED_LAST)

    def run(name: str, node: int, rules: dict[str, Any] | None = None, app: str = "w") -> Container:
        pool = {"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
        one = container_of(name, 0.5, rules, app=app, fails=True, annotations=pool)
        placed(engine, one)
        return one

    counting = {**term("numa", "w"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    run("a", 0, {"topologySpread": [counting]})
    run("b", 0)
    run("c", 1)
    mover = container_of("d", 0.5, {"podAntiAffinity": {LASTING: [term("numa", "wolf")]}}, app="w")
    placed(engine, mover)
    (home,) = domains_of(engine, mover, 4)
    assert home == 1
    run("wolf", home, app="wolf")
    assert engine.look_at_rules()[mover.id]
    said = reason(engine.place_anew(mover.id))
    assert said == "the spread of default/a/main would be uneven"


def test_23_memory_without_cpus_is_no_domain_to_spread_over() -> None:
    plain = machine_from_spec("socket:1 numa:2 core:4 mem:2G")
    slow = NumaNode(id=NumaNodeId(2), memory_bytes=2**30)
    far = ((10, 20, 30), (20, 10, 30), (30, 30, 10))
    machine = dataclasses.replace(plain, numa_nodes=(*plain.numa_nodes, slow), distances=far)
    engine = engine_of(machine)
    spread = {
        "topologySpread": [
            {
                "maxSkew": 1,
                "topologyKey": "numa",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "replica"}},
            }
        ]
    }
    found: list[int] = []
    for number in range(4):
        one = container_of(f"r{number}", 1, spread, app="replica", fails=True)
        placed(engine, one)
        found += domains_of(engine, one, 4)
    assert sorted(found) == [0, 0, 1, 1]


def test_24_fail_refuses_and_degrade_tells_what_is_broken() -> None:
    rules = apart(term("socket", "wolf"))
    engine = engine_of(CORES)
    placed(engine, container_of("wolf", 1))
    refused = engine.create(container_of("firm", 1, rules, fails=True))
    assert "default/wolf/main" in reason(refused)
    engine.remove(ContainerId("firm-main"))
    degraded = engine.create(container_of("weak", 1, rules))
    assert isinstance(degraded.result, Grant)
    assert len(degraded.unmet) == 1
    assert degraded.unmet[0].endswith("of default/weak/main: in one socket with default/wolf/main")


def test_24_the_owner_of_a_rule_decides_what_becomes_of_a_newcomer() -> None:
    rules = apart(term("socket", "wolf"))
    engine = engine_of(CORES)
    placed(engine, weak := container_of("weak", 1, rules))
    own = apart(term("core", "nobody"))
    decision = engine.create(container_of("wolf", 1, own, fails=True))
    assert isinstance(decision.result, Grant)
    assert len(decision.unmet) == 1
    assert engine.decisions[weak.id].unmet, "the owner's decision tells it, too"
    engine.stop(ContainerId("wolf-main"))
    assert not engine.decisions[weak.id].unmet
    engine.stop(weak.id)
    placed(engine, container_of("strong", 1, rules, fails=True))
    assert "default/strong/main" in reason(engine.create(container_of("wolf", 1, own)))


def test_24_as_few_rules_break_as_can() -> None:
    engine = engine_of(NODES)
    for number in range(4):
        pool = {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}
        placed(engine, container_of(f"a{number}", 0.5, app="a", annotations=pool))
    for number in range(4):
        if number != 2:
            pool = {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}
            placed(engine, container_of(f"b{number}", 0.5, app="b", annotations=pool))
    # It is as full as it can be where only one rule breaks.
    crowded = {"pool-name.pinfold.dev/pod": "NUMA node #2"}
    placed(engine, container_of("crowd", 2, annotations=crowded))
    rules = apart(term("numa", "a"), term("numa", "b"))
    placed(engine, shy := container_of("shy", 1, rules))
    assert domains_of(engine, shy, 4) == {2}
    assert len(engine.decisions[shy.id].unmet) == 1


def test_25_two_terms_each_ask_for_their_own_containers() -> None:
    rules = near(term("numa", "a"), term("numa", "b"))
    for compat, is_met in (("document", True), ("strict", False)):
        engine = engine_of(NODES, kubeCompat=compat)
        pool = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
        placed(engine, container_of("a", 0.5, annotations=pool))
        placed(engine, container_of("b", 0.5, annotations=pool))
        decision = engine.create(container_of("both", 0.5, rules, fails=True))
        assert isinstance(decision.result, Grant) is is_met, compat


def test_25_a_refusal_says_that_one_container_must_match_all_terms() -> None:
    engine = engine_of(NODES, kubeCompat="strict")
    placed(engine, container_of("a", 0.5))
    both = container_of("both", 0.5, near(term("numa", "a"), term("numa", "b")), fails=True)
    told = reason(engine.create(both))
    assert "wanted a container that all its required affinity is about, available none" in told


def test_26_one_namespace_does_not_block_the_machine_for_others() -> None:
    rules = apart({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "numa"})
    engine = engine_of(NODES)
    for number in range(4):
        engine.create(container_of(f"t{number}", 1, rules, namespace="tiny", fails=True))
    decision = engine.create(container_of("guest", 1))
    assert isinstance(decision.result, Grant)
    assert any("antiAffinityLimits" in one.where for one in decision.problems)
    of_its_own = engine.create(container_of("own", 1, namespace="tiny"))
    assert "anti-affinity at numa" in reason(of_its_own), "nothing limits it among its own"
    firm = engine_of(NODES, antiAffinityLimits={"maxBlockedCPUs": "100%"})
    for number in range(4):
        firm.create(container_of(f"t{number}", 1, rules, namespace="tiny", fails=True))
    assert isinstance(firm.create(container_of("guest", 1)).result, Refusal)


def test_26_the_system_is_never_blocked() -> None:
    rules = apart({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "socket"})
    engine = engine_of(CORES, antiAffinityLimits={"maxBlockedCPUs": "100%"})
    placed(engine, container_of("shy", 1, rules, fails=True))
    placed(engine, container_of("dns", 0.1, namespace="kube-system"))
    elsewhere = {"prefer-reserved-cpus.resource-policy.nri.io/pod": "false"}
    proxy = container_of("proxy", 1, namespace="kube-system", annotations=elsewhere)
    placed(engine, proxy)
    assert engine.grants[proxy.id].exclusive, "nor is what is not on reserved cpus"


def test_27_a_restart_of_the_daemon_leaves_everybody_where_he_is() -> None:
    engine = engine_of(CORES, "cpuset:7")
    placed(engine, wide := container_of("wide", 0.5))
    shy = container_of("shy", 1, apart(term("core", "wide")), fails=True)
    placed(engine, shy)
    told = {one.id: engine.pinning(one.id) for one in (wide, shy)}
    running = [
        structs.replace(one, state=ContainerState.RUNNING) for one in engine.snapshot().running()
    ]
    again = engine_of(CORES, "cpuset:7")
    for advice in (engine.snapshot().advice(), dict[ContainerId, Advice]()):
        answer = again.synchronize(running, advice)
        assert answer.changes == ()
        assert {one.id: again.pinning(one.id) for one in (wide, shy)} == told
        placed(again, container_of("guest", 1))
        again.remove(ContainerId("guest-main"))
        assert domains_of(again, shy, 2).isdisjoint(domains_of(again, wide, 2))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_28_the_final_set_does_not_depend_on_the_order(order: tuple[int, ...]) -> None:
    engine = engine_of(NODES)
    pods = (
        container_of("wolf", 1),
        container_of("sheep", 1, apart(term("numa", "wolf")), fails=True),
        container_of("peter", 1, apart(term("socket", "wolf")), fails=True),
    )
    for number in order:
        placed(engine, pods[number])
    wolf, sheep, peter = pods
    assert domains_of(engine, wolf, 4).isdisjoint(domains_of(engine, sheep, 4))
    assert domains_of(engine, wolf, 8).isdisjoint(domains_of(engine, peter, 8))


def test_a_refusal_names_who_could_make_room() -> None:
    engine = engine_of(CORES)
    placed(engine, container_of("wolf", 1))
    sheep = container_of("sheep", 1, apart(term("socket", "wolf")), fails=True)
    assert reason(engine.create(sheep)).endswith("to make room, stop or move default/wolf/main")


NOWHERE = {"pool-selector.pinfold.dev/pod": "socket=7"}
ABSENT = near(term("socket", "nobody"))
WITH_SHEEP = near(term("socket", "sheep"))


@pytest.mark.parametrize(
    ("cpu", "more", "annotations"),
    [
        pytest.param(1, {}, NOWHERE, id="no pool has the label"),
        pytest.param(9, {}, {}, id="the machine is too small"),
        pytest.param(1, ABSENT, {}, id="nobody it must be with is there"),
        pytest.param(1, WITH_SHEEP, {}, id="it must be with whom it avoids"),
    ],
)
def test_a_refusal_names_nobody_without_whom_there_is_no_room_either(
    cpu: int, more: dict[str, Any], annotations: dict[str, str]
) -> None:
    engine = engine_of(CORES)
    placed(engine, container_of("sheep", 1))
    rules = {**apart(term("socket", "sheep")), **more}
    lion = container_of("lion", cpu, rules, fails=True, annotations=annotations)
    assert "to make room" not in reason(engine.create(lion))


def test_a_refusal_names_nobody_whose_rule_gives_way() -> None:
    engine = engine_of(CORES)
    placed(engine, container_of("wolf", 1))
    placed(engine, container_of("owner", 1, apart(term("socket", "sheep"))))
    sheep = container_of("sheep", 1, apart(term("socket", "wolf")), fails=True)
    assert reason(engine.create(sheep)).endswith("to make room, stop or move default/wolf/main")


def test_who_is_named_gives_back_its_cpus() -> None:
    engine = engine_of(CORES)
    placed(engine, wolf := container_of("wolf", 7))
    sheep = container_of("sheep", 1, apart(term("core", "wolf")), fails=True)
    assert reason(engine.create(sheep)).endswith("to make room, stop or move default/wolf/main")
    engine.remove(sheep.id)
    engine.stop(wolf.id)
    assert placed(engine, sheep) == "1"


def test_who_is_named_gives_back_the_cpus_of_its_pod() -> None:
    engine = engine_of(CORES)
    pod = {"pod-pool.pinfold.dev/pod": "true"}
    placed(engine, wolf := container_of("wolf", 7, annotations=pod))
    sheep = container_of("sheep", 1, apart(term("core", "wolf")), fails=True)
    assert reason(engine.create(sheep)).endswith("to make room, stop or move default/wolf/main")
    engine.remove(sheep.id)
    engine.stop(wolf.id)
    assert placed(engine, sheep) == "1"


def even(level: str) -> dict[str, Any]:
    """A required spread of web over a level."""
    selector = {"matchLabels": {"app": "web"}}
    return {"topologySpread": [{"maxSkew": 1, "topologyKey": level, "labelSelector": selector}]}


def test_a_refusal_names_nobody_alone_less_of_whom_its_spread_allows_less_elsewhere() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    nodes = [{"pool-name.pinfold.dev/pod": f"NUMA node #{number}"} for number in (0, 1)]
    wolf = container_of("wolf", 1, app="web", labels={"is": "wolf"}, annotations=nodes[0])
    placed(engine, wolf)
    placed(engine, dog := container_of("dog", 1, app="web", annotations=nodes[1]))
    rules = {**apart(term("socket", labelSelector={"matchLabels": {"is": "wolf"}})), **even("numa")}
    sheep = container_of("sheep", 1, rules, app="web", fails=True, annotations=nodes[1])
    both_are_needed(engine, sheep, wolf, dog, "all of")


def both_are_needed(
    engine: Engine, newcomer: Container, first: Container, last: Container, part: str
) -> None:
    """A newcomer is refused, both are named for it, and it has a place once both are gone."""
    named = f"{part} {first.path}, {last.path}"
    assert reason(engine.create(newcomer)).endswith(f"to make room, stop or move {named}")
    for one in (first, last):
        engine.remove(newcomer.id)
        engine.stop(one.id)
        is_last = one is last
        assert isinstance(engine.create(newcomer).result, Grant) == is_last


def test_a_refusal_names_nobody_alone_whose_cpus_others_would_share_that_its_spread_counts() -> (
    None
):
    engine = engine_of("core:4 mem:4G")
    placed(engine, container_of("other", 1))
    placed(engine, wolf := container_of("wolf", 1))
    placed(engine, dog := container_of("dog", 0.1, app="web"))
    rules = {**apart(term("socket", "wolf")), **even("core")}
    sheep = container_of("sheep", 0.1, rules, app="web", fails=True)
    both_are_needed(engine, sheep, wolf, dog, "some of")


def test_a_refusal_says_where_spread_would_allow_one_more() -> None:
    engine = engine_of(NODES)
    placed(
        engine, container_of("full", 3, annotations={"pool-name.pinfold.dev/pod": "NUMA node #0"})
    )
    for number in range(3):
        placed(engine, container_of(f"web{number}", 1, even("numa"), app="web", fails=True))
    told = reason(engine.create(container_of("web3", 1, even("numa"), app="web", fails=True)))
    assert (
        "wanted a NUMA node with none of these containers, as that of cpus 0-3, available none"
        in told
    )
    assert "NUMA node #0: exclusive CPUs: wanted 1, available 0" in told


def test_a_refusal_names_no_place_for_spread_over_more_domains_than_there_are() -> None:
    engine = engine_of(NODES)
    wide = {"topologySpread": [{**even("numa")["topologySpread"][0], "minDomains": 5}]}
    for number in range(4):
        placed(engine, container_of(f"web{number}", 1, wide, app="web", fails=True))
    told = reason(engine.create(container_of("web4", 1, wide, app="web", fails=True)))
    assert "wanted a NUMA node with none of these containers, available none" in told


def test_who_made_way_has_its_cpus_again_once_the_other_is_gone() -> None:
    engine = engine_of(CORES, "cpuset:7")
    placed(engine, wide := container_of("wide", 0.5))
    shy = container_of("shy", 1, apart(term("core", "wide")), fails=True)
    placed(engine, shy)
    assert cpus(engine, wide) != "0-6"
    changes = engine.stop(shy.id)
    assert [change.container_id for change in changes] == [wide.id]
    assert cpus(engine, wide) == "0-6"
    engine.check()


def test_nobody_takes_the_last_cpus_by_which_a_container_has_company() -> None:
    engine = engine_of(CACHES, "cpuset:15")
    placed(engine, container_of("cache", 0))
    web = container_of("web", 1, near(term("l3", "cache")), fails=True)
    placed(engine, web)
    company = domains_of(engine, web, 4)
    for number in range(12):
        engine.create(container_of(f"greedy{number}", 1))
        assert company <= domains_of(engine, container_of("cache", 0), 4)
        engine.check()


def test_preferred_rules_choose_cpus_inside_a_pool() -> None:
    engine = engine_of(CORES, "cpuset:7")
    placed(engine, container_of("other", 1))
    placed(engine, friend := container_of("friend", 1))
    guest = container_of("guest", 1, prefer(10, term("core", "friend")))
    placed(engine, guest)
    assert domains_of(engine, guest, 2) == domains_of(engine, friend, 2)
    hermit = container_of("hermit", 1, prefer(10, term("core", "friend"), is_anti=True))
    placed(engine, hermit)
    assert domains_of(engine, hermit, 2).isdisjoint(domains_of(engine, friend, 2))


def test_cpus_that_preferred_rules_like_best_are_taken_before_others_of_a_pool() -> None:
    """Nothing of what decided for the wider pool is left where all cpus come from elsewhere."""
    engine = engine_of(NODES)
    second = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    assert placed(engine, container_of("friend", 3, annotations=second)) == "4-6"
    guest = container_of("guest", 2, prefer(100, term("numa", "friend")))
    assert placed(engine, guest) == "1,7"
    decision = engine.decisions[guest.id]
    assert (decision.pool, decision.decided_by) == ("socket #0", "preferred")


def test_cpus_near_those_whom_preferred_rules_keep_apart_are_taken_last() -> None:
    """One cpu is left of the only NUMA node without any."""
    engine = engine_of("socket:1 numa:3 core:2 thread:2 mem:4G", "cpuset:0-2")
    for node in (1, 2):
        place = {"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
        placed(engine, container_of(f"wolf{node}", 1, app="wolf", annotations=place))
    hermit = container_of("hermit", 4, prefer(10, term("numa", "wolf"), is_anti=True))
    assert placed(engine, hermit) == "3,5-7"


@pytest.mark.parametrize(
    ("annotations", "pools"),
    [
        ({"pool-name.pinfold.dev/pod": "NUMA node #2"}, {"NUMA node #2"}),
        ({"pool-selector.pinfold.dev/pod": "socket=1,kind=numa"}, {"NUMA node #2", "NUMA node #3"}),
    ],
)
def test_pools_are_chosen_by_name_and_by_label(
    annotations: dict[str, str], pools: set[str]
) -> None:
    engine = engine_of(NODES)
    decision = engine.create(container_of("web", 1, annotations=annotations, fails=True))
    assert decision.pool in pools


def test_a_pool_that_is_not_there_is_a_rule_that_cannot_be_met() -> None:
    annotations = {"pool-name.pinfold.dev/pod": "NUMA node #9"}
    engine = engine_of(NODES)
    refused = engine.create(container_of("firm", 1, annotations=annotations, fails=True))
    assert "pool-name 'NUMA node #9'" in reason(refused)
    degraded = engine.create(container_of("weak", 1, annotations=annotations))
    assert len(degraded.unmet) == 1


def test_pool_terms_are_required_and_preferred() -> None:
    here = {"matchExpressions": [{"key": "numa", "operator": "In", "values": ["1", "3"]}]}
    best = {"matchExpressions": [{"key": "numa", "operator": "In", "values": ["3"]}]}
    rules = {
        "poolAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": best}],
        }
    }
    decision = engine_of(NODES).create(container_of("web", 1, rules, fails=True))
    assert decision.pool == "NUMA node #3"
    assert decision.decided_by == "preferred"


def test_spread_that_is_only_wished_for_is_a_preference() -> None:
    spread = {
        "topologySpread": [
            {
                "maxSkew": 1,
                "topologyKey": "numa",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "replica"}},
            }
        ]
    }
    engine = engine_of(NODES)
    found: list[int] = []
    for number in range(4):
        one = container_of(f"r{number}", 1, spread, app="replica")
        placed(engine, one)
        found += domains_of(engine, one, 4)
    assert sorted(found) == [0, 1, 2, 3]


def test_a_refusal_by_rules_of_both_sides_names_each_of_them_once() -> None:
    engine = engine_of(NODES)
    placed(engine, container_of("a", 2, app="a"))
    of_b = apart(term("socket", "a"), term("socket", "c"))
    placed(engine, container_of("b", 2, of_b, app="b", fails=True))
    decision = engine.create(container_of("c", 2, apart(term("socket", "a")), app="c", fails=True))
    found = re.search(r"root: CPUs where rules hold \((.*?)\): wanted", reason(decision))
    assert found is not None, reason(decision)
    names = found[1].split("; ")
    assert [name.rpartition(" of ")[2] for name in names] == ["default/c/main", "default/b/main"]
