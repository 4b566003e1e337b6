"""The cpu allocation tables of the shared scenarios, where they are present."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinfold.policy.cpus.clusters import CpuCluster
from pinfold.policy.cpus.cpu_priority import PriorityClasses
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.cpu_preference import CpuPriority
from pinfold.topology.model.machine import (
    Cache,
    CoreKind,
    Cpu,
    Domain,
    Machine,
    NumaNode,
    NumaNodeId,
    SocketId,
)
from pinfold.topology.sets.cpuset import CpuSet

SHARED = Path(__file__).resolve().parents[5] / "shared"
SCENARIOS = SHARED / "scenarios" / "given.yaml"
MACHINE = SHARED / "corpus" / "given" / "nri-2-socket-4-node-40-core.json"

if not (SCENARIOS.exists() and MACHINE.exists()):
    pytest.skip("the shared scenarios are not beside the project", allow_module_level=True)


def read_tables() -> dict[str, dict[str, Any]]:
    """The scenarios of this kind; the file is cut by hand, as reading all of it takes seconds."""
    text = SCENARIOS.read_text()
    parts = ("- id: " + part for part in text.split("\n- id: ")[1:])
    found = [yaml.safe_load(part)[0] for part in parts if "kind: cpu_allocator" in part]
    return {one["id"]: one for one in found}


def read_facts() -> Machine:
    facts = json.loads(MACHINE.read_text())
    online = CpuSet.parse(facts["online_cpus"])
    sockets = domains(facts["sockets"])
    caches = [
        Cache(level=level, type="Unified", cpus=CpuSet.parse(text))
        for level in (2, 3)
        for text in facts[f"l{level}_groups"]
    ]
    return Machine(
        online=online,
        present=online,
        possible=online,
        cpus={
            cpu: Cpu(id=cpu, socket=SocketId(int(socket.label)))
            for cpu in online
            for socket in sockets
            if cpu in socket.cpus
        },
        sockets=sockets,
        dies=domains(facts["dies"]),
        cores=tuple(map(CpuSet.parse, facts["cores"])),
        caches=tuple(caches),
        l2_groups=tuple(map(CpuSet.parse, facts["l2_groups"])),
        l3_groups=tuple(map(CpuSet.parse, facts["l3_groups"])),
        numa_nodes=tuple(
            NumaNode(id=NumaNodeId(int(node)), cpus=CpuSet.parse(one["cpus"]))
            for node, one in facts["numa_nodes"].items()
        ),
    )


def domains(lists: dict[str, str]) -> tuple[Domain, ...]:
    return tuple(Domain(label=label, cpus=CpuSet.parse(text)) for label, text in lists.items())


def mask(text: object) -> int:
    return CpuSet.parse(str(text)).mask


def read_clusters(rows: list[dict[str, Any]]) -> list[CpuCluster]:
    kinds = {"P": CoreKind.PERFORMANCE, "E": CoreKind.EFFICIENT}
    return [CpuCluster(mask(row["cpus"]), kinds[row.get("kind", "P")]) for row in rows]


TABLES = read_tables()
FACTS = read_facts()


def cases(scenario: str) -> list[Any]:
    return [
        pytest.param(case, id=case.get("name", f"{case['count']} of {case['from']}"))
        for case in TABLES[scenario]["cases"]
    ]


def picked(picker: CpuPicker, case: dict[str, Any], prefer: str) -> int | None:
    return picker.pick(mask(case["from"]), case["count"], CpuPriority(prefer))


def test_all_tables_are_known() -> None:
    assert set(TABLES) == {
        "unit-cpuallocator-basic",
        "unit-cpuallocator-clusters",
        "unit-cpuallocator-hybrid-clusters",
    }


@pytest.mark.parametrize("case", cases("unit-cpuallocator-basic"))
def test_priorities_decide_as_given(case: dict[str, Any]) -> None:
    table = TABLES["unit-cpuallocator-basic"]["cpu_priorities"]
    picker = CpuPicker(FACTS, PriorityClasses(**{name: mask(one) for name, one in table.items()}))
    # The peer answers a request it cannot serve with an empty set; here that is a refusal.
    assert picked(picker, case, case["prefer"]) == (mask(case["expect"]) or None)


@pytest.mark.parametrize("case", cases("unit-cpuallocator-clusters"))
def test_clusters_are_picked_as_given(case: dict[str, Any]) -> None:
    table = TABLES["unit-cpuallocator-clusters"]
    classes = PriorityClasses(high=mask(table["cpu_priorities"]["high"]))
    picker = CpuPicker(FACTS, classes, read_clusters(table["clusters"]))
    assert picked(picker, case, table["prefer"]) == mask(case["expect"])


@pytest.mark.parametrize("case", cases("unit-cpuallocator-hybrid-clusters"))
def test_clusters_of_both_kinds_are_picked_as_given(case: dict[str, Any]) -> None:
    table = TABLES["unit-cpuallocator-hybrid-clusters"]
    clusters = read_clusters(table["clusters"][case["clusters"]])
    efficient = sum(one.cpus for one in clusters if one.kind is CoreKind.EFFICIENT)
    classes = PriorityClasses(normal=FACTS.online.mask & ~efficient, low=efficient)
    assert picked(CpuPicker(FACTS, classes, clusters), case, case["prefer"]) == mask(case["expect"])
