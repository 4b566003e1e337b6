"""The project's errors, split by who must act on them."""

from typing import Final

_QUOTED_MAX: Final = 80


class PinfoldError(Exception):
    """An error that a person has to put right; the text reads `where: what — how to fix`."""


class TopologyError(PinfoldError):
    """A machine, or a description of one, cannot be read."""


def quoted(text: str) -> str:
    """A text in quotes for a message, of which strangers' texts must not make a page.

    >>> quoted("lots"), quoted("x" * 999) == repr("x" * 80 + "...")
    ("'lots'", True)
    """
    return repr(text if len(text) <= _QUOTED_MAX else text[:_QUOTED_MAX] + "...")


def os_reason(error: OSError) -> str:
    """The reason of a failure as the system says it, in the letters of a message."""
    return (error.strerror or str(error)).lower()
