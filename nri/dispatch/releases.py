"""Releases of containers that end, and of those in whose creation a fault of ours showed."""

from collections.abc import Callable
from functools import partial

from ...policy.engine.decision import Adopted
from ...policy.engine.engine import Engine
from ...policy.model.container import Container, ContainerId, ContainerState
from ...policy.model.pinning import Change, Pinning, new_pinnings
from .actuator import Actuator
from .answer import Answer
from .owner import Owner
from .report import Crashed, Released, Report


class Releases:
    """Containers that give back what they held, each in a turn of the owner's, in any case."""

    def __init__(
        self, policy: Callable[[], Engine], actuator: Actuator, owner: Owner, report: Report
    ) -> None:
        """`policy`: the present one."""
        self._policy = policy
        self._actuator = actuator
        self._owner = owner
        self._report = report

    def release(
        self, container_id: ContainerId, work: Callable[[ContainerId], tuple[Change, ...]]
    ) -> Answer:
        """Release a container by `work`, or all the same where that fails, which is told then."""
        policy = self._policy()
        known = policy.containers.get(container_id)
        policy.begin()
        try:
            changes = work(container_id)
        except Exception as fault:
            changes = self._recovered(container_id, fault)
            self._report(Crashed(f"release of container {container_id}", fault))
        self._actuator.forget(container_id)
        if known is not None and (changes or known.state is not ContainerState.EXITED):
            self._owner.afterwards(partial(self._released, known, changes))
        return Answer(others=new_pinnings(changes))

    def undo(self, container_id: ContainerId, fault: Exception) -> tuple[Change, ...]:
        """Have a container hold nothing in whose creation a fault showed, and nobody move for it.

        It is created without us, and may be adopted once it runs. Returns who comes home.
        """
        changes = self._recovered(container_id, fault)
        self._actuator.forget(container_id)
        return changes

    def _recovered(self, container_id: ContainerId, fault: Exception) -> tuple[Change, ...]:
        policy, told = self._policy(), dict[ContainerId, Pinning]()
        for one in policy.containers:
            if (pinning := self._actuator.wanted(one)) is not None:
                told[one] = pinning
        try:
            adopted = policy.recover(container_id, told)
        except Exception as another:
            raise another from fault
        self._owner.afterwards(lambda: tell_faults(self._report, adopted))
        return adopted.changes

    def _released(self, known: Container, changes: tuple[Change, ...]) -> None:
        self._report(Released(known, changes))
        self._policy().prepare()


def tell_faults(report: Report, adopted: Adopted) -> None:
    """Report what went wrong with containers while they were adopted, and with all of them."""
    if adopted.fault is not None:
        report(Crashed("adoption of all that runs", adopted.fault))
    for container_id, error in adopted.faults.items():
        report(Crashed(f"adoption of container {container_id}", error))
