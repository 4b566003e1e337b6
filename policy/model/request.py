"""Requests: the demands of containers after classification."""

import enum
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ...topology.drawing.machine_tree import bytes_text
from ...topology.model.machine import Level, MemoryKind
from ...topology.sets.cpuset import CpuSet
from .container import ContainerId, QosClass
from .cpu_preference import BurstLevel, CpuPriority, SmtPreference
from .hint import Hint


class CpuType(enum.Enum):
    """The cpus that a container is served from."""

    NORMAL = "normal"
    RESERVED = "reserved"
    PRESERVE = "preserve"
    """Cpus that the container has from elsewhere: they are not touched."""
    PEN = "pen"
    """Cpus of a pen: a set of several containers, of one pod as a rule."""

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


class Isolation(enum.Enum):
    """Whether exclusive cpus should be kernel-isolated ones."""

    NO = "no"
    PREFERRED = "preferred"
    REQUIRED = "required"


# In no cycle: the garbage collector need not go through it.
class Request(Struct, frozen=True, kw_only=True, gc=False):
    """One container's demand for cpus and memory; a struct, as every decision makes some."""

    container_id: ContainerId
    qos: QosClass
    cpu_type: CpuType = CpuType.NORMAL
    exclusive: int = 0
    """Number of whole cpus for itself."""
    shared_milli: int = 0
    cpu_limit_milli: int | None = None
    is_unlimited: bool = False
    """Burstable without a cpu limit: it may use whatever its pool has."""
    burst_level: BurstLevel = BurstLevel.PACKAGE
    awaits_friends: bool = False
    """Containers that come later may be drawn to it."""
    isolation: Isolation = Isolation.NO
    priority: CpuPriority = CpuPriority.NONE
    smt: SmtPreference = SmtPreference.ANY
    hide_hyperthreads: bool = False
    """Only the lowest thread of each core goes into the cpuset; the others stay unused."""
    whole_cores: bool = False
    """Its own cpus must be all threads of their cores."""
    fallback: "Request | None" = None
    """What it is served with where there is no room for this; None: nothing less will do."""
    idle_level: Level | None = None
    """What it shares it may exceed by idle cpus of the domains of this level; None: it may not."""
    claimed: CpuSet | None = None
    """Cpus that it has from elsewhere, and for itself; of preserved containers."""
    class_cpus: CpuSet | None = None
    """The cpus that can run at the clocks of the class its exclusive cpus get; None without one."""
    memory_bytes: int = 0
    may_request_memory: bool = False
    """It asked for memory perhaps, for less than can be told; see `Resources`."""
    memory_limit_bytes: int | None = None
    memory_kinds: frozenset[MemoryKind] = frozenset()
    cold_start_ns: int = 0
    """How long after its start it gets DRAM too; 0 for those that start warm."""
    preserve_memory: bool = False
    interleaves_memory: bool = False
    """Its memory lies page by page on all nodes in turn."""
    hugepage_bytes: Mapping[int, int] = field(default_factory=dict[int, int])
    hints: tuple[Hint, ...] = ()
    is_strict: bool = False
    """It has hints, and is refused rather than served away from them."""
    pick_by_hints: bool = False

    @property
    def total_milli(self) -> int:
        """All the cpu it asks for."""
        return 1000 * self.exclusive + self.shared_milli

    @property
    def wishes(self) -> "tuple[Request, ...]":
        """The request and what it falls back to, in this order."""
        return (self,) if self.fallback is None else (self, *self.fallback.wishes)

    @property
    def needs_shared_cpu(self) -> bool:
        """Whether some of its time is spent on sharable cpus."""
        return self.shared_milli > 0 or not self.exclusive

    @property
    def spreads_memory(self) -> bool:
        """Whether it gets all memory nodes of its kinds instead of those near its cpus.

        Nobody limited it, so no set of nodes is known to be large enough. The kernel takes memory
        of the nearest node with room first, so that nothing is lost by it. Strict hints keep their
        container's memory near, whatever comes. To interleave is to ask for all of them.
        """
        if self.interleaves_memory:
            return not self.is_strict
        asks = self.memory_bytes > 0 or self.may_request_memory
        is_unlimited = asks and self.memory_limit_bytes is None
        return self.qos is QosClass.BURSTABLE and is_unlimited and not self.is_strict

    @property
    def wants_isolated(self) -> bool:
        """Whether kernel-isolated cpus are wanted."""
        return self.exclusive > 0 and self.isolation is not Isolation.NO

    def may_take_isolated(self, free: int) -> bool:
        """Whether isolated cpus may serve it, or have to; `free`: a mask of all that are left.

        On most machines the kernel isolates none, and wishes for them need not be looked at.
        """
        is_firm = self.isolation is Isolation.REQUIRED
        return self.wants_isolated and (is_firm or free.bit_count() >= self.exclusive)

    def as_shared(self) -> "Request":
        """The request for as much cpu, all of it from sharable cpus."""
        return replace(self, exclusive=0, shared_milli=self.total_milli)

    def as_warm(self) -> "Request":
        """The request from the beginning as it is when its cold start is over: for DRAM, too."""
        if not self.cold_start_ns:
            return self
        return replace(self, memory_kinds=self.memory_kinds | {MemoryKind.DRAM}, cold_start_ns=0)

    def describe(self) -> str:
        """The demand in a few words, as a refusal quotes it."""
        parts: list[str] = []
        if self.exclusive:
            kind = "isolated" if self.isolation is Isolation.REQUIRED else "exclusive"
            own = f"{self.exclusive} {kind} CPU{'s' if self.exclusive > 1 else ''}"
            parts.append(f"{own} in whole cores" if self.whole_cores else own)
        if self.shared_milli or not self.exclusive:
            parts.append(f"{self.shared_milli}m of shared CPU")
        if self.memory_bytes:
            parts.append(f"{bytes_text(self.memory_bytes)} of memory")
        for size, total in sorted(self.hugepage_bytes.items()):
            parts.append(f"{bytes_text(total)} in huge pages of {bytes_text(size)}")
        return ", ".join(parts)
