"""The one thread that touches the policy, and how others hand it work."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """Work ended with a value."""

    value: T


@dataclass(frozen=True, slots=True)
class Failed:
    """Work raised."""

    error: Exception


class UnfinishedError(TimeoutError):
    """Work was begun and is not over in time: it is done, though later."""


def attempt(work: Callable[[], T]) -> Done[T] | Failed:
    """What comes of work that is done here and now."""
    try:
        return Done(work())
    except Exception as error:
        return Failed(error)


class Turn(Generic[T]):
    """One piece of work that somebody may wait for, but not for ever.

    Either the waiter gets the value or, once it gave up, `late` does: never both, never neither.
    """

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
        self._is_over = threading.Event()
        self._has_begun = False
        self._is_withdrawn = False
        self._is_abandoned = False
        self._result: Done[T] | Failed | None = None

    def run(self) -> Failed | None:
        """Do the work unless it was withdrawn; called by the owner, once. Returns its failure."""
        with self._lock:
            if self._is_withdrawn:
                return None
            self._has_begun = True
        result = attempt(self._work)
        with self._lock:
            is_late = self._is_abandoned
            if isinstance(result, Done) and self._in_time is not None and not is_late:
                # Before the waiter wakes: work done after this turn may say something newer.
                in_time, value = self._in_time, result.value
                result = attempt(lambda: in_time(value))
            self._result = result
            self._is_over.set()
        if isinstance(result, Failed):
            return result
        if is_late and self._late is not None:
            self._late(result.value)
        return None

    def wait(self, seconds: float) -> Done[T] | Failed | None:
        """What came of the work, or None if it is not over in time; `late` gets it then."""
        if not self._is_over.wait(seconds):
            with self._lock:
                if not self._is_over.is_set():
                    self._is_abandoned = True
                    return None
        return self._result

    def withdraw(self) -> bool:
        """Whether the work is never done: that is so where it was not begun."""
        with self._lock:
            self._is_withdrawn = not self._has_begun
            return self._is_withdrawn


class Owner:
    """A thread that does pieces of work one by one in the order they came.

    Work that raises is reported to `crashed` with its name, and the next one is done. Once closed,
    work is done by whoever hands it in: the last state is to be saved though the runtime is gone.
    """

    def __init__(self, crashed: Callable[[str, Exception], None]) -> None:
        self._crashed = crashed
        self._queue: queue.SimpleQueue[Turn[Any] | None] = queue.SimpleQueue()
        self._afterwards: list[Callable[[], None]] = []
        self._closing = threading.Lock()
        self._is_closed = False
        self._after_end = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="policy", daemon=True)
        self._thread.start()

    def submit(
        self,
        name: str,
        work: Callable[[], T],
        late: Callable[[T], None] | None = None,
        in_time: Callable[[T], T] | None = None,
    ) -> Turn[T]:
        """Do this when its turn comes; wait for it or not."""
        turn = Turn(name, work, late, in_time)
        with self._closing:
            is_own = not self._is_closed or threading.current_thread() is self._thread
            if is_own:
                self._queue.put(turn)
        if not is_own:
            self._thread.join()
            with self._after_end:
                self._work_off(turn)
        return turn

    def ask(
        self,
        name: str,
        work: Callable[[], T],
        seconds: float = 5.0,
        late: Callable[[T], None] | None = None,
    ) -> T:
        """The value of work done in its turn, for callers outside the runtime's calls.

        Raises what the work raises, and `TimeoutError` where it was not begun in time: it is not
        done then. Where it was, that is an `UnfinishedError`, and `late` gets the value.
        """
        turn = self.submit(name, work, late)
        match turn.wait(seconds):
            case Done(value=value):
                return value
            case Failed(error=error):
                raise error
            case None if turn.withdraw():
                raise TimeoutError(f"{name}: the policy is busy for more than {seconds} s")
            case None:
                raise UnfinishedError(f"{name}: begun, and not over after {seconds} s")

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do this once the present piece of work is over; only for use by work itself."""
        self._afterwards.append(work)

    def close(self) -> None:
        """Finish the work handed in so far and end the thread."""
        with self._closing:
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (turn := self._queue.get()) is not None:
            self._work_off(turn)

    def _work_off(self, turn: Turn[Any]) -> None:
        self._finish(turn)
        while self._afterwards:
            later, self._afterwards = self._afterwards, []
            for work in later:
                self._finish(Turn(f"after {turn.name}", work))

    def _finish(self, turn: Turn[Any]) -> None:
        failure = turn.run()
        if failure is not None:
            self._crashed(turn.name, failure.error)
