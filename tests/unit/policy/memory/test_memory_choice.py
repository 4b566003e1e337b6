"""The memory a request would get from each pool, and what is wrong with it."""

import dataclasses
from typing import Any

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.configuration.config import Config
from pinfold.policy.memory.memory_choice import MemoryChoice, ZoneSummary
from pinfold.policy.memory.offers import MemoryPriority
from pinfold.policy.model.container import ContainerId, QosClass
from pinfold.policy.model.grant import Dropped, PoolId
from pinfold.policy.model.request import Request
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import NodeSet

GIB = 2**30
DRAM, HBM, PMEM = MemoryKind.DRAM, MemoryKind.HBM, MemoryKind.PMEM


def machine() -> Machine:
    """Two NUMA nodes of 4 GiB, 16 huge pages of 2 MiB in node 1, and 1 GiB of HBM near node 1."""
    plain = machine_from_spec("socket:1 numa:2 core:2 mem:4G")
    nodes = list(plain.numa_nodes)
    nodes[1] = dataclasses.replace(nodes[1], hugepages={2**21: 16})
    fast = NumaNode(id=NumaNodeId(2), memory_bytes=GIB, kind=HBM)
    return dataclasses.replace(
        plain,
        numa_nodes=(*nodes, fast),
        distances=((10, 21, 28), (21, 10, 17), (28, 17, 10)),
    )


BOOKS = Books(machine(), Config())
NAMES = [pool.name for pool in BOOKS.tree.pools]


def choice(**asks: Any) -> MemoryChoice:
    asks.setdefault("memory_kinds", frozenset({DRAM}))
    asks.setdefault("qos", QosClass.BURSTABLE)
    return BOOKS.pool_memory.choice(Request(container_id=ContainerId("c"), **asks))


def zones(**asks: Any) -> list[ZoneSummary]:
    found: list[ZoneSummary] = []
    for zone in choice(**asks).zones():
        assert isinstance(zone, ZoneSummary), zone
        found.append(zone)
    return found


def test_the_pools_are_those_of_two_nodes() -> None:
    assert NAMES == ["NUMA node #0", "NUMA node #1", "socket #0"]


MASKS = [
    pytest.param({}, ["0", "1", "0-1"], id="dram of each pool"),
    pytest.param({"memory_kinds": frozenset({HBM})}, ["2", "2", "2"], id="the only hbm"),
    pytest.param(
        {"memory_kinds": frozenset({HBM, DRAM})}, ["0,2", "1-2", "0-2"], id="hbm and dram"
    ),
    pytest.param({"memory_kinds": frozenset({PMEM})}, ["0", "1-2", "0-2"], id="kinds nobody has"),
    pytest.param(
        {"memory_kinds": frozenset({PMEM, DRAM})}, ["0", "1", "0-1"], id="kinds one of which is"
    ),
    pytest.param({"preserve_memory": True}, ["0-2", "0-2", "0-2"], id="preserved: of all nodes"),
    pytest.param({"memory_bytes": 6 * GIB}, ["0-1", "0-1", "0-1"], id="more than one node has"),
    pytest.param(
        {"hugepage_bytes": {2**21: 2**22}}, ["0-1", "1", "0-1"], id="huge pages of the other node"
    ),
]


@pytest.mark.parametrize(("asks", "expected"), MASKS)
def test_each_pool_offers_its_zone(asks: dict[str, Any], expected: list[str]) -> None:
    found = zones(**asks)
    assert [str(NodeSet(zone.mask)) for zone in found] == expected
    assert [zone.node_count for zone in found] == [zone.mask.bit_count() for zone in found]
    offered = [choice(**asks).offer(PoolId(number)).zone for number in range(len(found))]
    assert [str(zone) for zone in offered] == expected


FLAGS = [
    pytest.param({}, [(True, False)] * 3, id="dram is everywhere"),
    pytest.param(
        {"memory_kinds": frozenset({HBM})}, [(False, True), (True, False), (True, False)], id="hbm"
    ),
    pytest.param(
        {"memory_kinds": frozenset({HBM, DRAM})},
        [(True, True), (True, False), (True, False)],
        id="hbm and dram",
    ),
    pytest.param({"memory_kinds": frozenset({PMEM, DRAM})}, [(True, False)] * 3, id="none has it"),
    pytest.param(
        {"memory_kinds": frozenset({HBM}), "memory_bytes": 2 * GIB},
        [(False, True), (False, False), (False, False)],
        id="more hbm than there is",
    ),
    pytest.param(
        {"preserve_memory": True, "memory_kinds": frozenset({HBM})},
        [(True, False)] * 3,
        id="preserved memory is of no kind",
    ),
]


@pytest.mark.parametrize(("asks", "expected"), FLAGS)
def test_is_exact_and_lacks_kind(asks: dict[str, Any], expected: list[tuple[bool, bool]]) -> None:
    assert [(zone.is_exact, zone.lacks_kind) for zone in zones(**asks)] == expected


LIMITS = [
    pytest.param({"memory_bytes": GIB}, [False] * 3, id="no limit"),
    pytest.param({"memory_bytes": GIB, "memory_limit_bytes": 3 * GIB}, [False] * 3, id="small"),
    pytest.param(
        {"memory_bytes": GIB, "memory_limit_bytes": 5 * GIB}, [True, True, False], id="larger"
    ),
    pytest.param({"memory_bytes": GIB, "memory_limit_bytes": 9 * GIB}, [True] * 3, id="too large"),
    pytest.param(
        {"memory_bytes": 5 * GIB, "memory_limit_bytes": 5 * GIB}, [False] * 3, id="all accounted"
    ),
    pytest.param(
        {"memory_bytes": GIB, "memory_limit_bytes": 5 * GIB, "preserve_memory": True},
        [False] * 3,
        id="preserved",
    ),
]


@pytest.mark.parametrize(("asks", "expected"), LIMITS)
def test_is_below_the_limit(asks: dict[str, Any], expected: list[bool]) -> None:
    assert [zone.is_below_limit for zone in zones(**asks)] == expected


@pytest.mark.parametrize(
    ("asks", "reason"),
    [
        pytest.param(
            {"memory_bytes": 10 * GIB},
            "memory: wanted 10 GiB, available 9 GiB on nodes 0-2",
            id="more than the machine has",
        ),
        pytest.param(
            {"hugepage_bytes": {2**21: 2**26}},
            "huge pages of 2 MiB: wanted 64 MiB, available 32 MiB on nodes 0-2",
            id="more huge pages than there are",
        ),
        pytest.param(
            {"hugepage_bytes": {2**30: 2**30}},
            "huge pages of 1 GiB: wanted 1 GiB, available none",
            id="huge pages of a size nobody has",
        ),
    ],
)
def test_what_nobody_has_drops_every_pool(asks: dict[str, Any], reason: str) -> None:
    for zone in choice(**asks).zones():
        assert isinstance(zone, Dropped)
        assert str(zone) == reason


PRIORITIES = [
    pytest.param(QosClass.BEST_EFFORT, False, MemoryPriority.BEST_EFFORT),
    pytest.param(QosClass.BURSTABLE, False, MemoryPriority.BURSTABLE),
    pytest.param(QosClass.GUARANTEED, False, MemoryPriority.GUARANTEED),
    pytest.param(QosClass.BEST_EFFORT, True, MemoryPriority.PRESERVED),
]


@pytest.mark.parametrize(("qos", "is_preserved", "priority"), PRIORITIES)
def test_the_qos_class_gives_the_priority_of_memory(
    qos: QosClass, is_preserved: bool, priority: MemoryPriority
) -> None:
    asked = choice(qos=qos, preserve_memory=is_preserved).request_at(PoolId(0))
    assert asked.priority is priority
    assert asked.affinity == (NodeSet.of(0, 1, 2) if is_preserved else NodeSet.of(0))


@pytest.mark.parametrize("free_gib", [None, 5, 3], ids=["not observed", "much free", "little free"])
@pytest.mark.parametrize("limit_gib", [None, 0, 3, 20])
@pytest.mark.parametrize("size_gib", [0, 1, 3, 5, 7])
@pytest.mark.parametrize("kinds", [{DRAM}, {HBM}, {DRAM, HBM}], ids=str)
def test_all_pools_at_once_have_the_zones_of_single_pools(
    kinds: set[MemoryKind], size_gib: int, limit_gib: int | None, free_gib: int | None
) -> None:
    books = Books(machine(), Config())
    if free_gib is not None:
        books.observe({node: free_gib * GIB for node in range(3)})
    holder = Request(
        container_id=ContainerId("held"),
        qos=QosClass.GUARANTEED,
        memory_bytes=GIB,
        memory_kinds=frozenset({DRAM}),
    )
    books.memory.adopt(books.pool_memory.choice(holder).request_at(PoolId(0)), NodeSet.of(0))
    request = Request(
        container_id=ContainerId("c"),
        qos=QosClass.GUARANTEED,
        memory_bytes=size_gib * GIB,
        memory_limit_bytes=None if limit_gib is None else limit_gib * GIB,
        memory_kinds=frozenset(kinds),
    )
    for _ in range(2):
        # The second time the free memory of the zones has been asked for.
        single = books.pool_memory.choice(request)
        found = books.pool_memory.choice(request).zones()
        assert list(found) == [single.zone(pool.id) for pool in books.tree.pools]


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param({"memory_bytes": GIB, "memory_limit_bytes": GIB}, id="a limit that fits"),
        pytest.param({"memory_bytes": GIB}, id="no limit: spread over all nodes"),
        pytest.param({"preserve_memory": True}, id="memory that is left alone"),
        pytest.param({"memory_kinds": frozenset({HBM, DRAM})}, id="two kinds"),
    ],
)
def test_the_offer_of_zones_that_all_have_room_is_the_ledgers(asks: dict[str, Any]) -> None:
    looked = choice(**asks)
    looked.zones()
    for pool_id in map(PoolId, range(len(NAMES))):
        assert looked.offer(pool_id) == BOOKS.memory.offer(looked.request_at(pool_id))


def test_an_offer_after_memory_was_taken_is_what_is_left() -> None:
    books = Books(machine(), Config())
    request = Request(
        container_id=ContainerId("c"),
        memory_kinds=frozenset({DRAM}),
        memory_bytes=GIB,
        memory_limit_bytes=GIB,
        qos=QosClass.BURSTABLE,
    )
    looked = books.pool_memory.choice(request)
    looked.zones()
    assert str(looked.offer(PoolId(0)).zone) == "0"
    other = Request(
        container_id=ContainerId("other"),
        memory_kinds=frozenset({DRAM}),
        memory_bytes=4 * GIB,
        memory_limit_bytes=4 * GIB,
        qos=QosClass.GUARANTEED,
    )
    books.memory.commit(books.pool_memory.choice(other).offer(PoolId(0)))
    assert str(looked.offer(PoolId(0)).zone) == "0-1", "node 0 is full by now"
