"""Turns: pieces of work that somebody may wait for, but not for ever."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Done(Struct, Generic[T], frozen=True):
    """Work ended with a value."""

    value: T


class Failed(Struct, frozen=True):
    """Work raised."""

    error: Exception


def attempt(work: Callable[[], T]) -> Done[T] | Failed:
    """The outcome of work that is done here and now."""
    try:
        return Done(work())
    except Exception as error:
        return Failed(error)


class Turn(Generic[T]):
    """One piece of work, and its outcome.

    Either its asker gets the value or, once the asker gave up, `late` does: never both, never
    neither.
    """

    __slots__ = (
        "_has_begun",
        "_in_time",
        "_is_abandoned",
        "_is_over",
        "_is_withdrawn",
        "_late",
        "_lock",
        "_result",
        "_work",
        "name",
    )

    def __init__(
        self,
        name: str,
        work: Callable[[], T],
        late: Callable[[T], None] | None = None,
        in_time: Callable[[T], T] | None = None,
    ) -> None:
        """`in_time`: what becomes of a value that is waited for, still in the owner's turn."""
        self.name = name
        self._work = work
        self._late = late
        self._in_time = in_time
        self._lock = threading.Lock()
        self._is_over: threading.Event | None = None
        """Made by the first who waits: as a rule the asker does the work itself."""
        self._has_begun = False
        self._is_withdrawn = False
        self._is_abandoned = False
        self._result: Done[T] | Failed | None = None

    def run(self) -> Failed | None:
        """Do the work unless it was withdrawn, or begun before; in the owner's turn.

        Returns its failure.
        """
        with self._lock:
            if self._is_withdrawn or self._has_begun:
                return None
            self._has_begun = True
        # As by `attempt`: every event of the runtime comes by here.
        try:
            result: Done[T] | Failed = Done(self._work())
        except Exception as error:
            result = Failed(error)
        with self._lock:
            is_late = self._is_abandoned
            if isinstance(result, Done) and self._in_time is not None and not is_late:
                # Before the asker goes on: work done after this turn may say something newer.
                try:
                    result = Done(self._in_time(result.value))
                except Exception as error:
                    result = Failed(error)
            self._result = result
            if self._is_over is not None:
                self._is_over.set()
        if isinstance(result, Failed):
            return result
        if is_late and self._late is not None:
            self._late(result.value)
        return None

    def wait(self, seconds: float) -> Done[T] | Failed | None:
        """The outcome, or None if the work is not over in time; `late` gets the value then."""
        with self._lock:
            if self._result is None and self._is_over is None:
                self._is_over = threading.Event()
            is_over = self._is_over
        if is_over is not None and not is_over.wait(seconds):
            self.abandon()
        return self.outcome

    def abandon(self) -> bool:
        """Wait no longer; whether the work is not over, and nobody gave it up before."""
        with self._lock:
            if self._result is not None or self._is_abandoned:
                return False
            self._is_abandoned = True
            return True

    @property
    def outcome(self) -> Done[T] | Failed | None:
        """The result of the work or its fault; None where it is not over, or was over too late."""
        with self._lock:
            return None if self._is_abandoned else self._result

    def withdraw(self) -> bool:
        """Whether the work is never done: that is so where it was not begun."""
        with self._lock:
            self._is_withdrawn = not self._has_begun
            return self._is_withdrawn
