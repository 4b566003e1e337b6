"""Candidates that the history owes: of decisions whose containers may not stay for long."""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from ....nri.dispatch.pacer import ALONE, Pacer
from ....policy.engine.snapshot import Snapshot
from ....policy.model.container import Container, ContainerId
from ....policy.model.grant import Grant
from .saved_candidates import SavedCandidates, saved_candidates

STAY_SECONDS: Final = 60.0
"""After so long, or when the daemon ends, the pools that a container was held against are written.
A daemon that is killed leaves none of the last minute."""

_AT_ONCE_MAX: Final = 16
"""Of a thousand containers that began together, as after a boot, some have theirs written every few
seconds: all of them at once would take a fifth of a second."""


class _Owed(Struct, frozen=True):
    shown_id: str
    """Of the container, as the decision's own line has it."""
    at: float
    """When it was decided, in seconds since 1970."""
    grant: Grant
    due: float
    """On the monotonic clock."""


class OwedCandidates:
    """The last decisions about containers, until their candidates are written. For one thread."""

    def __init__(
        self, stay_seconds: float = STAY_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stay_seconds = stay_seconds
        self._clock = clock
        self._owed: dict[ContainerId, _Owed] = {}
        """The longest there first."""

    def note(self, container: Container, at: float, grant: Grant) -> None:
        """Owe the candidates of a decision, and those of the one before no more."""
        self.forget(container.id)
        due = self._clock() + self._stay_seconds
        self._owed[container.id] = _Owed(container.shown_id, at, grant, due)

    def forget(self, container_id: ContainerId) -> None:
        """Owe nothing for a container: it has ended."""
        self._owed.pop(container_id, None)

    def seconds_left(self) -> float | None:
        """The seconds until some are due; None where none are owed."""
        first = next(iter(self._owed.values()), None)
        return None if first is None else max(0.0, first.due - self._clock())

    def settle(
        self, snapshot: Snapshot, pacer: Pacer = ALONE, *, is_last: bool = False
    ) -> Iterator[SavedCandidates]:
        """The candidates that are due, as the policy has them; `is_last`: all that are owed.

        A few at a time, each in O(pools x criteria).
        """
        now, owed = self._clock(), self._owed.items()
        due = tuple(owed) if is_last else tuple(islice(owed, _AT_ONCE_MAX))
        for container_id, one in pacer.among(due):
            if one.due > now and not is_last:
                return
            del self._owed[container_id]
            decision = snapshot.decisions.get(container_id)
            # Another decision by now has a line of its own, or will have.
            if (
                decision is not None
                and decision.lineup is not None
                and decision.result == one.grant
            ):
                yield saved_candidates(one.shown_id, one.at, decision.lineup)
