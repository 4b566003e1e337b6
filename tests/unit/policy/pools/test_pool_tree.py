"""The pool tree: which levels become pools, their names, numbers and memory."""

import dataclasses
import random

import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.pools.pool_tree import PoolKind, PoolTree
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.topology.model.offline import without


def tree_of(machine: Machine, reserved: str = "cpuset:0") -> PoolTree:
    config = Config(reserved_resources=Amounts(cpu=reserved))
    return build_tree(machine, read_supply(machine, config, CpuPicker(machine)))


SHAPES = [
    pytest.param("socket:1 core:4", ["socket #0"], id="one socket is the root itself"),
    pytest.param(
        "socket:2 core:2",
        ["socket #0", "socket #1", "root"],
        id="a single NUMA node per socket has no pool of its own",
    ),
    pytest.param(
        "socket:2 numa:2 core:2 thread:2",
        [
            "NUMA node #0",
            "NUMA node #1",
            "socket #0",
            "NUMA node #2",
            "NUMA node #3",
            "socket #1",
            "root",
        ],
        id="NUMA nodes are numbered before their socket, the root last",
    ),
    pytest.param(
        "socket:1 l3:2 core:2",
        ["socket #0/L3 cache #0", "socket #0/L3 cache #1", "socket #0"],
        id="several L3 groups in a socket without NUMA pools",
    ),
    pytest.param(
        "socket:1 numa:2 l3:2 core:2",
        [
            "NUMA node #0/L3 cache #0",
            "NUMA node #0/L3 cache #1",
            "NUMA node #0",
            "NUMA node #1/L3 cache #2",
            "NUMA node #1/L3 cache #3",
            "NUMA node #1",
            "socket #0",
        ],
        id="several L3 groups in each NUMA node",
    ),
]


def with_clusters(spec: str, size: int) -> Machine:
    """The machine with a cluster for each `size` cpus; 0: as a kernel before 5.16 shows it."""
    machine = machine_from_spec(spec)
    cpus = {
        number: dataclasses.replace(cpu, cluster=number // size if size else -1)
        for number, cpu in machine.cpus.items()
    }
    return dataclasses.replace(machine, cpus=cpus)


DIES = [
    pytest.param("socket:1 die:2 core:4", 2, True, id="dies of several clusters"),
    pytest.param("socket:1 die:2 core:4", 4, False, id="dies that are one cluster each"),
    pytest.param("socket:1 die:2 core:4", 0, True, id="a kernel that tells nothing of clusters"),
    pytest.param("socket:1 die:1 core:4", 2, False, id="the only die"),
    pytest.param("socket:1 die:3 core:4", 2, True, id="three dies"),
]


def test_sockets_and_dies_are_numbered_by_their_ids_not_by_their_cpus() -> None:
    machine = machine_from_spec("socket:2 die:2 numa:1 core:2")
    labels = {"0": "36", "1": "8", "0/0": "36/10", "0/1": "36/2", "1/0": "8/0", "1/1": "8/1"}
    renamed = dataclasses.replace(
        machine,
        sockets=tuple(dataclasses.replace(one, label=labels[one.label]) for one in machine.sockets),
        dies=tuple(dataclasses.replace(one, label=labels[one.label]) for one in machine.dies),
    )
    assert [(pool.name, str(pool.cpus)) for pool in tree_of(renamed).pools] == [
        ("die #8/0", "4-5"),
        ("die #8/1", "6-7"),
        ("socket #8", "4-7"),
        ("die #36/2", "2-3"),
        ("die #36/10", "0-1"),
        ("socket #36", "0-3"),
        ("root", "0-7"),
    ]


@pytest.mark.parametrize(("spec", "size", "has_pools"), DIES)
def test_dies_are_pools(spec: str, size: int, has_pools: bool) -> None:
    tree = tree_of(with_clusters(spec, size))
    dies = [pool for pool in tree.pools if pool.kind is PoolKind.DIE]
    assert bool(dies) is has_pools
    for number, pool in enumerate(dies):
        assert (pool.name, len(pool.cpus)) == (f"die #0/{number}", 4)


@pytest.mark.parametrize(
    ("l3_groups", "pools"),
    [
        pytest.param(
            "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15",
            [f"socket #0/L3 cache #{number}" for number in range(4)],
            id="two caches in each core: a pool for each core",
        ),
        pytest.param(
            "0-1,4-5 2-3,6-7 8-9,12-13 10-11,14-15",
            ["socket #0/L3 cache #0", "socket #0/L3 cache #1"],
            id="two caches that divide the same two cores: a pool for both",
        ),
        pytest.param(
            "0-1 2-5 6-9 10-13 14-15",
            [],
            id="each core shares a cache with the next one: none",
        ),
    ],
)
def test_no_l3_pool_divides_a_core_whose_threads_have_caches_of_their_own(
    l3_groups: str, pools: list[str]
) -> None:
    groups = tuple(map(CpuSet.parse, l3_groups.split()))
    machine = dataclasses.replace(machine_from_spec("socket:1 core:4 thread:4"), l3_groups=groups)
    tree = tree_of(machine)
    assert [pool.name for pool in tree.pools] == [*pools, "socket #0"]
    for pool in tree.pools:
        assert all(core <= pool.cpus or core.isdisjoint(pool.cpus) for core in machine.cores)


@pytest.mark.parametrize("l3_groups", ["0-3 4-7 8-11", "0-1 2-3 4-5 6-7 8-9 10-11"])
def test_an_l3_pool_has_the_online_cpus_of_a_group_that_names_others(l3_groups: str) -> None:
    online = without(machine_from_spec("socket:1 core:3 thread:4"), CpuSet.parse("5"))
    groups = tuple(map(CpuSet.parse, l3_groups.split()))
    pools = tree_of(dataclasses.replace(online, l3_groups=groups)).pools
    assert [str(pool.cpus) for pool in pools] == ["0-3", "4,6-7", "8-11", "0-4,6-11"]


def test_dies_of_several_nodes_have_numa_pools_and_dies_of_one_have_l3_pools() -> None:
    assert [pool.name for pool in tree_of(machine_from_spec("socket:1 die:2 numa:2 core:1")).pools][
        :3
    ] == ["NUMA node #0", "NUMA node #1", "die #0/0"]
    assert [pool.name for pool in tree_of(machine_from_spec("socket:1 die:2 l3:2 core:1")).pools][
        :3
    ] == ["die #0/0/L3 cache #0", "die #0/0/L3 cache #1", "die #0/0"]


def test_a_node_wider_than_a_socket_is_named_after_each_of_them() -> None:
    machine = machine_from_spec("socket:2 numa:2 core:2")
    nodes = list(machine.numa_nodes)
    nodes[1] = dataclasses.replace(nodes[1], cpus=CpuSet.parse("2-5"))
    nodes[2] = dataclasses.replace(nodes[2], cpus=CpuSet.parse("6-7"))
    nodes.pop()
    tree = tree_of(dataclasses.replace(machine, numa_nodes=tuple(nodes), distances=()))
    assert [(pool.name, str(pool.cpus)) for pool in tree.pools] == [
        ("NUMA node #0", "0-1"),
        ("socket #0/NUMA node #1", "2-3"),
        ("socket #0", "0-3"),
        ("socket #1/NUMA node #1", "4-5"),
        ("NUMA node #2", "6-7"),
        ("socket #1", "4-7"),
        ("root", "0-7"),
    ]


def test_cpus_whose_nodes_have_no_memory_use_the_nearest() -> None:
    machine = machine_from_spec("socket:2 numa:2 core:1 distance:10,11,21")
    nodes = [dataclasses.replace(node, memory_bytes=1) for node in machine.numa_nodes]
    nodes[2] = dataclasses.replace(nodes[2], memory_bytes=0)
    nodes[3] = dataclasses.replace(nodes[3], memory_bytes=0)
    rows = [list(row) for row in machine.distances]
    rows[2][1] = rows[1][2] = 15
    machine = dataclasses.replace(
        machine, numa_nodes=tuple(nodes), distances=tuple(map(tuple, rows))
    )
    tree = tree_of(machine)
    assert [(pool.name, str(pool.memory_nodes)) for pool in tree.pools] == [
        ("NUMA node #0", "0"),
        ("NUMA node #1", "1"),
        ("socket #0", "0-1"),
        ("socket #1", "1"),
        ("root", "0-1"),
    ]


@pytest.mark.parametrize(("spec", "names"), SHAPES)
def test_pool_names_in_id_order(spec: str, names: list[str]) -> None:
    tree = tree_of(machine_from_spec(spec))
    assert [pool.name for pool in tree.pools] == names
    assert [pool.id for pool in tree.pools] == list(range(len(names)))


def test_a_subtree_is_a_range_of_ids() -> None:
    tree = tree_of(machine_from_spec("socket:2 numa:2 core:2"))
    for pool in tree.pools:
        inside = {
            other.id for other in tree.pools if pool.id in (other.id, *tree.ancestors[other.id])
        }
        assert set(tree.subtree(pool.id)) == inside


def test_heights_and_depths() -> None:
    tree = tree_of(machine_from_spec("socket:2 numa:2 core:2"))
    assert [(pool.height, pool.depth) for pool in tree.pools] == [
        (0, 2),
        (0, 2),
        (1, 1),
        (0, 2),
        (0, 2),
        (1, 1),
        (2, 0),
    ]


def test_supply_is_split_among_pools() -> None:
    tree = tree_of(machine_from_spec("socket:2 core:4 isolated:6-7"), "cpuset:0")
    assert str(tree.pools[0].sharable) == "1-3"
    assert str(tree.pools[0].reserved) == "0"
    assert str(tree.pools[1].sharable) == "4-5"
    assert str(tree.pools[1].isolated) == "6-7"
    assert str(tree.root.sharable) == "1-5"


def with_nodes(spec: str, *nodes: NumaNode, distances: tuple[tuple[int, ...], ...]) -> Machine:
    machine = machine_from_spec(spec)
    return dataclasses.replace(
        machine, numa_nodes=(*machine.numa_nodes, *nodes), distances=distances
    )


def test_memory_without_cpus_belongs_to_the_nearest_cpus() -> None:
    far = NumaNode(id=NumaNodeId(2), memory_bytes=1, kind=MemoryKind.HBM)
    both = NumaNode(id=NumaNodeId(3), memory_bytes=1, kind=MemoryKind.CXL)
    machine = with_nodes(
        "socket:2 core:2",
        far,
        both,
        distances=((10, 21, 30, 40), (21, 10, 15, 40), (30, 15, 10, 50), (40, 40, 50, 10)),
    )
    tree = tree_of(machine)
    socket0, socket1, root = tree.pools
    assert str(socket0.memory_nodes) == "0,3"
    assert str(socket1.memory_nodes) == "1-3"
    assert str(root.memory_nodes) == "0-3"
    assert {kind: str(nodes) for kind, nodes in socket1.memory.items()} == {
        MemoryKind.DRAM: "1",
        MemoryKind.HBM: "2",
        MemoryKind.CXL: "3",
    }


def test_cpus_of_a_node_without_memory_use_the_nearest_memory() -> None:
    machine = machine_from_spec("socket:2 core:2")
    empty = dataclasses.replace(machine.numa_nodes[1], memory_bytes=0)
    machine = dataclasses.replace(machine, numa_nodes=(machine.numa_nodes[0], empty))
    tree = tree_of(machine)
    assert str(tree.pools[1].memory_nodes) == "0"


def test_a_node_without_memory_has_no_pool_of_its_own() -> None:
    machine = machine_from_spec("socket:2 numa:2 core:2")
    nodes = list(machine.numa_nodes)
    nodes[1] = dataclasses.replace(nodes[1], memory_bytes=0)
    tree = tree_of(dataclasses.replace(machine, numa_nodes=tuple(nodes)))
    assert "NUMA node #1" not in [pool.name for pool in tree.pools]
    assert CpuSet.of(2, 3) <= next(pool for pool in tree.pools if pool.name == "socket #0").cpus


def test_overlapping_nodes_give_a_cpu_to_one_pool_only() -> None:
    machine = machine_from_spec("socket:1 numa:2 core:2")
    nodes = list(machine.numa_nodes)
    nodes[1] = dataclasses.replace(nodes[1], cpus=CpuSet.parse("1-3"))
    tree = tree_of(dataclasses.replace(machine, numa_nodes=tuple(nodes)))
    for pool in tree.pools:
        children = [tree.pools[child].cpus for child in pool.children]
        assert sum(map(len, children)) == len({cpu for cpus in children for cpu in cpus})


def test_the_smallest_pool_that_holds_cpus() -> None:
    tree = tree_of(machine_from_spec("socket:2 numa:2 core:2"))
    assert tree.smallest_holding(CpuSet.parse("2-3")).name == "NUMA node #1"
    assert tree.smallest_holding(CpuSet.parse("1-2")).name == "socket #0"
    assert tree.smallest_holding(CpuSet.parse("1,7")).name == "root"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("socket:2 numa:2 l3:2 core:2 thread:2", id="four levels"),
        pytest.param("socket:1 numa:1 core:4", id="one NUMA node in one socket"),
        pytest.param("socket:2 numa:3 core:1 isolated:1", id="NUMA nodes of one core"),
    ],
)
def test_the_pool_that_holds_cpus_is_the_narrowest_of_those_that_do(spec: str) -> None:
    tree, chance = tree_of(machine_from_spec(spec)), random.Random(1)
    assert tree.smallest_holding(CpuSet()) is tree.pools[0]
    numbers = range(len(tree.root.cpus))
    for count in (1, 1, 2, 2, 3, 4, len(numbers)) * 20:
        cpus = CpuSet.collect(chance.sample(numbers, min(count, len(numbers))))
        narrowest = max((one for one in tree.pools if cpus <= one.cpus), key=lambda one: one.depth)
        assert tree.holding(cpus.mask) == tree.smallest_holding(cpus).id == narrowest.id
