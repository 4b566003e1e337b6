"""Refusals of a runtime: updates that it does not make, and creations that it undid."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ...policy.engine.decision import STUCK
from ...policy.engine.engine import Engine
from ...policy.model.container import Container, ContainerId
from ...policy.model.instances import instance_key
from ...topology.sets.cpuset import CpuSet
from .actuator import Actuator
from .owner import Owner
from .pin_state import Mismatch
from .report import CreationUndone, Report, Unmoved, Unplaceable

_KNOWN_MAX: Final = 1000


class RefusedUpdates:
    """Containers that were told other cpus in vain, from a refusal until they have landed.

    An update that is on its way is no refusal, nor is the first one that was lost on its way.
    """

    def __init__(
        self,
        policy: Callable[[], Engine],
        actuator: Actuator,
        owner: Owner,
        report: Report,
    ) -> None:
        """`policy`: the present one, which is told in turns of the owner's."""
        self._policy = policy
        self._actuator = actuator
        self._owner = owner
        self._report = report
        self._found: Mapping[ContainerId, CpuSet] = {}
        """The cpus that the kernel has for each; another mapping where anything changes."""
        self._told: Mapping[ContainerId, CpuSet] = {}
        self._is_telling = False
        """Whether the policy will be told."""
        self._recalled = deque[Mapping[ContainerId, CpuSet]]()
        """Containers that the policy knows, on the way to the actuator's thread."""
        actuator.failed = self._note
        actuator.looked.append(self._look)

    def renew(self) -> None:
        """Take over whom the policy knows of those that it adopted. In a turn at it.

        They may be those that an earlier daemon left, of which nothing is known here.
        """
        known = self._policy().stuck_containers.refused.items()
        told = {one: CpuSet(mask) for one, mask in known}
        # In this order: the actuator may look in between, and would take them for landed.
        self._recalled.append(told)
        self._told = told

    def _note(self, mismatch: Mismatch) -> None:
        """Note what the kernel has for a container that was told in vain. In the actuator's thread.

        Where nobody can ask the kernel, nobody knows where it is.
        """
        container_id = mismatch.container_id
        if mismatch.found is not None and mismatch.failures == 1:
            # It is told again at once.
            return
        found = mismatch.found or self._actuator.kernel(container_id)
        if found is not None and found.cpus:
            self._found = {**self._found, container_id: found.cpus}

    def _look(self) -> None:
        """Look whether any have landed, or more are known. In the actuator's thread."""
        while self._recalled:
            self._found = {**self._recalled.popleft(), **self._found}
        if not (self._found or self._told):
            return
        landed = [one for one in self._found if self._actuator.have_landed([one])]
        if landed:
            self._found = {one: cpus for one, cpus in self._found.items() if one not in landed}
        if self._found != self._told and not self._is_telling:
            self._is_telling = True
            self._owner.submit("updates that are refused", self._tell)

    def _tell(self) -> None:
        self._is_telling = False
        self._told, policy = self._found, self._policy()
        for one in policy.stuck_containers.note(self._told):
            container, problems = policy.containers[one], policy.decisions[one].problems
            reason = next(problem.what for problem in problems if problem.where == STUCK)
            self._owner.afterwards(partial(self._report, Unplaceable(container, reason)))
        self._owner.afterwards(partial(self._report, Unmoved(len(self._told))))


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
