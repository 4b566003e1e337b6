"""Decisions as data: what a container got or why not, every candidate, and who else changes."""

import enum
from dataclasses import dataclass, field
from typing import NewType

from ..topology.cpuset import NO_CPUS, NO_NODES, CpuSet, NodeSet
from .container import ContainerId
from .errors import Problem
from .rank import Rank

PoolId = NewType("PoolId", int)


class CpuType(enum.Enum):
    """From which cpus a container is served."""

    NORMAL = "normal"
    RESERVED = "reserved"
    PRESERVE = "preserve"
    """Whatever cpus the container has: they are not touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """What the kernel is told about one container; None leaves that alone."""

    cpus: CpuSet | None = None
    mems: NodeSet | None = None
    cpu_shares: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a container holds. The shared part runs on its pool's sharable cpus of the moment."""

    container_id: ContainerId
    pool_id: PoolId
    cpu_type: CpuType = CpuType.NORMAL
    exclusive: CpuSet = NO_CPUS
    isolated: CpuSet = NO_CPUS
    """The kernel-isolated ones among `exclusive`."""
    shared_milli: int = 0
    """The share it was granted of the sharable (or reserved) cpus; 0 with no exclusive cpu is a
    zero-request container, which still runs on the sharable cpus."""
    memory: NodeSet = NO_NODES
    memory_bytes: int = 0
    hide_hyperthreads: bool = False

    @property
    def has_shared_part(self) -> bool:
        """Whether it runs on sharable cpus, alone or beside its exclusive ones."""
        return self.cpu_type is CpuType.NORMAL and (self.shared_milli > 0 or not self.exclusive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a container got nothing."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One pool that was looked at: its rank, or why it was dropped."""

    pool_id: PoolId
    pool: str
    rank: Rank | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A container whose pinning differs from what it was, and both values."""

    container_id: ContainerId
    before: Pinning
    after: Pinning


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer for one container and its whole reason.

    `candidates` are all pools in pool order. `decided_by` is the first criterion in which the
    winner differs from the runner-up ("only candidate" where there is none).
    """

    container_id: ContainerId
    result: Grant | Refusal
    pool: str = ""
    pinning: Pinning = field(default_factory=Pinning)
    candidates: tuple[Candidate, ...] = ()
    decided_by: str = ""
    changes: tuple[Change, ...] = ()
    problems: tuple[Problem, ...] = ()
