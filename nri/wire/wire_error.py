"""The one error of bytes that cannot be what the peer meant."""

from ...topology.sets.base_errors import PinfoldError


class WireError(PinfoldError):
    """The peer broke the framing; nothing after it can be understood, so the connection is over."""
