"""Counts of what happened since the daemon's start, for metrics that only ever grow."""

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Final

from ...nri.dispatch.report import (
    Adjusted,
    Answered,
    Crashed,
    Decided,
    Drifted,
    Happening,
    Outcome,
    Reconfigured,
    Released,
    Synchronized,
    Unapplied,
    Updated,
)
from ...policy.model.container import ContainerId
from ...policy.model.grant import Grant
from ...topology.model.machine import Machine
from .domain_levels import DomainLevel

BUCKETS_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Upper bounds of the buckets of durations; the last one, without a bound, is not among them."""
CREATION: Final = "CreateContainer"
LATE: Final = "late"
FAULT: Final = "fault"
UNANNOUNCED: Final = "unannounced"
REFUSED: Final = "refused"
GRANTED: Final = "granted"
_NEW: Final = ("create", "adopt")
_MOVES: Final = ("move", "replace")
"""Events of a running container that is told other cpus itself, beside those that change for it."""
_UNCOUNTED_MAX: Final = 1024
"""Sets of cpus of placements whose alignment is worked out when somebody asks."""


_UNCOUNTED_ANSWERS_MAX: Final = 256
"""So many answers wait to be counted until somebody asks: each by itself takes time from whoever
gave it."""


class Durations:
    """Durations of one kind by size. Not for several threads."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        """By bucket those in it alone."""
        self.sum_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds


class EventCounts:
    """A report: call it with every happening, from any thread."""

    takes = (
        *(Answered, Decided, Released, Synchronized, Reconfigured, Adjusted, Updated),
        *(Drifted, Unapplied, Crashed),
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: deque[Answered] = deque()
        """Answers that are not counted yet."""
        self._durations: dict[tuple[str, Outcome], Durations] = {}
        self.placements: Counter[tuple[str, str]] = Counter()
        """By result and reason."""
        self.updates: Counter[str] = Counter()
        """Containers that were told other cpus or memory, by cause."""
        self.drift: Counter[str] = Counter()
        """By what was done about it."""
        self._unpinned: Counter[str] = Counter()
        self.recoveries: Counter[str] = Counter()
        """Readings of the state file, by outcome."""
        self.faults = 0
        self._alignment: Counter[tuple[str, str]] = Counter()
        self._uncounted: Counter[int] = Counter()
        """Placements by the mask of their cpus: those that share a pool have the same."""
        self._machine: Machine | None = None
        """The machine of the levels."""
        self._levels: Sequence[DomainLevel] = ()

    def __call__(self, happening: Happening) -> None:
        """Count it."""
        if isinstance(happening, Answered):  # most of what happens
            self._answers.append(happening)
            if len(self._answers) > _UNCOUNTED_ANSWERS_MAX:
                self._count_answers()
            return
        with self._lock:
            self._count(happening)

    @property
    def durations(self) -> Mapping[tuple[str, str], Durations]:
        """By event and result of calls of the runtime."""
        self._count_answers()
        # In one step: whoever gives an answer may count a kind that was not there.
        found = self._durations.copy()
        return {(method, outcome.value): one for (method, outcome), one in found.items()}

    @property
    def unpinned(self) -> Mapping[str, int]:
        """Starts without a decision in time, by cause."""
        self._count_answers()
        return self._unpinned

    def alignment(self, machine: Machine) -> Mapping[tuple[str, str], int]:
        """Placements by level and whether their cpus are in one domain of it."""
        with self._lock:
            masks, self._uncounted = self._uncounted, Counter()
            if masks and machine is not self._machine:
                self._levels, self._machine = DomainLevel.all_of(machine), machine
            found = self._alignment
            for level in self._levels if masks else ():
                for mask, count in masks.items():
                    boundary = "aligned" if level.has_together(mask) else "split"
                    found[level.name, boundary] += count
            return dict(found)

    @property
    def _is_full(self) -> bool:
        return len(self._uncounted) >= _UNCOUNTED_MAX

    def _count_answers(self) -> None:
        with self._lock:
            while self._answers:
                self._count_answer(self._answers.popleft())

    def _count_answer(self, answered: Answered) -> None:
        method, outcome = answered.method, answered.outcome
        durations = self._durations.get((method, outcome))
        if durations is None:
            durations = self._durations[method, outcome] = Durations()
        durations.add(answered.seconds)
        if method == CREATION and outcome is Outcome.LATE:
            self._unpinned[LATE] += 1
        elif method == CREATION and outcome is Outcome.CRASHED:
            self._unpinned[FAULT] += 1

    def _count(self, happening: Happening) -> None:
        match happening:
            case Decided():
                self._count_decision(happening)
            case Released(changes=changes):
                self.updates["release"] += len(changes)
            case Synchronized(updates=updates):
                self.updates["synchronize"] += updates
            case Reconfigured(updates=updates):
                self.updates["reconfigure"] += updates
            case Adjusted(cause=cause):
                self.updates[cause] += 1
            case Drifted():
                self.drift["repaired"] += 1
            case Unapplied():
                self.drift["failed"] += 1
            case Crashed():
                self.faults += 1
            case _:
                pass

    def _count_decision(self, decided: Decided) -> None:
        decision = decided.decision
        self.updates[decided.event] += len(_told(decided))
        if decided.event == "adopt":
            self._unpinned[UNANNOUNCED] += 1
        if decided.event not in _NEW:
            return
        if not isinstance(decision.result, Grant):
            # Why exactly is in words that are different each time.
            reason = "annotations" if decision.lineup is None else "no pool"
            self.placements[REFUSED, reason] += 1
            return
        self.placements[GRANTED, decision.decided_by] += 1
        cpus = decision.pinning.cpus
        if cpus is not None and (cpus.mask in self._uncounted or not self._is_full):
            self._uncounted[cpus.mask] += 1


def _told(decided: Decided) -> set[ContainerId]:
    """The containers that were told other cpus or memory by a decision."""
    told = {one.container_id for one in decided.decision.changes}
    return told | {decided.container.id} if decided.event in _MOVES else told
