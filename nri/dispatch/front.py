"""A front: what stands between a runtime and the policy, as the rest of the daemon sees it."""

from typing import Final, Protocol

from ...policy.engine.snapshot import Snapshot
from .actuator import SUSPECT, Actuator
from .events import Events
from .owner import Owner

NOT_CONNECTED: Final = "the runtime is not connected, or it did not tell what runs"


class Front(Protocol):
    """The policy behind one runtime's socket: an NRI plugin, or a CRI proxy.

    Whatever touches the policy goes through `owner`.
    """

    events: Events
    owner: Owner
    actuator: Actuator

    def run(self) -> None:
        """Serve until `stop`."""
        ...

    def stop(self) -> None:
        """End `run` from another thread; nothing is undone."""
        ...

    def wait_until_ready(self, seconds: float) -> bool:
        """Whether everything that runs is known within this time."""
        ...

    def settle(self, seconds: float = 5.0) -> bool:
        """Whether all events so far were thought through and all updates sent in this time."""
        ...


def runtime_fault(front: Front) -> str:
    """The reason why a front's runtime makes no moves at present; empty where it does."""
    if not front.wait_until_ready(0):
        return NOT_CONNECTED
    return SUSPECT if front.actuator.is_suspect else ""


def take_snapshot(front: Front, name: str, seconds: float) -> Snapshot:
    """A snapshot of the policy in force, taken in a turn of this name. Raises `TimeoutError`."""
    # Looked up in the turn: a reload that is at work before it puts another policy there.
    return front.owner.look(name, lambda: front.events.policy.snapshot(), seconds)
