"""Decisions as data: what a container got or why not, every candidate, and who else changes."""

import enum
from dataclasses import dataclass, field

from ...topology.sets.cpuset import NO_CPUS, NO_NODES, CpuSet, NodeSet
from ..configuration.config import SchedulingClass
from ..placing.lineup import Lineup
from ..placing.rank import Dropped, Rank
from ..pools.pool_tree import PoolId
from ..text.errors import Problem
from ..tuning.resource_class import NO_CLASSES, ResourceClasses
from .container import ContainerId
from .request import CpuType


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """What the kernel is told about one container; None leaves that alone.

    Cpu shares are left as the kubelet set them: they are the request, and all that tells of it
    after a restart.
    """

    cpus: CpuSet | None = None
    mems: NodeSet | None = None

    def differs_from(self, before: "Pinning") -> bool:
        """Whether the kernel has to be told anything where it was told `before`."""
        return self.cpus not in (None, before.cpus) or self.mems not in (None, before.mems)


class GrantKind(enum.Enum):
    """Which cpus a grant is of."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    MIXED = "mixed"
    """Exclusive ones, isolated or not, and a share of sharable ones."""
    ISOLATED = "isolated"
    RESERVED = "reserved"
    PRESERVED = "preserved"
    """Whatever cpus the container has: they are not touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a container holds. The shared part runs on its pool's sharable cpus of the moment."""

    container_id: ContainerId
    pool_id: PoolId
    cpu_type: CpuType = CpuType.NORMAL
    exclusive: CpuSet = NO_CPUS
    isolated: CpuSet = NO_CPUS
    """The kernel-isolated ones among `exclusive`."""
    grown: tuple[CpuSet, ...] = ()
    """The parts of `exclusive` that resizes added, oldest first; they are given up first."""
    shared_milli: int = 0
    """The share it was granted of the sharable (or reserved) cpus; 0 with no exclusive cpu is a
    zero-request container, which still runs on the sharable cpus."""
    memory: NodeSet = NO_NODES
    memory_bytes: int = 0
    preserve_memory: bool = False
    """Its memory is accounted and never touched."""
    hide_hyperthreads: bool = False
    is_strict: bool = False
    """It has to stay near its hints, so no wider pool will do."""

    @property
    def has_shared_part(self) -> bool:
        """Whether it runs on sharable cpus, alone or beside its exclusive ones."""
        return self.cpu_type is CpuType.NORMAL and (self.shared_milli > 0 or not self.exclusive)

    @property
    def kind(self) -> GrantKind:
        """Which cpus it is of."""
        if self.cpu_type is not CpuType.NORMAL:
            is_reserved = self.cpu_type is CpuType.RESERVED
            return GrantKind.RESERVED if is_reserved else GrantKind.PRESERVED
        if not self.exclusive:
            return GrantKind.SHARED
        if self.has_shared_part:
            return GrantKind.MIXED
        return GrantKind.ISOLATED if self.isolated else GrantKind.EXCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a container got nothing."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A container whose pinning differs from what it was, and both values."""

    container_id: ContainerId
    before: Pinning
    after: Pinning


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer for one container and its whole reason.

    `lineup` is None where no choice was made (reserved and preserved containers, re-adoption,
    refusal before any pool was looked at). `decided_by` is the first criterion in which the winner
    differs from the runner-up. Both stay with a container that is adopted as it was.
    """

    container_id: ContainerId
    result: Grant | Refusal
    pool: str = ""
    pinning: Pinning = field(default_factory=Pinning)
    scheduling: SchedulingClass | None = None
    """How the processes of a new container are scheduled; None leaves that to the runtime."""
    classes: ResourceClasses = NO_CLASSES
    """The classes the runtime puts a new container in."""
    cold_start_ns: int = 0
    """How long after its start its memory is to be widened (`Engine.end_cold_start`); 0: never."""
    degraded: str = ""
    """What a container that runs already should have and could not get; empty where it has all."""
    fault: str = ""
    """Our own fault for which a running container is left as it is; empty for all others."""
    lineup: Lineup | None = None
    decided_by: str = ""
    changes: tuple[Change, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def candidates(self) -> tuple[Rank | Dropped, ...]:
        """By pool id the rank of each, or why it was dropped; see `Lineup.candidates`."""
        return self.lineup.candidates() if self.lineup else ()
