"""The owner of the policy: one piece of work at a time touches it, whoever does the work."""

import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Struct

from .pacer import Pacer
from .turn import Done, Failed, Turn

T = TypeVar("T")

_LEFT_MAX: Final = 256
"""Pieces left for later: past so many they are done although the runtime calls again."""


class UnfinishedError(TimeoutError):
    """Work was begun and is not over in time: it is done, though later."""


class Owner:
    """Turns at the policy, one by one.

    A runtime's call is served by the thread that read it (`serve`): nobody has to be woken. Other
    work is handed in (`submit`, `ask`) and done by a thread of the owner's, in the order it came.
    Work that raises is reported to `crashed` with its name, and the next one is done. Once closed,
    work is done by whoever hands it in: the last state is to be saved though the runtime is gone.
    What work hands in by itself is then done behind it.
    """

    def __init__(self, crashed: Callable[[str, Exception], None]) -> None:
        self._crashed = crashed
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._held = threading.Lock()
        """The lock that a thread holds while it touches the policy."""
        self._worker = 0
        """The thread that is at work, if any."""
        self.pacer = Pacer(lambda: self._worker != 0)
        """For work elsewhere that can wait until the policy's is done."""
        self._counting = threading.Lock()
        self._calls_queued = 0
        self._handed_in = 0
        """Pieces of work that were handed in and are not over, calls among them."""
        self.left: Final[deque[Callable[[], object]]] = deque()
        """What is left to do that no runtime waits for; others only look whether there is any."""
        self._closing = threading.Lock()
        self._is_closed = False
        self._after_end = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="policy", daemon=True)
        self._thread.start()

    def serve(self, turn: Turn[T], seconds: float) -> Done[T] | Failed | None:
        """The outcome of a runtime's call, done by the caller where nobody else is at work.

        None where it is not over in time, or was given up meanwhile: it is done later all the same,
        before calls that come behind it. Of several threads the one that begins first comes first.
        What is left to do afterwards is left to `tidy`.
        """
        # Calls that were not over in time wait in the queue, and this one comes behind them.
        is_behind = self._calls_queued > 0
        if is_behind or not self._held.acquire(blocking=False):
            # At once: another thread may give this one up, and serve the call behind it.
            self._queue_call(turn)
            # Done by whoever is first: other work may wait in the queue before it.
            if is_behind or not self._held.acquire(timeout=seconds):
                return turn.wait(seconds if is_behind else 0.0)
        self.do_held(turn)
        return turn.outcome

    def hold(self, turn: Turn[Any]) -> bool:
        """Have nothing come before this turn; whether the caller is to `do_held` it, and soon.

        Else somebody is at work, and it is done behind that. Never waits.
        """
        if not self._calls_queued and self._held.acquire(blocking=False):
            return True
        self._queue_call(turn)
        return False

    def do_held(self, turn: Turn[Any]) -> None:
        """Do a turn for which the policy is held, as after `hold` returned True."""
        try:
            self._do(turn)
        finally:
            self._held.release()

    def submit(
        self, name: str, work: Callable[[], T], late: Callable[[T], None] | None = None
    ) -> Turn[T]:
        """Do this when its turn comes; wait for it or not."""
        turn = Turn(name, work, late)
        self._put(_Entry(turn, is_call=False))
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

    def look(self, name: str, take: Callable[[], T], seconds: float = 5.0) -> T:
        """The value of a short look at the policy, as by `ask`.

        The caller takes it by itself where nobody is at work and nothing was handed in before:
        nobody has to be woken.
        """
        turn = Turn(name, take)
        if not self._take(turn):
            return self.ask(name, take, seconds)
        match turn.outcome:
            case Failed(error=error):
                raise error
            case Done(value=value):
                return value
            case None:
                raise AssertionError(name)

    def _take(self, turn: Turn[Any]) -> bool:
        """Whether a turn was done here and now."""
        if self._handed_in or self._is_closed or not self._held.acquire(blocking=False):
            return False
        try:
            if self.left:
                # It comes before.
                return False
            self._do(turn)
        finally:
            self._held.release()
        return True

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do this once the present piece of work is over; only for use by work itself."""
        self.left.append(work)

    @property
    def is_overloaded(self) -> bool:
        """Whether more is left to do than should wait any longer."""
        return len(self.left) > _LEFT_MAX

    def tidy(self) -> bool:
        """Do one piece of what is left; False where somebody else is at work, and sees to it."""
        if not self._held.acquire(blocking=False):
            return False
        try:
            self._do_left()
        finally:
            self._held.release()
        return True

    def close(self) -> None:
        """Finish the work handed in so far and end the thread."""
        with self._closing:
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()

    def _queue_call(self, turn: Turn[Any]) -> None:
        with self._counting:
            self._calls_queued += 1
        self._put(_Entry(turn, is_call=True))

    def _put(self, entry: "_Entry") -> None:
        with self._closing:
            is_own = not self._is_closed or threading.current_thread() is self._thread
            if is_own:
                with self._counting:
                    self._handed_in += 1
                self._queue.put(entry)
        if is_own:
            return
        if self._worker == threading.get_ident():
            # It would wait for itself, or for the owner's thread, which waits for it.
            self.left.append(partial(self._do, entry.turn))
            return
        self._thread.join()
        with self._after_end:
            self._work_off(entry)

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            self._work_off(entry)
            with self._counting:
                self._handed_in -= 1
        self._finish()

    def _work_off(self, entry: "_Entry") -> None:
        # What is left of calls was there before.
        self._finish()
        with self._held:
            # And of a call that was under way until now; what that leaves in turn can wait.
            for _ in range(len(self.left)):
                self._do_left()
            self._do(entry.turn)
            if entry.is_call:
                with self._counting:
                    self._calls_queued -= 1
        self._finish()

    def _finish(self) -> None:
        """Do all that is left; a runtime's call may come in between."""
        while self.left:
            with self._held:
                self._do_left()

    def _do_left(self) -> None:
        if not self.left:
            return
        self._worker = threading.get_ident()
        try:
            self.left.popleft()()
        except Exception as error:
            self._crashed("afterwards", error)
        finally:
            self._worker = 0

    def _do(self, turn: Turn[Any]) -> None:
        self._worker = threading.get_ident()
        try:
            failure = turn.run()
            if failure is not None:
                self._crashed(turn.name, failure.error)
        finally:
            self._worker = 0


class _Entry(Struct, frozen=True):
    turn: Turn[Any]
    is_call: bool
