"""Small machines of memory nodes, and words for what a memory ledger offers."""

from collections.abc import Mapping, Sequence

from pinfold.policy.memory.memory_ledger import MemoryLedger
from pinfold.policy.memory.memory_nodes import MemoryNodes
from pinfold.policy.memory.offers import MemoryPriority, MemoryRequest, Offer
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Refusal
from pinfold.topology.model.machine import MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import NodeSet

BURSTABLE = MemoryPriority.BURSTABLE
HUGE = 2 << 20

# Two sockets of two nodes each; 0 and 1 are near each other, 2 and 3 too.
FOUR = ((10, 11, 21, 21), (11, 10, 21, 21), (21, 21, 10, 11), (21, 21, 11, 10))


def node(
    one: int,
    size: int | None = 10,
    kind: MemoryKind = MemoryKind.DRAM,
    is_normal: bool = True,
    hugepages: Mapping[int, int] | None = None,
) -> NumaNode:
    return NumaNode(
        id=NumaNodeId(one),
        memory_bytes=size,
        kind=kind,
        is_normal=is_normal,
        hugepages=hugepages or {},
    )


def ledger(
    *nodes: NumaNode, distances: Sequence[Sequence[int]] = (), hugepages: int = 0
) -> MemoryLedger:
    """A ledger of these nodes; without any of four nodes of 10 bytes on two sockets."""
    if nodes:
        return MemoryLedger(MemoryNodes(nodes, distances))
    size = 10 + hugepages * HUGE
    return MemoryLedger(
        MemoryNodes([node(one, size, hugepages={HUGE: hugepages}) for one in range(4)], FOUR)
    )


def request(
    one: str,
    affinity: str,
    size: int = 0,
    types: frozenset[MemoryKind] = frozenset(),
    priority: MemoryPriority = BURSTABLE,
    is_strict: bool = False,
    pages: int = 0,
) -> MemoryRequest:
    return MemoryRequest(
        container_id=ContainerId(one),
        affinity=NodeSet.parse(affinity),
        size_bytes=size,
        types=types,
        priority=priority,
        is_strict=is_strict,
        hugepage_bytes={HUGE: pages * HUGE},
    )


def taken(memory: MemoryLedger, *requests: MemoryRequest) -> None:
    for one in requests:
        offer = memory.offer(one)
        assert isinstance(offer, Offer), offer
        memory.commit(offer)
        memory.check()


def zone(offer: Offer | Refusal | None) -> str:
    assert isinstance(offer, Offer), offer
    return str(offer.zone)


def moves(offer: Offer | Refusal | None) -> dict[str, str]:
    assert isinstance(offer, Offer), offer
    return {one: str(place) for one, place in offer.moves.items()}


def reason(answer: Offer | Refusal) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.reason
