"""Reports of a daemon: who takes note of its happenings, and keeps, counts or tells them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..nri.dispatch.report import Report
from .control.decisions.decision_journal import DecisionJournal
from .control.history.history_keeper import HistoryKeeper
from .daemon.daemon import Daemon
from .daemon.garbage_collection import LOOK_SECONDS, GarbageCollector
from .kernel.tuner import Tuner
from .metrics.event_counts import EventCounts
from .report.trace_report import TraceReport
from .state.state_keeper import StateKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonReports:
    """The reports of one daemon, some of which work in a thread of their own."""

    keeper: StateKeeper | None
    history: HistoryKeeper | None
    tuner: Tuner | None
    """None where this is not the machine itself."""
    traces: TraceReport
    garbage: GarbageCollector = field(default_factory=GarbageCollector)
    journal: DecisionJournal = field(default_factory=DecisionJournal)
    counts: EventCounts = field(default_factory=EventCounts)

    @classmethod
    def of(cls, folder: Path | None, tuner: Tuner | None, log: logging.Logger) -> DaemonReports:
        """The reports of a daemon that is not there yet."""
        return cls(
            keeper=None if folder is None else StateKeeper(folder, log),
            history=None if folder is None else HistoryKeeper(folder, log),
            tuner=tuner,
            traces=TraceReport(log),
        )

    def __iter__(self) -> Iterator[Report]:
        """Each of them that there is."""
        last = (self.keeper, self.history, self.tuner, self.traces)
        yield from (self.garbage, self.journal, self.counts)
        yield from (one for one in last if one is not None)

    def begin(self, daemon: Daemon) -> None:
        """Have the daemon know what an earlier one left, and keep what this one does."""
        if self.keeper is not None:
            advice = self.keeper.recall(daemon.engine.config)
            daemon.front.events.advice = advice
            self.counts.recoveries["restored" if advice else "empty"] += 1
            daemon.state_fault = self.keeper.fault
        if self.history is not None:
            daemon.history_fault = self.history.fault
        for one in (self.keeper, self.history, self.tuner):
            if one is not None:
                one.start(daemon.front)

    def start(self, daemon: Daemon) -> None:
        """Have garbage collected between events, and traces told once the runtime was served."""
        daemon.timers.every("garbage", LOOK_SECONDS, self.garbage.look)
        daemon.deferred_start.add("traces at the start", lambda: self.follow(daemon))
        self.garbage.start()

    def follow(self, daemon: Daemon) -> None:
        """Do as the configuration says that the daemon has by now."""
        self.traces.follow(daemon.engine.config.instrumentation)

    def stop_keeping(self, daemon: Daemon) -> None:
        """Write what happened last; needed before the daemon's policy ends."""
        with suppress(TimeoutError):
            # Of the last events nobody was told yet where the runtime goes on calling.
            daemon.front.owner.ask("what is left", lambda: None)
        for one in (self.keeper, self.history, self.tuner):
            if one is not None:
                one.stop()

    def end_keeping(self, daemon: Daemon) -> None:
        """Write that nothing more happens; only once the daemon has left its runtime."""
        if self.keeper is not None:
            self.keeper.seal(daemon.front)
