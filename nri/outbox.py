"""Updates the runtime did not ask for: what is wanted last wins, whoever said it."""

import threading
from collections.abc import Mapping

from ..policy.container import ContainerId
from ..policy.decision import Pinning


class Outbox:
    """Pinnings that wait to be sent, at most one for each container; safe for several threads.

    An update in flight may reach the containers after a newer pinning that went out in an answer:
    the runtime holds updates back while it waits for answers. Such a container is sent again.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: dict[ContainerId, Pinning] = {}
        self._in_flight: set[ContainerId] = set()
        self._is_open = False
        self._is_closed = False

    def post(self, pinnings: Mapping[ContainerId, Pinning]) -> None:
        """Send these soon."""
        if pinnings:
            with self._condition:
                self._waiting.update(pinnings)
                self._condition.notify_all()

    def answered(self, pinnings: Mapping[ContainerId, Pinning]) -> None:
        """These go out in an answer to the runtime: older ones that wait are void."""
        with self._condition:
            for container_id, pinning in pinnings.items():
                if container_id in self._in_flight:
                    self._waiting[container_id] = pinning
                else:
                    self._waiting.pop(container_id, None)
            self._condition.notify_all()

    def forget(self, container_id: ContainerId) -> None:
        """The container is gone."""
        with self._condition:
            self._waiting.pop(container_id, None)

    def clear(self) -> None:
        """Everything that waits is void: the runtime has told all anew."""
        with self._condition:
            self._waiting.clear()
            self._condition.notify_all()

    def open(self) -> None:
        """There is somebody to send to."""
        with self._condition:
            self._is_open = True
            self._condition.notify_all()

    def shut(self) -> None:
        """There is nobody to send to."""
        with self._condition:
            self._is_open = False

    def take(self) -> Mapping[ContainerId, Pinning] | None:
        """All that waits, now in flight; blocks until it can be sent. None once closed."""
        with self._condition:
            self._condition.wait_for(lambda: (self._waiting and self._is_open) or self._is_closed)
            if self._is_closed:
                return None
            batch, self._waiting = self._waiting, {}
            self._in_flight = set(batch)
            return batch

    def landed(self) -> None:
        """What was in flight has arrived or failed."""
        with self._condition:
            self._in_flight = set()
            self._condition.notify_all()

    def wait_until_empty(self, seconds: float) -> bool:
        """Whether everything was sent within this time."""
        with self._condition:
            return self._condition.wait_for(
                lambda: not self._waiting and not self._in_flight, seconds
            )

    def close(self) -> None:
        """Let go whoever waits in `take`."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
