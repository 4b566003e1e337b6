"""The deferred part of the start: it waits until the runtime has its first answer."""

from collections.abc import Callable
from typing import Final

from ...nri.dispatch.report import Happening, Synchronized
from .timers import Timers

WAIT_SECONDS: Final = 1.0
"""No runtime may be there: then the work is done after so long."""


class DeferredStart:
    """A report that has work done once a runtime was told about all that runs, or after a while."""

    takes = (Synchronized,)

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiting: dict[str, Callable[[], None]] = {}

    def __call__(self, happening: Happening) -> None:
        """Have all that waits done now."""
        while self._waiting:
            name, work = self._waiting.popitem()
            self._timers.cancel(name)
            self._timers.once(name, 0, work)

    def add(self, name: str, work: Callable[[], None]) -> None:
        """Have this done then, by a timer; to be called before there is a runtime."""
        self._waiting[name] = work
        self._timers.once(name, WAIT_SECONDS, work)
