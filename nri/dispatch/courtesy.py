"""Courtesy of threads whose work nobody waits for: they rest while the policy is at work."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

_AT_ONCE: Final = 128
_PAUSE_SECONDS: Final = 0.00005
_REST_SECONDS: Final = 0.0005
_RESTS_MAX: Final = 10
"""So often in one place: a policy that is always at work must not keep others from theirs."""

Value = TypeVar("Value")


class Courtesy:
    """Rests in work that nobody waits for. For any thread.

    A thread that computes keeps Python's lock for a whole switch interval, and asks for it back
    after another one, again and again. Who answers a runtime meanwhile needs several times as long.
    """

    def __init__(self, is_needed: Callable[[], bool]) -> None:
        """`is_needed`: whether somebody else is at work; may be asked at any time."""
        self._is_needed = is_needed

    def rest(self) -> None:
        """Pass on Python's lock, and do not ask for it while somebody else is at work."""
        time.sleep(_PAUSE_SECONDS)
        for _ in range(_RESTS_MAX):
            if not self._is_needed():
                return
            time.sleep(_REST_SECONDS)

    def among(self, values: Iterable[Value], at_once: int = _AT_ONCE) -> Iterator[Value]:
        """Values in their order, with a rest before each so many."""
        for number, one in enumerate(values):
            if number % at_once == 0:
                self.rest()
            yield one


ALONE: Final = Courtesy(lambda: False)
"""For work beside which there is no policy: only Python's lock is passed on."""
