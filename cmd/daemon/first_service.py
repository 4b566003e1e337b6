"""Work that waits until the runtime has its first answer: to load it takes time from that."""

from collections.abc import Callable
from typing import Final

from ...nri.dispatch.report import Happening, Synchronized
from .timetable import Timetable

WAIT_SECONDS: Final = 1.0
"""No runtime may be there: then the work is done after so long."""


class FirstService:
    """A report that has work done once a runtime was told about all that runs, or after a while."""

    takes = (Synchronized,)

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._waiting: dict[str, Callable[[], None]] = {}

    def __call__(self, happening: Happening) -> None:
        """Have all that waits done now."""
        while self._waiting:
            name, work = self._waiting.popitem()
            self._timetable.cancel(name)
            self._timetable.once(name, 0, work)

    def afterwards(self, name: str, work: Callable[[], None]) -> None:
        """Have this done then, by the timetable; to be called before there is a runtime."""
        self._waiting[name] = work
        self._timetable.once(name, WAIT_SECONDS, work)
