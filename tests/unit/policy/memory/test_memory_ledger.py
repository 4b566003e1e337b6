"""The memory ledger: offers and changes, adoption, cold start, pressure, huge pages."""

import pytest
from msgspec import structs

from pinfold.policy.memory.memory_ledger import MemoryLedger
from pinfold.policy.memory.memory_nodes import MemoryNodes
from pinfold.policy.memory.offers import MemoryPriority, Offer, StaleOfferError
from pinfold.policy.model.container import ContainerId
from pinfold.topology.model.machine import MemoryKind
from pinfold.topology.sets.cpuset import NO_NODES, NodeSet
from tests.unit.policy.memory.memory_words import (
    FOUR,
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
BEST_EFFORT, BURSTABLE = MemoryPriority.BEST_EFFORT, MemoryPriority.BURSTABLE
GUARANTEED = MemoryPriority.GUARANTEED
NOBODY: dict[str, str] = {}

# Offers and changes


def test_an_offer_costs_nothing_until_it_is_taken() -> None:
    memory = ledger()
    taken(memory, request("old", "0", 10))
    before = memory.snapshot()
    offer = memory.offer(request("new", "0", 10, priority=GUARANTEED))
    assert memory.snapshot() == before
    assert memory.usage(NodeSet.of(0)) == 10
    assert isinstance(offer, Offer)
    memory.commit(offer)
    assert str(memory.zone_of(ContainerId("old"))) == "0-1"
    assert memory.usage(NodeSet.of(0)) == 10
    assert memory.usage(NodeSet.of(0, 1)) == 20


def test_every_change_makes_other_offers_stale() -> None:
    memory = ledger()
    taken(memory, request("old", "0", 1))
    offer = memory.offer(request("new", "0", 1))
    assert isinstance(offer, Offer)
    memory.adopt(request("running", "1", 1), NodeSet.of(1))
    with pytest.raises(StaleOfferError, match="ask for another offer"):
        memory.commit(offer)
    fresh = memory.offer(request("new", "0", 1))
    state = memory.snapshot()
    memory.restore(state)
    assert isinstance(fresh, Offer)
    with pytest.raises(StaleOfferError):
        memory.commit(fresh)


def test_releasing_an_unknown_container_changes_nothing() -> None:
    memory = ledger()
    version = memory.version
    memory.release(ContainerId("nobody"))
    assert memory.version == version
    assert memory.zone_of(ContainerId("nobody")) == NO_NODES
    assert memory.request_of(ContainerId("nobody")) is None
    assert "holds no memory" in reason(memory.widen(ContainerId("nobody")))
    assert "holds no memory" in reason(memory.realloc(ContainerId("nobody")))


def test_available_is_bound_by_the_zones_around() -> None:
    memory = ledger()
    taken(memory, request("a", "0-1", 15), request("b", "1", 3))
    assert memory.free(NodeSet.of(0)) == 10
    assert memory.snapshot().available(NodeSet.of(0)) == 2
    first = memory.initial_zone(1, DRAM, False)
    assert first is not None
    assert first.mask == 1
    assert memory.has_room(first, 2)
    assert not memory.has_room(first, 3)


def test_an_older_instance_makes_room_for_the_next() -> None:
    memory = ledger()
    taken(memory, request("first", "0", 10, priority=GUARANTEED))
    offer = memory.offer(request("second", "0", 10), replaces=ContainerId("first"))
    assert (zone(offer), moves(offer)) == ("0", {})
    assert isinstance(offer, Offer)
    assert str(memory.zone_of(ContainerId("first"))) == "0"
    memory.commit(offer)
    memory.check()
    assert memory.zone_of(ContainerId("first")) == NO_NODES
    assert memory.usage(NodeSet.of(0)) == 10


def test_a_container_that_asks_for_more_stays_where_it_is_if_it_fits() -> None:
    memory = ledger()
    asked = request("c", "0", 4)
    taken(memory, request("old", "0", 8), asked)
    assert str(memory.zone_of(asked.container_id)) == "0-1"
    memory.release(ContainerId("old"))
    offer = memory.offer(structs.replace(asked, size_bytes=6), replaces=asked.container_id)
    assert zone(offer) == "0-1"
    offer = memory.offer(structs.replace(asked, size_bytes=21), replaces=asked.container_id)
    assert zone(offer) == "0-3"


def test_a_container_that_asks_for_another_place_leaves_its_zone() -> None:
    memory = ledger()
    asked = request("c", "0", 4)
    taken(memory, asked)
    offer = memory.offer(
        structs.replace(asked, affinity=NodeSet.of(2)), replaces=asked.container_id
    )
    assert zone(offer) == "2"


# Adoption


def test_adopted_containers_keep_their_zone_even_if_overcommitted() -> None:
    memory = ledger()
    for one in "abc":
        assert memory.adopt(request(one, "0", 6), NodeSet.of(0)) == NodeSet.of(0)
    memory.check()
    assert memory.free(NodeSet.of(0)) == -8
    assert memory.snapshot().available(NodeSet.of(0)) == 0


def test_newcomers_do_not_stir_up_what_was_overcommitted_before_them() -> None:
    memory = ledger()
    for one in "abc":
        memory.adopt(request(one, "0", 6, priority=BEST_EFFORT), NodeSet.of(0))
    offer = memory.offer(request("elsewhere", "1", 6))
    assert (zone(offer), moves(offer)) == ("1", {})
    offer = memory.offer(request("new", "0", 5, priority=GUARANTEED))
    assert len(moves(offer)) == 1


def test_adoption_leaves_out_nodes_without_memory() -> None:
    memory = ledger(node(0), node(1, 0))
    assert memory.adopt(request("a", "0", 1), NodeSet.of(0, 1)) == NodeSet.of(0)
    assert memory.adopt(request("b", "0", 1), NodeSet.of(1, 7)) == NodeSet.of(0)
    assert memory.adopt(request("c", "", 1), NodeSet.of(0)) == NodeSet.of(0)
    memory.check()


# Cold start


def test_a_cold_start_ends_with_the_types_it_was_denied() -> None:
    memory = ledger(node(0), node(1, kind=MemoryKind.PMEM), distances=((10, 5), (5, 10)))
    asked = request("c", "0-1", 4, PMEM)
    taken(memory, asked)
    assert str(memory.zone_of(asked.container_id)) == "1"
    offer = memory.realloc(asked.container_id, types=DRAM)
    assert (zone(offer), moves(offer)) == ("0-1", {})
    assert isinstance(offer, Offer)
    memory.commit(offer)
    memory.check()
    assert memory.shrink() is None


def test_a_cold_start_without_any_slow_memory_takes_what_there_is() -> None:
    memory = ledger()
    asked = request("c", "0", 4, DRAM - DRAM)
    taken(memory, asked)
    assert zone(memory.realloc(asked.container_id, types=DRAM)) == "0"


# Shrinking


def test_containers_return_when_room_appears() -> None:
    memory = ledger()
    taken(memory, request("old", "0", 6), request("new", "0", 10, priority=GUARANTEED))
    assert str(memory.zone_of(ContainerId("old"))) == "0-1"
    assert memory.shrink() is None
    memory.release(ContainerId("new"))
    offer = memory.shrink()
    assert moves(offer) == {"old": "0"}
    assert isinstance(offer, Offer)
    memory.commit(offer)
    memory.check()
    assert memory.shrink() is None


def test_containers_return_half_way_where_there_is_half_the_room() -> None:
    memory = ledger()
    first = request("first", "0", 10, priority=GUARANTEED)
    second = request("second", "1", 10, priority=GUARANTEED)
    taken(memory, request("old", "0", 6), first, second)
    assert str(memory.zone_of(ContainerId("old"))) == "0-3"
    memory.release(ContainerId("second"))
    assert moves(memory.shrink()) == {"old": "0-1"}


def test_the_most_important_return_first_and_no_more_than_asked_for() -> None:
    memory = ledger()
    small = request("small", "0", 1, priority=BEST_EFFORT)
    taken(memory, small, request("large", "0", 6), request("new", "0", 10, priority=GUARANTEED))
    memory.release(ContainerId("new"))
    assert moves(memory.shrink(limit=1)) == {"large": "0"}
    assert moves(memory.shrink()) == {"large": "0", "small": "0"}


@pytest.mark.parametrize(
    ("others", "own", "expected"),
    [
        pytest.param(BURSTABLE, BURSTABLE, ("0-3", NOBODY), id="equals stay"),
        pytest.param(GUARANTEED, BURSTABLE, ("0-3", NOBODY), id="the more important stay"),
        pytest.param(
            BURSTABLE, GUARANTEED, ("1", {"c2": "0-3", "c3": "0-3"}), id="the less important move"
        ),
    ],
)
def test_a_newcomer_widens_alone_before_several_move_for_it(
    others: MemoryPriority, own: MemoryPriority, expected: tuple[str, dict[str, str]]
) -> None:
    memory = ledger()
    taken(
        memory,
        request("c0", "0", 9, priority=others),
        request("c1", "2", 9, priority=others),
        request("c2", "0-1", 5, priority=others),
        request("c3", "0-1", 5, priority=others),
    )
    offer = memory.offer(request("new", "1", 7, priority=own))
    assert (zone(offer), moves(offer)) == expected
    assert isinstance(offer, Offer)
    memory.commit(offer)
    memory.check()


def test_a_newcomer_gets_no_other_kind_of_memory_so_that_others_need_not_move() -> None:
    memory = ledger(node(0), node(1), node(2, kind=MemoryKind.PMEM))
    taken(memory, request("a", "0", 9, DRAM))
    taken(memory, request("b", "0-1", 5, DRAM), request("c", "0-1", 5, DRAM))
    offer = memory.offer(request("new", "1", 7, DRAM))
    assert zone(offer) == "1"
    assert moves(offer) == {"b": "0-2", "c": "0-2"}


# Memory that is really free


def test_a_node_that_is_really_full_is_avoided() -> None:
    memory = ledger()
    memory.observe({0: 1, 1: 9, 2: 9, 3: 9})
    full = memory.initial_zone(1, DRAM, False)
    assert full is not None
    assert not memory.has_room(full, 4)
    assert zone(memory.offer(request("c", "0", 4))) == "0-1"
    assert zone(memory.offer(request("c", "1", 4))) == "1"


def test_full_nodes_refuse_nobody() -> None:
    memory = ledger()
    memory.observe(dict.fromkeys(range(4), 0))
    assert zone(memory.offer(request("c", "0", 4))) == "0"


def test_what_was_granted_since_the_look_counts_as_used() -> None:
    memory = ledger()
    memory.observe({0: 6})
    taken(memory, request("a", "0", 4))
    assert zone(memory.offer(request("b", "0", 4))) == "0-1"
    memory.observe({0: 6})
    assert zone(memory.offer(request("b", "0", 4))) == "0"


def test_adopted_containers_show_in_the_look_already() -> None:
    memory = ledger()
    memory.observe({0: 6})
    memory.adopt(request("running", "0", 4), NodeSet.of(0))
    memory.restore(memory.snapshot())
    assert zone(memory.offer(request("b", "0", 4))) == "0"


def test_zones_under_pressure_widen_to_nodes_with_free_memory() -> None:
    memory = ledger()
    fixed = request("fixed", "0", 1, priority=MemoryPriority.PRESERVED)
    taken(memory, request("g", "0", 2, priority=GUARANTEED), request("b", "0", 2), fixed)
    taken(memory, request("far", "2", 2))
    assert memory.pressed() == ()
    memory.observe({0: 0, 1: 0, 2: 9, 3: 9})
    assert memory.pressed() == ("b", "g")
    offer = memory.widen(ContainerId("b"))
    assert (zone(offer), moves(offer)) == ("0-3", {})
    assert "cannot use more" in reason(memory.widen(ContainerId("fixed")))
    assert isinstance(offer, Offer)
    memory.commit(offer)
    assert memory.pressed() == ("g",)


def test_widened_zones_shrink_only_after_the_pressure() -> None:
    memory = ledger()
    taken(memory, request("c", "0", 2))
    memory.observe({0: 0, 1: 9})
    offer = memory.widen(ContainerId("c"))
    assert zone(offer) == "0-1"
    assert isinstance(offer, Offer)
    memory.commit(offer)
    assert memory.shrink() is None
    memory.observe({0: 2, 1: 9})
    assert memory.shrink() is None
    memory.observe({0: 9, 1: 9})
    assert moves(memory.shrink()) == {"c": "0"}


def test_strict_containers_widen_within_their_type_only() -> None:
    memory = ledger(node(0), node(1, kind=MemoryKind.PMEM))
    taken(memory, request("strict", "0", 1, DRAM, is_strict=True), request("loose", "0", 1, DRAM))
    memory.observe({0: 0, 1: 9})
    assert memory.pressed() == ("loose",)
    assert "cannot use more than nodes 0" in reason(memory.widen(ContainerId("strict")))


# Huge pages


def test_huge_pages_are_taken_from_the_near_node_first() -> None:
    memory = ledger(hugepages=2)
    taken(memory, request("a", "0", pages=2))
    assert str(memory.zone_of(ContainerId("a"))) == "0"
    taken(memory, request("b", "0", pages=1))
    assert str(memory.zone_of(ContainerId("b"))) == "0-1"
    assert zone(memory.offer(request("c", "1", pages=2))) == "0-3"
    memory.release(ContainerId("a"))
    assert zone(memory.offer(request("c", "0", pages=2))) == "0"


def test_huge_pages_of_a_container_do_not_stand_in_its_own_way() -> None:
    memory = ledger(hugepages=2)
    asked = request("a", "0", 1, pages=2)
    taken(memory, asked)
    offer = memory.offer(structs.replace(asked, size_bytes=2), replaces=asked.container_id)
    assert zone(offer) == "0"


def test_containers_with_huge_pages_do_not_shrink() -> None:
    memory = ledger(hugepages=2)
    taken(memory, request("a", "0", pages=2), request("b", "0", pages=1))
    memory.release(ContainerId("a"))
    assert memory.shrink() is None


def test_a_part_of_a_huge_page_counts_as_a_page() -> None:
    memory = ledger(hugepages=1)
    asked = structs.replace(request("a", "0"), hugepage_bytes={HUGE: HUGE + 1})
    assert zone(memory.offer(asked)) == "0-1"


# Nodes that are not for everybody


def reserving(reserved: int, only: int = -1) -> MemoryLedger:
    """Four nodes of 10 bytes on two sockets, some of them reserved or not available."""
    nodes = [node(one) for one in range(4)]
    return MemoryLedger(MemoryNodes(nodes, FOUR, only=only, reserved=reserved))


def test_only_who_may_use_reserved_nodes_is_widened_to_them() -> None:
    memory = reserving(0b0010)
    taken(memory, request("a", "0", 8))
    assert zone(memory.offer(request("plain", "0", 5))) == "0,2-3"
    system = structs.replace(request("system", "0", 5), may_use_reserved=True)
    assert zone(memory.offer(system)) == "0-1"


def test_reserved_nodes_are_full_for_the_others_alone() -> None:
    memory = reserving(0b1110)
    taken(memory, request("a", "0", 10))
    assert "fit neither nodes 0 nor a wider zone (of nodes 0 0 are free)" in reason(
        memory.offer(request("plain", "0", 1))
    )
    system = structs.replace(request("system", "1", 30), may_use_reserved=True)
    taken(memory, system)


def test_who_may_use_reserved_nodes_moves_there_for_the_others() -> None:
    memory = reserving(0b1110)
    taken(memory, structs.replace(request("system", "0", 6), may_use_reserved=True))
    offer = memory.offer(request("plain", "0", 6, priority=GUARANTEED))
    assert (zone(offer), moves(offer)) == ("0", {"system": "0-1"})


def test_near_a_node_that_is_not_available_the_nearest_one_stands_in() -> None:
    memory = reserving(0, only=0b1110)
    assert zone(memory.offer(request("c", "0", 5))) == "1"
    assert memory.capacity(NodeSet.parse("0-3")) == 30


def test_a_container_in_nodes_that_are_not_for_it_is_adopted_without_them() -> None:
    memory = reserving(0b0001, only=0b0111)
    assert str(memory.adopt(request("plain", "0", 5), NodeSet.parse("0-1,3"))) == "1"
    assert str(memory.adopt(request("lost", "0", 5), NodeSet.parse("0,3"))) == "1-2"
    system = structs.replace(request("system", "0", 5), may_use_reserved=True)
    assert str(memory.adopt(system, NodeSet.parse("0-1,3"))) == "0-1"
    memory.check()
