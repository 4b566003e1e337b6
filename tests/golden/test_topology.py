"""Golden drawings: each made-up machine as a person sees it and as the JSON document.

A file's first line says why the machine is interesting. UPDATE_GOLDEN=1 rewrites the files; the
difference is what a reviewer reads.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click
import pytest

from pinfold.cmd.commands.topology import machine_text
from pinfold.topology.drawing.machine_json import machine_document
from pinfold.topology.made.snapshot import SysfsSnapshot
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sysfs.discovery import discover
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of

FOLDER: Final = Path(__file__).parent / "topology"
CPU: Final = "sys/devices/system/cpu"
NODE: Final = "sys/devices/system/node"


def snapshot(spec: str, files: Mapping[str, str] | None = None) -> SysfsSnapshot:
    base = machine_snapshot(machine_from_spec(spec))
    return dataclasses.replace(base, files={**base.files, **(files or {})})


def sub_numa_clusters() -> SysfsSnapshot:
    return snapshot("socket:2 l3:1 numa:2 core:12 thread:2 mem:64G")


def core_complexes() -> SysfsSnapshot:
    return snapshot("socket:1 numa:2 die:2 l3:2 core:4 thread:2 mem:32G isolated:8-9")


def memory_kinds() -> SysfsSnapshot:
    machine = machine_from_spec("socket:2 core:2 thread:2 mem:8G")
    nodes = list(machine.numa_nodes)
    rows = [[*row, 15, 60] for row in machine.distances] + [[15, 15, 10, 70], [60, 60, 70, 10]]
    for number, kind in ((2, MemoryKind.HBM), (3, MemoryKind.CXL)):
        memory = 4 * 2**30
        nodes.append(NumaNode(id=NumaNodeId(number), memory_bytes=memory, kind=kind))
    return machine_snapshot(
        dataclasses.replace(machine, numa_nodes=tuple(nodes), distances=tuple(map(tuple, rows)))
    )


def hybrid() -> SysfsSnapshot:
    units = {"sys/devices/cpu_core/cpus": "0-7", "sys/devices/cpu_atom/cpus": "8-11"}
    base = snapshot("core:4 thread:2", units)
    files = dict(base.files)
    # Four efficient cores of one thread in a cluster with an L2 of its own.
    for cpu in range(8, 12):
        topology = f"{CPU}/cpu{cpu}/topology"
        for name, cpus in (("package", "0-11"), ("die", "0-11"), ("core", f"{cpu}")):
            files[f"{topology}/{name}_cpus_list"] = cpus
        files[f"{topology}/cluster_cpus_list"] = "8-11"
        ids = {"physical_package": 0, "die": 0, "cluster": 4, "core": cpu}
        files |= {f"{topology}/{name}_id": str(one) for name, one in ids.items()}
        files[f"{CPU}/cpu{cpu}/cache/index0/level"] = "2"
        files[f"{CPU}/cpu{cpu}/cache/index0/shared_cpu_list"] = "8-11"
    for cpu in range(8):
        topology = f"{CPU}/cpu{cpu}/topology"
        files |= {f"{topology}/{name}_cpus_list": "0-11" for name in ("package", "die")}
        files[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list"] = "0-11"
    files |= {f"{CPU}/{name}": "0-11" for name in ("online", "present", "possible")}
    files[f"{NODE}/node0/cpulist"] = "0-11"
    return dataclasses.replace(base, files=files)


def crossing_nodes() -> SysfsSnapshot:
    files = {f"{NODE}/node0/cpulist": "0-2", f"{NODE}/node1/cpulist": "3-7"}
    return snapshot("socket:2 numa:1 core:4", files)


def bare_guest() -> SysfsSnapshot:
    base = snapshot("core:3")
    kept = ("online", "possible", "thread_siblings_list", "core_siblings_list")
    files = {path: text for path, text in base.files.items() if path.endswith(kept)}
    files = {path: text for path, text in files.items() if "/node/" not in path}
    return dataclasses.replace(base, files=files)


MACHINES: Final[Mapping[str, tuple[str, Callable[[], SysfsSnapshot]]]] = {
    "sub-numa-clusters": ("one L3 spans two NUMA nodes", sub_numa_clusters),
    "core-complexes": ("one NUMA node has two dies with two L3 groups each", core_complexes),
    "memory-kinds": ("memory nodes without cpus, near and far", memory_kinds),
    "hybrid": ("performance cores of two threads, a cluster of efficient ones", hybrid),
    "crossing-nodes": ("NUMA nodes cut across sockets: no containment", crossing_nodes),
    "bare-guest": ("a virtual machine that shows next to nothing", bare_guest),
}


def golden(name: str, machine: Machine) -> str:
    document = json.dumps(machine_document(machine), indent=1, ensure_ascii=False)
    drawn = click.unstyle(machine_text(machine))  # where the tests have a terminal
    return f"{MACHINES[name][0]}\n\n{drawn}\n\n{document}\n"


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_drawn_as_before(name: str) -> None:
    text = golden(name, discover(tree_of(MACHINES[name][1]())))
    file = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_every_golden_file_has_its_machine() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(MACHINES)
