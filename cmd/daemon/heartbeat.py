"""The heartbeat systemd's watchdog waits for: it goes on for as long as the policy answers."""

import threading
import time
from collections.abc import Callable


class Heartbeat:
    """Asks the policy again and again, in a thread of its own, and tells systemd when it answered.

    A thread of its own: whatever else the daemon is at, such as a reload that lasts, a policy that
    answers is a living one.
    """

    def __init__(
        self,
        ask: Callable[[float], object],
        tell: Callable[[], None],
        watchdog_seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """`ask`: has the policy answer within seconds, or raises `TimeoutError`.

        `tell`: says that it did; must not block. `watchdog_seconds`: without being told for so
        long, systemd kills the daemon. `wait`: sleeps, and returns whether to end.
        """
        self._ask = ask
        self._tell = tell
        # A policy that needs half of the time for its answer still leaves a quarter to spare.
        self._period_seconds = watchdog_seconds / 4
        self._patience_seconds = watchdog_seconds / 2
        self._clock = clock
        self._is_stopping = threading.Event()
        self._wait = wait or self._is_stopping.wait
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self.run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; an answer that is waited for is waited for."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()

    def run(self) -> None:
        """Beat until the end, every period counted from the beginning of the last beat."""
        due = self._clock() + self._period_seconds
        while not self._wait(max(0.0, due - self._clock())):
            due = self._clock() + self._period_seconds
            try:
                self._ask(self._patience_seconds)
            except TimeoutError:
                continue
            self._tell()
