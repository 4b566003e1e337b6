"""Domains: the groups of usable cpus at every level of a machine."""

import dataclasses

import pytest

from pinfold.policy.pools.domains import Domains
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Level, Machine, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.counted_calls import count_calls
from tests.unit.topology.model.offline import without

FULL = "socket:2 numa:2 l3:2 core:2 thread:2 mem:1G"


def lists(machine: Machine, level: Level, allowed: str = "") -> list[str]:
    domains = Domains(machine, CpuSet.parse(allowed) if allowed else machine.online)
    return [str(CpuSet(mask)) for mask in domains.masks(level)]


@pytest.mark.parametrize(
    ("spec", "level", "expected", "stand_in"),
    [
        (FULL, Level.SYSTEM, ["0-31"], Level.SYSTEM),
        (FULL, Level.SOCKET, ["0-15", "16-31"], Level.SOCKET),
        (FULL, Level.NUMA, ["0-7", "8-15", "16-23", "24-31"], Level.NUMA),
        ("socket:1 l3:2 core:2", Level.L3, ["0-1", "2-3"], Level.L3),
        ("socket:1 cluster:2 core:2", Level.CLUSTER, ["0-1", "2-3"], Level.CLUSTER),
        ("socket:1 core:2 thread:2", Level.CORE, ["0-1", "2-3"], Level.CORE),
    ],
)
def test_a_level_that_is_there_has_its_groups(
    spec: str, level: Level, expected: list[str], stand_in: Level
) -> None:
    machine = machine_from_spec(spec)
    assert lists(machine, level) == expected
    assert Domains(machine, machine.online).stand_in(level) is stand_in


def test_l3_without_caches_is_the_numa_node() -> None:
    machine = dataclasses.replace(machine_from_spec("socket:1 numa:2 core:2"), l3_groups=())
    assert lists(machine, Level.L3) == ["0-1", "2-3"]
    assert Domains(machine, machine.online).stand_in(Level.L3) is Level.NUMA


def test_one_core_alone_is_no_cluster_so_the_l3_group_stands_in() -> None:
    machine = machine_from_spec("socket:1 l3:2 core:2 thread:2")
    assert lists(machine, Level.CLUSTER) == ["0-3", "4-7"]
    assert Domains(machine, machine.online).stand_in(Level.CLUSTER) is Level.L3


def test_cores_that_share_an_l2_are_a_cluster_where_the_kernel_names_none() -> None:
    machine = machine_from_spec("socket:1 core:4 thread:2")
    groups = CpuSet.parse("0-3"), CpuSet.parse("4-7")
    assert lists(dataclasses.replace(machine, l2_groups=groups), Level.CLUSTER) == ["0-3", "4-7"]


def test_cpus_outside_every_group_of_a_level_are_as_far_as_at_the_next_wider_one() -> None:
    machine = machine_from_spec("socket:2 core:4")
    partly = dataclasses.replace(machine, l3_groups=(CpuSet.parse("0-1"),))
    assert lists(partly, Level.L3) == ["0-1", "2-3", "4-7"]


def test_an_l3_group_may_hold_several_numa_nodes() -> None:
    machine = machine_from_spec("socket:1 numa:4 core:2")
    shared = dataclasses.replace(machine, l3_groups=(CpuSet.parse("0-3"), CpuSet.parse("4-7")))
    assert lists(shared, Level.L3) == ["0-3", "4-7"]
    assert lists(shared, Level.NUMA) == ["0-1", "2-3", "4-5", "6-7"]
    assert lists(shared, Level.CLUSTER) == ["0-3", "4-7"]


def test_memory_without_cpus_is_no_domain() -> None:
    machine = machine_from_spec("socket:1 numa:2 core:2 mem:1G")
    slow = NumaNode(id=NumaNodeId(2), memory_bytes=2**30)
    more = dataclasses.replace(machine, numa_nodes=(*machine.numa_nodes, slow))
    assert lists(more, Level.NUMA) == ["0-1", "2-3"]


def test_offline_cpus_do_not_count() -> None:
    machine = without(machine_from_spec("socket:2 core:2 thread:2"), CpuSet.parse("0-1,7"))
    assert lists(machine, Level.CORE) == ["2-3", "4-5", "6"]


def test_a_domain_of_which_no_cpu_is_allowed_is_none() -> None:
    machine = machine_from_spec("socket:4 core:2")
    assert lists(machine, Level.SOCKET, "0,4-7") == ["0", "4-5", "6-7"]


def test_of_overlapping_numa_nodes_the_first_has_the_cpu() -> None:
    machine = machine_from_spec("socket:1 numa:2 core:2")
    first, second = machine.numa_nodes
    both = dataclasses.replace(first, cpus=CpuSet.parse("0-2"))
    assert lists(dataclasses.replace(machine, numa_nodes=(both, second)), Level.NUMA) == [
        "0-2",
        "3",
    ]


def test_domains_of_a_set_of_cpus_are_named_by_their_lowest_cpus() -> None:
    machine = machine_from_spec(FULL)
    domains = Domains(machine, machine.online)
    cpus = CpuSet.parse("7-8,30").mask
    assert str(CpuSet(domains.indexes(Level.NUMA, cpus))) == "0,8,24"
    assert str(CpuSet(domains.covering(Level.NUMA, cpus))) == "0-15,24-31"
    assert str(CpuSet(domains.members(Level.SOCKET, 1 << 16))) == "16-31"


def test_levels_nest_where_each_narrower_domain_is_in_a_wider_one() -> None:
    machine = machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:1G")
    wide = dataclasses.replace(machine, l3_groups=tuple(one.cpus for one in machine.sockets))
    domains = Domains(wide, wide.online)
    assert domains.nest(Level.CORE, Level.NUMA)
    assert domains.nest(Level.NUMA, Level.L3)
    assert not domains.nest(Level.L3, Level.NUMA)


def test_whether_levels_nest_costs_no_call_for_each_of_their_domains() -> None:
    machine = machine_from_spec("socket:2 numa:4 l3:4 core:16 thread:2 mem:1G")
    domains = Domains(machine, machine.online)
    assert count_calls(lambda: domains.nest(Level.CORE, Level.L3)) < 64
    assert count_calls(lambda: domains.nest(Level.CORE, Level.CORE)) < 64
    assert not domains.nest(Level.NUMA, Level.CORE)
