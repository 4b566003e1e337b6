"""Timers of the daemon: work that is due once or again and again, all of it in one thread."""

import threading
import time
from collections.abc import Callable

from msgspec import Struct


class _Entry(Struct, frozen=True, kw_only=True):
    due: float
    period_seconds: float | None
    work: Callable[[], None]


class Timers:
    """Timers by name; they may be set and cancelled from any thread.

    Work that raises is told to `crashed` with its name, and the rest goes on.
    """

    def __init__(
        self, crashed: Callable[[str, Exception], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock`: seconds that never go back."""
        self._crashed = crashed
        self._clock = clock
        self._condition = threading.Condition()
        self._entries: dict[str, _Entry] = {}
        self._is_changed = False
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def every(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        """Do this again and again, first after one period."""
        self._put(name, _Entry(due=self._clock() + seconds, period_seconds=seconds, work=work))

    def once(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        """Do this after so long. Where an entry of this name waits already, that one stays."""
        self._put(name, _Entry(due=self._clock() + seconds, period_seconds=None, work=work))

    def cancel(self, name: str) -> None:
        """Take an entry out. Unknown names change nothing."""
        with self._condition:
            self._entries.pop(name, None)

    def work_off(self) -> float | None:
        """Do all that is due, the longest due first; returns the seconds until there is more."""
        while True:
            now = self._clock()
            with self._condition:
                if not self._entries or self._is_stopping:
                    return None
                name, entry = min(self._entries.items(), key=lambda item: item[1].due)
                if entry.due > now:
                    return entry.due - now
                del self._entries[name]
                if entry.period_seconds is not None:
                    # From now, not from when it was due: a machine that slept need not catch up.
                    self._entries[name] = _Entry(
                        due=now + entry.period_seconds,
                        period_seconds=entry.period_seconds,
                        work=entry.work,
                    )
            try:
                entry.work()
            except Exception as error:
                self._crashed(name, error)

    def start(self) -> None:
        """Begin to work off the entries."""
        self._thread = threading.Thread(target=self._run, name="timers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being done and do nothing more."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _put(self, name: str, entry: _Entry) -> None:
        with self._condition:
            self._entries.setdefault(name, entry)
            self._is_changed = True
            self._condition.notify_all()

    def _run(self) -> None:
        while True:
            pause = self.work_off()
            with self._condition:
                self._condition.wait_for(lambda: self._is_changed or self._is_stopping, pause)
                self._is_changed = False
                if self._is_stopping:
                    return
