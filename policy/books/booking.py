"""Bookings: grants that fit, with their memory and the grants that make room for them."""

from msgspec import Struct

from ..memory.offers import Offer
from ..model.grant import Grant


class Booking(Struct, frozen=True, kw_only=True):
    """A grant that fits, not yet in the books."""

    grant: Grant
    offer: Offer | None = None
    """The memory it needs; None where its memory is not accounted."""
    lifted: tuple[Grant, ...] = ()
    """Shared containers that move to a wider pool to make room."""
