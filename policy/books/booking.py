"""Bookings: grants that fit, with their memory and the grants that make room for them."""

from msgspec import Struct

from ...topology.sets.cpuset import NO_NODES, CpuSet
from ..memory.offers import Offer
from ..model.grant import Grant, PoolId
from ..model.request import Request


class Booking(Struct, frozen=True, kw_only=True):
    """A grant that fits, not yet in the books."""

    grant: Grant
    offer: Offer | None = None
    """The memory it needs; None where its memory is not accounted."""
    lifted: tuple[Grant, ...] = ()
    """Shared containers that move to a wider pool to make room."""


def grant_of(
    request: Request,
    pool_id: PoolId,
    exclusive: CpuSet,
    isolated: CpuSet,
    offer: Offer | None,
) -> Grant:
    """The grant of these cpus, and of what memory is offered, for a request."""
    return Grant(
        container_id=request.container_id,
        pool_id=pool_id,
        cpu_type=request.cpu_type,
        exclusive=exclusive,
        isolated=isolated,
        shared_milli=request.shared_milli,
        memory=NO_NODES if offer is None else offer.zone,
        memory_bytes=request.memory_bytes,
        preserve_memory=request.preserve_memory,
        hide_hyperthreads=request.hide_hyperthreads,
        is_strict=request.is_strict,
        idle_level=request.idle_level,
    )
