"""Moves that a container is asked to make, and the reasons that their decisions give."""

from typing import Final, NamedTuple

from ...model.container import ContainerId
from ...model.grant import PoolId
from ...model.move_purpose import MovePurpose

MENDED: Final = "mended"
"""What decides where a container goes whose unmet rules a move mends."""
REPLACED: Final = "replaced"
"""What decides where a container goes whose rules had stopped to hold."""


class AskedMove(NamedTuple):
    """A move of a container to where its rules hold, as it is asked for."""

    pool_id: PoolId | None = None
    """The pool to go to; None for any."""
    purpose: MovePurpose | None = None
    """What a plan moves it for; None where its rules stopped to hold."""
    awaited: tuple[ContainerId, ...] = ()
    """Containers that its rules want where it goes, and that come after it."""

    @property
    def decided_by(self) -> str:
        """The reason of the move, for its decision: a mended rule, unless by moves after it."""
        if self.purpose is None:
            return REPLACED
        return self.purpose.value if self.purpose is MovePurpose.ASIDE else MENDED


ANYWHERE: Final = AskedMove()
"""Wherever more of its rules hold, by itself."""
