"""The memory allocation tables of the given scenarios."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from pinfold.policy.memory.memory_ledger import MemoryLedger
from pinfold.policy.memory.memory_nodes import MemoryNodes
from pinfold.policy.memory.offers import MemoryPriority, MemoryRequest, Offer, StaleOfferError
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Refusal
from pinfold.topology.model.machine import MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import NodeSet

GIVEN = Path(__file__).parents[5] / "shared" / "scenarios" / "given.yaml"

Row = Mapping[str, Any]

PRIORITIES = {
    "": MemoryPriority.BEST_EFFORT,
    "besteffort": MemoryPriority.BEST_EFFORT,
    "burstable": MemoryPriority.BURSTABLE,
    "guaranteed": MemoryPriority.GUARANTEED,
}


@pytest.fixture(scope="module")
def tables() -> dict[str, Row]:
    if not GIVEN.is_file():
        pytest.skip("the given scenarios (../shared/scenarios/given.yaml) are not here")
    with GIVEN.open() as file:
        document = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    wanted = [one for one in document["scenarios"] if one["kind"] == "memory_allocator"]
    return {one["id"]: one for one in wanted}


def ledger(table: Row) -> MemoryLedger:
    given = table["nodes"]
    columns = zip(given["types"], given["capacities"], given["normal_memory"], strict=True)
    nodes = [
        NumaNode(
            id=NumaNodeId(position),
            memory_bytes=capacity,
            kind=MemoryKind(kind.lower()),
            is_normal=is_normal,
        )
        for position, (kind, capacity, is_normal) in enumerate(columns)
    ]
    return MemoryLedger(MemoryNodes(nodes, given["distances"]))


def kinds(text: str) -> frozenset[MemoryKind]:
    return frozenset(MemoryKind(one.lower()) for one in text.split(",") if one)


def request(row: Row) -> MemoryRequest:
    priority = PRIORITIES[row.get("qos", "")]
    return MemoryRequest(
        container_id=ContainerId(row["id"]),
        affinity=NodeSet.collect(row.get("affinity", ())),
        size_bytes=row["size"],
        types=kinds(row["types"]),
        priority=MemoryPriority.PRESERVED if row.get("preserve") else priority,
        is_strict=row.get("strict", False),
    )


def as_lists(offer: Offer | Refusal) -> tuple[list[int], dict[str, list[int]]]:
    assert isinstance(offer, Offer), offer
    return list(offer.zone), {one: list(zone) for one, zone in offer.moves.items()}


def test_zones_expand_to_the_nearest_nodes(tables: Mapping[str, Row]) -> None:
    table = tables["unit-libmem-expand"]
    nodes = ledger(table).nodes
    for row in table["cases"]:
        zone = NodeSet.collect(row["start"]).mask
        found: list[list[int]] = []
        for types in row["expand_by"]:
            more = nodes.expansion(zone, nodes.kinds_mask(kinds(types)))
            found.append(list(NodeSet(more)))
            zone |= more
        assert found == row["added"], row


@pytest.mark.parametrize(
    "name",
    [
        "unit-libmem-allocate",
        "unit-libmem-strict",
        "unit-libmem-preserved",
        "unit-libmem-normal-memory",
    ],
)
def test_requests_in_order_get_the_given_zones(tables: Mapping[str, Row], name: str) -> None:
    table = tables[name]
    memory = ledger(table)
    for row in table["cases"]:
        offer = memory.offer(request(row))
        if row.get("fail"):
            assert isinstance(offer, Refusal), row
            continue
        assert as_lists(offer) == (row["result"], row.get("updates", {})), row
        assert isinstance(offer, Offer)
        memory.commit(offer)
        for one in row.get("then_release", ()):
            memory.release(ContainerId(one))
        memory.check()


def test_reallocation_only_widens(tables: Mapping[str, Row]) -> None:
    table = tables["unit-libmem-realloc"]
    memory = ledger(table)
    for row in table["cases"]:
        one = ContainerId(row["id"])
        if "size" in row:
            offer = memory.offer(request(row))
            assert as_lists(offer) == (row["result"], {}), row
            memory.commit(cast("Offer", offer))
        nodes = NodeSet.collect(row.get("new_nodes", ()))
        offer = memory.realloc(one, nodes, kinds(row.get("new_types", "")))
        assert as_lists(offer) == (row["realloc_result"], {}), row
        memory.commit(cast("Offer", offer))
        memory.check()
        if row.get("reset"):
            memory = ledger(table)


def test_a_commit_or_release_makes_other_offers_stale(tables: Mapping[str, Row]) -> None:
    table = tables["unit-libmem-offer-invalidation"]
    memory = ledger(table)
    offers: dict[str, Offer] = {}
    for row in table["cases"]:
        offer = memory.offer(request(row))
        assert isinstance(offer, Offer)
        offers[row["id"]] = offer
        for one in row.get("then_release", ()):
            memory.release(ContainerId(one))
        for step in cast("Sequence[Row]", row.get("then_commit", ())):
            if step["ok"]:
                memory.commit(offers[step["id"]])
            else:
                with pytest.raises(StaleOfferError):
                    memory.commit(offers[step["id"]])
        memory.check()
