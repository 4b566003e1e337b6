"""Events of a runtime whose answers carry one container alone, and which names it afterwards."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...policy.engine.decision import Decision
from ...policy.model.container import ContainerId
from ...policy.model.grant import Refusal
from ...policy.model.kubelet_resources import LinuxResources, estimate, merge
from ...policy.model.pinning import Pinning, new_pinnings
from ..dispatch.actuator import Actuator
from ..dispatch.answer import Answer
from ..dispatch.events import Events
from ..dispatch.owner import Owner
from ..dispatch.report import Decided, Identified
from ..plugin.container_reader import ContainerReader
from .known_containers import KnownContainers
from .policy_turns import PolicyTurns


class ProxyEvents:
    """Events of a proxy beyond `Events`; everything is done in a turn of the owner's."""

    def __init__(
        self,
        events: Events,
        actuator: Actuator,
        owner: Owner,
        machine_memory_bytes: int | None,
    ) -> None:
        self.events = events
        self._actuator = actuator
        self._owner = owner
        self._machine_memory_bytes = machine_memory_bytes

    def created(self, answer: Answer) -> Answer:
        """An answer that creates a container, noted as told; the others are sent theirs."""
        if not answer.refusal and answer.own is not None and answer.container_id is not None:
            self._actuator.create(answer.container_id, answer.own)
        self._actuator.want(answer.others)
        return answer

    def identify(
        self, container_id: ContainerId, runtime_id: str, created_with: Pinning | None
    ) -> None:
        """The runtime has given a container its id; the next report and picture show it.

        `created_with`: the pinning that its creation carried. Others that came meanwhile may have
        taken some of it.
        """
        self.events.policy.identify(container_id, runtime_id)
        if self.events.policy.pinning(container_id) != created_with:
            self.post_present((container_id,))
        known = self.events.policy.containers.get(container_id)
        if known is not None:
            self._owner.afterwards(lambda: self.events.report(Identified(known)))

    def release(self, container_id: ContainerId) -> None:
        """Give back all that a container holds that was not created after all, and forget it."""
        self.events.post(self.events.stop(container_id))
        self.events.post(self.events.remove(container_id))

    def reserve(self, container_id: ContainerId, wanted: LinuxResources) -> Answer | None:
        """The answer to an update that takes something from a container: it keeps that meanwhile.

        It has what is enough before the update and after it, until the runtime has agreed; then it
        is updated. None where nothing is taken, or nobody knows.
        """
        events, policy = self.events, self.events.policy
        asked, known = events.asked.get(container_id), policy.containers.get(container_id)
        if asked is None or known is None or container_id not in policy.grants:
            return None
        merged = merge(asked, wanted)
        after = estimate(merged, known.pod.qos, self._machine_memory_bytes)
        both = known.resources.covering(after)
        if merged == asked or both == after:
            return None
        others: dict[ContainerId, Pinning] = {}
        if both != known.resources:
            with policy.undone_on_fault():
                decision = policy.update(container_id, both)
            self._tell_update(container_id, decision)
            others = new_pinnings(decision.changes)
            others.pop(container_id, None)
            if isinstance(decision.result, Refusal):
                reason = decision.result.reason
                return Answer(container_id=container_id, others=others, refusal=reason)
        return Answer(
            container_id=container_id,
            own=policy.pinning(container_id),
            lifts_quota=policy.lifts_quota(container_id),
            others=others,
        )

    def _tell_update(self, container_id: ContainerId, decision: Decision) -> None:
        container = self.events.policy.containers[container_id]
        self._owner.afterwards(
            lambda: self.events.report(
                Decided(event="update", container=container, decision=decision)
            )
        )

    def take_back(self, container_id: ContainerId, asked: LinuxResources, answer: Answer) -> None:
        """Have a container ask for what it did before: the runtime failed to update it.

        `answer`: the one that the update was sent with.
        """
        policy = self.events.policy
        known = policy.containers.get(container_id)
        if known is None or container_id not in policy.grants:
            return
        resources = estimate(asked, known.pod.qos, self._machine_memory_bytes)
        self.events.asked[container_id] = asked
        if resources == known.resources:
            return
        with policy.undone_on_fault():
            decision = policy.update(container_id, resources)
        self._tell_update(container_id, decision)
        others = (one.container_id for one in decision.changes)
        self.post_present({*answer.all, *others, container_id})

    def post_present(self, container_ids: Iterable[ContainerId]) -> None:
        """Send containers what they should have at present, as far as they hold anything.

        Not what an answer said: a later turn may have changed it.
        """
        wanted = {one: self.events.policy.pinning(one) for one in container_ids}
        self._actuator.want({one: each for one, each in wanted.items() if each is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedPolicy:
    """The events of the policy, its turns in the loop's thread, and the containers it knows."""

    events: ProxyEvents
    turns: PolicyTurns
    reader: ContainerReader
    known: KnownContainers
    started: Callable[[ContainerId], None]
    """Told of each container that runs, with the policy's id."""
