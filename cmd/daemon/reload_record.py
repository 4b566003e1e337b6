"""The record of the last reading of the configuration, for whoever asks whether it went well."""

from msgspec import Struct


class ReloadRecord(Struct, frozen=True):
    """The last reading of the configuration, and the last one without a fault."""

    is_good: bool
    good_at: float
    """In seconds since 1970; 0 where every one had a fault."""
    fault: str = ""
    """The first fault of the last reading; empty where it had none."""
