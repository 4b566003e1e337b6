"""The files that show a given machine: discovery's inverse, as a snapshot, a tree or on disk."""

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pinfold.topology.made.snapshot import SysfsSnapshot, pack
from pinfold.topology.model.machine import (
    Cache,
    CoreKind,
    Cpu,
    IoDevice,
    Machine,
    MemoryKind,
    NumaNode,
)
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from pinfold.topology.sysfs.archive import ArchiveTree, read_archive
from pinfold.topology.sysfs.cpus import CPU
from pinfold.topology.sysfs.numa_nodes import NODE
from pinfold.topology.sysfs.processor import CPUINFO

_TIERS: Final = "sys/devices/virtual/memory_tiering"
_CXL_ROOT: Final = "sys/devices/platform/ACPI0017:00/root0/decoder0.0"
_PCI_CLASS: Final = "0x020000"
_DRAM_TIER: Final = 4
_FAST_TIER: Final = 2


def machine_snapshot(machine: Machine) -> SysfsSnapshot:
    """The files in which discovery finds this machine (except its warnings), one line each."""
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    files.update(_cpu_set_files(machine))
    if machine.cpuinfo:
        files[CPUINFO] = machine.cpuinfo
    for cpu in machine.cpus.values():
        files.update(_frequency_files(cpu))
    files.update(_topology_files(machine))
    files.update(_cache_files(machine.caches))
    for position, node in enumerate(machine.numa_nodes):
        files.update(_node_files(machine, node, position))
    files.update(_node_set_files(machine))
    for node in machine.numa_nodes:
        if node.memory_bytes and not node.cpus:
            more, link = _kind_files(machine, node)
            files.update(more)
            links.update(link)
    for device in machine.devices:
        more, link = _device_files(device)
        files.update(more)
        links.update(link)
    folders = {f"{CPU}/cpu{cpu}" for cpu in machine.present}
    if not any(cpu.max_khz for cpu in machine.cpus.values()):
        folders.add(f"{CPU}/cpufreq")
    for node in machine.numa_nodes:
        base = f"{NODE}/node{node.id}"
        folders.update(f"{base}/access0/initiators/node{one}" for one in node.initiators)
    return SysfsSnapshot(
        files={path: f"{text}\n" for path, text in files.items()},
        links=links,
        folders=frozenset(folders),
    )


def tree_of(snapshot: SysfsSnapshot, root: str = "snapshot") -> ArchiveTree:
    """A snapshot as a tree that discovery reads."""
    packed = pack(snapshot, "snapshot.tar")
    return read_archive(root, io.BytesIO(packed), len(packed))


def write_tree(snapshot: SysfsSnapshot, root: str) -> None:
    """Write a snapshot's files below a directory that exists."""
    for path in snapshot.folders:
        os.makedirs(f"{root}/{path}", exist_ok=True)
    for path, text in snapshot.files.items():
        file = Path(root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for path, target in snapshot.links.items():
        folder = os.path.dirname(path)
        os.makedirs(f"{root}/{folder}", exist_ok=True)
        os.symlink(os.path.relpath(target, folder), f"{root}/{path}")


def _cpu_set_files(machine: Machine) -> Iterator[tuple[str, str]]:
    yield f"{CPU}/online", str(machine.online)
    yield f"{CPU}/offline", str(machine.possible - machine.online)
    yield f"{CPU}/present", str(machine.present)
    yield f"{CPU}/possible", str(machine.possible)
    yield f"{CPU}/isolated", str(machine.isolated)
    efficient = CpuSet.collect(
        cpu.id for cpu in machine.cpus.values() if cpu.kind is CoreKind.EFFICIENT
    )
    if efficient:
        yield "sys/devices/cpu_atom/cpus", str(efficient)
    if efficient and efficient != machine.online:
        yield "sys/devices/cpu_core/cpus", str(machine.online - efficient)


def _topology_files(machine: Machine) -> Iterator[tuple[str, str]]:
    for socket in machine.sockets:
        yield from _sibling_files(socket.cpus, "package_cpus_list", "core_siblings_list")
    for die in machine.dies:
        yield from _sibling_files(die.cpus, "die_cpus_list")
    for cluster in machine.clusters:
        yield from _sibling_files(cluster.cpus, "cluster_cpus_list")
    for core in machine.cores:
        yield from _sibling_files(core, "core_cpus_list", "thread_siblings_list")
    for cpu in machine.cpus.values():
        base = f"{CPU}/cpu{cpu.id}/topology"
        yield f"{base}/physical_package_id", str(cpu.socket)
        yield f"{base}/die_id", str(cpu.die)
        yield f"{base}/cluster_id", str(cpu.cluster)
        yield f"{base}/core_id", str(cpu.core)


def _sibling_files(cpus: CpuSet, *names: str) -> Iterator[tuple[str, str]]:
    text = str(cpus)
    for cpu in cpus:
        for name in names:
            yield f"{CPU}/cpu{cpu}/topology/{name}", text


def _cache_files(caches: tuple[Cache, ...]) -> Iterator[tuple[str, str]]:
    indexes: dict[int, int] = {}
    for cache in caches:
        for cpu in cache.cpus:
            index = indexes.get(cpu, 0)
            indexes[cpu] = index + 1
            base = f"{CPU}/cpu{cpu}/cache/index{index}"
            yield f"{base}/level", str(cache.level)
            yield f"{base}/type", cache.type
            yield f"{base}/shared_cpu_list", str(cache.cpus)
            if cache.id is not None:
                yield f"{base}/id", str(cache.id)
            if cache.size_bytes:
                yield f"{base}/size", f"{cache.size_bytes // 1024}K"


def _frequency_files(cpu: Cpu) -> Iterator[tuple[str, str]]:
    base = f"{CPU}/cpu{cpu.id}/cpufreq"
    values: Mapping[str, int | str | None] = {
        "base_frequency": cpu.base_khz,
        "cpuinfo_min_freq": cpu.min_khz,
        "cpuinfo_max_freq": cpu.max_khz,
        "energy_performance_preference": cpu.epp,
    }
    for name, value in values.items():
        if value is not None:
            yield f"{base}/{name}", str(value)


def _node_set_files(machine: Machine) -> Iterator[tuple[str, str]]:
    nodes = machine.numa_nodes
    with_memory = [node for node in nodes if node.memory_bytes or not node.is_normal]
    yield f"{NODE}/online", _ids(nodes)
    yield f"{NODE}/possible", _ids(nodes)
    yield f"{NODE}/has_cpu", _ids(node for node in nodes if node.cpus)
    yield f"{NODE}/has_memory", _ids(with_memory)
    yield f"{NODE}/has_normal_memory", _ids(node for node in with_memory if node.is_normal)
    fast = [node for node in nodes if node.kind is MemoryKind.HBM and not node.cpus]
    if fast:
        yield f"{_TIERS}/memory_tier{_FAST_TIER}/nodelist", _ids(fast)
        usual = _ids(node for node in nodes if node not in fast)
        yield f"{_TIERS}/memory_tier{_DRAM_TIER}/nodelist", usual


def _ids(nodes: Iterable[NumaNode]) -> str:
    return str(NodeSet.collect(node.id for node in nodes))


def _node_files(machine: Machine, node: NumaNode, position: int) -> Iterator[tuple[str, str]]:
    base = f"{NODE}/node{node.id}"
    yield f"{base}/cpulist", str(node.cpus)
    if machine.distances:
        yield f"{base}/distance", " ".join(map(str, machine.distances[position]))
    if node.memory_bytes is not None:
        lines = [f"Node {node.id} MemTotal: {node.memory_bytes // 1024} kB"]
        if node.free_bytes is not None:
            lines.append(f"Node {node.id} MemFree: {node.free_bytes // 1024} kB")
        yield f"{base}/meminfo", "\n".join(lines)
    for size, count in node.hugepages.items():
        yield f"{base}/hugepages/hugepages-{size // 1024}kB/nr_hugepages", str(count)


def _kind_files(machine: Machine, node: NumaNode) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The evidence for what the memory of a node without cpus is made of."""
    match node.kind:
        case MemoryKind.PMEM:
            return {f"sys/bus/nd/devices/region{node.id}/target_node": str(node.id)}, {}
        case MemoryKind.CXL:
            name = f"dax{node.id}.0"
            place = f"{_CXL_ROOT}/region{node.id}/dax_region{node.id}/{name}"
            return {f"{place}/target_node": str(node.id)}, {f"sys/bus/dax/devices/{name}": place}
        case MemoryKind.HBM:
            return {}, {}
        case MemoryKind.DRAM:
            # Memory as fast as that of the nodes with cpus.
            alike = [node.id, *(one.id for one in machine.numa_nodes if one.cpus)]
            return {
                f"{NODE}/node{one}/access0/initiators/{way}_{what}": "100"
                for one in alike
                for way in ("read", "write")
                for what in ("latency", "bandwidth")
            }, {}


def _device_files(device: IoDevice) -> tuple[Mapping[str, str], Mapping[str, str]]:
    place = f"sys/{device.path}"
    node = -1 if device.numa_node is None else device.numa_node
    files = {f"{place}/numa_node": str(node), f"{place}/local_cpulist": str(device.cpus)}
    if device.kind == "pci":
        return files | {f"{place}/class": _PCI_CLASS}, {f"sys/bus/pci/devices/{device.name}": place}
    return files, {f"sys/class/{device.kind}/{device.name}": place}
