"""Creations that the runtime undid after it had our answer."""

from typing import Final

from ....policy.model.container import Container
from ....policy.model.instances import instance_key
from ..report import CreationUndone

_KNOWN_MAX: Final = 1000


class UndoneCreations:
    """Counts undone creations by pod and name of the container, until one of that name runs."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], int] = {}

    def count(self, container: Container) -> CreationUndone:
        """One more."""
        key = instance_key(container)
        times = self._times.pop(key, 0) + 1
        self._times[key] = times
        if len(self._times) > _KNOWN_MAX:
            del self._times[next(iter(self._times))]
        return CreationUndone(container=container, times=times, had_cpus=bool(container.cpus))

    def forget(self, container: Container | None) -> None:
        """A container runs: whatever was wrong with those of its name is over."""
        if self._times and container is not None:
            self._times.pop(instance_key(container), None)
