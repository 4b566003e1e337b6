"""Required rules where something else happens."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    NODES,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    term,
)
from tests.unit.topology.model.offline import without

CACHES = "socket:1 numa:2 l3:2 core:4 mem:8G"
CORES = "socket:1 core:4 thread:2 mem:4G"
PRESERVE = {"cpu.preserve.resource-policy.nri.io/pod": "true"}


def pool(name: str) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": name}


def domains(engine: Engine, container: Container, size: int) -> set[int]:
    return {cpu // size for cpu in CpuSet.parse(cpus(engine, container))}


def is_told(engine: Engine, rule: str, *concerned: Container) -> bool:
    told: Iterable[str] = [text for one in concerned for text in engine.decisions[one.id].unmet]
    return any(rule in text for text in told)


@pytest.mark.parametrize(
    "annotation",
    [pool("NUMA node #1"), {"pool-selector.pinfold.dev/pod": "kind=numa,numa=1"}],
)
@pytest.mark.parametrize("after", [3000, 6000])
def test_01_a_resize_does_not_leave_the_pool_that_is_required(
    annotation: dict[str, str], after: int
) -> None:
    """pool-name and pool-selector are required; our own resize never breaks a required rule."""
    engine = engine_of(NODES)
    one = container_of("one", 1, fails=True, annotations=annotation)
    placed(engine, one)
    placed(engine, container_of("other", 2, annotations=pool("NUMA node #1")))
    resources = structs.replace(one.resources, cpu_request_milli=after, cpu_limit_milli=after)
    decision = engine.update(one.id, resources)
    assert isinstance(decision.result, Refusal) or domains(engine, one, 4) == {1}


def test_01_a_resize_out_of_the_pool_is_told_where_the_rule_may_break() -> None:
    """Rules that degrade give way; what is broken is told."""
    engine = engine_of(NODES)
    one = container_of("one", 1, annotations=pool("NUMA node #1"))
    placed(engine, one)
    placed(engine, container_of("other", 2, annotations=pool("NUMA node #1")))
    resources = structs.replace(one.resources, cpu_request_milli=3000, cpu_limit_milli=3000)
    decision = engine.update(one.id, resources)
    assert isinstance(decision.result, Grant)
    assert is_told(engine, "pool-name", one)
    assert decision.unmet == engine.decisions[one.id].unmet


@pytest.mark.parametrize("annotations", [pool("NUMA node #2"), {}])
def test_02_who_asks_for_no_cpu_breaks_no_rule_that_insists(annotations: dict[str, str]) -> None:
    """A rule with `fail` is never broken; who asks for no cpu obeys rules like others.

    No cpu of the pool that is chosen is left: it runs on a wider one's, which nobody judged.
    """
    engine = engine_of(NODES)
    placed(engine, wolf := container_of("wolf", 1, annotations=pool("NUMA node #3")))
    for number, count in ((0, 3), (1, 4), (2, 4)):
        full = container_of(f"full{number}", count, annotations=pool(f"NUMA node #{number}"))
        placed(engine, full)
    shy = container_of("shy", 0, apart(term("numa", "wolf")), fails=True, annotations=annotations)
    decision = engine.create(shy)
    assert isinstance(decision.result, Refusal) or domains(engine, shy, 4).isdisjoint(
        domains(engine, wolf, 4)
    )


def test_02_who_is_pushed_out_of_the_pool_it_names_is_told() -> None:
    """Their required rules hold in the next place, or it is told."""
    engine = engine_of(NODES)
    rules = apart(term("numa", "wolf"))
    shy = container_of("shy", 0, rules, fails=True, annotations=pool("NUMA node #1"))
    placed(engine, shy)
    full = container_of("full", 4, annotations=pool("NUMA node #1"))
    placed(engine, full)
    assert domains(engine, shy, 4) == {1} or is_told(engine, "pool-name", shy)
    engine.stop(full.id)
    engine.check()
    assert cpus(engine, shy) == "4-7"
    assert engine.decisions[shy.id].unmet == ()


def test_02_who_is_pushed_out_keeps_away_from_others_all_the_same() -> None:
    """The rule about the pool cannot hold any more, the one about others can."""
    engine = engine_of("socket:2 numa:3 core:2 thread:2 mem:2G")
    placed(engine, wolf := container_of("wolf", 1, annotations=pool("NUMA node #2")))
    rules = apart(term("numa", "wolf"))
    shy = container_of("shy", 0, rules, fails=True, annotations=pool("NUMA node #1"))
    placed(engine, shy)
    placed(engine, container_of("full", 4, annotations=pool("NUMA node #1")))
    assert domains(engine, shy, 4).isdisjoint(domains(engine, wolf, 4))
    assert is_told(engine, "pool-name", shy)
    assert not is_told(engine, "anti-affinity", shy, wolf)


def test_02_who_is_left_the_reserved_cpus_is_told_what_does_not_hold_there() -> None:
    """Where degradation is told: one entry for each rule that is broken."""
    engine = engine_of("socket:1 core:2 mem:2G", "cpuset:0")
    placed(engine, container_of("full", 1))
    placed(engine, cat := container_of("cat", 0.1, app="cat", namespace="kube-system"))
    shy = container_of("shy", 0, apart(term("core", "cat", namespaceSelector={})))
    placed(engine, shy)
    assert domains(engine, shy, 1).isdisjoint(domains(engine, cat, 1)) or is_told(
        engine, "anti-affinity at core", shy
    )


def test_03_a_reload_that_breaks_a_rule_tells_it() -> None:
    """Our own reload never breaks a required rule unless that is told; here it insists, too."""
    engine = engine_of(NODES)
    wolf = container_of("wolf", 1, annotations=pool("NUMA node #0"))
    shy = container_of("shy", 1, apart(term("socket", "wolf")), fails=True)
    placed(engine, wolf)
    placed(engine, shy)
    config = config_from_values({"reservedResources": {"cpu": "cpuset:8-15"}})
    engine, _ = engine.reconfigured(config)
    is_apart = domains(engine, shy, 8).isdisjoint(domains(engine, wolf, 8))
    assert is_apart or is_told(engine, "anti-affinity at socket", shy, wolf)


def test_03_who_shares_the_one_cpu_that_a_rule_leaves_goes_where_that_is_reserved() -> None:
    machine = "socket:1 core:4 mem:4G"
    engine = engine_of(machine)
    placed(engine, wolf := container_of("wolf", 1.5))
    sheep = container_of("sheep", 0.5, apart(term("core", "wolf")), fails=True)
    assert placed(engine, sheep) == "1"
    other = {"reservedResources": {"cpu": "cpuset:1"}}
    after, _ = engine.reconfigured(config_from_values(other))
    assert (cpus(after, sheep), cpus(after, wolf)) == ("0", "2-3")
    again = engine_of(machine, "cpuset:1")
    again.synchronize(after.snapshot().running())
    assert cpus(again, sheep) == "0"


def test_03_a_restart_goes_on_where_the_one_cpu_that_a_rule_leaves_is_reserved_by_now() -> None:
    machine = "socket:1 core:4 mem:4G"
    engine = engine_of(machine)
    placed(engine, wolf := container_of("wolf", 1.5))
    sheep = container_of("sheep", 0.5, apart(term("core", "wolf")), fails=True)
    assert placed(engine, sheep) == "1"
    before = engine.snapshot()
    again = engine_of(machine, "cpuset:1")
    again.synchronize(before.running(), before.advice())
    again.check()
    assert (cpus(again, sheep), cpus(again, wolf)) == ("0", "2-3")


def test_03_a_restart_with_others_reserved_leaves_a_container_what_it_may_have() -> None:
    engine = engine_of("socket:2 core:4 mem:4G")
    assert placed(engine, whole := container_of("whole", 3)) == "4-6"
    before = engine.snapshot()
    again = engine_of("socket:2 core:4 mem:4G", "cpuset:4")
    again.synchronize(before.running(), before.advice())
    again.check()
    # Another one of its socket for the one that it lost.
    assert cpus(again, whole) == "5-7"


def test_03_who_is_kept_apart_has_a_cpu_again_that_was_reserved_for_a_time() -> None:
    engine = engine_of("socket:1 core:4 mem:4G")
    placed(engine, wolf := container_of("wolf", 1.5))
    placed(engine, sheep := container_of("sheep", 0.5, apart(term("core", "wolf")), fails=True))
    # It has too little on one of its cpus: what is freed meanwhile is for it before others.
    for reserved, had in (("cpuset:0", "2-3"), ("cpuset:2", "0,3"), ("cpuset:0", "2-3")):
        other = {"reservedResources": {"cpu": reserved}}
        engine, _ = engine.reconfigured(config_from_values(other))
        engine.check()
        assert (cpus(engine, wolf), cpus(engine, sheep)) == (had, "1")


def test_03_cpus_that_are_not_reserved_any_more_are_for_who_is_kept_apart_as_well() -> None:
    engine = engine_of("socket:1 core:4 mem:4G", "cpuset:0-1")
    placed(engine, wolf := container_of("wolf", 0.5))
    placed(engine, sheep := container_of("sheep", 0.5, apart(term("core", "wolf")), fails=True))
    assert (cpus(engine, wolf), cpus(engine, sheep)) == ("3", "2")
    before = engine.snapshot()
    after, _ = engine.reconfigured(config_from_values({"reservedResources": {"cpu": "cpuset:0"}}))
    again = engine_of("socket:1 core:4 mem:4G")
    again.synchronize(before.running(), before.advice())
    for one in (after, again):
        one.check()
        assert (cpus(one, wolf), cpus(one, sheep)) == ("3", "1-2")


def test_03_who_asks_for_no_cpu_and_loses_its_pool_at_a_reload_is_told() -> None:
    engine = engine_of(NODES, "cpuset:15")
    one = container_of("one", 0, fails=True, annotations=pool("NUMA node #0"))
    placed(engine, one)
    config = config_from_values({"reservedResources": {"cpu": "cpuset:0-3"}})
    engine, _ = engine.reconfigured(config)
    engine.check()
    assert is_told(engine, "pool-name", one) or domains(engine, one, 4) == {0}
    placed(engine, container_of("guest", 1))
    assert is_told(engine, "pool-name", one) or domains(engine, one, 4) == {0}


def test_04_those_who_made_way_get_their_cpus_back() -> None:
    """Narrowing is for a newcomer that is there; nothing else keeps them from their pool."""
    engine = engine_of(CORES, "cpuset:7")
    placed(engine, wide := container_of("wide", 0.5))
    before = cpus(engine, wide)
    shy = container_of("shy", 1, apart(term("core", "wide")), fails=True)
    placed(engine, shy)
    engine.stop(shy.id)
    engine.remove(shy.id)
    assert cpus(engine, wide) == before


def test_04_one_namespace_does_not_leave_another_a_single_cpu() -> None:
    """The guard: what others may be kept from is limited; here it outlives its owners, even."""
    engine = engine_of(CORES, "cpuset:7")
    victims = [
        container_of(f"victim{one}", milli, namespace="good") for one, milli in enumerate((0, 0.1))
    ]
    for one in victims:
        placed(engine, one)
    everybody: dict[str, Any] = {
        "labelSelector": {},
        "namespaceSelector": {},
        "topologyKey": "core",
    }
    evil = [container_of(f"evil{n}", 0, apart(everybody), namespace="evil") for n in range(6)]
    for one in evil:
        engine.create(one)
    for one in evil:
        engine.remove(one.id)
    engine.check()
    assert [len(CpuSet.parse(cpus(engine, one))) for one in victims] == [7, 7]


def test_05_a_rule_that_narrowing_has_met_is_not_told_as_broken() -> None:
    """`unmet` lists what is broken; whoever made way is not on the newcomer's core any more."""
    engine = engine_of(CORES, "cpuset:7")
    placed(engine, wide := container_of("wide", 0.5))
    placed(engine, shy := container_of("shy", 1, apart(term("core", "wide")), fails=True))
    assert domains(engine, shy, 2).isdisjoint(domains(engine, wide, 2))
    assert engine.decisions[shy.id].unmet == ()


def test_06_a_shard_that_may_use_the_machine_leaves_room_for_the_next() -> None:
    """Row 'wide shared container': it would be in every L3 and block everything.

    Four burstable pods, one for each L3, as charts write them: all but the first are refused.
    """
    engine = engine_of(CACHES)
    shards = [
        container_of(f"redis{n}", 0.5, apart(term("l3", "redis")), app="redis", fails=True)
        for n in range(4)
    ]
    found = [engine.create(one).result for one in shards]
    assert not [one for one in found if isinstance(one, Refusal)]


def test_07_a_domain_whose_cpus_nobody_may_have_is_not_eligible() -> None:
    """Eligible domains: those with cpus that the policy may give."""
    engine = engine_of("socket:1 numa:3 core:4 mem:4G", "cpuset:0-3")
    reserved = {"prefer-reserved-cpus.resource-policy.nri.io/pod": "true"}
    placed(engine, container_of("kept", 0.2, app="r", annotations=reserved))
    spread = {
        "topologySpread": [
            {"maxSkew": 1, "topologyKey": "numa", "labelSelector": {"matchLabels": {"app": "r"}}}
        ]
    }
    for number in range(6):
        placed(engine, container_of(f"r{number}", 1, spread, app="r", fails=True))


def test_08_a_restart_of_the_daemon_forgets_no_broken_rule() -> None:
    """Where degradation is told: it is there after a restart as before."""
    engine = engine_of(NODES)
    one = container_of("one", 1, annotations=pool("NUMA node #9"))
    placed(engine, one)
    assert is_told(engine, "pool-name", one)
    again = engine_of(NODES)
    running = [
        structs.replace(each, state=ContainerState.RUNNING) for each in engine.snapshot().running()
    ]
    again.synchronize(running, engine.snapshot().advice())
    assert is_told(again, "pool-name", one)


def test_08_what_was_ignored_before_a_restart_is_ignored_after_it() -> None:
    """Ignored means ignored, also at a restart: what it came for left after its arrival."""
    engine = engine_of(NODES)
    placed(engine, cache := container_of("cache", 1))
    placed(engine, web := container_of("web", 1, near(term("numa", "cache"))))
    engine.remove(cache.id)
    again = engine_of(NODES)
    running = [
        structs.replace(each, state=ContainerState.RUNNING) for each in engine.snapshot().running()
    ]
    again.synchronize(running, engine.snapshot().advice())
    assert again.decisions[web.id].unmet == ()


def test_09_a_rule_that_holds_by_now_is_not_told_any_more() -> None:
    """`unmet` lists what is broken: the cache came to where it is wanted."""
    engine = engine_of(NODES)
    placed(engine, web := container_of("web", 1, near(term("numa", "cache"))))
    placed(engine, cache := container_of("cache", 1))
    assert domains(engine, web, 4) == domains(engine, cache, 4)
    assert not is_told(engine, "affinity at numa", web)


def test_09_a_spread_that_others_make_even_is_not_told_any_more() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    spread = {
        "topologySpread": [
            {"maxSkew": 1, "topologyKey": "numa", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
    placed(engine, container_of("one", 1, app="web", annotations=pool("NUMA node #1")))
    placed(engine, full := container_of("full", 3, annotations=pool("NUMA node #0")))
    placed(engine, two := container_of("two", 1, spread, app="web"))
    assert is_told(engine, "spread over numa", two)
    engine.remove(full.id)
    placed(engine, container_of("guest", 1, app="web", annotations=pool("NUMA node #0")))
    assert not is_told(engine, "spread over numa", two)


def test_10_a_container_whose_cpus_are_its_own_affair_passes_no_rule_untold() -> None:
    """The owner decides when its rule blocks a newcomer; only the system is exempt."""
    engine = engine_of(NODES)
    shy = container_of("shy", 1, apart(term("numa", "wolf")), fails=True)
    placed(engine, shy)
    wolf = container_of("wolf", 1, annotations=PRESERVE)
    decision = engine.create(wolf)
    assert isinstance(decision.result, Refusal) or is_told(engine, "anti-affinity", wolf, shy)


def test_11_the_system_is_not_counted_by_the_guard() -> None:
    """Exempt (kube-system, reserved pools): nor counted by the guard."""
    engine = engine_of(NODES)
    rules = apart({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "numa"})
    elsewhere = {"prefer-reserved-cpus.resource-policy.nri.io/pod": "false"}
    for number in range(3):
        system = container_of(
            f"k{number}", 1, rules, namespace="kube-system", fails=True, annotations=elsewhere
        )
        placed(engine, system)
    decision = engine.create(container_of("guest", 1))
    assert not [one for one in decision.problems if "antiAffinityLimits" in one.where]


def test_12_a_rule_is_told_by_the_domain_that_is_shared() -> None:
    """The reason is understandable: nobody is on anybody's cpus, both are in one socket."""
    engine = engine_of(CORES)
    placed(engine, wolf := container_of("wolf", 1))
    placed(engine, shy := container_of("shy", 1, apart(term("socket", "wolf"))))
    assert domains(engine, wolf, 1).isdisjoint(domains(engine, shy, 1))
    (text,) = engine.decisions[shy.id].unmet
    assert "on its cpus" not in text


@pytest.mark.parametrize(
    ("level", "words"), [("l3", "in one L3 group with"), ("numa", "in one NUMA node with")]
)
def test_12_levels_are_told_by_their_names(level: str, words: str) -> None:
    engine = engine_of("socket:1 numa:1 l3:1 core:4 mem:4G")
    placed(engine, container_of("wolf", 1))
    placed(engine, shy := container_of("shy", 1, apart(term(level, "wolf"))))
    assert words in engine.decisions[shy.id].unmet[0]


@pytest.mark.parametrize("namespace", ["kube-system"])
def test_13_a_rule_that_the_system_breaks_is_told(namespace: str) -> None:
    """Exempt ones are not blocked; that the rule does not hold is told as any other."""
    engine = engine_of(CORES)
    rules = apart({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "socket"})
    placed(engine, shy := container_of("shy", 1, rules, fails=True))
    placed(engine, dns := container_of("dns", 0.1, namespace=namespace))
    assert is_told(engine, "anti-affinity at socket", shy, dns)


def test_03_a_rule_about_a_pool_that_is_gone_costs_nobody_his_own_cpus() -> None:
    """Ignored means ignored, also at re-adoption: it has a right to one of eleven cpus."""
    engine = engine_of(NODES)
    one = container_of("one", 1, fails=True, annotations=pool("NUMA node #3"))
    placed(engine, one)
    machine = without(machine_from_spec(NODES), CpuSet.parse("12-15"))
    engine, _ = engine.reconfigured(engine.config, machine)
    engine.check()
    assert len(CpuSet.parse(cpus(engine, one))) == 1
    assert is_told(engine, "pool-name", one)


def test_14_the_own_namespace_by_its_name_is_the_own_namespace() -> None:
    """Within its own namespace nothing limits it; the problem's fix even says to write this."""
    engine = engine_of(NODES, antiAffinityLimits={"namespaces": {"t*": {"levels": ["core"]}}})
    named = apart(term("numa", "shy", namespaces=["team"]))
    for number in range(4):
        one = container_of(f"shy{number}", 1, named, app="shy", namespace="team", fails=True)
        assert not [each for each in engine.create(one).problems if "Limits" in each.what]


@pytest.mark.parametrize("named", [{"namespaces": ["team", "guests"]}, {"namespaceSelector": {}}])
def test_14_a_term_about_own_and_others_goes_on_insisting_on_the_own(
    named: dict[str, Any],
) -> None:
    """Within its own namespace nothing limits it; of others it is preferred, and that is told."""
    engine = engine_of(
        "socket:1 numa:2 core:2 mem:4G",
        "cpuset:0",
        antiAffinityLimits={"namespaces": {"t*": {"levels": ["core"]}}},
    )
    rules = apart(term("socket", "shy", **named))
    places: list[Container] = []
    for name, namespace in (("guest", "guests"), ("one", "team"), ("two", "team")):
        of_team = rules if namespace == "team" else None
        places.append(container_of(name, 1, of_team, app="shy", namespace=namespace, fails=True))
    placed(engine, places[0])
    decision = engine.create(places[1])
    assert [one for one in decision.problems if "of other namespaces" in one.what]
    assert isinstance(decision.result, Grant)
    assert isinstance(engine.create(places[2]).result, Refusal)


def test_15_who_is_adopted_next_to_a_rule_that_insists_is_told() -> None:
    """Required rules that are broken are told, in the decisions of both."""
    engine = engine_of(NODES)
    placed(engine, shy := container_of("shy", 1, apart(term("numa", "wolf")), fails=True))
    wolf = structs.replace(
        container_of("wolf", 0.5), state=ContainerState.RUNNING, cpus=CpuSet.parse("5-7")
    )
    engine.adopt(wolf)
    assert is_told(engine, "anti-affinity at numa", shy, wolf)
    assert is_told(engine, "anti-affinity at numa", shy)
    assert is_told(engine, "anti-affinity at numa", wolf)
    engine.check()
    engine.stop(wolf.id)
    assert engine.decisions[shy.id].unmet == ()


def test_15_who_runs_and_is_kept_out_by_a_rule_is_told() -> None:
    """It cannot be refused any more, whatever the rule insists on."""
    engine = engine_of(CORES)
    placed(engine, shy := container_of("shy", 1, apart(term("socket", "wolf")), fails=True))
    wolf = structs.replace(container_of("wolf", 0.5), state=ContainerState.RUNNING)
    assert isinstance(engine.adopt(wolf).result, Grant)
    assert is_told(engine, "anti-affinity at socket", shy)
    assert is_told(engine, "anti-affinity at socket", wolf)


@pytest.mark.parametrize("milli", [500, 2000])
def test_17_a_resize_does_not_forget_what_is_broken(milli: int) -> None:
    """`unmet` lists what is broken already, of containers that are degraded."""
    engine = engine_of(CORES)
    placed(engine, container_of("wolf", 1))
    rules = apart(term("socket", "wolf"))
    placed(engine, shy := container_of("shy", 1, rules, shares=True))
    assert is_told(engine, "anti-affinity at socket", shy)
    engine.update(shy.id, structs.replace(shy.resources, cpu_request_milli=milli))
    assert is_told(engine, "anti-affinity at socket", shy)


def test_18_who_waited_on_reserved_cpus_goes_where_its_rules_hold() -> None:
    """A rule with `fail` is never broken; here it is at a stop of somebody else."""
    engine = engine_of("socket:1 cluster:2 core:2 mem:4G")
    placed(engine, other := container_of("other", 1, annotations=pool("socket #0")))
    placed(engine, wolf := container_of("wolf", 1))
    placed(engine, third := container_of("third", 1))
    shy = container_of("shy", 0, apart(term("cluster", "wolf")), fails=True)
    placed(engine, shy)
    assert cpus(engine, shy) == "0"
    together = domains(engine, wolf, 2)
    leaving = next(one for one in (other, third) if domains(engine, one, 2) == together)
    engine.stop(leaving.id)
    engine.check()
    assert domains(engine, shy, 2).isdisjoint(together)


def test_20_a_restart_keeps_everybody_and_his_decisions_result() -> None:
    """Holds now."""
    engine = engine_of(NODES)
    placed(engine, web := container_of("web", 1, near(term("numa", "web"))))
    again = engine_of(NODES)
    running = [
        structs.replace(each, state=ContainerState.RUNNING) for each in engine.snapshot().running()
    ]
    again.synchronize(running, dict[ContainerId, Advice]())
    assert isinstance(again.decisions[web.id].result, Grant)
    assert cpus(again, web) == cpus(engine, web)


def test_a_guest_on_cpus_of_a_wider_pool_makes_way_for_nobody() -> None:
    """Its own pool is full: what it has a share of there leads nowhere."""
    engine = engine_of("socket:1 numa:2 core:3 mem:8G")
    guest, home = container_of("guest", 0, app="guest"), pool("NUMA node #1")
    placed(engine, guest)
    (node,) = (one for one in engine.tree.pools if one.name == "NUMA node #1")
    engine.move(guest.id, node.id)
    for number in range(3):
        placed(engine, container_of(f"own-{number}", 1, annotations=home))
    placed(engine, container_of("other", 1))
    assert cpus(engine, guest) == "2"
    rules = apart(term("core", "guest"))
    decision = engine.create(container_of("late", 0.25, rules, fails=True))
    assert isinstance(decision.result, Refusal), decision.pinning


def test_a_guest_that_an_adopted_container_drove_away_may_end_at_once() -> None:
    """Its rules are looked at with the adoption, and not once it has ended."""
    engine = engine_of("socket:1 numa:2 core:3 mem:8G")
    rules = apart(term("core", "noisy"))
    guest = container_of("guest", 0, rules, app="guest")
    placed(engine, guest)
    (node,) = (one for one in engine.tree.pools if one.name == "NUMA node #1")
    engine.move(guest.id, node.id)
    grant = engine.grants[guest.id]
    runs = container_of("runs", 3, app="noisy")
    engine.adopt(structs.replace(runs, cpus=node.cpus, state=ContainerState.RUNNING))
    assert not CpuSet.parse(cpus(engine, guest)) & node.cpus
    assert engine.grants[guest.id] != grant
    engine.stop(guest.id)
    placed(engine, container_of("late", 0.5))
    engine.check()


def test_a_rule_is_not_told_as_broken_by_who_drives_the_other_out() -> None:
    engine = engine_of("socket:1 core:4 mem:4G", "cpuset:0")
    placed(engine, wide := container_of("wide", 0.3, apart(term("core", "own"))))
    placed(engine, container_of("fan", 0.1, near(term("socket", "wide"))))
    placed(engine, own := container_of("own", 1))
    assert set(CpuSet.parse(cpus(engine, own))).isdisjoint(CpuSet.parse(cpus(engine, wide)))
    assert not engine.decisions[own.id].unmet
    assert not engine.decisions[wide.id].unmet


def test_a_rule_is_not_told_as_broken_once_another_drives_the_other_out() -> None:
    engine = engine_of("socket:1 core:4 thread:2 mem:4G", "cpuset:0-1")
    placed(engine, wide := container_of("wide", 0.3, apart(term("core", "own"))))
    placed(engine, container_of("fan", 0.1, near(term("socket", "wide"))))
    own = container_of("own", 1, annotations={"smt.pinfold.dev/pod": "spread"})
    placed(engine, own)
    assert engine.decisions[own.id].unmet
    assert engine.decisions[wide.id].unmet
    (cpu,) = CpuSet.parse(cpus(engine, own))
    for number in range(5):
        placed(engine, container_of(f"next{number}", 1))
        if cpu ^ 1 not in CpuSet.parse(cpus(engine, wide)):
            break
    assert cpu ^ 1 not in CpuSet.parse(cpus(engine, wide))
    assert not engine.decisions[own.id].unmet
    assert not engine.decisions[wide.id].unmet


ROOMY_CORES = "socket:1 core:4 thread:2 mem:8G"
"""Cpu 0 is reserved."""
NO_RESERVED_CPUS = {"prefer-reserved-cpus.resource-policy.nri.io/pod": "false"}


def alone(name: str) -> Container:
    """One with a cpu of its own, which insists on being apart from the system's agents."""
    rules = apart(term("core", "agent", namespaces=["kube-system"]))
    return container_of(name, 1, rules, fails=True)


def agent(name: str, cpu: float = 0.5, app: str = "agent", **annotations: str) -> Container:
    """A container of the system: rules of others do not keep it away."""
    told = {f"{key}.pinfold.dev/pod": value for key, value in annotations.items()}
    told |= {} if cpu > 1 else NO_RESERVED_CPUS
    return container_of(name, cpu, app=app, namespace="kube-system", annotations=told)


@pytest.mark.parametrize(
    "agents",
    [
        pytest.param([agent("one")], id="one on shared cpus"),
        pytest.param([agent("large", 1.5)], id="one for which the reserved cpus are too few"),
        pytest.param([agent("one", group="g")], id="one in a group"),
        pytest.param([agent("a", app="other", group="g"), agent("b", group="g")], id="a second"),
    ],
)
def test_a_container_of_the_system_comes_no_nearer_by_what_others_give_back(
    agents: list[Container],
) -> None:
    """Cpu 3 is in the core of `one`, which asks to be alone there."""
    engine = engine_of(ROOMY_CORES)
    early, one, taker = container_of("early", 1), alone("alone"), container_of("taker", 1)
    assert [placed(engine, each) for each in (early, one, taker)] == ["1", "2", "3"]
    assert [placed(engine, each) for each in agents][-1] == "4-7"
    engine.stop(taker.id)
    engine.check()
    assert [cpus(engine, each) for each in agents] == ["4-7"] * len(agents)
    engine.stop(one.id)
    engine.check()
    assert cpus(engine, agents[0]) == "2-7"


def test_a_container_of_the_system_that_gets_cpus_back_comes_no_nearer_to_others() -> None:
    """It is kept from two cores; one of them is its own again."""
    engine = engine_of(ROOMY_CORES)
    one, two, taker = alone("one"), alone("two"), container_of("taker", 1)
    early, late = container_of("early", 1), container_of("late", 1)
    owners = early, one, taker, two, late
    assert [placed(engine, each) for each in owners] == ["1", "2", "3", "4", "5"]
    large = agent("large", 1.5)
    assert placed(engine, large) == "6-7"
    engine.stop(two.id)
    engine.stop(taker.id)
    engine.check()
    assert cpus(engine, large) == "4,6-7"
    assert not engine.decisions[one.id].unmet


def test_who_made_way_gets_its_cpus_back_after_a_restart_of_the_daemon_too() -> None:
    engine = engine_of(ROOMY_CORES)
    owner = container_of("owner", 1, apart(term("core", "shy")), fails=True)
    shy = container_of("shy")
    assert [placed(engine, one) for one in (container_of("early", 1), owner, shy)][-1] == "4-7"
    snapshot = engine.snapshot()
    engine = Engine(engine.machine, engine.config)
    assert not engine.synchronize(snapshot.running(), snapshot.advice()).changes
    engine.stop(owner.id)
    assert cpus(engine, shy) == "2-7"


@pytest.mark.parametrize("is_first", [True, False])
def test_who_made_way_for_a_pen_gets_its_cpus_back_once_that_ends(is_first: bool) -> None:
    engine = engine_of(ROOMY_CORES)
    rules, wish = apart(term("core", "shy")), {"pod-pool.pinfold.dev/pod": "true"}
    owner = container_of("owner", 1, rules, fails=True, annotations=wish)
    shy = container_of("shy")
    placed(engine, container_of("early", 1))
    for one in (owner, shy) if is_first else (shy, owner):
        placed(engine, one)
    assert (cpus(engine, owner), cpus(engine, shy)) == ("2", "4-7")
    engine.stop(owner.id)
    assert cpus(engine, shy) == "4-7"
    engine.remove(owner.id)
    engine.check()
    assert cpus(engine, shy) == "2-7"


@pytest.mark.parametrize("fails", [False, True], ids=["gives way", "insists"])
def test_who_asks_for_nothing_has_room_where_too_much_is_promised(fails: bool) -> None:
    """Rules of others that give way refuse nobody, and nothing is not too much."""
    engine = engine_of("socket:1 core:4 mem:4G")
    weak = container_of("weak", 1, apart(term("core", "late")), shares=True)
    placed(engine, weak)
    for number in range(3):
        runs = container_of(f"runs{number}", 1, shares=True)
        engine.adopt(structs.replace(runs, state=ContainerState.RUNNING, cpus=CpuSet.parse("1-3")))
    late = container_of("late", 0, fails=fails)
    assert placed(engine, late) == "1-3"
    assert is_told(engine, "anti-affinity at core to app=late", weak)


def test_no_rule_is_told_as_broken_by_whom_a_newcomer_drives_from_its_cpus() -> None:
    """They must not make way for it, but what it has for itself they have no more.

    Without a second look: so many others are to be looked at first.
    """
    engine = engine_of("socket:1 core:16 mem:4G")
    here = {"pool-selector.pinfold.dev/pod": "socket=0"}
    placed(engine, container_of("wide", 0.2, annotations=here))
    rules = apart(term("core", "wide"))
    for number in range(6):
        placed(engine, container_of(f"weak{number}", 0.2, rules, annotations=here))
    own = container_of("own", 1, rules)
    assert placed(engine, own) == "1"
    assert not is_told(engine, "", own)


def test_who_made_way_makes_way_for_one_that_shares_whatever_it_was_promised_on_those_cpus() -> (
    None
):
    """It fits on what is left to it, and takes its promise along."""
    engine = engine_of("socket:1 core:8 mem:4G")
    wide = container_of("wide", 3.5, apart(term("core", "it")), fails=True)
    first, second = container_of("first", 1, app="it"), container_of("second", 0.1, app="it")
    assert [placed(engine, one) for one in (wide, first)] == ["1-7", "1"]
    assert cpus(engine, wide) == "2-7"
    assert placed(engine, second) == "2"
    assert cpus(engine, wide) == "3-7"
