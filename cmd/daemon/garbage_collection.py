"""Collects garbage between the runtime's events, so that no container waits for it.

Left alone, Python's collector runs in the middle of a decision, and now and then goes through all
that the daemon holds: tens of milliseconds on a large machine.
"""

import gc
from typing import Final

from ...nri.dispatch.report import Decided, Happening, Released, Synchronized

LOOK_SECONDS: Final = 30.0
"""Between two looks at whether this is a good moment to go through everything."""

LOOKS_MAX: Final = 20
"""After so many looks without a quiet time between two of them, any moment has to do."""

QUIET_LOOKS: Final = 10
"""So long it stays quiet before everything is gone through: there is hardly any garbage in it, and
that takes a tenth of a second on a large machine, in which nothing else happens."""

SOME_OBJECTS: Final = 2_000
"""So many new ones are worth going through them: fewer are not worth the time it takes."""

MORE_THAN_AN_EVENT: Final = 10_000
"""So many new ones are put aside unseen: to go through them takes as long as a third of the event
that made them, which was long already. A quiet time comes."""

EVENTS_TOGETHER: Final = 8
"""What so many events left is put aside unseen, if it is little: hardly any of it is garbage.

Python counts what was made less what was freed, so where containers come and go as many as they
are, the new ones are many before they seem to be. To go through those took up to 15 ms.
"""

ASIDE_MAX: Final = 100_000
"""So many objects, new ones or put aside, are gone through at the next look, quiet or not."""


class GarbageCollector:
    """The garbage collector of this process, from `start` to `stop`.

    A report: what an event made is gone through once its answer is on its way, and what stays of it
    not again before there is nothing else to do. Decisions are freed by
    counting references alone; this is for cycles, which errors and libraries make.
    """

    takes = (Decided, Released, Synchronized)

    def __init__(self) -> None:
        self._events = 0
        self._events_seen = 0
        self._looks = 0
        self._quiet_looks = 0
        self._aside = 0
        """Objects put aside since everything was gone through, less those that were freed."""

    def start(self) -> None:
        """Collect no garbage but here."""
        gc.disable()

    def stop(self) -> None:
        """Have it collected whenever Python likes to."""
        gc.unfreeze()
        gc.enable()

    def __call__(self, happening: Happening) -> None:
        """Take note of an event that is over."""
        match happening:
            case Decided(event="synchronize"):
                pass
            case Synchronized():
                # All running containers at once: put aside, which takes no time. They live, so
                # that there are many of them is no reason to go through them.
                self._events += 1
                gc.freeze()
            case Decided() | Released():
                self.sweep()
            case _:
                pass

    def sweep(self) -> None:
        """Go through what is new. O(objects made since the last time that are still there)."""
        self._events += 1
        count = gc.get_count()[0]
        if count >= MORE_THAN_AN_EVENT:
            self._put_aside()
        elif count >= SOME_OBJECTS:
            gc.collect(1)
        elif self._events % EVENTS_TOGETHER == 0:
            self._put_aside()

    def look(self) -> None:
        """Go through everything where it was quiet for a while, or where it is high time.

        To be called every `LOOK_SECONDS`.
        """
        if self._events != self._events_seen:
            self._events_seen = self._events
            self._looks += 1
            self._quiet_looks = 0
        elif self._looks:
            self._quiet_looks += 1
        is_due = (
            self._quiet_looks >= QUIET_LOOKS
            or self._looks >= LOOKS_MAX
            or self._aside + gc.get_count()[0] >= ASIDE_MAX
        )
        if is_due:
            self._looks = self._quiet_looks = self._aside = 0
            gc.unfreeze()
            gc.collect()

    def _put_aside(self) -> None:
        """Have what is new not gone through before everything is. O(1)."""
        self._aside += gc.get_count()[0]
        gc.freeze()
