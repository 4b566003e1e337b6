"""A front: what stands between a runtime and the policy, as the rest of the daemon sees it."""

from typing import Protocol

from .actuator import Actuator
from .events import Events
from .owner import Owner


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
