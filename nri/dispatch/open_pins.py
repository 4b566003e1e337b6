"""Pinnings of containers that are not at rest, found by what is to be done about them next."""

import math
from collections.abc import Iterable, Mapping

from ...policy.model.container import ContainerId
from .pin_state import PinState, Stage


class OpenPins:
    """Entries by their stage, those at rest left out; an answer must not go through all there are.

    The stage of an entry is changed by `move` alone.
    """

    def __init__(self) -> None:
        self._by_stage: dict[Stage, dict[ContainerId, PinState]] = {stage: {} for stage in Stage}
        self._unseen: Mapping[ContainerId, PinState] = {}
        self._unseen_due = -math.inf

    def move(
        self, entries: Mapping[ContainerId, PinState], stage: Stage, due: float = math.inf
    ) -> None:
        """Entries are at this stage from now on, the last of those there. O(entries).

        `due`: the time of the next thing to be done; never, where that is up to somebody else.
        """
        by_stage = self._by_stage
        for container_id, entry in entries.items():
            by_stage[entry.stage].pop(container_id, None)
            entry.stage, entry.due, entry.is_unsent = stage, due, False
        if stage is not Stage.REST:
            by_stage[stage].update(entries)

    def expect_starts(self, entries: Mapping[ContainerId, PinState], due: float) -> None:
        """Entries of containers that do not run yet are told then, unless they start before."""
        self._unseen, self._unseen_due = entries, due
        self.move(entries, Stage.TELL, due)

    def tell_unseen(self, entries: Mapping[ContainerId, PinState], now: float) -> None:
        """Entries told just now go back to where they were if a start of theirs is expected.

        It may be under way: what the runtime was told is too late for it then. O(1) but shortly
        after starts are expected.
        """
        if now < self._unseen_due:
            kept = {
                container_id: entry
                for container_id, entry in entries.items()
                if self._unseen.get(container_id) is entry
                and not entry.is_running
                and entry.stage is not Stage.FLIGHT
            }
            self.move(kept, Stage.TELL, self._unseen_due)

    def at(self, stage: Stage) -> Iterable[tuple[ContainerId, PinState]]:
        """Entries at a stage with their containers, in the order in which they came there."""
        return self._by_stage[stage].items()

    def entries(self, stage: Stage) -> Iterable[PinState]:
        """Entries at a stage, without their containers."""
        return self._by_stage[stage].values()
