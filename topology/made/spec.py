"""Machines described in one line: "socket:2 numa:2 core:2 thread:2 mem:2G"."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ..model.machine import Cache, Cpu, Domain, Machine, NumaNode, NumaNodeId, SocketId
from ..sets.base_errors import TopologyError
from ..sets.cpuset import MAX_IDS, CpuSet, IdListError
from .spec_values import (
    DEVICE_KINDS,
    SpecValueError,
    made_devices,
    parse_device_nodes,
    parse_huge_pages,
    parse_size,
)

NESTED: Final = ("socket", "die", "numa", "l3", "cluster", "core", "thread")
"""Keys that count things per thing before them; their order in the text is the nesting."""

_KEYS: Final = (*NESTED, "mem", "hugepages", "isolated", "distance", *DEVICE_KINDS)
MAX_NUMA_NODES: Final = 1024
"""As many as Linux can have (NODES_SHIFT 10); a distance is kept for every two of them."""
_DEFAULT_MEMORY_BYTES: Final = 4 * 2**30
_CACHE_BYTES: Final = {1: 32 * 2**10, 2: 2**20, 3: 32 * 2**20}


class SpecError(TopologyError):
    """A line that does not describe a machine; the text names the word and its column."""


@dataclass(slots=True)
class _Spec:
    """The words of one line, read but not yet put together."""

    counts: dict[str, int] = field(default_factory=dict[str, int])
    places: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """The column and the word of each key."""
    memory_bytes: int = _DEFAULT_MEMORY_BYTES
    huge_pages: Mapping[int, int] = field(default_factory=dict[int, int])
    """Their number on each NUMA node, by page size in bytes."""
    isolated: CpuSet = field(default_factory=CpuSet)
    distance: tuple[int, int, int] = (10, 11, 21)
    devices: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """The positions of the NUMA nodes of devices, by key."""

    @property
    def set_aside_bytes(self) -> int:
        """Memory of each NUMA node that is huge pages."""
        return sum(size * count for size, count in self.huge_pages.items())


def machine_from_spec(text: str) -> Machine:
    """The machine one line describes.

    Counts nest in the order they are written. What is left out: one socket; one NUMA node and one
    L3 group per socket (per die where there are dies, for L3); one core; one thread; 4G per NUMA
    node; distances 10, 11, 21. Cpus of a core are adjacent. Raises `SpecError`.

    >>> str(machine_from_spec("socket:2 numa:2 core:2 thread:2").numa_nodes[3].cpus)
    '12-15'
    """
    spec = _read_words(text)
    _complete(spec)
    _check_sizes(spec)
    return replace(_Layout(spec).machine(), spec=text)


def _read_words(text: str) -> _Spec:
    spec, seen = _Spec(), set[str]()
    column = 0
    for word in text.split():
        column = text.index(word, column)
        key, colon, value = word.partition(":")
        if key not in _KEYS or not colon or not value:
            raise _error(column, word, *_word_fault(key, colon))
        if key in seen:
            raise _error(column, word, f"{key!r} is given twice", "keep one of them")
        seen.add(key)
        spec.places[key] = (column, word)
        _read_word(spec, key, value, column, word)
        column += len(word)
    if not seen:
        raise SpecError("machine spec: empty — write counts, as in 'socket:2 core:4 thread:2'")
    return spec


def _word_fault(key: str, colon: str) -> tuple[str, str]:
    if key in _KEYS:
        return "no value", f"write {key}:VALUE"
    close = difflib.get_close_matches(key, _KEYS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    what = f"unknown key {key!r}" if colon else "not KEY:VALUE"
    return what, f"{hint}keys are {', '.join(_KEYS)}"


def _read_word(spec: _Spec, key: str, value: str, column: int, word: str) -> None:
    match key:
        case "mem":
            size = parse_size(value)
            if size is None:
                raise _error(column, word, f"{value!r} is not a size", "write it as in 'mem:2G'")
            spec.memory_bytes = size
        case "isolated":
            try:
                spec.isolated = CpuSet.parse(value)
            except IdListError as error:
                what = f"machine spec, column {column + 1}: {word!r}: {error}"
                raise SpecError(what) from error
        case "distance":
            parts = value.split(",")
            numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
            if not len(parts) == len(numbers) == 3 or not all(10 <= one <= 255 for one in numbers):
                fix = "write self,same socket,other socket, each 10 to 255, as in 10,11,21"
                raise _error(column, word, f"{value!r} are not three distances", fix)
            spec.distance = (numbers[0], numbers[1], numbers[2])
        case "hugepages":
            try:
                spec.huge_pages = parse_huge_pages(value)
            except SpecValueError as error:
                raise _error(column, word, error.what, error.fix) from error
        case _ if key in DEVICE_KINDS:
            try:
                spec.devices[key] = parse_device_nodes(value)
            except SpecValueError as error:
                raise _error(column, word, error.what, error.fix) from error
        case _:
            if not (value.isascii() and value.isdigit() and len(value) <= 5 and int(value) >= 1):
                fix = f"write a whole number from 1 to {MAX_IDS}"
                raise _error(column, word, f"{value!r} is not a count", fix)
            _check_nesting(spec, key, column, word)
            spec.counts[key] = int(value)


def _check_nesting(spec: _Spec, key: str, column: int, word: str) -> None:
    if "thread" in spec.counts or ("core" in spec.counts and key != "thread"):
        inner = "thread" if "thread" in spec.counts else "core"
        raise _error(column, word, f"{key!r} is inside {inner!r}", f"write it before {inner}:")
    if key == "socket" and "die" in spec.counts:
        raise _error(column, word, "a socket is not part of a die", "write socket: before die:")


def _error(column: int, word: str, what: str, fix: str) -> SpecError:
    return SpecError(f"machine spec, column {column + 1}: {word!r}: {what} — {fix}")


def _complete(spec: _Spec) -> None:
    """Put the levels that were left out, with a count of one, where hardware has them."""
    order = list(spec.counts)

    def insert(key: str, after: str | None) -> None:
        if key not in order:
            order.insert(0 if after is None else order.index(after) + 1, key)

    insert("socket", None)
    insert("numa", "socket")
    insert("l3", "die" if "die" in order else "socket")
    if "core" not in order:
        order.insert(order.index("thread") if "thread" in order else len(order), "core")
    insert("thread", "core")
    spec.counts = {key: spec.counts.get(key, 1) for key in order}


def _check_sizes(spec: _Spec) -> None:
    nodes = _product(spec, "numa", MAX_NUMA_NODES, "NUMA nodes")
    cpus = _product(spec, "thread", MAX_IDS, "cpus")
    if spec.isolated.mask >> cpus:
        fix = f"cpus of this machine are 0-{cpus - 1}"
        raise _error(*spec.places["isolated"], "isolated cpus that are not there", fix)
    if spec.set_aside_bytes > spec.memory_bytes:
        fix = f"a NUMA node has {spec.memory_bytes} bytes; give it more with mem:"
        raise _error(*spec.places["hugepages"], f"pages of {spec.set_aside_bytes} bytes", fix)
    for key, places in spec.devices.items():
        if absent := [node for node in places if node >= nodes]:
            fix = f"NUMA nodes of this machine are 0-{nodes - 1}"
            raise _error(*spec.places[key], f"there is no NUMA node {absent[0]}", fix)


def _product(spec: _Spec, innermost: str, limit: int, what: str) -> int:
    """How many things of a level there are. Raises `SpecError` at the word that goes too far."""
    order = list(spec.counts)
    levels = order[: order.index(innermost) + 1]
    total = math.prod(spec.counts[key] for key in levels)
    reached = 1
    for key in levels:
        reached *= spec.counts[key]
        if reached > limit:
            raise _error(*spec.places[key], f"{total} {what} are too many", f"at most {limit}")
    return total


class _Layout:
    """Arithmetic over the counts: which cpus a level's groups hold."""

    def __init__(self, spec: _Spec) -> None:
        self._spec = spec
        self._sizes: dict[str, int] = {}
        size = 1
        for key in reversed(spec.counts):
            self._sizes[key] = size
            size *= spec.counts[key]
        self._cpus = size

    def machine(self) -> Machine:
        online = CpuSet((1 << self._cpus) - 1)
        nodes = tuple(
            NumaNode(
                id=NumaNodeId(index),
                cpus=cpus,
                memory_bytes=self._spec.memory_bytes,
                free_bytes=self._spec.memory_bytes - self._spec.set_aside_bytes,
                hugepages=self._spec.huge_pages,
            )
            for index, cpus in enumerate(self._groups("numa"))
        )
        l2 = self._groups("cluster" if self._has("cluster") else "core")
        return Machine(
            online=online,
            present=online,
            possible=online,
            isolated=self._spec.isolated,
            cpus={number: self._cpu(number) for number in range(self._cpus)},
            sockets=self._domains("socket"),
            dies=self._domains("die" if self._has("die") else "socket", "socket", "die"),
            clusters=self._domains("cluster", "socket", "die", "cluster"),
            cores=self._groups("core"),
            caches=self._caches(l2),
            l2_groups=l2,
            l3_groups=self._groups("l3"),
            numa_nodes=nodes,
            distances=self._distances(nodes),
            devices=made_devices(self._spec.devices, nodes),
        )

    def _has(self, key: str) -> bool:
        return key in self._sizes

    def _groups(self, key: str) -> tuple[CpuSet, ...]:
        size = self._sizes[key]
        block = (1 << size) - 1
        return tuple(CpuSet(block << start) for start in range(0, self._cpus, size))

    def _position(self, key: str, cpu: int, within: str = "") -> int:
        """The number of the group of a cpu, counted in the machine or in a wider group."""
        if not self._has(key):
            return 0
        start = cpu % self._sizes[within] if within else cpu
        return start // self._sizes[key]

    def _cpu(self, number: int) -> Cpu:
        return Cpu(
            id=number,
            socket=SocketId(self._position("socket", number)),
            die=self._position("die", number, "socket"),
            cluster=self._position("cluster", number) if self._has("cluster") else -1,
            core=self._position("core", number, "socket"),
        )

    def _domains(self, level: str, *labels: str) -> tuple[Domain, ...]:
        if not self._has(level):
            return ()
        found: list[Domain] = []
        for cpus in self._groups(level):
            cpu = self._cpu(cpus.lowest)
            names = {"socket": cpu.socket, "die": cpu.die, "cluster": cpu.cluster}
            label = "/".join(str(names[key]) for key in labels or (level,))
            found.append(Domain(label=label, cpus=cpus))
        return tuple(found)

    def _caches(self, l2: tuple[CpuSet, ...]) -> tuple[Cache, ...]:
        rows = (
            (1, "Data", self._groups("core")),
            (1, "Instruction", self._groups("core")),
            (2, "Unified", l2),
            (3, "Unified", self._groups("l3")),
        )
        return tuple(
            Cache(
                level=level,
                type=kind,
                cpus=cpus,
                id=index if level == 3 else None,
                size_bytes=_CACHE_BYTES[level],
            )
            for level, kind, groups in rows
            for index, cpus in enumerate(groups)
        )

    def _distances(self, nodes: tuple[NumaNode, ...]) -> tuple[tuple[int, ...], ...]:
        itself, near, far = self._spec.distance
        sockets = [self._position("socket", node.cpus.lowest) for node in nodes]
        return tuple(
            tuple(
                itself if row == column else near if sockets[row] == sockets[column] else far
                for column in range(len(nodes))
            )
            for row in range(len(nodes))
        )
