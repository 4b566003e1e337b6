"""Leader and follower: of two threads one reads; the other stands in where that is away too long.

So the thread that reads a call may also find its answer, and no hand-over is paid for, while the
runtime still gets an answer in time when that takes too long.
"""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.15
"""The thread that waits looks at the other one so often, or once in the time of its patience where
that is less: whoever went away since the last look is not late before the next one."""
_LATE_LOOK_SECONDS: Final = 0.025
"""And so often at one that is late, but must not be stood in for yet."""
_QUIET_LOOKS: Final = 2
"""After so many looks at one who only waits it sleeps until it is woken."""
_FAULT: Final = "a fault of ours"


class ReadingTurns:
    """The turns of two threads at reading, until one of them says why it is over."""

    def __init__(
        self,
        read: Callable[[], str],
        due: Callable[[float], float],
        stand_in: Callable[[], bool],
        left: Callable[[], None],
        clock: Callable[[], float],
        patience_seconds: float,
    ) -> None:
        """`read`: one step, which returns why it is over, if so; called by the one that reads.

        `due`: when the other one has to act, by the time since when the one that reads is away.
        `stand_in`: does for the one that reads what is most urgent, and returns whether its place
        is to be taken; called by the other one.
        `left`: called once both are through, by the last one: nobody reads any more.
        """
        self._read = read
        self._due = due
        self._stand_in = stand_in
        self._left = left
        self._clock = clock
        self._look_seconds = min(_LOOK_SECONDS, patience_seconds)
        self._place = threading.Lock()
        """For who reads, and whether it only waits."""
        self._reader = 0
        self._away_since: float | None = clock()
        """Since when the one that reads does something else; None while it waits for bytes."""
        self._changed = threading.Condition()
        self._is_asleep = False
        self._is_hurried = False
        """Whether the time of the next look is to be found anew."""
        self._over = ""
        self._present = 2

    def run(self) -> str:
        """Take turns until it is over, and return why."""
        self._reader = threading.get_ident()
        threading.Thread(target=self._take_turns, name="stand-in", daemon=True).start()
        self._take_turns()
        return self._over

    @property
    def is_reader(self) -> bool:
        """Whether it is the caller that reads."""
        return self._reader == threading.get_ident()

    def begin_wait(self) -> bool:
        """The caller would wait for bytes; False where another one reads already."""
        with self._place:
            if self._reader != threading.get_ident():
                return False
            self._away_since = None
            return True

    def end_wait(self, now: float) -> None:
        """The caller has got bytes, and may be stood in for from here on."""
        self._away_since = now
        if self._is_asleep:
            with self._changed:
                self._changed.notify()

    def hurry(self) -> None:
        """Have the other one look now: the caller is late sooner than by its patience."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify()

    def take(self, take: Callable[[], T]) -> T | None:
        """Value of `take`, done while nobody stands in; None where another one reads already."""
        with self._place:
            return take() if self._reader == threading.get_ident() else None

    def _take_turns(self) -> None:
        me = threading.get_ident()
        reason = _FAULT
        try:
            while not self._over:
                if self._reader != me:
                    self._watch(me)
                elif reason := self._read():
                    break
        finally:
            with self._changed:
                self._over = self._over or reason or _FAULT
                self._present -= 1
                is_last = not self._present
                self._changed.notify()
            if is_last:
                self._left()

    def _watch(self, me: int) -> None:
        quiet_looks = 0
        while not self._over:
            pause = self._look_seconds
            since = self._away_since
            if since is not None:
                left = self._due(since) - self._clock()
                if left <= 0 and self._has_stood_in(me, since):
                    return
                pause = min(pause, left if left > 0 else _LATE_LOOK_SECONDS)
            quiet_looks = quiet_looks + 1 if since is None else 0
            with self._changed:
                self._is_asleep = quiet_looks > _QUIET_LOOKS
                is_due = self._is_hurried or (self._is_asleep and self._away_since is not None)
                if not self._over and not is_due:
                    self._changed.wait(None if self._is_asleep else pause)
                self._is_asleep = self._is_hurried = False

    def _has_stood_in(self, me: int, since: float) -> bool:
        with self._place:
            if self._away_since != since or not self._stand_in():
                return False
            self._reader, self._away_since = me, self._clock()
            return True
