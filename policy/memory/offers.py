"""Requests for memory, and the offers that answer them, as values."""

import enum
from collections.abc import Mapping

from msgspec import Struct, field

from ...topology.model.machine import MemoryKind
from ...topology.sets.base_errors import PinfoldError
from ...topology.sets.cpuset import NodeSet
from ..model.container import ContainerId
from ..model.grant import Refusal


class StaleOfferError(PinfoldError):
    """An offer is taken after memory has been granted or released since it was made."""


class MemoryPriority(enum.IntEnum):
    """Priorities for keeping a memory zone when memory is short: the lowest is moved first."""

    BEST_EFFORT = 0
    BURSTABLE = 1024
    GUARANTEED = 16384
    PRESERVED = 32766
    """The container's memory set is not touched; only its accounting can move."""
    RESERVATION = 32767
    """Never moved."""


# In no cycle: the garbage collector need not go through it.
class MemoryRequest(Struct, frozen=True, kw_only=True, gc=False):
    """The memory one container asks for.

    >>> MemoryRequest(container_id=ContainerId("c0"), affinity=NodeSet.of(0)).size_bytes
    0
    """

    container_id: ContainerId
    affinity: NodeSet
    """Nodes to be near to, usually those of a pool."""
    size_bytes: int = 0
    limit_bytes: int = 0
    """The most it can use; 0 where it has no limit. Nothing is accounted of it."""
    types: frozenset[MemoryKind] = frozenset()
    """Kinds of memory wanted; empty: those of `affinity`. Kinds the machine lacks are ignored."""
    priority: MemoryPriority = MemoryPriority.BEST_EFFORT
    is_strict: bool = False
    """Whether it must have all of `types` and never anything else."""
    keeps_near: bool = False
    """Whether rather several others move than that it gets a wider zone to begin with."""
    is_spread: bool = False
    """Whether it is to have all nodes of its kinds, not only the nearest."""
    may_use_reserved: bool = False
    """Whether it may have memory of the nodes that are reserved."""
    hugepage_bytes: Mapping[int, int] = field(default_factory=dict[int, int])
    """Bytes wanted in huge pages, by page size in bytes. Not part of `size_bytes`."""


class Offer(Struct, frozen=True, kw_only=True):
    """Zones that a ledger would give. It costs nothing when it is not taken.

    It can be committed until memory is granted or released otherwise (`version`).
    """

    request: MemoryRequest | None
    """None for an offer that only moves containers."""
    zone: NodeSet
    """What the request gets; empty where there is no request."""
    moves: Mapping[ContainerId, NodeSet] = field(default_factory=dict[ContainerId, NodeSet])
    """The new zones of other containers."""
    replaces: ContainerId | None = None
    """The container whose memory is released by the commit."""
    version: int


def no_pages(request: MemoryRequest) -> Refusal:
    """The refusal for want of huge pages."""
    return Refusal(
        reason=f"memory: huge pages {dict(request.hugepage_bytes)!r} (bytes by page size) are not"
        f" free near nodes {request.affinity} — set aside more huge pages"
    )


def holds_none(container_id: ContainerId) -> Refusal:
    """The refusal of a container that must hold memory for what is asked, and is not known."""
    return Refusal(reason=f"memory: container {container_id!r} holds no memory — create it first")
