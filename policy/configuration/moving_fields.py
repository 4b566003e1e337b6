"""Fields of the configuration about moves of containers that run."""

from typing import Final

from ..text.quantity import parse_nanoseconds
from .section import Section

_NANOSECONDS: Final = 1_000_000_000


class DuringExecution(Section, frozen=True, kw_only=True):
    """Moves of containers whose rules required during execution stop holding."""

    grace_period: str = "30s"
    """So long, as a Go duration, a rule does not hold before its owner is moved."""
    moves_per_minute: int = 6
    """0: nobody is moved."""

    @property
    def grace_seconds(self) -> float:
        """The grace period in seconds."""
        return parse_nanoseconds(self.grace_period) / _NANOSECONDS


class RebalanceFields(Section, frozen=True, kw_only=True):
    """Moves of containers, while they run, to where they are better placed."""

    moves_per_hour: int = 0
    """0: nobody is moved, unless somebody asks for it."""
    move_exclusive: bool = False
    """Whether those with exclusive cpus are moved, too."""
