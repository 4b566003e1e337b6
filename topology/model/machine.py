"""The immutable result of discovery: every cpu, domain, memory node and device of one machine.

Levels are computed sets and need not nest: with sub-NUMA clustering one L3 group spans several NUMA
nodes, elsewhere one NUMA node has several L3 groups; NUMA nodes may overlap or cut across sockets.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NewType

from ..sets.cpuset import NO_CPUS, NO_NODES, CpuSet, NodeSet
from .numa_distances import NumaDistances

NumaNodeId = NewType("NumaNodeId", int)
SocketId = NewType("SocketId", int)


class Level(enum.Enum):
    """The levels of the machine at which containers can be close or far, widest first."""

    SYSTEM = "system"
    SOCKET = "socket"
    DIE = "die"
    NUMA = "numa"
    L3 = "l3"
    CLUSTER = "cluster"
    CORE = "core"

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


class CoreKind(enum.Enum):
    """Performance or efficient cores of a hybrid machine; all are performance elsewhere."""

    PERFORMANCE = "performance"
    EFFICIENT = "efficient"


class MemoryKind(enum.Enum):
    """The kind of memory of a memory node."""

    DRAM = "dram"
    PMEM = "pmem"
    HBM = "hbm"
    CXL = "cxl"

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """One online hardware thread and what the kernel says of it."""

    id: int
    socket: SocketId
    """Tells sockets apart: the kernel's id, or a position where its ids repeat or are unknown."""
    die: int = 0
    """Tells the dies of a socket apart."""
    cluster: int = -1
    """Tells the clusters of a die apart; -1 where the kernel knows none."""
    core: int = 0
    """The kernel's core_id: a label that repeats between sockets and dies, never a key."""
    kind: CoreKind = CoreKind.PERFORMANCE
    base_khz: int | None = None
    min_khz: int | None = None
    max_khz: int | None = None
    epp: str | None = None
    """Energy performance preference: performance, balance_performance, balance_power, power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """One cache object: the online cpus that share it. `level` 1 to 4; size 0 if not known."""

    level: int
    type: str
    """Data, Instruction or Unified."""
    cpus: CpuSet
    id: int | None = None
    """The kernel's number of it; nothing asks for those of caches of level 1 and 2."""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A group of online cpus at a level; `label` is unique in it: "1", "0/1", "0/1/12".

    It is made of the ids in `Cpu`: socket, socket/die, socket/die/cluster.
    """

    label: str
    cpus: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """A NUMA node. It may have no cpu, no memory, or neither."""

    id: NumaNodeId
    cpus: CpuSet = NO_CPUS
    memory_bytes: int | None = None
    """MemTotal; None where the kernel does not say."""
    free_bytes: int | None = None
    """MemFree at discovery."""
    kind: MemoryKind = MemoryKind.DRAM
    is_normal: bool = True
    """False for movable-only memory, where the kernel cannot put its own pages."""
    initiators: NodeSet = NO_NODES
    """Nodes with cpus (or other initiators) with the best access (access class 0, else 1)."""
    hugepages: Mapping[int, int] = field(default_factory=dict[int, int])
    """Number of huge pages by page size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IoDevice:
    """A PCI, block or network device and the cpus near it (empty where the kernel does not say)."""

    path: str
    """Below the sysfs root: "devices/pci0000:00/0000:00:02.0"."""
    kind: str
    """pci, block or net."""
    name: str
    numa_node: NumaNodeId | None = None
    cpus: CpuSet = NO_CPUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """The make of a machine's processors."""

    vendor: str
    """As the processor calls its maker: GenuineIntel, AuthenticAMD."""
    name: str
    """The model's name, as its maker writes it."""
    flags: tuple[str, ...] = ()
    """What it can do, sorted: the kernel's words."""


SPEED_SELECT_DEVICE: Final = "/dev/isst_interface"
"""The path of the device that tells of Speed Select on the machine this runs on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSelect:
    """One power domain (punit) of a socket, and the state of Intel Speed Select in it.

    Older parts have one for the whole socket. `supports_…` says that a feature could be enabled,
    `has_…` that it is. Source: Documentation/admin-guide/pm/intel-speed-select.rst.
    """

    socket: SocketId
    domain: int = 0
    """The number of the power domain in its socket; there may be gaps."""
    cpus: CpuSet
    """The online cpus of the domain."""
    supports_turbo_frequency: bool = False
    """SST-TF."""
    supports_core_power: bool = False
    """SST-CP."""
    has_turbo_frequency: bool = False
    has_core_power: bool = False
    clos_count: int = 4
    clos_order: tuple[int, ...] = ()
    """Classes of service, the preferred one first; none unless their priority is ordered."""
    clos_of: Mapping[int, int] = field(default_factory=dict[int, int])
    """Class of service by cpu id; a cpu whose class could not be read is missing."""
    clos_khz: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Lowest and highest frequency in kHz by class of service."""
    base_frequency_cpus: CpuSet = NO_CPUS
    """The high-priority cpus of SST-BF; none where it is not enabled."""
    high_priority_cpus: int = 0
    """How many cores SST-TF guarantees its highest turbo, in its smallest bucket; 0 is unknown.

    So many cpus have it wherever they are, and more where they share cores.
    """

    @property
    def label(self) -> str:
        """The name of the power domain: "0/1", its socket and its number there."""
        return f"{self.socket}/{self.domain}"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine as discovered; groups of cpus hold online cpus only.

    Groups (`sockets`, `dies`, `clusters`, `cores`, `l2_groups`, `l3_groups`) are sorted by lowest
    cpu; `numa_nodes` by id; row and column i of `distances` belong to `numa_nodes[i]` (no rows
    where the kernel has none).
    """

    online: CpuSet
    present: CpuSet
    possible: CpuSet
    isolated: CpuSet = NO_CPUS
    """The kernel's isolcpus, online ones only."""
    cpus: Mapping[int, Cpu]
    """By cpu id, ascending; online cpus only."""
    sockets: tuple[Domain, ...]
    dies: tuple[Domain, ...]
    """Labels "socket/die". One die per socket where the kernel shows none."""
    clusters: tuple[Domain, ...] = ()
    """From cluster_cpus_list; empty where the kernel has no cluster files."""
    cores: tuple[CpuSet, ...]
    caches: tuple[Cache, ...] = ()
    l2_groups: tuple[CpuSet, ...] = ()
    l3_groups: tuple[CpuSet, ...] = ()
    numa_nodes: tuple[NumaNode, ...]
    distances: tuple[tuple[int, ...], ...] = ()
    devices: tuple[IoDevice, ...] = ()
    speed_select: tuple[SpeedSelect, ...] = ()
    """Power domains by socket and number; empty without Speed Select, or where it is not read."""
    cpuinfo: str = ""
    """The first cpu's paragraph of /proc/cpuinfo; see `sysfs.processor`."""
    warnings: tuple[str, ...] = ()
    spec: str = field(default="", compare=False)
    """The line that a made-up machine was made of; empty for one that was read."""

    @property
    def offline(self) -> CpuSet:
        """Cpus that are there but not online."""
        return self.present - self.online

    @cached_property
    def threads_per_core_max(self) -> int:
        """The largest number of online threads of a core."""
        return max((len(core) for core in self.cores), default=1)

    @cached_property
    def node_by_id(self) -> Mapping[int, NumaNode]:
        """NUMA nodes by id."""
        return {node.id: node for node in self.numa_nodes}

    @cached_property
    def core_of(self) -> Mapping[int, CpuSet]:
        """The online threads of the core of each online cpu."""
        return {cpu: core for core in self.cores for cpu in core}

    @cached_property
    def l3_ids(self) -> Mapping[CpuSet, int | None]:
        """The kernel's numbers of the caches of level 3, by the cpus that share them."""
        return {cache.cpus: cache.id for cache in self.caches if cache.level == 3}

    @cached_property
    def is_hybrid(self) -> bool:
        """Whether the machine has cores of both kinds."""
        return len({cpu.kind for cpu in self.cpus.values()}) > 1

    @cached_property
    def numa_distances(self) -> NumaDistances:
        """The distances of the NUMA nodes by their ids."""
        return NumaDistances([node.id for node in self.numa_nodes], self.distances)

    @cached_property
    def nodes_with_cpus(self) -> NodeSet:
        """The NUMA nodes that have online cpus."""
        return NodeSet.collect(node.id for node in self.numa_nodes if node.cpus)

    @cached_property
    def nodes_with_memory(self) -> NodeSet:
        """The NUMA nodes that have memory, be it not known how much; all where none has any."""
        nodes = self.numa_nodes
        return NodeSet.collect(n.id for n in nodes if n.memory_bytes != 0 or not self.shows_memory)

    @cached_property
    def shows_memory(self) -> bool:
        """Whether any NUMA node has memory, be it not known how much.

        A kernel runs in some: where none shows, as in a sandbox's /sys on paper, nothing is known.
        """
        return any(node.memory_bytes != 0 for node in self.numa_nodes)
