"""The pacer of work that nobody waits for: it rests while the policy is at work."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

_WORK_SECONDS: Final = 0.0004
"""A thread goes on for so long: others wait longer for Python's lock where it is not passed on."""
_PAUSE_SECONDS: Final = 0.00005
_REST_SECONDS: Final = 0.0005
_RESTS_MAX: Final = 10
"""So often in one place: a policy that is always at work must not keep others from theirs."""

Value = TypeVar("Value")


class Pacer:
    """Rests in work that nobody waits for, such as metrics and audits. For any thread.

    A thread that computes keeps Python's lock for a whole switch interval, and asks for it back
    after another one, again and again. Who answers a runtime meanwhile needs several times as long.
    """

    def __init__(
        self, is_needed: Callable[[], bool], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`is_needed`: whether somebody else is at work; may be asked at any time."""
        self._is_needed = is_needed
        self._clock = clock
        self._rested = _Rested()

    def rest(self) -> None:
        """Pass on Python's lock, and do not ask for it while somebody else is at work.

        To be called as often as possible: nothing is done soon after the thread's last rest.
        """
        if self._clock() - self._rested.at < _WORK_SECONDS:
            return
        time.sleep(_PAUSE_SECONDS)
        for _ in range(_RESTS_MAX):
            if not self._is_needed():
                break
            time.sleep(_REST_SECONDS)
        self._rested.at = self._clock()

    def among(self, values: Iterable[Value]) -> Iterator[Value]:
        """Values in their order, with rests in between."""
        for one in values:
            self.rest()
            yield one


class _Rested(threading.local):
    at = float("-inf")
    """When the thread's last rest was over."""


ALONE: Final = Pacer(lambda: False)
"""For work beside which there is no policy: only Python's lock is passed on."""
