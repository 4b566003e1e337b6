"""Grants and refusals: what a container holds of which pool, or why it got nothing."""

import enum
from typing import Final, NamedTuple, NewType

from msgspec import Struct

from ...topology.model.machine import Level
from ...topology.sets.cpuset import NO_CPUS, NO_NODES, CpuSet, NodeSet
from .container import ContainerId
from .request import CpuType

PoolId = NewType("PoolId", int)
"""The index of a pool in the pools of its tree: children come before their parents."""

_NORMAL: Final = CpuType.NORMAL
"""By its name in the enum it takes five times as long to find, for hundreds of grants an event."""


class GrantKind(enum.Enum):
    """The kind of a grant, by the cpus it is of."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    MIXED = "mixed"
    """Exclusive ones, isolated or not, and a share of sharable ones."""
    ISOLATED = "isolated"
    RESERVED = "reserved"
    PRESERVED = "preserved"
    """Cpus that the container has from elsewhere: they are not touched."""


# In no cycle: the garbage collector need not go through it.
class Grant(Struct, frozen=True, kw_only=True, gc=False):
    """Cpus and memory a container holds. Its shared part runs on the pool's sharable cpus."""

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
    within: CpuSet | None = None
    """The sharable cpus of its pool that rules between containers leave to it; None: all.

    And the reserved ones on which it runs while it has none of those.
    """

    idle_level: Level | None = None
    """Its shared part may run on idle cpus, too, of the domains of this level round its pool."""
    beside: tuple[CpuSet, ...] = ()
    """Sets of shared cpus of others of each of which one must stay shared: its rules need them."""
    pen: ContainerId | None = None
    """The pen it is in: what `exclusive` has is its slice of the pen's exclusive cpus."""
    rest: CpuSet = NO_CPUS
    """The cpus of that pen that are nobody's slice: who has none shares them."""
    is_pen: bool = False
    """It is a pen itself, in which several containers have their grants."""

    @property
    def held_as(self) -> ContainerId:
        """The id under which the ledgers count what it holds: its pen's, or its own."""
        return self.pen or self.container_id

    @property
    def has_shared_part(self) -> bool:
        """Whether it runs on sharable cpus, alone or beside its exclusive ones."""
        return self.cpu_type is _NORMAL and (self.shared_milli > 0 or not self.exclusive.mask)

    @property
    def has_own_cpus_alone(self) -> bool:
        """Whether all cpus it runs on are its own."""
        return bool(self.exclusive) and not self.has_shared_part

    @property
    def can_use_idle_cpus(self) -> bool:
        """Whether idle cpus are for it, where it wants some: all its cpus are shared ones."""
        shares = self.cpu_type is _NORMAL and not self.exclusive and self.pen is None
        return shares and not self.is_strict

    @property
    def kind(self) -> GrantKind:
        """The kind of the grant, by its cpus."""
        if self.pen is not None:
            return GrantKind.EXCLUSIVE if self.exclusive else GrantKind.SHARED
        if self.cpu_type is not CpuType.NORMAL:
            is_reserved = self.cpu_type is CpuType.RESERVED
            return GrantKind.RESERVED if is_reserved else GrantKind.PRESERVED
        if not self.exclusive.mask:
            return GrantKind.SHARED
        if self.has_shared_part:
            return GrantKind.MIXED
        return GrantKind.ISOLATED if self.isolated else GrantKind.EXCLUSIVE


class Refusal(Struct, frozen=True, kw_only=True):
    """A container got nothing, for this reason."""

    reason: str
    advice: str = ""
    """Names of all who would have to leave, in words; empty where the reason has all of them."""


class Dropped(NamedTuple):
    """A pool that was no candidate: it has too little of something, or a rule is against it."""

    criterion: str
    """What was short: exclusive cpus, shared cpu, memory …"""
    wanted: str
    available: str

    def __str__(self) -> str:
        return f"{self.criterion}: wanted {self.wanted}, available {self.available}"
