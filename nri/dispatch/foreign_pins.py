"""Cpusets of new containers that others set before us: another NRI plugin, or the kubelet.

And creations that the runtime undid after it had our answer, for which they are a reason.
"""

from typing import Final

from msgspec import structs

from ...policy.model.container import Container
from ...policy.model.cpuset_conflicts import foreign_pin_problem
from ...policy.model.instances import instance_key
from ...topology.sets.cpuset import NO_CPUS
from .newcomer import Newcomer
from .report import CreationUndone

_KNOWN_MAX: Final = 1000


class ForeignPins:
    """Lets containers alone whose cpus another plugin has set.

    Two NRI plugins that set the cpus of one container keep it from being created. The kubelet may
    be overruled: its cpus are part of what the runtime was asked for.
    """

    def __init__(self) -> None:
        self.kubelet_pins = False
        """Whether the kubelet's own CPU manager sets cpus."""
        self._has_claims = False

    def looked_at(self, newcomer: Newcomer) -> Newcomer:
        """The container, to be left alone where somebody else places it."""
        container = newcomer.container
        if container.claimed is not None:
            self._has_claims = True
            return newcomer
        if container.cpus is None or self.kubelet_pins:
            return newcomer
        problem = foreign_pin_problem(container.path, container.cpus, has_claims=self._has_claims)
        alone = structs.replace(container, claimed=NO_CPUS)
        return structs.replace(newcomer, container=alone, problems=(*newcomer.problems, problem))


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
