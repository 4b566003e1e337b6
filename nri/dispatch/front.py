"""A front: what stands between a runtime and the policy, as the rest of the daemon sees it."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from ...policy.engine.engine import Engine
from ...policy.engine.snapshot import Snapshot
from .actuator import CHECK_SECONDS, SUSPECT, Actuator
from .events import Events
from .owner import Owner
from .report import Crashed, Report
from .update_sender import ReadBack

NOT_CONNECTED: Final = "the runtime is not connected, or it did not tell what runs"


class Front(ABC):
    """The policy behind one runtime's socket: an NRI plugin, or a CRI proxy.

    `events`, `owner` and `actuator` are for the other parts of the daemon: whatever touches the
    policy goes through `owner`.
    """

    def __init__(
        self,
        policy: Engine,
        report: Report,
        clock: Callable[[], float],
        *,
        read_back: ReadBack | None,
        machine_memory_bytes: int | None,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        """`check_seconds`: after which it is read back what came of an update in an answer."""
        self._report = report
        self._is_ready = threading.Event()
        self.actuator = Actuator(report, clock, read_back=read_back, check_seconds=check_seconds)
        self.owner = Owner(lambda what, error: report(Crashed(what, error)))
        self.events = Events(policy, self.actuator, self.owner, report, machine_memory_bytes)

    @abstractmethod
    def run(self) -> None:
        """Serve until `stop`."""

    @abstractmethod
    def stop(self) -> None:
        """End `run` from another thread; nothing is undone."""

    def wait_until_ready(self, seconds: float) -> bool:
        """Whether everything that runs is known within this time."""
        return self._is_ready.wait(seconds)

    def settle(self, seconds: float = 5.0) -> bool:
        """Whether all events so far were thought through and all updates sent in this time."""
        self.owner.ask("settle", lambda: None, seconds)
        return self.actuator.settle(seconds)


def runtime_fault(front: Front) -> str:
    """The reason why a front's runtime makes no moves at present; empty where it does."""
    if not front.wait_until_ready(0):
        return NOT_CONNECTED
    return SUSPECT if front.actuator.is_suspect else ""


def take_snapshot(front: Front, name: str, seconds: float) -> Snapshot:
    """A snapshot of the policy in force, taken in a turn of this name. Raises `TimeoutError`."""
    # Looked up in the turn: a reload that is at work before it puts another policy there.
    return front.owner.look(name, lambda: front.events.policy.snapshot(), seconds)
