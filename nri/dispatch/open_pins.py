"""Pinnings of containers that are not at rest, found by what is to be done about them next."""

from collections.abc import Iterable, Iterator

from ...policy.model.container import ContainerId
from .pin_state import PinState, Stage


class OpenPins:
    """Entries by their stage, those at rest left out; an answer must not go through all there are.

    The stage of an entry is changed by `move` alone.
    """

    def __init__(self) -> None:
        self._by_stage: dict[Stage, dict[ContainerId, PinState]] = {stage: {} for stage in Stage}

    def move(self, container_id: ContainerId, entry: PinState, stage: Stage) -> None:
        """The entry of a container is at this stage from now on, the last of those there. O(1)."""
        self._by_stage[entry.stage].pop(container_id, None)
        entry.stage = stage
        if stage is not Stage.REST:
            self._by_stage[stage][container_id] = entry

    def at(self, stage: Stage) -> Iterable[tuple[ContainerId, PinState]]:
        """Entries at a stage with their containers, in the order in which they came there."""
        return self._by_stage[stage].items()

    def entries(self, stage: Stage) -> Iterable[PinState]:
        """Entries at a stage, without their containers."""
        return self._by_stage[stage].values()

    def all(self) -> Iterator[tuple[ContainerId, PinState]]:
        """Entries at any stage but rest."""
        for found in self._by_stage.values():
            yield from found.items()
