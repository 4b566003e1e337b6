"""Memory zones: what a container gets, and who moves for it."""

import pytest

from pinfold.policy.memory.memory_ledger import MemoryLedger
from pinfold.policy.memory.memory_nodes import MemoryNodes
from pinfold.policy.memory.offers import MemoryPriority, MemoryRequest, Offer
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.policy.memory.memory_words import (
    HUGE,
    ledger,
    moves,
    node,
    reason,
    request,
    taken,
    zone,
)

DRAM, PMEM = frozenset({MemoryKind.DRAM}), frozenset({MemoryKind.PMEM})
HBM, CXL = frozenset({MemoryKind.HBM}), frozenset({MemoryKind.CXL})
BEST_EFFORT, BURSTABLE = MemoryPriority.BEST_EFFORT, MemoryPriority.BURSTABLE
GUARANTEED, RESERVATION = MemoryPriority.GUARANTEED, MemoryPriority.RESERVATION


KINDS = (
    node(0),
    node(1),
    node(2, kind=MemoryKind.HBM),
    node(3, kind=MemoryKind.HBM),
    node(4, kind=MemoryKind.CXL),
    node(5, kind=MemoryKind.CXL, is_normal=False),
)
KIND_DISTANCES = (
    (10, 21, 15, 30, 60, 70),
    (21, 10, 30, 15, 70, 60),
    (15, 30, 10, 35, 62, 72),
    (30, 15, 35, 10, 72, 62),
    (60, 70, 62, 72, 10, 75),
    (70, 60, 72, 62, 75, 10),
)


@pytest.mark.parametrize(
    ("affinity", "types", "expected"),
    [
        pytest.param("0", DRAM, "0", id="memory of the near node"),
        pytest.param("0", frozenset[MemoryKind](), "0", id="no type means that of the near nodes"),
        pytest.param("2-3", frozenset[MemoryKind](), "2-3", id="also where they are special"),
        pytest.param("0,2,4", DRAM, "0", id="only the near nodes of the type"),
        pytest.param("0,2,4", DRAM | HBM, "0,2", id="the near nodes of both types"),
        pytest.param("1", HBM, "3", id="the nearest node of the type where none is near"),
        pytest.param("0-1", HBM, "2-3", id="all that are nearest"),
        pytest.param("0", CXL, "4", id="CXL memory by its own name"),
        pytest.param("0", PMEM, "4", id="PMEM means CXL where there is no PMEM"),
        pytest.param("5", CXL, "4-5", id="movable-only memory brings normal memory of its type"),
        pytest.param("1", CXL, "4-5", id="also where it is the nearest of the type"),
    ],
)
def test_the_first_zone_is_the_nearest_memory_of_the_kinds(
    affinity: str, types: frozenset[MemoryKind], expected: str
) -> None:
    memory = ledger(*KINDS, distances=KIND_DISTANCES)
    assert zone(memory.offer(request("c", affinity, 1, types))) == expected


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param(request("c", ""), "no node to be near to", id="no affinity"),
        pytest.param(request("c", "0,7"), "no such node: 7 — the nodes are 0-3", id="unknown node"),
        pytest.param(
            request("c", "0", types=HBM, is_strict=True),
            "lacks usable memory of type 'hbm'",
            id="a strict request of a type the machine lacks",
        ),
        pytest.param(
            request("c", "0", 41), "41 bytes fit neither nodes 0 nor", id="more than there is"
        ),
        pytest.param(request("old", "0"), "'old' holds memory already", id="a known container"),
        pytest.param(request("c", "0", pages=1), "huge pages", id="no huge pages anywhere"),
    ],
)
def test_refusals_say_why(asked: MemoryRequest, text: str) -> None:
    memory = ledger()
    taken(memory, request("old", "0"))
    assert text in reason(memory.offer(asked))


def test_movable_only_memory_brings_the_nearest_normal_memory() -> None:
    memory = ledger(
        node(0),
        node(1),
        node(2, kind=MemoryKind.PMEM, is_normal=False),
        distances=((10, 11, 28), (11, 10, 17), (28, 17, 10)),
    )
    assert zone(memory.offer(request("c", "2", 1, PMEM))) == "1-2"
    assert "usable" in reason(memory.offer(request("c", "2", 1, PMEM, is_strict=True)))


def test_a_type_the_machine_lacks_is_ignored_unless_strict() -> None:
    assert zone(ledger().offer(request("c", "1", 1, HBM | PMEM))) == "1"


def test_nodes_of_unknown_size_have_room_for_anything() -> None:
    memory = ledger(node(0, None), node(1))
    taken(memory, request("big", "0", 1 << 50))
    assert memory.capacity(NodeSet.of(0)) is None
    assert memory.free(NodeSet.of(0, 1)) is None
    assert memory.snapshot().available(NodeSet.of(0)) is None
    assert memory.capacity(NodeSet.of(1)) == 10


def test_the_nearest_memory_stands_in_for_a_node_without() -> None:
    distances = ((10, 30, 20), (30, 10, 20), (20, 30, 10))
    memory = ledger(node(4, 0), node(5), node(9), distances=distances)
    assert zone(memory.offer(request("c", "4", 1))) == "9"
    assert zone(memory.offer(request("c", "4-5", 1))) == "5"


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param((), id="no node at all"),
        pytest.param((node(0, 0),), id="a node of 0 bytes"),
        pytest.param((node(0, None),), id="a node of unknown size"),
    ],
)
def test_a_machine_that_tells_nothing_refuses_nothing(nodes: tuple[NumaNode, ...]) -> None:
    memory = MemoryLedger(MemoryNodes(nodes))
    assert zone(memory.offer(request("c", "0", 1 << 40, PMEM))) == "0"


def test_no_normal_memory_anywhere_is_no_obstacle() -> None:
    assert zone(ledger(node(0, is_normal=False)).offer(request("c", "0", 1))) == "0"


def test_memory_set_aside_for_huge_pages_is_not_ordinary_memory() -> None:
    memory = ledger(node(0, 5 * HUGE, hugepages={HUGE: 3}))
    assert memory.capacity(NodeSet.of(0)) == 2 * HUGE


def test_nodes_are_read_from_a_machine_with_sparse_ids() -> None:
    machine = Machine(
        online=CpuSet.of(0),
        present=CpuSet.of(0),
        possible=CpuSet.of(0),
        cpus={},
        sockets=(),
        dies=(),
        cores=(),
        numa_nodes=(node(1), node(4, 20, MemoryKind.HBM), node(8)),
        distances=((10, 12, 11), (12, 10, 20), (11, 20, 10)),
    )
    memory = MemoryLedger(MemoryNodes.of(machine))
    assert memory.capacity(NodeSet.of(1, 4)) == 30
    assert zone(memory.offer(request("c", "1", 1, HBM))) == "4"
    assert zone(memory.offer(request("c", "1", 11, DRAM))) == "1,8"


# Who moves


def test_only_the_nearest_nodes_are_added_to_a_zone() -> None:
    # From node 0, node 1 is at 30; from node 2, it is at 12: node 3 at 20 came first, and is far.
    distances = ((10, 30, 11, 20), (30, 10, 12, 30), (11, 12, 10, 30), (20, 30, 30, 10))
    nodes = ledger(*(node(one) for one in range(4)), distances=distances).nodes
    assert str(NodeSet(nodes.expansion(0b0101, nodes.kinds_mask(DRAM)))) == "1"


def test_the_fewest_containers_move() -> None:
    memory = ledger()
    taken(memory, *(request(f"s{n}", "0", 2) for n in range(3)), request("large", "0", 4))
    offer = memory.offer(request("new", "0", 4, priority=GUARANTEED))
    assert (zone(offer), moves(offer)) == ("0", {"large": "0-1"})


def test_the_smallest_that_suffices_moves() -> None:
    memory = ledger()
    taken(memory, request("a", "0", 2), request("b", "0", 5), request("c", "0", 3))
    offer = memory.offer(request("new", "0", 3, priority=GUARANTEED))
    assert moves(offer) == {"c": "0-1"}


def test_the_lowest_priority_moves_first_even_if_more_have_to() -> None:
    memory = ledger()
    small = (request(f"s{n}", "0", 2, priority=BEST_EFFORT) for n in range(3))
    taken(memory, *small, request("large", "0", 4))
    offer = memory.offer(request("new", "0", 4, priority=GUARANTEED))
    assert moves(offer) == {"s1": "0-1", "s2": "0-1"}


def test_a_low_priority_is_spared_where_it_would_not_be_enough() -> None:
    memory = ledger()
    taken(memory, request("small", "0", 1, priority=BEST_EFFORT), request("large", "0", 9))
    offer = memory.offer(request("new", "0", 8, priority=GUARANTEED))
    assert moves(offer) == {"large": "0-1"}


def test_the_newcomer_moves_rather_than_its_equals() -> None:
    memory = ledger()
    taken(memory, request("old", "0", 8, priority=GUARANTEED))
    offer = memory.offer(request("new", "0", 8, priority=GUARANTEED))
    assert (zone(offer), moves(offer)) == ("0-1", {})


def test_who_has_to_move_anyway_moves_on_before_others() -> None:
    memory = ledger()
    taken(memory, request("here", "0", 6), request("near", "1", 4), request("wide", "0-1", 6))
    offer = memory.offer(request("new", "0", 10, priority=GUARANTEED))
    assert moves(offer) == {"here": "0-3"}


def test_containers_without_a_request_never_move_and_always_fit() -> None:
    memory = ledger()
    taken(memory, request("nothing", "0", 0, priority=BEST_EFFORT), request("old", "0", 10))
    offer = memory.offer(request("new", "0", 10, priority=GUARANTEED))
    assert moves(offer) == {"old": "0-1"}
    assert zone(memory.offer(request("late", "0", 0))) == "0"


def test_reservations_never_move() -> None:
    memory = ledger(node(0), node(1))
    taken(memory, request("fixed", "0", 10, priority=RESERVATION))
    taken(memory, request("other", "1", 5, priority=RESERVATION))
    assert "fit neither" in reason(memory.offer(request("new", "0", 5, priority=RESERVATION)))
    assert zone(memory.offer(request("new", "0", 5, priority=BEST_EFFORT))) == "0-1"


def test_strict_containers_stay_in_their_type_and_others_make_room() -> None:
    memory = ledger(node(0), node(1, kind=MemoryKind.PMEM))
    taken(memory, request("loose", "0", 8))
    offer = memory.offer(request("new", "0", 8, DRAM, is_strict=True))
    assert (zone(offer), moves(offer)) == ("0", {"loose": "0-1"})
    assert isinstance(offer, Offer)
    memory.commit(offer)
    assert "fit neither" in reason(memory.offer(request("more", "0", 4, DRAM, is_strict=True)))


def test_other_types_are_the_last_resort() -> None:
    memory = ledger(node(0), node(1, kind=MemoryKind.HBM), node(2, kind=MemoryKind.PMEM))
    taken(memory, request("old", "0", 8, DRAM))
    assert zone(memory.offer(request("new", "0", 4, DRAM))) == "0,2"
