"""An event that others set at the worst moment: while whoever waited for it clears it."""

import threading
from collections.abc import Callable

SECONDS = 10.0


class OvertakenEvent(threading.Event):
    """Has something done in another thread, once, just before it is cleared first.

    What is done sets the event, and may wait for the thread that clears it; `is_over` tells its
    end.
    """

    def __init__(self, meddle: Callable[[], None]) -> None:
        super().__init__()
        self.is_over = threading.Event()
        self._meddle: Callable[[], None] | None = meddle
        self._is_set_anew = threading.Event()

    def set(self) -> None:
        super().set()
        self._is_set_anew.set()

    def clear(self) -> None:
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            self._is_set_anew.clear()
            threading.Thread(target=self._run, args=(meddle,), daemon=True).start()
            assert self._is_set_anew.wait(SECONDS)
        super().clear()

    def _run(self, meddle: Callable[[], None]) -> None:
        meddle()
        self.is_over.set()
