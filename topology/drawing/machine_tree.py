"""A machine as texts and a tree of texts for people."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ..model.machine import CoreKind, IoDevice, Machine, NumaNode, Processor
from ..sets.cpuset import CpuSet, NodeSet
from ..sysfs.processor import parse_processor
from .text_tree import TextTree

_SHOWN: Final = 8
"""Cores or devices listed one by one; more are cut short."""


@dataclass(slots=True)
class _Branch:
    """Domains of one and the same set of cpus, and what lies inside."""

    cpus: CpuSet
    labels: list[str]
    below: list["_Branch"] = field(default_factory=list["_Branch"])


@dataclass(frozen=True, slots=True)
class MachineDrawing:
    """A machine in texts: lines above, the tree of its domains, and lines below."""

    heading: tuple[str, ...]
    domains: tuple[TextTree, ...]
    remarks: tuple[str, ...]


def machine_drawing(machine: Machine) -> MachineDrawing:
    """The machine for people: domains, cores, memory, devices and warnings."""
    heading = [_headline(machine)]
    processor = parse_processor(machine.cpuinfo)
    if processor is not None:
        heading.append(_processor_line(processor))
    remarks = list(_memory_lines(machine))
    for name, cpus in (("isolated", machine.isolated), ("offline", machine.offline)):
        if cpus:
            remarks.append(f"{name} cpus: {cpus}")
    remarks.extend(_device_lines(machine))
    remarks.extend(f"warning: {text}" for text in machine.warnings)
    return MachineDrawing(tuple(heading), _below(machine, _nest(machine)), tuple(remarks))


def bytes_text(size: int | None) -> str:
    """A size as people read it: "2 GiB", "1.9 GiB", "unknown size"."""
    if size is None:
        return "unknown size"
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >> power:
            tenths = (size * 10 + (1 << power - 1)) >> power
            return f"{tenths // 10}.{tenths % 10} {unit}".replace(".0 ", " ")
    return f"{size} bytes" if size else "no memory"


def _headline(machine: Machine) -> str:
    threads = machine.threads_per_core_max
    parts = [
        _count(len(machine.sockets), "socket"),
        _count(len(machine.numa_nodes), "NUMA node"),
        _count(len(machine.l3_groups), "L3 group"),
        _count(len(machine.cores), "core") + (f" of up to {threads} threads" * (threads > 1)),
    ]
    return f"{_count(len(machine.online), 'cpu')} online ({machine.online}): {', '.join(parts)}"


def _processor_line(processor: Processor) -> str:
    parts = [part for part in (processor.name, processor.vendor) if part]
    if processor.flags:
        parts.append(_count(len(processor.flags), "flag"))
    return f"processor: {', '.join(parts)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _nest(machine: Machine) -> _Branch:
    """Every domain inside the smallest that holds it; those that cut across stand side by side."""
    root = _Branch(CpuSet(), [])
    placed: list[_Branch] = []
    domains = list(_domains(machine))
    # Widest first, and stable: domains of equal cpus keep their order and share a branch.
    domains.sort(key=lambda domain: (-len(domain[0]), domain[0].lowest))
    for cpus, label in domains:
        home = root
        for branch in reversed(placed):
            if cpus <= branch.cpus:
                home = branch
                break
        if home.cpus == cpus and home is not root:
            home.labels.append(label)
            continue
        branch = _Branch(cpus, [label])
        home.below.append(branch)
        placed.append(branch)
    return root


def _domains(machine: Machine) -> Iterator[tuple[CpuSet, str]]:
    for socket in machine.sockets:
        yield socket.cpus, f"socket {socket.label}"
    if len(machine.dies) > len(machine.sockets):
        for die in machine.dies:
            yield die.cpus, f"die {die.label}"
    for node in machine.numa_nodes:
        if node.cpus:
            yield node.cpus, f"NUMA node {node.id} ({_memory(node)})"
    sizes = {cache.cpus: cache.size_bytes for cache in machine.caches if cache.level == 3}
    for group in machine.l3_groups:
        size = sizes.get(group)
        yield group, f"L3 {bytes_text(size)}" if size else "L3"
    # A cluster that is one core, or has an L3 of its own, says nothing more.
    cores = set(machine.cores)
    for cluster in machine.clusters:
        if cluster.cpus not in cores and cluster.cpus not in machine.l3_groups:
            yield cluster.cpus, f"cluster {cluster.label}"


def _memory(node: NumaNode) -> str:
    text = bytes_text(node.memory_bytes)
    if node.memory_bytes:
        text += f" {node.kind.value}"
        if node.free_bytes is not None:
            text += f", {bytes_text(node.free_bytes)} free"
        if not node.is_normal:
            text += ", movable only"
    pages = [f"{count} of {bytes_text(size)}" for size, count in node.hugepages.items() if count]
    return text + (f", huge pages: {', '.join(pages)}" if pages else "")


def _below(machine: Machine, branch: _Branch) -> tuple[TextTree, ...]:
    """The cores that are in no smaller domain, and the domains inside."""
    own = branch.cpus
    for inner in branch.below:
        own -= inner.cpus
    cores = [TextTree(line) for line in _core_lines(machine, own)]
    domains = [
        TextTree(f"{', '.join(inner.labels)}: {inner.cpus}", _below(machine, inner))
        for inner in sorted(branch.below, key=lambda one: one.cpus.lowest)
    ]
    return (*cores, *domains)


def _core_lines(machine: Machine, cpus: CpuSet) -> Iterator[str]:
    cores = [core for core in machine.cores if core & cpus]
    for kind in CoreKind:
        found = [core & cpus for core in cores if machine.cpus[core.lowest].kind is kind]
        if not found:
            continue
        name = f"{kind.value} core" if machine.is_hybrid else "core"
        if all(len(core) == 1 for core in found):
            singles = CpuSet.collect(core.lowest for core in found)
            yield f"{_count(len(found), name)}: {singles}"
        else:
            shown = [str(core) for core in found]
            if len(shown) > _SHOWN:
                shown = [*shown[: _SHOWN - 1], "…", shown[-1]]
            yield f"{_count(len(found), name)}: {' '.join(shown)}"


def _memory_lines(machine: Machine) -> Iterator[str]:
    with_cpus = machine.nodes_with_cpus
    for node in machine.numa_nodes:
        if node.cpus:
            continue
        text = f"NUMA node {node.id}, no cpus: {_memory(node)}"
        nearest = machine.numa_distances.nearest(NodeSet.of(node.id), with_cpus)
        if machine.distances and nearest:
            least = machine.numa_distances.between(node.id, nearest.lowest)
            text += f", nearest to node {', '.join(map(str, nearest))} (distance {least})"
        yield text


def _device_lines(machine: Machine) -> Iterator[str]:
    places: dict[str, list[IoDevice]] = {}
    for device in machine.devices:
        place = "of unknown place"
        if device.numa_node is not None:
            place = f"at NUMA node {device.numa_node}"
        elif device.cpus:
            place = f"near cpus {device.cpus}"
        places.setdefault(place, []).append(device)
    for place, devices in sorted(places.items()):
        names = [f"{device.kind} {device.name}" for device in devices]
        if len(names) > _SHOWN:
            names = [*names[:_SHOWN], f"and {len(names) - _SHOWN} more"]
        yield f"devices {place}: {', '.join(names)}"
