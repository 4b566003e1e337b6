"""Kinds of memory: the kernel's best evidence wins, and guesses are warned of."""

import dataclasses

import pytest

from pinfold.topology.made.snapshot import SysfsSnapshot
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.discovery import discover
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of

NODE = "sys/devices/system/node"
TIERS = "sys/devices/virtual/memory_tiering"
GIB = 2**30
FAST, ALIKE, SLOW = ("60", "400"), ("100", "100"), ("250", "30")


def bare(memory_bytes: int = 4 * GIB, distances: str = "17 28 10") -> tuple[Machine, SysfsSnapshot]:
    """Two sockets of 2G and node 2 without cpus, with no evidence but size and distances."""
    machine = machine_from_spec("socket:2 core:2 mem:2G")
    extra = NumaNode(id=NumaNodeId(2), memory_bytes=memory_bytes, free_bytes=memory_bytes)
    machine = dataclasses.replace(machine, numa_nodes=(*machine.numa_nodes, extra))
    far = [int(word) for word in distances.split()]
    rows = (*((*row, far[i]) for i, row in enumerate(machine.distances)), tuple(far))
    machine = dataclasses.replace(machine, distances=rows)
    snapshot = machine_snapshot(machine)
    files = {path: text for path, text in snapshot.files.items() if "/access" not in path}
    return machine, dataclasses.replace(snapshot, files=files)


def access(node: int, latency: str, bandwidth: str, name: str = "access0") -> dict[str, str]:
    base = f"{NODE}/node{node}/{name}/initiators"
    return {
        f"{base}/{way}_{what}": value
        for way in ("read", "write")
        for what, value in (("latency", latency), ("bandwidth", bandwidth))
    }


def kind_of(more: dict[str, str], links: dict[str, str], machine: SysfsSnapshot) -> Machine:
    files = {**machine.files, **more}
    return discover(tree_of(dataclasses.replace(machine, files=files, links=links)))


DRAM_ACCESS = access(0, *ALIKE) | access(1, *ALIKE)
NVDIMM = {"sys/bus/nd/devices/region0/numa_node": "0"}
CXL_MEMORY = {"sys/bus/cxl/devices/mem0/numa_node": "0"}


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        pytest.param(
            {"sys/bus/nd/devices/region0/target_node": "2", **DRAM_ACCESS, **access(2, *FAST)},
            MemoryKind.PMEM,
            id="an nvdimm region that targets the node beats access classes",
        ),
        pytest.param(
            {f"{TIERS}/memory_tier4/nodelist": "0-1", f"{TIERS}/memory_tier2/nodelist": "2"},
            MemoryKind.HBM,
            id="a faster tier than that of nodes with cpus",
        ),
        pytest.param(
            {f"{TIERS}/memory_tier4/nodelist": "0-1", f"{TIERS}/memory_tier22/nodelist": "2"},
            MemoryKind.CXL,
            id="a slower tier without an nvdimm bus",
        ),
        pytest.param(
            {
                f"{TIERS}/memory_tier4/nodelist": "0-1",
                f"{TIERS}/memory_tier22/nodelist": "2",
                **NVDIMM,
            },
            MemoryKind.PMEM,
            id="a slower tier on a machine with nvdimms",
        ),
        pytest.param(
            {
                f"{TIERS}/memory_tier4/nodelist": "0-1",
                f"{TIERS}/memory_tier22/nodelist": "2",
                **NVDIMM,
                **CXL_MEMORY,
            },
            MemoryKind.CXL,
            id="a slower tier on a machine with both, not targeted by a region",
        ),
        pytest.param(
            {f"{TIERS}/memory_tier4/nodelist": "0-2", **DRAM_ACCESS, **access(2, *FAST)},
            MemoryKind.HBM,
            id="one tier for all says nothing, so access classes decide",
        ),
        pytest.param({**DRAM_ACCESS, **access(2, *SLOW)}, MemoryKind.CXL, id="slow access"),
        pytest.param({**DRAM_ACCESS, **access(2, *ALIKE)}, MemoryKind.DRAM, id="access as DRAM's"),
        pytest.param(
            {**access(0, *ALIKE, "access1"), **access(2, *FAST, "access1")},
            MemoryKind.HBM,
            id="access class 1 where class 0 is missing",
        ),
    ],
)
def test_the_kernels_evidence_decides_and_needs_no_warning(
    files: dict[str, str], kind: MemoryKind
) -> None:
    machine = kind_of(files, {}, bare()[1])
    assert machine.node_by_id[2].kind is kind
    assert [node.kind for node in machine.numa_nodes[:2]] == [MemoryKind.DRAM] * 2
    assert machine.warnings == ()


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("platform/e820_pmem/ndbus0/region0/dax0.0/dax/dax0.0", MemoryKind.PMEM),
        ("platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0", MemoryKind.CXL),
        ("platform/hmem.0/dax0.0", MemoryKind.HBM),
    ],
)
def test_a_dax_device_tells_by_what_it_was_made_from(place: str, kind: MemoryKind) -> None:
    files = {f"sys/devices/{place}/target_node": "2", **DRAM_ACCESS, **access(2, *FAST)}
    links = {"sys/bus/dax/devices/dax0.0": f"sys/devices/{place}"}
    assert kind_of(files, links, bare()[1]).node_by_id[2].kind is kind


@pytest.mark.parametrize(
    ("memory_bytes", "distances", "kind", "warning"),
    [
        pytest.param(
            2 * GIB, "21 21 10", MemoryKind.DRAM, "taken as dram", id="a socket without cpus"
        ),
        pytest.param(GIB, "17 28 10", MemoryKind.HBM, "taken as hbm by its size", id="small"),
        pytest.param(8 * GIB, "17 28 10", MemoryKind.PMEM, "taken as pmem by its size", id="large"),
    ],
)
def test_without_evidence_the_kind_is_guessed_with_a_warning(
    memory_bytes: int, distances: str, kind: MemoryKind, warning: str
) -> None:
    machine = discover(tree_of(bare(memory_bytes, distances)[1]))
    assert machine.node_by_id[2].kind is kind
    assert [text for text in machine.warnings if warning in text]


@pytest.mark.parametrize("memory", ["0 kB", ""])
def test_memory_of_nodes_without_cpus_is_dram_where_there_is_no_other(memory: str) -> None:
    """As in partitions of POWER, whose memory can be in another node than their cpus."""
    text = f"Node 0 MemTotal: {memory}"
    nodes = {f"{NODE}/node{node}/meminfo": text for node in (0, 1)}
    machine = kind_of(nodes | {f"{NODE}/has_memory": "2"}, {}, bare()[1])
    assert machine.node_by_id[2].kind is MemoryKind.DRAM
    assert [text for text in machine.warnings if "node2: no cpus, and no node with cpus" in text]


@pytest.mark.parametrize("zero", ["0", ""])
def test_zero_access_numbers_are_not_reported_ones(zero: str) -> None:
    files = {**DRAM_ACCESS, **access(2, zero, zero)}
    assert "by its size" in kind_of(files, {}, bare()[1]).warnings[0]


def test_nodes_without_memory_need_no_guess() -> None:
    snapshot = bare(memory_bytes=0)[1]
    machine = discover(tree_of(snapshot))
    assert machine.node_by_id[2].kind is MemoryKind.DRAM
    assert machine.warnings == ()


@pytest.mark.parametrize("kind", list(MemoryKind))
def test_a_generated_tree_shows_every_kind(kind: MemoryKind) -> None:
    machine = bare()[0]
    nodes = (*machine.numa_nodes[:2], dataclasses.replace(machine.numa_nodes[2], kind=kind))
    machine = dataclasses.replace(machine, numa_nodes=nodes)
    assert discover(tree_of(machine_snapshot(machine))) == machine


def test_initiators_may_be_nodes_without_cpus_and_of_class_1() -> None:
    snapshot = bare()[1]
    folders = {f"{NODE}/node2/access1/initiators/node0", f"{NODE}/node0/access0/initiators/node2"}
    machine = discover(tree_of(dataclasses.replace(snapshot, folders=frozenset(folders))))
    assert str(machine.node_by_id[2].initiators) == "0"
    assert str(machine.node_by_id[0].initiators) == "2"
    assert machine.node_by_id[2].cpus == CpuSet()
