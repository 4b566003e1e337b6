"""Bookings: grants that fit, with their memory and the grants that make room for them."""

from dataclasses import dataclass

from ..memory.offers import Offer
from ..model.grant import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """A grant that fits, not yet in the books."""

    grant: Grant
    offer: Offer | None = None
    """The memory it needs; None where its memory is not accounted."""
    lifted: tuple[Grant, ...] = ()
    """Shared containers that move to a wider pool to make room."""
