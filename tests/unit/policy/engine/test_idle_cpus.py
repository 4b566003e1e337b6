"""Idle cpus: for those who may use them, and given back with the very answer that grants them."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.gauges.kept_loads import pool_loads
from pinfold.policy.model.container import Container, ContainerId, Resources
from pinfold.policy.model.grant import Grant, GrantKind
from pinfold.policy.model.pinning import Change
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.policy.engine.ruled_pods import (
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    term,
)

SPEC = "socket:2 numa:2 core:2 thread:2 mem:4G"
"""NUMA nodes 0-3, 4-7, 8-11 and 12-15; cpu 0 is reserved. The first container goes to 4-7."""
KEY = "idle-cpus.pinfold.dev/pod"


def user(
    name: str = "user",
    level: str = "socket",
    rules: Mapping[str, Any] | None = None,
    **more: str,
) -> Container:
    """A shared container that may use idle cpus; `more`: further annotations for the pod."""
    told = {
        KEY: level,
        **{f"{key.replace('__', '.').replace('_', '-')}/pod": one for key, one in more.items()},
    }
    container = container_of(name, 0.5, rules, annotations=told)
    limited = structs.replace(container.resources, cpu_limit_milli=1000)
    return structs.replace(container, resources=limited)


def told(changes: tuple[Change, ...]) -> dict[str, str]:
    """The cpus that others are told with an answer, by container."""
    return {one.container_id: str(one.after.cpus) for one in changes}


LEVELS = [
    pytest.param(SPEC, "socket", "1-7", id="all of a socket"),
    pytest.param(SPEC, "numa", "4-7", id="no more than its pool is"),
    pytest.param(SPEC, "l3", "1-7", id="the next wider domain where the machine has no such"),
    pytest.param("socket:1 l3:4 core:4 mem:4G", "l3", "4-7", id="one L3 cache of several"),
    pytest.param("socket:1 l3:4 core:4 mem:4G", "numa", "1-15", id="several L3 caches"),
    pytest.param(
        "socket:1 l3:2 numa:2 core:4 mem:4G", "l3", "1-7", id="the NUMA nodes below an L3 cache"
    ),
    pytest.param(
        "socket:1 numa:2 core:4 mem:4G isolated:2", "socket", "1,3-7", id="no isolated cpus"
    ),
    pytest.param("socket:1 core:2 mem:4G", "socket", "1", id="a machine that is one pool"),
]


@pytest.mark.parametrize(("spec", "level", "expected"), LEVELS)
def test_a_shared_container_may_use_idle_cpus_of(spec: str, level: str, expected: str) -> None:
    assert placed(engine_of(spec), user(level=level)) == expected


def test_who_is_granted_idle_cpus_has_them_alone_from_that_answer_on() -> None:
    engine, container = engine_of(SPEC), user()
    assert placed(engine, container) == "1-7"
    pool, ledger = engine.grants[container.id].pool_id, engine.snapshot()
    own = container_of("own", 3, annotations={"pool-name.pinfold.dev/pod": "NUMA node #0"})
    decision = engine.create(own)
    assert told(decision.changes) == {container.id: "4-7"}
    assert cpus(engine, own) == "1-3"
    assert engine.grants[container.id].pool_id == pool
    assert told(engine.stop(own.id)) == {container.id: "1-7"}, "given back, and used again"
    assert engine.snapshot().free_sharable == ledger.free_sharable
    engine.check()


def test_idle_cpus_are_nothing_to_the_ledger_and_to_ranks() -> None:
    """The same containers with and without the wish are in the same places."""
    wishing, plain = engine_of(SPEC), engine_of(SPEC)
    for number in range(12):
        one = user(f"c{number}", "socket" if number % 2 else "numa")
        without = structs.replace(one, pod=structs.replace(one.pod, annotations={}))
        found, other = wishing.create(one), plain.create(without)
        assert found.pool == other.pool
        assert found.candidates == other.candidates
    snapshots = wishing.snapshot(), plain.snapshot()
    assert snapshots[0].room == snapshots[1].room
    assert pool_loads(snapshots[0]) == pool_loads(snapshots[1])


def test_what_is_left_of_a_domain_is_used_by_all_who_may() -> None:
    engine, users = engine_of(SPEC), [user("one"), user("two")]
    assert [placed(engine, one) for one in users] == ["1-7", "8-15"]
    for node in (0, 1):
        name = {"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
        placed(engine, container_of(f"own{node}", 3, annotations=name))
    assert [cpus(engine, one) for one in users] == ["7", "8-15"]


def test_threads_stay_hidden_on_idle_cpus_too() -> None:
    container = user(hide_hyperthreads__resource_policy__nri__io="true")
    assert placed(engine_of(SPEC), container) == "1-2,4,6"


def test_a_refused_container_takes_no_idle_cpu() -> None:
    engine, container = engine_of(SPEC), user()
    placed(engine, container)
    far_too_large = container_of("large", 12, apart(term("numa", "user")), fails=True)
    decision = engine.create(far_too_large)
    assert not isinstance(decision.result, Grant)
    assert decision.changes == ()
    assert cpus(engine, container) == "1-7"


TIED = [
    pytest.param(user("other", rules=near(term("numa", "web"))), id="its own affinity"),
    pytest.param(user("other", rules=apart(term("numa", "db"))), id="its own anti-affinity"),
    pytest.param(user("other", pool_name__pinfold__dev="NUMA node #1"), id="the name of its pool"),
]


@pytest.mark.parametrize("container", TIED)
def test_who_must_be_where_it_is_uses_no_idle_cpus(container: Container) -> None:
    engine = engine_of(SPEC)
    placed(engine, container_of("web", 0, annotations={KEY: "socket"}))
    found = placed(engine, container)
    grant = engine.grants[container.id]
    assert found == str(engine.tree.pools[grant.pool_id].sharable)
    (note,) = [one for one in engine.note(container.id) if one.startswith("idle-cpus")]
    assert note == (
        "idle-cpus: no others for it, as required rules keep it on the cpus of its pool"
    )


def test_a_required_rule_about_a_container_keeps_it_off_idle_cpus_while_it_stands() -> None:
    engine, container = engine_of(SPEC), user()
    placed(engine, container)
    foe = container_of("foe", 0.5, apart(term("numa", "user")))
    decision = engine.create(foe)
    assert told(decision.changes) == {container.id: "4-7"}
    assert told(engine.remove(foe.id)) == {container.id: "1-7"}
    engine.check()


def test_a_rule_that_is_there_already_keeps_a_newcomer_off_idle_cpus() -> None:
    engine, container = engine_of(SPEC), user()
    foe = container_of("foe", 0.5, apart(term("numa", "user")))
    placed(engine, foe)
    before = placed(engine, container)
    assert before == str(engine.tree.pools[engine.grants[container.id].pool_id].sharable)
    assert set(told(engine.remove(foe.id))) == {container.id}
    assert cpus(engine, container) in ("1-7", "8-15")


NOTES = [
    pytest.param(
        user(), "it may use those of its socket that are nobody's", GrantKind.SHARED, id="shared"
    ),
    pytest.param(
        container_of("own", 2, annotations={KEY: "numa"}),
        "no others for it, as it has cpus of its own",
        GrantKind.EXCLUSIVE,
        id="exclusive",
    ),
    pytest.param(
        container_of("system", 0.1, annotations={KEY: "numa"}, namespace="kube-system"),
        "no others for it, as it runs on reserved cpus",
        GrantKind.RESERVED,
        id="reserved",
    ),
    pytest.param(
        user(group__pinfold__dev="all"),
        "no others for it, as it runs on the cpus of its pod or group",
        GrantKind.SHARED,
        id="in a group",
    ),
]


@pytest.mark.parametrize(("container", "note", "kind"), NOTES)
def test_notes_say_who_uses_idle_cpus(container: Container, note: str, kind: GrantKind) -> None:
    engine = engine_of(SPEC)
    placed(engine, container)
    assert engine.note(container.id) == (f"idle-cpus: {note}",)
    assert engine.grants[container.id].kind is kind
    idle = engine.snapshot().idle_of(container.id)
    assert str(idle) == ("1-3" if kind is GrantKind.SHARED and "may use" in note else "")


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_restart_leaves_idle_cpus_to_those_who_have_them(is_remembered: bool) -> None:
    before, container = engine_of(SPEC), user()
    placed(before, container)
    placed(before, container_of("own", 2, annotations={"pool-name.pinfold.dev/pod": "socket #1"}))
    advice: Mapping[ContainerId, Advice] = before.snapshot().advice() if is_remembered else {}
    engine = engine_of(SPEC)
    found = engine.synchronize(before.snapshot().running(), advice)
    assert found.changes == ()
    assert cpus(engine, container) == "1-7"
    if is_remembered:
        assert engine.grants == before.grants, "it is in the pool that it was in"
    late = container_of("late", 2, annotations={"pool-name.pinfold.dev/pod": "NUMA node #0"})
    decision = engine.create(late)
    given_back = decision.pinning.cpus
    assert given_back is not None
    assert told(decision.changes) == {container.id: str(CpuSet.parse("1-7") - given_back)}
    engine.check()


@pytest.mark.parametrize("is_remembered", [True, False])
def test_who_was_adopted_on_reserved_cpus_stays_there_at_a_restart(is_remembered: bool) -> None:
    """As one without the wish: it has other cpus at the next event."""
    engine = engine_of(SPEC)
    one = structs.replace(user(), resources=Resources(), cpus=CpuSet.of(0), mems=NodeSet.of(0))
    engine.adopt(one)
    known = engine.pinning(one.id)
    assert known is not None
    assert str(known.cpus) == "0"
    remembered: Mapping[ContainerId, Advice] = engine.snapshot().advice() if is_remembered else {}
    restarted = Engine(engine.machine, engine.config)
    assert restarted.synchronize([one], remembered).changes == ()
    assert restarted.pinning(one.id) == known
    changes = restarted.create(container_of("own", 1)).changes
    assert told(changes) == {one.id: "1-3,5-7"}
    restarted.check()


def test_another_configuration_reserves_idle_cpus() -> None:
    engine, container = engine_of(SPEC), user()
    placed(engine, container)
    reloaded, found = engine.reconfigured(Config(reserved_resources=Amounts(cpu="cpuset:0-2")))
    assert told(found.changes) == {container.id: "3-7"}
    assert cpus(reloaded, container) == "3-7"
    reloaded.check()


@pytest.mark.parametrize("is_restart", [False, True])
def test_a_rule_that_another_configuration_brings_takes_idle_cpus_back(is_restart: bool) -> None:
    """By its rule it must be in no NUMA node with `own`, beside which it is on lent cpus."""
    engine, container = engine_of(SPEC), user()
    placed(engine, container)
    own = container_of("own", 1, annotations={"pool-name.pinfold.dev/pod": "NUMA node #0"})
    placed(engine, own)
    assert cpus(engine, container) == "2-7"
    shy = {
        "name": "shy",
        "labelSelector": {"matchLabels": {"app": "user"}},
        "addedAffinity": apart(term("numa", "own")),
    }
    config = engine_of(SPEC, profiles=[shy]).config
    if is_restart:
        running, advice = engine.snapshot().running(), engine.snapshot().advice()
        engine = Engine(engine.machine, config)
        found = engine.synchronize(running, advice)
    else:
        engine, found = engine.reconfigured(config)
    assert told(found.changes) == {container.id: "4-7"}
    assert cpus(engine, container) == "4-7"
    assert engine.decisions[container.id].unmet == ()
    engine.check()


def test_a_lower_hyperthread_that_became_idle_moves_nobody_at_a_restart() -> None:
    """Of core 2-3 it was told cpu 3 while 2 was somebody's; that one left while we were down."""
    engine, there = engine_of(SPEC), {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    owners = [container_of(name, 1, annotations=there) for name in ("one", "two")]
    assert [placed(engine, one) for one in owners] == ["1", "2"]
    container = user()
    hidden = {**container.pod.annotations, "hide-hyperthreads.resource-policy.nri.io/pod": "true"}
    container = structs.replace(container, pod=structs.replace(container.pod, annotations=hidden))
    assert placed(engine, container) == "3-4,6"
    listed = [one for one in engine.snapshot().running() if one.id != owners[1].id]
    again = Engine(engine.machine, engine.config)
    assert again.synchronize(listed, engine.snapshot().advice()).changes == ()
    again.check()


def test_who_has_an_upper_hyperthread_beside_a_foe_keeps_it_at_a_restart() -> None:
    """Of core 4-5 it was told cpu 5, as 4 is somebody's; a rule about it is broken there."""
    engine, there = engine_of(SPEC), {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    assert placed(engine, container_of("own", 1, annotations=there)) == "4"
    container = user(level="numa", hide_hyperthreads__resource_policy__nri__io="true")
    engine.adopt(structs.replace(container, cpus=CpuSet.parse("5-7")))
    foe = container_of("foe", 0.5, apart(term("core", "user")))
    engine.adopt(structs.replace(foe, cpus=CpuSet.parse("5-7")))
    placed(engine, container_of("late", 0.5))
    assert (cpus(engine, container), cpus(engine, foe)) == ("5-6", "5-7")
    (broken,) = engine.decisions[foe.id].unmet
    assert "in one core with default/user/main" in broken
    listed, before = engine.snapshot().running(), engine.grants
    again = Engine(engine.machine, engine.config)
    assert again.synchronize(listed, engine.snapshot().advice()).changes == ()
    assert again.grants == before, "no rule keeps it from where it is"
    again.check()


def test_a_value_that_is_no_level_is_told() -> None:
    engine, container = engine_of(SPEC), user(level="die")
    assert placed(engine, container) == "4-7"
    (problem,) = engine.decisions[container.id].problems
    assert "'die' is no level of idle cpus" in str(problem)


def test_a_rule_of_the_configuration_gives_the_wish() -> None:
    rules = [{"name": "burst", "match": {}, "annotations": {"idle-cpus.pinfold.dev": "socket"}}]
    engine = engine_of(SPEC, rules=rules)
    container = structs.replace(user(), pod=structs.replace(user().pod, annotations={}))
    assert placed(engine, container) == "1-7"
