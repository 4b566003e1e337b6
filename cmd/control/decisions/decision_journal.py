"""The journal of decisions: when each was made, and the refusals that nobody else remembers."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ....nri.dispatch.report import (
    Connected,
    Decided,
    Happening,
    Reconfigured,
    Released,
    Synchronized,
)
from ....policy.engine.decision import Decision
from ....policy.engine.reconfiguration import Fate
from ....policy.model.container import Container, ContainerId
from ....policy.model.grant import Grant, Refusal
from .decision_feed import DecisionFeed

REFUSALS_MAX: Final = 32
"""The last so many: a refused container is tried again and again, under new ids."""
_ENDED_MAX: Final = 256
_GONE_MAX: Final = 1024
"""Names of containers that are gone: who moved for others is told long afterwards."""


class JournalEntry(Struct, frozen=True, kw_only=True):
    """A container and the last decision about it."""

    container: Container
    decision: Decision
    at: float | None
    """In seconds since 1970; None where that is not known."""


class DecisionJournal:
    """A report: call it with every happening, from any thread.

    Bounded: an entry for each container that runs, and for a number of those that ended or were
    refused.
    """

    takes = (Decided, Released, Reconfigured, Synchronized, Connected)

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._clock = clock
        self._times: dict[ContainerId, tuple[float, Grant | Refusal]] = {}
        self._listed: set[ContainerId] = set()
        """The containers of the list that is being looked at."""
        self._ended: deque[ContainerId] = deque()
        self._moved: set[ContainerId] = set()
        """The containers that moved for others, and have not ended."""
        self._gone: dict[ContainerId, str] = {}
        """The names of those that moved for others and have ended, oldest first."""
        self._refusals: deque[JournalEntry] = deque(maxlen=REFUSALS_MAX)
        self.refused = 0
        """How many containers were refused since the start, each time that they were."""
        self.feed: Final = DecisionFeed()
        """Decisions from now on."""
        self.runtime = ""
        """The name and version of the runtime that was connected last."""

    def __call__(self, happening: Happening) -> None:
        """Note a decision, or the end of its container."""
        match happening:
            case Decided():
                self._decided(happening)
            case Released(container=container):
                self.feed.give(self._clock(), happening)
                self._keep_name(container)
                self._ended.append(container.id)
                while len(self._ended) > _ENDED_MAX:
                    self._times.pop(self._ended.popleft(), None)
            case Reconfigured(moves=moves):
                now = self._clock()
                for move in moves:
                    known = self._times.get(move.container.id)
                    if known is not None and move.fate is not Fate.STAYS:
                        self._times[move.container.id] = (now, known[1])
            case Synchronized():
                # Those that ended while nobody told.
                for container_id in self._times.keys() - self._listed - set(self._ended):
                    del self._times[container_id]
                self._moved &= self._times.keys()
                self._listed.clear()
            case Connected(runtime=runtime):
                self.runtime = runtime
            case _:
                pass

    def at(self, container_id: ContainerId) -> float | None:
        """The time of the last decision about a container, in seconds since 1970."""
        known = self._times.get(container_id)
        return None if known is None else known[0]

    def gone_paths(self) -> dict[ContainerId, str]:
        """The names of the last containers that moved for others and have ended, by id."""
        return dict(self._gone)

    @property
    def refusals(self) -> tuple[JournalEntry, ...]:
        """The last containers that were refused, the newest first."""
        return tuple(reversed(self._refusals))

    def _keep_name(self, container: Container) -> None:
        if container.id in self._moved:
            self._moved.discard(container.id)
            self._gone[container.id] = container.path
            while len(self._gone) > _GONE_MAX:
                self._gone.pop(next(iter(self._gone)), None)

    def _decided(self, happening: Decided) -> None:
        container, decision, now = happening.container, happening.decision, self._clock()
        self._moved.update([one.container_id for one in decision.changes])
        self.feed.give(now, happening)
        known = self._times.get(container.id)
        # What is listed anew after a connection broke was decided before.
        is_repetition = happening.event == "synchronize"
        if is_repetition:
            self._listed.add(container.id)
        if known is None or not (is_repetition and known[1] == decision.result):
            self._times[container.id] = (now, decision.result)
        if isinstance(decision.result, Refusal):
            lineup = decision.lineup
            packed = replace(decision, lineup=lineup.packed() if lineup else None)
            self._refusals.append(JournalEntry(container=container, decision=packed, at=now))
            self.refused += not is_repetition
