"""The hardware tables of scenario files as machines.

A table lists NUMA nodes with their cpus and memory; which cpus are threads of one core and which
are in one socket follows from the nodes, `threads_per_core` and the sentence in `cpu_numbering`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ...topology.made.spec_values import parse_size
from ...topology.model.machine import (
    Cache,
    Cpu,
    Domain,
    Machine,
    MemoryKind,
    NumaNode,
    NumaNodeId,
    SocketId,
)
from ...topology.model.numa_distances import NumaDistances
from ...topology.sets.cpuset import NO_NODES, CpuSet, IdListError, NodeSet
from ..model.memory_qos import MemoryQos
from ..text.suggestion import suggestion
from ..text.yaml_fields import Field

# "package 0: 0-19,40-59; package 1: ...", "socket0 0-7, socket1 8-15"
_SOCKET_CPUS: Final = re.compile(r"(?:package|socket) ?(\d+):? (\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)")
# "HT sibling of c is (c+56)%112"
_SIBLING: Final = re.compile(r"sibling of c is \(c ?\+ ?(\d+)\) ?% ?(\d+)")
_L1_BYTES, _L2_BYTES, _L3_BYTES = 32 << 10, 1 << 20, 32 << 20


def machine_from_table(table: Field) -> Machine:
    """The machine a hardware table describes.

    `numa_nodes: 0` is a kernel without NUMA: one node with every cpu. Raises `FieldError`.
    """
    return _Table(table).machine()


def memory_qos(policy: Field) -> MemoryQos:
    """The kubelet's use of memory QoS, which is on where its policy is named."""
    if policy.is_missing:
        return MemoryQos.OFF
    known = {one.value: one for one in MemoryQos}
    if policy.text() not in known:
        raise policy.error(f"unknown policy {policy.text()!r}", suggestion(policy.text(), known))
    return known[policy.text()]


class _Table:
    """One table, read piece by piece; each piece builds on the ones before."""

    def __init__(self, table: Field) -> None:
        self.table = table
        self.threads = table["threads_per_core"].integer(1)
        self.numbering = table["cpu_numbering"].text("")
        self.warnings: list[str] = []
        self.nodes = table["nodes"].elements()
        self.node_cpus = {self._node_id(one): _cpu_list(one["cpus"]) for one in self.nodes}
        if len(self.node_cpus) < len(self.nodes):
            raise table["nodes"].error("two NUMA nodes have the same id", "number them apart")
        self.sockets = self._sockets()
        self.cpus = CpuSet()
        for cpus in self.sockets.values():
            self.cpus |= cpus
        if not self.cpus or self.threads < 1:
            raise table.error("describes no cpus", "list nodes with cpus, or write 'machine: SPEC'")
        self.cores = self._cores()

    def machine(self) -> Machine:
        socket_of = {cpu: label for label, cpus in self.sockets.items() for cpu in cpus}
        die_of = self._die_of()
        core_of = self._core_ids(socket_of)
        base_khz = self.table["base_frequency_khz"]
        cpus = {
            cpu: Cpu(
                id=cpu,
                socket=SocketId(socket_of[cpu]),
                die=die_of.get(cpu, 0),
                core=core_of[cpu],
                base_khz=None if base_khz.is_missing else base_khz.integer(),
                epp=self.table["epp"].text("") or None,
            )
            for cpu in self.cpus
        }
        dies: dict[tuple[int, int], list[int]] = {}
        for cpu in self.cpus:
            dies.setdefault((socket_of[cpu], die_of.get(cpu, 0)), []).append(cpu)
        l3_groups = self._l3_groups()
        nodes = self._numa_nodes()
        return Machine(
            online=self.cpus,
            present=self.cpus,
            possible=self.cpus,
            isolated=_cpu_list(self.table["isolated_cpus"]) & self.cpus,
            cpus=cpus,
            sockets=_domains((str(label), cpus) for label, cpus in self.sockets.items()),
            dies=_domains(
                (f"{socket}/{die}", CpuSet.collect(cpus)) for (socket, die), cpus in dies.items()
            ),
            cores=self.cores,
            caches=self._caches(l3_groups),
            l2_groups=self.cores,
            l3_groups=l3_groups,
            numa_nodes=nodes,
            distances=self._distances(len(nodes)),
            warnings=tuple(self.warnings),
        )

    def _node_id(self, node: Field) -> int:
        number = node["id"].integer()
        if not 0 <= number < 1024:
            raise node["id"].error(f"{number} is out of range", "0 to 1023")
        return number

    def _sockets(self) -> Mapping[int, CpuSet]:
        found: dict[int, CpuSet] = {}
        for node in self.nodes:
            if cpus := self.node_cpus[node["id"].integer()]:
                socket = node["socket"].integer(0)
                found[socket] = found.get(socket, CpuSet()) | cpus
        if not found:
            for number, cpus in _SOCKET_CPUS.findall(self.numbering):
                found[int(number)] = _parse(self.table["cpu_numbering"], cpus)
        if not found:
            # No list anywhere: consecutive ids, socket after socket.
            count = self.table["sockets"].integer(1)
            per_socket = self.table["cores_per_socket"].integer(0) * self.threads
            if not 0 <= count * per_socket <= 8192 or not 0 <= count <= 1024:
                raise self.table.error("describes too many cpus", "at most 8192")
            for number in range(count):
                first = number * per_socket
                found[number] = CpuSet.collect(range(first, first + per_socket))
        return dict(sorted(found.items()))

    def _cores(self) -> tuple[CpuSet, ...]:
        cores: set[int] = set()
        if sibling := _SIBLING.search(self.numbering):
            step, modulus = int(sibling[1]), int(sibling[2])
            if not modulus:
                raise self.table["cpu_numbering"].error(
                    "counts modulo 0", "write the number of cpus"
                )
            for cpu in self.cpus:
                ids = [(cpu + step * thread) % modulus for thread in range(self.threads)]
                cores.add((CpuSet.collect(ids) & self.cpus).mask)
        else:
            # Threads of a core are adjacent among the cpus of their node.
            for cpus in [one for one in self.node_cpus.values() if one] or self.sockets.values():
                ids = list(cpus)
                for first in range(0, len(ids), self.threads):
                    cores.add(CpuSet.collect(ids[first : first + self.threads]).mask)
        return _ordered(CpuSet(mask) for mask in cores)

    def _core_ids(self, socket_of: Mapping[int, int]) -> Mapping[int, int]:
        """The kernel's core ids: counted from 0 in each socket."""
        following: dict[int, int] = {}
        found: dict[int, int] = {}
        for core in self.cores:
            socket = socket_of[core.lowest]
            number = following.get(socket, 0)
            following[socket] = number + 1
            found.update(dict.fromkeys(core, number))
        return found

    def _die_of(self) -> Mapping[int, int]:
        found: dict[int, int] = {}
        for node in self.nodes:
            die = node["die"].integer(0)
            found.update(dict.fromkeys(self.node_cpus[node["id"].integer()], die))
        return found

    def _l3_groups(self) -> tuple[CpuSet, ...]:
        field = self.table["l3"]
        if field.is_list:
            return _ordered(_cpu_list(one) for one in field.elements())
        # Sentences there ("one per socket", "single 0-19") all say the default.
        return _ordered(self.sockets.values())

    def _caches(self, l3_groups: tuple[CpuSet, ...]) -> tuple[Cache, ...]:
        kinds: tuple[tuple[int, str, int, tuple[CpuSet, ...]], ...] = (
            (1, "Data", _L1_BYTES, self.cores),
            (1, "Instruction", _L1_BYTES, self.cores),
            (2, "Unified", _L2_BYTES, self.cores),
            (3, "Unified", _L3_BYTES, l3_groups),
        )
        return tuple(
            Cache(level=level, type=kind, cpus=cpus, id=number, size_bytes=size)
            for level, kind, size, groups in kinds
            for number, cpus in enumerate(groups)
        )

    def _numa_nodes(self) -> tuple[NumaNode, ...]:
        if not self.nodes:
            return self._nodes_without_list()
        with_cpus = NodeSet.collect(number for number, cpus in self.node_cpus.items() if cpus)
        order = [node["id"].integer() for node in self.nodes]
        rows = self._distances(len(order))
        distances = NumaDistances(order, rows)
        found: list[NumaNode] = []
        for index, node in enumerate(self.nodes):
            number = order[index]
            memory = _memory_bytes(node)
            found.append(
                NumaNode(
                    id=NumaNodeId(number),
                    cpus=self.node_cpus[number],
                    memory_bytes=memory,
                    free_bytes=memory,
                    kind=_memory_kind(node["type"]),
                    is_normal=node["normal"].boolean(True),
                    initiators=(
                        distances.nearest(NodeSet.of(number), with_cpus) if rows else NO_NODES
                    ),
                )
            )
        return tuple(sorted(found, key=lambda one: one.id))

    def _nodes_without_list(self) -> tuple[NumaNode, ...]:
        """One node with every cpu; or as many as counted, each with a part of a socket's cores."""
        memory = _memory_bytes(self.table)
        per_socket = self.table["numa_nodes"].integer(0) // max(len(self.sockets), 1)
        if per_socket < 2 and len(self.sockets) * per_socket < 2:
            return (
                NumaNode(id=NumaNodeId(0), cpus=self.cpus, memory_bytes=memory, free_bytes=memory),
            )
        self.warnings.append("nodes are not listed: cores of a socket were dealt out in order")
        found: list[NumaNode] = []
        for cpus in self.sockets.values():
            cores = [core for core in self.cores if core <= cpus]
            size = -(-len(cores) // per_socket)
            for part in range(per_socket):
                mask = 0
                for core in cores[part * size : (part + 1) * size]:
                    mask |= core.mask
                found.append(
                    NumaNode(
                        id=NumaNodeId(len(found)),
                        cpus=CpuSet(mask),
                        memory_bytes=memory,
                        free_bytes=memory,
                    )
                )
        return tuple(found)

    def _distances(self, count: int) -> tuple[tuple[int, ...], ...]:
        rows = tuple(
            tuple(one.integer() for one in row.elements())
            for row in self.table["distances"].elements()
        )
        if rows and (len(rows) != count or any(len(row) != count for row in rows)):
            raise self.table["distances"].error(
                f"is not {count} rows of {count} numbers", "one of each for every NUMA node"
            )
        return rows


def _domains(groups: Iterable[tuple[str, CpuSet]]) -> tuple[Domain, ...]:
    found = [Domain(label=label, cpus=cpus) for label, cpus in groups]
    return tuple(sorted(found, key=lambda one: one.cpus.lowest))


def _ordered(groups: Iterable[CpuSet]) -> tuple[CpuSet, ...]:
    return tuple(sorted((one for one in groups if one), key=lambda one: one.lowest))


def _cpu_list(field: Field) -> CpuSet:
    # A single id without quotes is a number in YAML.
    return _parse(field, field.scalar(""))


def _parse(field: Field, text: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except IdListError as error:
        raise field.error(str(error)) from error


def _memory_bytes(field: Field) -> int | None:
    if not field["mem_kb"].is_missing:
        return field["mem_kb"].integer() << 10
    if field["mem"].is_missing:
        return None
    size = parse_size(field["mem"].scalar())
    if size is None:
        raise field["mem"].error(f"{field['mem'].scalar()!r} is not a size", "as in '2G', '512M'")
    return size


def _memory_kind(field: Field) -> MemoryKind:
    text = field.text("DRAM")
    try:
        return MemoryKind(text.lower())
    except ValueError:
        kinds = ", ".join(kind.name for kind in MemoryKind)
        raise field.error(f"{text!r} is not a kind of memory", f"one of: {kinds}") from None
