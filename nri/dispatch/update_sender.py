"""Senders of updates to a runtime, and the reading back from the kernel: all an actuator needs."""

from collections.abc import Callable, Mapping
from typing import Protocol

from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning


class UpdateSender(Protocol):
    """A sender of updates that a runtime did not ask for (NRI calls them unsolicited)."""

    @property
    def raises_events(self) -> bool:
        """Whether the runtime asks its plugins about every such update, and takes their answers."""
        ...

    def send(self, updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        """Returns once the runtime has answered: the updates that failed, each with the reason.

        Raises `NoAnswerError` where it does not.
        """
        ...

    def close(self) -> None:
        """End what is under way; for any thread."""
        ...


class NoAnswerError(Exception):
    """A runtime did not say what became of an update."""


ReadBack = Callable[[ContainerId, int, Pinning | None], Pinning | None]
"""The cpus and memory nodes the kernel has for a container, by its id and a process of it; None
where they cannot be read. The third is what it should have, where that is likely: to see that it
has takes less time than to find out what it has."""
