"""Held grants: those of containers, or of pens, with what these held before the event at work."""

from collections.abc import Mapping

from ..model.container import ContainerId
from ..model.grant import Grant


class HeldGrants(dict[ContainerId, Grant]):
    """Grants by id that know which others there were before: of those dropped, or `exchanged`.

    A grant of somebody new costs nothing for that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.earlier: dict[ContainerId, Grant] = {}
        """Grants that are others by now, or are no more; to be cleared as an event begins."""

    def before(self) -> Mapping[ContainerId, Grant]:
        """The grants from before the event, and those of whoever came with it. O(grants)."""
        return {**self, **self.earlier}

    def copy(self) -> "HeldGrants":
        """Other grants, the same at first. O(grants)."""
        found = HeldGrants()
        found.update(self)
        return found

    def exchange(self, held_as: ContainerId, grant: Grant) -> None:
        """Another grant in place of one that is held."""
        self.earlier.setdefault(held_as, self[held_as])
        self[held_as] = grant

    def drop(self, held_as: ContainerId) -> Grant | None:
        """The grant that is held no more; None where there is none."""
        grant = self.pop(held_as, None)
        if grant is not None:
            self.earlier.setdefault(held_as, grant)
        return grant
