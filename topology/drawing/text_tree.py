"""Trees of texts: what a drawing says, before anybody draws its lines."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextTree:
    """A text and those below it, in the order in which people see them."""

    text: str
    below: tuple["TextTree", ...] = ()
