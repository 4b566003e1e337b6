"""Which pool a container gets, and which pools are no candidates."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.cpu_preference import BurstLevel
from pinfold.policy.model.grant import Dropped, Grant, Refusal
from pinfold.policy.placing.pool_choice import ONLY_CANDIDATE
from pinfold.policy.placing.rank import Rank
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet

DOMAIN = "resource-policy.nri.io"
GIB = 2**30
NODES = "socket:2 numa:2 core:4 mem:2G"
DEEP = "socket:2 numa:2 l3:2 core:4 mem:2G"
SHARED = {"prefer-shared-cpus": "true"}


def engine(machine: Machine | str = NODES, **fields: Any) -> Engine:
    if isinstance(machine, str):
        machine = machine_from_spec(machine)
    fields.setdefault("reserved_resources", Amounts(cpu="cpuset:0"))
    return Engine(machine, Config(**fields))


def create(
    one: Engine,
    name: str,
    milli: int = 0,
    annotations: Mapping[str, str] | None = None,
    *,
    qos: QosClass | None = None,
    limit: int | None = None,
    memory: int = 0,
    memory_limit: int | None = None,
) -> Decision:
    qos = qos or (QosClass.GUARANTEED if milli else QosClass.BEST_EFFORT)
    own = annotations or {}
    pod = Pod(
        id=PodId("pod"),
        name="pod",
        annotations={k if "/" in k else f"{k}.{DOMAIN}/pod": text for k, text in own.items()},
        qos=qos,
    )
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli if qos is QosClass.GUARANTEED else limit,
        memory_request_bytes=memory,
        memory_limit_bytes=memory_limit,
    )
    return one.create(Container(id=ContainerId(name), name=name, pod=pod, resources=resources))


def pools(one: Engine, *decisions: Decision) -> list[str]:
    for decision in decisions:
        assert isinstance(decision.result, Grant), decision.result
    return [decision.pool for decision in decisions]


def dropped(decision: Decision) -> dict[int, str]:
    return {
        number: str(candidate)
        for number, candidate in enumerate(decision.candidates)
        if isinstance(candidate, Dropped)
    }


def test_every_pool_is_a_candidate_or_has_a_reason() -> None:
    one = engine()
    decision = create(one, "a", 4000)
    assert dropped(decision) == {0: "exclusive CPUs: wanted 4, available 3"}
    ranked = [found for found in decision.candidates if isinstance(found, Rank)]
    assert [found.pool_id for found in ranked] == [1, 2, 3, 4, 5, 6]
    winner = min(ranked)
    assert one.tree.pools[winner.pool_id].name == decision.pool == "NUMA node #1"
    assert decision.decided_by == "pool_id"
    assert create(one, "b", 1000).decided_by == "exclusive_pool"


def test_the_runner_up_tells_what_decided() -> None:
    one = engine()
    assert create(one, "a", 500, SHARED).decided_by == "pool_id"
    reasons = [create(one, name).decided_by for name in "bcd"]
    assert reasons == ["pool_id", "shared_room", "neighbours"]
    assert create(engine("socket:1 core:4"), "a").decided_by == ONLY_CANDIDATE


def test_containers_spread_over_the_least_crowded_pools() -> None:
    one = engine()
    names = pools(one, *(create(one, name, 500, SHARED) for name in "abcde"))
    assert sorted(names[:4]) == [f"NUMA node #{number}" for number in range(4)]
    assert names[4] == "NUMA node #1"


def test_what_does_not_fit_a_small_pool_goes_to_a_wider_one() -> None:
    one = engine()
    assert pools(one, create(one, "a", 5000), create(one, "b", 6500, SHARED)) == [
        "socket #1",
        "socket #0",
    ]


def test_a_container_that_asks_for_nothing_fits_everywhere() -> None:
    one = engine("socket:2 core:2")
    for name in "abc":
        create(one, name, 1000)
    decision = create(one, "idle")
    assert isinstance(decision.result, Grant)
    assert dropped(decision) == {}
    assert all(isinstance(found, Rank) and found.crowded for found in decision.candidates)


def test_friends_are_near_and_enemies_far() -> None:
    one = engine()
    friend = {f"{DOMAIN}/affinity": "friend: [first]"}
    enemy = {f"{DOMAIN}/anti-affinity": "enemy: [first]"}
    first = create(one, "first", 500, SHARED)
    near = create(one, "friend", 500, {**SHARED, **friend})
    assert near.pool == first.pool
    assert near.decided_by == "affinity"
    assert pools(one, first, create(one, "enemy", 500, {**SHARED, **enemy})) == [
        "NUMA node #1",
        "NUMA node #2",
    ]


def test_a_friend_is_no_reason_to_crowd() -> None:
    one = engine()
    first = create(one, "first", 3900, SHARED)
    second = create(one, "second", 500, {**SHARED, f"{DOMAIN}/affinity": "second: [first]"})
    assert (first.pool, second.pool) == ("NUMA node #1", "NUMA node #0")
    assert second.decided_by == "memory_nodes", "no farther from the friend than the socket"


LEVELS = [
    pytest.param(DEEP, BurstLevel.SYSTEM, "virtual node", id="the whole system"),
    pytest.param(DEEP, BurstLevel.PACKAGE, "socket", id="a socket"),
    pytest.param(DEEP, BurstLevel.DIE, "socket", id="the socket where there are no dies"),
    pytest.param(DEEP, BurstLevel.NUMA, "numa node", id="a NUMA node"),
    pytest.param(DEEP, BurstLevel.L3_CACHE, "L3 cache", id="an L3 group"),
    pytest.param(DEEP, BurstLevel.CORE, "L3 cache", id="the tightest there is instead of a core"),
    pytest.param("socket:1 core:4", BurstLevel.SYSTEM, "socket", id="the only socket"),
    pytest.param("socket:2 core:4", BurstLevel.NUMA, "socket", id="a socket of one NUMA node"),
]


@pytest.mark.parametrize(("spec", "level", "kind"), LEVELS)
def test_an_unlimited_container_bursts_in(spec: str, level: BurstLevel, kind: str) -> None:
    one = engine(spec, unlimited_burstable=level)
    decision = create(one, "a", 100, qos=QosClass.BURSTABLE)
    assert isinstance(decision.result, Grant)
    assert one.tree.pools[decision.result.pool_id].kind.value == kind


def test_unlimited_containers_go_where_there_is_most_room_at_their_level() -> None:
    one = engine()
    first = create(one, "a", 100, qos=QosClass.BURSTABLE)
    second = create(one, "b", 100, qos=QosClass.BURSTABLE)
    assert pools(one, first, second) == ["socket #1", "socket #1"], "7 cpus are not more than 8"
    assert first.decided_by == "burst_room"


def test_a_limited_container_goes_where_its_limit_fits() -> None:
    one = engine()
    assert create(one, "a", 100, qos=QosClass.BURSTABLE, limit=4000).pool == "NUMA node #1"
    wide = create(one, "b", 100, qos=QosClass.BURSTABLE, limit=6000)
    assert wide.pool == "socket #1"


def test_a_memory_request_without_a_limit_is_not_sent_to_the_root() -> None:
    one = engine()
    decision = create(one, "a", 100, qos=QosClass.BURSTABLE, limit=200, memory=GIB)
    assert decision.pool == "NUMA node #1"


def test_memory_up_to_the_limit_counts() -> None:
    one = engine()
    decision = create(
        one, "a", 100, qos=QosClass.BURSTABLE, limit=200, memory=GIB, memory_limit=3 * GIB
    )
    assert decision.pool == "socket #1"
    assert decision.decided_by == "shared_room", "both sockets have it, and no NUMA node"


def test_pools_whose_memory_is_taken_are_wider_ones() -> None:
    one = engine()
    decisions = [
        create(one, name, 1000, memory=3 * GIB // 2, memory_limit=3 * GIB // 2) for name in "abcd"
    ]
    assert len(set(pools(one, *decisions))) == 4
    last = create(one, "e", 1000, memory=2 * GIB, memory_limit=2 * GIB)
    assert isinstance(last.result, Grant)
    assert len(last.result.memory) > 1
    full = create(one, "f", 1000, memory=GIB, memory_limit=GIB)
    assert isinstance(full.result, Refusal)
    assert set(dropped(full)) == set(range(7))


def test_isolated_cpus_are_taken_where_most_are_left() -> None:
    one = engine("socket:2 numa:2 core:4 mem:2G isolated:4-5,8-10")
    isolated = {"prefer-isolated-cpus": "true"}
    found = [create(one, name, 1000, isolated) for name in "abc"]
    names = pools(one, *found)
    assert names == ["NUMA node #2", "NUMA node #1", "NUMA node #2"]
    assert found[0].decided_by == "isolated_room"
    for decision in found:
        assert isinstance(decision.result, Grant)
        assert decision.result.isolated == decision.result.exclusive != CpuSet()


def test_where_isolated_cpus_are_too_few_others_do() -> None:
    one = engine("socket:2 core:4 isolated:5")
    decision = create(one, "a", 2000, {"prefer-isolated-cpus": "true"})
    assert isinstance(decision.result, Grant)
    assert decision.result.isolated == CpuSet()
    strict = create(one, "b", 2000, {"require-isolated-cpus": "true"})
    assert dropped(strict) == {
        0: "isolated CPUs: wanted 2, available 0",
        1: "isolated CPUs: wanted 2, available 1",
        2: "isolated CPUs: wanted 2, available 1",
    }


def test_an_isolated_container_with_a_share_needs_room_for_the_share_only() -> None:
    one = engine("socket:1 core:3 isolated:2")
    create(one, "full", 500, SHARED)
    mixed = create(one, "mixed", 1500, {"prefer-isolated-cpus": "true"})
    assert isinstance(mixed.result, Grant)
    assert (str(mixed.result.isolated), mixed.result.shared_milli) == ("2", 500)
    assert isinstance(create(one, "more", 100).result, Refusal)


def test_a_mixed_container_needs_room_for_both_parts() -> None:
    one = engine("socket:1 core:3")
    create(one, "a", 800)
    decision = create(one, "mixed", 1500)
    assert dropped(decision) == {0: "shared CPU: wanted 500m, available 200m"}
    assert isinstance(create(one, "fits", 1200).result, Grant)


def test_a_container_that_wants_fast_cpus_goes_where_enough_of_them_are() -> None:
    machine = machine_from_spec(NODES)
    fast = CpuSet.parse("3,14-15")
    cpus = {
        number: dataclasses.replace(cpu, base_khz=3_000_000 if number in fast else 2_000_000)
        for number, cpu in machine.cpus.items()
    }
    one = engine(dataclasses.replace(machine, cpus=cpus))
    high = {"prefer-cpu-priority": "high"}
    decision = create(one, "a", 2000, high)
    assert isinstance(decision.result, Grant)
    assert (decision.pool, str(decision.result.exclusive)) == ("NUMA node #3", "14-15")
    assert decision.decided_by == "cpu_priority"
    again = create(one, "b", 1000, high)
    assert (again.pool, again.decided_by) == ("NUMA node #0", "cpu_priority")
    slow = create(one, "c", 1000, {"prefer-cpu-priority": "low"})
    assert (slow.pool, slow.decided_by) == ("NUMA node #1", "exclusive_pool")


def test_a_pool_without_usable_cpus_is_no_place_to_go() -> None:
    one = engine(
        NODES,
        available_resources=Amounts(cpu="cpuset:0,8-15"),
        unlimited_burstable=BurstLevel.NUMA,
    )
    decisions = [
        create(one, "a"),
        create(one, "b", 500),
        create(one, "c", 1000),
        create(one, "d", 100, qos=QosClass.BURSTABLE),
    ]
    assert set(pools(one, *decisions)) <= {"NUMA node #2", "NUMA node #3"}
    for decision in decisions:
        assert decision.pinning.cpus is not None
        assert decision.pinning.cpus <= CpuSet.parse("8-15")


def test_on_a_machine_of_one_cpu_everybody_runs() -> None:
    one = engine("socket:1 core:1")
    assert str(create(one, "idle").pinning.cpus) == "0"
    system = create(one, "dns", 100, {"prefer-reserved-cpus": "true"})
    assert str(system.pinning.cpus) == "0"
    assert str(create(one, "a", 100).pinning.cpus) == "0"
    refused = create(one, "too-much", 900)
    assert isinstance(refused.result, Refusal)
    assert "shared CPU: wanted 900m, available 800m" in refused.result.reason


def with_extra(machine: Machine, kind: MemoryKind, near: int) -> Machine:
    """The machine with a memory node without cpus, nearest to one of its nodes."""
    count = len(machine.numa_nodes)
    extra = NumaNode(id=NumaNodeId(count), memory_bytes=8 * GIB, kind=kind)
    last = tuple(17 if number == near else 28 for number in range(count))
    rows = [(*row, last[number]) for number, row in enumerate(machine.distances)]
    return dataclasses.replace(
        machine,
        numa_nodes=(*machine.numa_nodes, extra),
        distances=(*rows, (*last, 10)),
    )


def test_scarce_memory_draws_who_asks_for_it_and_nobody_else() -> None:
    machine = with_extra(machine_from_spec(NODES), MemoryKind.HBM, near=2)
    one = engine(machine)
    plain = create(one, "plain", 500)
    assert isinstance(plain.result, Grant)
    assert 4 not in plain.result.memory
    fast = create(one, "fast", 500, {"memory-type": "hbm"})
    assert isinstance(fast.result, Grant)
    assert (fast.pool, str(fast.result.memory)) == ("NUMA node #2", "4")
    both = create(one, "both", 500, {"memory-type": "hbm,dram"})
    assert isinstance(both.result, Grant)
    assert (both.pool, str(both.result.memory)) == ("NUMA node #2", "2,4")
