"""Turns at the policy, taken from an event loop that must not wait for anybody."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ..dispatch.owner import Owner
from ..dispatch.turn import Done, Failed, Turn

T = TypeVar("T")

_QUIET_SECONDS: Final = 0.01
"""After the last turn: few runtimes take longer to create a container."""
_LEFT_SECONDS: Final = 0.1
"""For which reports and the like are put off at most."""


def tell(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    """Have a loop do this soon, for any thread; turns may outlive it, and it needs nothing then."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(work)


class PolicyTurns:
    """The loop's way to the policy: at once where nobody is at work with it, or behind them.

    All turns, waited for or not, come in the order in which they are asked for.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._has_timer = False
        self._last = 0.0
        self._since = 0.0

    def do(self, name: str, work: Callable[[], None]) -> None:
        """Do this before whatever is asked for later; the caller does not wait."""
        turn = Turn(name, work)
        if self._owner.hold(turn):
            self._owner.do_held(turn)
        self._tidy()

    async def ask(
        self,
        name: str,
        work: Callable[[], T],
        seconds: float,
        *,
        late: Callable[[T], None],
        given_up: Callable[[T], None],
        in_time: Callable[[T], T] | None = None,
    ) -> T | None:
        """The value of work; None where it is not over in time, and `late` gets it then.

        A caller that is cancelled is never told either: `given_up` gets what it would have got.
        None, too, where the work raises, which the owner reports.
        """
        loop, is_over = asyncio.get_running_loop(), asyncio.Event()
        is_given_up = False

        def unheard(value: T) -> None:
            (given_up if is_given_up else late)(value)

        def told(value: T) -> T:
            value = value if in_time is None else in_time(value)
            tell(loop, is_over.set)
            return value

        def failing() -> T:
            try:
                return work()
            except Exception:
                tell(loop, is_over.set)
                raise

        turn = Turn(name, failing, unheard, told)
        if self._owner.hold(turn):
            self._owner.do_held(turn)
            self._tidy()
            return _value(turn.outcome)
        try:
            async with asyncio.timeout(seconds):
                await is_over.wait()
        except TimeoutError:
            turn.abandon()
        except asyncio.CancelledError:
            is_given_up = True
            if not turn.abandon() and isinstance(turn.outcome, Done):
                self.do(name, lambda: given_up(_certain(turn.outcome)))
            raise
        finally:
            self._tidy()
        # The outcome is there a moment after the loop was told.
        return _value(turn.wait(seconds))

    def _tidy(self) -> None:
        """Have the owner's thread do what is left once no call is under way, or soon at least.

        It would take Python's lock from the loop just when the runtime's answer comes.
        """
        self._last = time.monotonic()
        if self._has_timer or not self._owner.left:
            return
        self._has_timer, self._since = True, self._last
        asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        is_quiet = now - self._last >= _QUIET_SECONDS or now - self._since >= _LEFT_SECONDS
        if is_quiet or self._owner.is_overloaded:
            self._has_timer = False
            self._owner.submit("what is left", _nothing)
        else:
            asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._look)


def _nothing() -> None:
    """Work of the owner's thread, which does all that is left beside it."""


def _value(outcome: Done[T] | Failed | None) -> T | None:
    return outcome.value if isinstance(outcome, Done) else None


def _certain(outcome: Done[T] | Failed | None) -> T:
    if not isinstance(outcome, Done):
        raise AssertionError("the work is over")
    return outcome.value
