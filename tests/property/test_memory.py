"""Laws of memory zones, on random machines and random orders of events."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pinfold.policy.memory.memory_ledger import MemoryLedger
from pinfold.policy.memory.memory_nodes import ALL_KINDS, MemoryNodes
from pinfold.policy.memory.offers import MemoryPriority, MemoryRequest, Offer
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Refusal
from pinfold.topology.model.machine import MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import NodeSet, iter_bits

PAGE = 4
LAWS = settings(max_examples=80, deadline=None)


def random_machine(seed: int) -> MemoryNodes:
    """One to four nodes, most of them small and of DRAM."""
    pick = Random(seed).choice
    ids = sorted(Random(seed).sample(range(10), pick((1, 2, 3, 3, 4))))
    nodes = [
        NumaNode(
            id=NumaNodeId(one),
            memory_bytes=pick((*(10,) * 12, *(20,) * 6, 0, None)),
            kind=pick((*(MemoryKind.DRAM,) * 8, *MemoryKind)),
            is_normal=pick((True, True, True, False)),
            hugepages=pick(({}, {}, {PAGE: 1})),
        )
        for one in ids
    ]
    far = {pair: pick((11, 12, 21)) for pair in combinations(ids, 2)}
    rows = [[far.get((min(i, j), max(i, j)), 10) for j in ids] for i in ids]
    having = sum(1 << one.id for one in nodes if one.memory_bytes != 0)
    only, reserved = (pick((-1, -1, ~(1 << pick(ids)))), pick((0, 0, 1 << pick(ids))))
    if not having & only & ~reserved:
        only, reserved = -1, 0
    return MemoryNodes(nodes, pick((rows, rows, [])), only=only, reserved=reserved)


def open_to(nodes: MemoryNodes, request: MemoryRequest) -> MemoryNodes:
    return nodes.open_to(request.may_use_reserved)


def random_events(seed: int) -> list["Event"]:
    """Many large requests for few nodes, so that containers have to move.

    Drawn by a seed: lists drawn value by value are too small and too even to fill a machine.
    """
    pick = Random(seed).choice
    names = ("ask",) * 12 + ("release", "release", "widen", "shrink", "realloc", "observe")
    return [
        (
            pick(names if seed % 3 else names[:-1]),
            pick((1, 1, 1, 1, 2, 2, 4, 3, 7, 15)),
            pick((0, 1, 2, 2, 3, 3, 4, 4, 5, 8)),
            pick((*(0,) * 30, *(1,) * 10, *range(ALL_KINDS + 1))),
            pick((MemoryPriority.BEST_EFFORT, MemoryPriority.BURSTABLE, *MemoryPriority)),
            pick((*(False,) * 7, True)),
            pick((False, True)),
        )
        for _ in range(10 + seed % 20)
    ]


# An event is its name and numbers that are read modulo what there is.
EVENTS = st.integers(0, 1 << 32).map(random_events)
MACHINES = st.integers(0, 1 << 32).map(random_machine)
Event = tuple[str, int, int, int, MemoryPriority, bool, bool]
KIND_LIST = (MemoryKind.DRAM, MemoryKind.CXL, MemoryKind.PMEM, MemoryKind.HBM)


@dataclass
class Node:
    """The ledger under test, and the zones of its containers in plain words."""

    nodes: MemoryNodes
    ledger: MemoryLedger = field(init=False)
    sizes: dict[ContainerId, int] = field(default_factory=dict[ContainerId, int])
    count: int = 0

    def __post_init__(self) -> None:
        self.ledger = MemoryLedger(self.nodes)

    def zones(self) -> dict[ContainerId, int]:
        return {one: self.ledger.zone_of(one).mask for one in self.sizes}

    def some_node(self, number: int) -> NodeSet:
        ids = list(iter_bits(self.nodes.known))
        chosen = [one for position, one in enumerate(ids) if number >> position & 1]
        return NodeSet.collect(chosen or ids[:1])

    def some_container(self, number: int) -> ContainerId:
        return sorted(self.sizes)[number % len(self.sizes)] if self.sizes else ContainerId("none")

    def request(self, event: Event) -> MemoryRequest:
        _, place, size, kinds, priority, is_strict, has_pages = event
        return MemoryRequest(
            container_id=ContainerId(f"c{self.count:02}"),
            affinity=self.some_node(place),
            size_bytes=size,
            types=frozenset(kind for bit, kind in enumerate(KIND_LIST) if kinds >> bit & 1),
            priority=priority,
            is_strict=is_strict,
            may_use_reserved=self.count % 3 == 0,
            hugepage_bytes={PAGE: PAGE} if has_pages and size == 1 else {},
        )

    def answer(self, event: Event) -> Offer | Refusal | None:
        name, number, size, kinds = event[:4]
        one = self.some_container(number)
        match name:
            case "ask":
                self.count += 1
                return self.ledger.offer(self.request(event))
            case "widen":
                return self.ledger.widen(one)
            case "shrink":
                return self.ledger.shrink(limit=size)
            case "realloc":
                types = frozenset(kind for bit, kind in enumerate(KIND_LIST) if kinds >> bit & 1)
                return self.ledger.realloc(one, self.some_node(size), types)
            case "observe":
                self.ledger.observe({node: size for node in iter_bits(self.nodes.with_memory)})
                return None
            case _:
                self.ledger.release(one)
                self.sizes.pop(one, None)
                return None

    def take(self, offer: Offer) -> None:
        self.ledger.commit(offer)
        if offer.request is not None:
            self.sizes[offer.request.container_id] = offer.request.size_bytes


def usages(node: Node) -> dict[int, int]:
    """Bytes within each zone that somebody holds bytes of, counted afresh."""
    zones = node.zones()
    used = {zone for one, zone in zones.items() if node.sizes[one]}
    return {
        zone: sum(node.sizes[one] for one, inner in zones.items() if not inner & ~zone)
        for zone in used
    }


def excesses(node: Node, before: Mapping[int, int]) -> dict[int, int]:
    """Zones with more in them than they have, and than they had."""
    bound = {zone: max(node.nodes.capacity(zone), before.get(zone, 0)) for zone in usages(node)}
    return {zone: used for zone, used in usages(node).items() if used > bound[zone]}


def play(nodes: MemoryNodes, events: Sequence[Event], law: Callable[..., None]) -> Node:
    """Every event in turn, every offer taken; `law` sees each offer before it is."""
    node = Node(nodes)
    for event in events:
        offer = node.answer(event)
        if isinstance(offer, Offer):
            law(node, offer)
            node.take(offer)
        node.ledger.check()
    return node


def no_law(*_: Any) -> None:
    pass


@LAWS
@given(MACHINES, EVENTS)
def test_sums_are_what_the_containers_hold(nodes: MemoryNodes, events: list[Event]) -> None:
    node = play(nodes, events, no_law)
    everything = NodeSet(nodes.with_memory)
    assert node.ledger.usage(everything) == sum(node.sizes.values())
    for zone, used in usages(node).items():
        assert node.ledger.usage(NodeSet(zone)) == used
        free = node.ledger.free(NodeSet(zone))
        assert free is None or free == nodes.capacity(zone) - used
    seen, held = node.ledger.snapshot(), usages(node)
    for zone in {*held, *(1 << one for one in everything), everything.mask}:
        inside = node.ledger.usage(NodeSet(zone))
        around = [nodes.capacity(one) - used for one, used in held.items() if not zone & ~one]
        left = max(0, min([nodes.capacity(zone) - inside, *around]))
        assert seen.usage(NodeSet(zone)) == inside
        assert seen.available(NodeSet(zone)) in (left, None)


@LAWS
@given(MACHINES, EVENTS)
def test_zones_have_only_nodes_that_have_memory_for_them(
    nodes: MemoryNodes, events: list[Event]
) -> None:
    node = play(nodes, events, no_law)
    for one, zone in node.zones().items():
        assert zone
        request = node.ledger.request_of(one)
        assert request is not None
        assert not zone & ~open_to(nodes, request).with_memory


@LAWS
@given(MACHINES, EVENTS)
def test_no_zone_in_use_is_ever_overcommitted(nodes: MemoryNodes, events: list[Event]) -> None:
    node = Node(nodes)
    for event in events:
        offer = node.answer(event)
        if isinstance(offer, Offer):
            node.take(offer)
        assert not excesses(node, {})


@LAWS
@given(MACHINES, EVENTS, st.integers(1, 31), st.integers(1, 60))
def test_adopted_overcommit_never_gets_worse(
    nodes: MemoryNodes, events: list[Event], place: int, size: int
) -> None:
    node = Node(nodes)
    zone = node.some_node(place)
    request = MemoryRequest(
        container_id=ContainerId("adopted"), affinity=zone, size_bytes=size, types=frozenset()
    )
    adopted = node.ledger.adopt(request, zone)
    node.sizes[request.container_id] = size
    assert node.ledger.zone_of(request.container_id) == adopted
    for event in events:
        before = usages(node)
        offer = node.answer(event)
        if isinstance(offer, Offer):
            node.take(offer)
        assert not excesses(node, before)
        node.ledger.check()


@LAWS
@given(MACHINES, EVENTS)
def test_an_offer_that_is_not_taken_changes_nothing(
    nodes: MemoryNodes, events: list[Event]
) -> None:
    node = Node(nodes)
    for event in events:
        asks = event[0] not in ("release", "observe")
        before = (node.ledger.snapshot(), node.ledger.version, usages(node))
        first = node.answer(event)
        if asks:
            assert (node.ledger.snapshot(), node.ledger.version, usages(node)) == before
            node.ledger.check()
            node.count -= event[0] == "ask"
            assert node.answer(event) == first
        if isinstance(first, Offer):
            node.take(first)


@LAWS
@given(MACHINES, EVENTS)
def test_making_room_only_widens_zones(nodes: MemoryNodes, events: list[Event]) -> None:
    def law(node: Node, offer: Offer) -> None:
        zones = node.zones()
        for one, zone in offer.moves.items():
            if offer.request is None:
                assert zone.mask != zones[one]
                assert not zone.mask & ~zones[one]
            else:
                assert zone.mask != zones[one]
                assert not zones[one] & ~zone.mask

    play(nodes, events, law)


@LAWS
@given(MACHINES, EVENTS)
def test_no_single_move_was_unnecessary(nodes: MemoryNodes, events: list[Event]) -> None:
    def law(node: Node, offer: Offer) -> None:
        if offer.request is None:
            return
        zones = node.zones() | {one: zone.mask for one, zone in offer.moves.items()}
        zones[offer.request.container_id] = offer.zone.mask
        sizes = node.sizes | {offer.request.container_id: offer.request.size_bytes}
        for one in offer.moves:
            back = zones | {one: node.zones()[one]}
            used = {zone for other, zone in back.items() if sizes[other]}
            assert any(
                sum(sizes[other] for other, inner in back.items() if not inner & ~zone)
                > nodes.capacity(zone)
                for zone in used
            ), (one, offer)

    play(nodes, events, law)


@LAWS
@given(MACHINES, EVENTS)
def test_strict_containers_never_use_other_kinds(nodes: MemoryNodes, events: list[Event]) -> None:
    plain = [event for event in events if event[0] != "realloc"]
    node = play(nodes, plain, no_law)
    for one, zone in node.zones().items():
        request = node.ledger.request_of(one)
        assert request is not None
        if request.is_strict and request.types:
            usable = open_to(nodes, request)
            assert not usable.kinds(zone) & ~usable.kinds_mask(request.types)


@LAWS
@given(MACHINES, EVENTS)
def test_reserved_memory_never_moves(nodes: MemoryNodes, events: list[Event]) -> None:
    def law(node: Node, offer: Offer) -> None:
        for one in offer.moves:
            request = node.ledger.request_of(one)
            assert request is not None
            assert offer.request is None or request.priority < MemoryPriority.RESERVATION

    play(nodes, events, law)


@LAWS
@given(MACHINES, EVENTS, EVENTS)
def test_release_undoes_a_commit_without_moves(
    nodes: MemoryNodes, events: list[Event], more: list[Event]
) -> None:
    node = play(nodes, events, no_law)
    for event in more:
        offer = node.answer(("ask", *event[1:]))
        if isinstance(offer, Offer) and not offer.moves:
            before = (usages(node), node.zones())
            node.ledger.commit(offer)
            assert offer.request is not None
            node.ledger.release(offer.request.container_id)
            assert (usages(node), node.zones()) == before
            node.ledger.check()


@LAWS
@given(MACHINES, EVENTS, EVENTS)
def test_a_snapshot_brings_everything_back(
    nodes: MemoryNodes, events: list[Event], more: list[Event]
) -> None:
    node = play(nodes, events, no_law)
    before, sizes = node.ledger.snapshot(), dict(node.sizes)
    for event in more:
        offer = node.answer(event)
        if isinstance(offer, Offer):
            node.take(offer)
    node.ledger.restore(before)
    node.ledger.check()
    assert node.ledger.snapshot() == before
    assert node.ledger.usage(NodeSet(nodes.with_memory)) == sum(sizes.values())


@LAWS
@given(MACHINES, EVENTS)
def test_the_same_events_give_the_same_zones(nodes: MemoryNodes, events: list[Event]) -> None:
    one, other = play(nodes, events, no_law), play(nodes, events, no_law)
    assert one.zones() == other.zones()
    assert one.ledger.snapshot() == other.ledger.snapshot()


@LAWS
@given(MACHINES, EVENTS, EVENTS)
def test_the_quick_answer_is_the_offer(
    nodes: MemoryNodes, events: list[Event], more: list[Event]
) -> None:
    node = play(nodes, events, no_law)
    is_observed = any(event[0] == "observe" for event in events)
    node.count += 1
    for event in more:
        request = node.request(("ask", *event[1:5], False, False))
        affinity, types = request.affinity.mask, request.types
        initial = node.ledger.initial_zone(affinity, types, request.may_use_reserved)
        offer = node.ledger.offer(request)
        if initial is not None and node.ledger.has_room(initial, request.size_bytes):
            assert isinstance(offer, Offer)
            assert (offer.zone.mask, offer.moves) == (initial.mask, {})
        elif isinstance(offer, Offer) and not offer.moves:
            assert is_observed or initial is None or offer.zone.mask != initial.mask


@LAWS
@given(MACHINES, EVENTS)
def test_who_asks_for_what_it_has_keeps_it(nodes: MemoryNodes, events: list[Event]) -> None:
    node = play(nodes, [event for event in events if event[0] != "realloc"], no_law)
    for one, zone in node.zones().items():
        request = node.ledger.request_of(one)
        assert request is not None
        for size in range(request.size_bytes, -1, -3):
            offer = node.ledger.offer(structs.replace(request, size_bytes=size), replaces=one)
            assert isinstance(offer, Offer), offer
            assert (offer.zone.mask, offer.moves) == (zone, {})
            node.take(offer)
            node.ledger.check()
            assert not excesses(node, {})
