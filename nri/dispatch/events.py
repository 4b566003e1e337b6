"""Events of a runtime, as values, and what they mean to the policy.

Everything here is done in a turn of the owner's; whoever serves a runtime converts its messages.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec import structs

from ...policy.configuration.config import Config
from ...policy.engine.advice import Advice
from ...policy.engine.decision import Decision
from ...policy.engine.engine import Engine
from ...policy.engine.reconfiguration import find_moves
from ...policy.model.container import Container, ContainerId, ContainerState, PodId
from ...policy.model.grant import Refusal
from ...policy.model.kubelet_resources import LinuxResources, estimate, merge
from ...policy.model.pinning import Change, Pinning, new_pinnings
from ...topology.model.machine import Machine
from .actuator import Actuator
from .answer import Answer
from .broken_rules import BrokenRules, as_it_is
from .foreign_pins import ForeignPins
from .live_moves import LiveMoves
from .newcomer import Listing, Mention, Newcomer
from .owner import Owner
from .refusals import RefusedUpdates, UndoneCreations
from .releases import Releases, tell_faults
from .report import Adjusted, ColdStarted, Decided, Reconfigured, Report, Synchronized

UNDONE: Final = "a creation that failed"
"""The cause for which containers are told other cpus, as books are made anew."""
_GONE_MAX: Final = 1000


class Events:
    """Events on their way to the policy; each method is safe to call twice, or never.

    Those without the id they are about are passed over: nobody can be told anything then, and some
    runtimes take an empty id for anybody's.

    `asked` is what the kubelet wants for each container, resizes included. `advice` is what an
    earlier process remembered, to be set before the first connection.
    """

    def __init__(
        self,
        policy: Engine,
        actuator: Actuator,
        owner: Owner,
        report: Report,
        machine_memory_bytes: int | None = None,
    ) -> None:
        self.policy = policy
        self.heard: Final = actuator.heard
        """The actuator's notice that the runtime called. For any thread."""
        self.asked: dict[ContainerId, LinuxResources] = {}
        self.advice: Mapping[ContainerId, Advice] = {}
        self._actuator = actuator
        self._owner = owner
        self.report: Final = BrokenRules(report, lambda: self.policy)
        """The report to tell what happened to containers, for it tells what follows as well."""
        self.moves: Final = LiveMoves(
            lambda: self.policy, actuator, owner, self.report, self._decided, self.adjust
        )
        self._releases = Releases(lambda: self.policy, actuator, owner, self.report)
        self._refused_updates = RefusedUpdates(lambda: self.policy, actuator, owner, self.report)
        self._machine_memory_bytes = machine_memory_bytes
        self._undone = UndoneCreations()
        self.foreign_pins = ForeignPins()
        self._gone: dict[ContainerId, None] = {}
        """The last containers that ended: whatever is told of them later adopts none."""

    @property
    def asks_kubelet(self) -> bool:
        """Whether the configuration in force has the kubelet asked about devices."""
        return self.policy.config.agent.pod_resource_api

    def create(self, newcomer: Newcomer) -> Answer:
        """Place a new container."""
        if not newcomer.container.id:
            return Answer()
        newcomer = self.foreign_pins.looked_at(newcomer)
        self._gone.pop(newcomer.container.id, None)
        create = partial(self._placed, "create", newcomer, ContainerState.CREATED)
        if newcomer.container.id in self.policy.grants:
            # One of this id may run, and where this fails, or is refused, it goes on.
            with self.policy.undone_on_fault():
                return create(self.policy.create)
        self.policy.begin()
        try:
            return create(self.policy.create)
        except Exception as fault:
            self.adjust(UNDONE, self._releases.undo(newcomer.container.id, fault))
            raise

    def start(self, mention: Mention) -> None:
        """The container runs; one that holds nothing is placed where it runs.

        It was never announced, or was created without us: we were late, or not there.
        """
        container_id = mention.container_id
        if not container_id:
            return
        if self._is_news(mention):
            self._adopt(mention)
        self.policy.start(container_id)
        self._undone.forget(self.policy.containers.get(container_id))
        decision = self.policy.decisions.get(container_id)
        if decision is not None and decision.cold_start_ns:
            self._owner.afterwards(lambda: self._tell_cold_start(container_id))
        self._actuator.run(container_id, mention.pid)

    def update(self, mention: Mention, wanted: LinuxResources) -> Answer:
        """Change what a container asks for; what is unset in `wanted` stays as it is.

        The answer repeats the container's own pinning: a cpuset in the request would override it.
        """
        container_id = mention.container_id
        if not container_id:
            return Answer()
        if self._is_news(mention):
            self._adopt(mention)
            # Its start, if it is told at all, was told before.
            self._actuator.run(container_id, mention.pid)
        known = self.policy.containers.get(container_id)
        if known is None or container_id not in self.policy.grants:
            return Answer(container_id=container_id)
        asked = self.asked.get(container_id) or mention.read().linux
        merged = merge(asked, wanted)
        if merged == asked:
            # Cpus or memory nodes at most: an update of our own, or somebody else's, who is
            # overruled.
            own = self.policy.pinning(container_id)
            lifts = self.policy.lifts_quota(container_id)
            return Answer(container_id=container_id, own=own, lifts_quota=lifts, is_echo=True)
        resources = estimate(merged, known.pod.qos, self._machine_memory_bytes)

        def resize() -> tuple[Decision, tuple[Change, ...]]:
            decision = self.policy.update(container_id, resources)
            return decision, decision.changes

        decision, changes = self.moves.kept([container_id], resize)
        if changes is not decision.changes:
            decision = structs.replace(decision, changes=changes)
        self._owner.afterwards(lambda: self._decided("update", known, decision))
        others = new_pinnings(decision.changes)
        others.pop(container_id, None)
        if isinstance(decision.result, Refusal):
            return Answer(container_id=container_id, others=others, refusal=decision.result.reason)
        self.asked[container_id] = merged
        return Answer(
            container_id=container_id,
            own=self.policy.pinning(container_id),
            lifts_quota=self.policy.lifts_quota(container_id),
            others=others,
        )

    def stop(self, container_id: ContainerId, *, is_undone: bool = False) -> Answer:
        """Take back what a container held; `is_undone`: it is undone as its creation failed."""
        # A creation that we refused is undone as well, and everybody knows why.
        if is_undone and container_id in self.policy.grants:
            known = self.policy.containers[container_id]
            if known.state is ContainerState.CREATED:
                undone = self._undone.count(known)
                self._owner.afterwards(partial(self.report, undone))
        self._note_gone(container_id)
        return self._releases.release(container_id, self.policy.stop)

    def remove(self, container_id: ContainerId) -> Answer:
        """Forget a container."""
        answer = self._releases.release(container_id, self.policy.remove)
        self.asked.pop(container_id, None)
        self._note_gone(container_id)
        return answer

    def stop_pod(self, pod_id: PodId) -> None:
        """Take back what is left of a pod's containers."""
        for container_id in self._of_pod(pod_id):
            self.post(self.stop(container_id))

    def remove_pod(self, pod_id: PodId, uid: str = "") -> None:
        """Forget what is left of a pod's containers, and where they were."""
        for container_id in self._of_pod(pod_id):
            self.post(self.remove(container_id))
        if uid:
            self.policy.forget_places(uid)

    def synchronize(self, listed: Listing) -> Answer:
        """Adopt everything that runs; who differs from its new pinning is in the answer."""
        self.asked.clear()
        self.asked.update(listed.linux)
        known = self.policy.snapshot()
        # A runtime that did not do yet what it was told may run containers where they were before.
        remembered = known.final_advice() if known.has_landed else known.advice()
        advice = {**self.advice, **remembered}
        adopted = self.policy.synchronize(listed.containers, advice, listed.unread)
        self.advice = {}
        containers_by_id = {one.id: one for one in listed.containers}

        def tell() -> None:
            tell_faults(self.report, adopted)
            for decision in adopted.decisions:
                known = containers_by_id[decision.container_id]
                self.report(
                    Decided(
                        event="synchronize",
                        container=self.policy.containers.get(known.id, known),
                        decision=decision,
                        problems=listed.problems[known.id],
                    )
                )
                self._tell_cold_start(known.id)
                self.policy.compact(known.id)
            self.report(Synchronized(len(containers_by_id), len(changes)))

        self._owner.afterwards(tell)
        changes = self.moves.resized_meanwhile(listed.containers, advice, adopted.changes)
        wanted = {one: self.policy.pinning(one) or Pinning() for one in self.policy.grants}
        self._actuator.synchronize(wanted, listed.pids)
        self._refused_updates.renew()
        return Answer(others=new_pinnings(changes))

    def reconfigure(self, config: Config | None = None, machine: Machine | None = None) -> bool:
        """Let the same policy with another configuration or machine take over everything that runs.

        Returns whether anything differs. Raises `ConfigError`, and everything stays as it is.
        """
        old = self.policy
        config, machine = config or old.config, machine or old.machine
        if (config, machine) == (old.config, old.machine):
            return False
        self.policy, adopted = old.reconfigured(config, machine)
        self._actuator.want(new_pinnings(self.moves.kept_since(old, adopted.changes)))
        moves = find_moves(old.snapshot(), self.policy.snapshot())

        def tell() -> None:
            tell_faults(self.report, adopted)
            self.report(Reconfigured(len(adopted.changes), moves))
            for move in moves:
                self._tell_cold_start(move.container.id)

        self._owner.afterwards(tell)
        return True

    def look_at_rules(self) -> Mapping[ContainerId, tuple[str, ...]]:
        """Tell of rules required during execution that stopped holding; see the policy's own."""
        before = dict(self.policy.decisions)
        found = self.policy.look_at_rules()
        for container_id, texts in found.items():
            decision = self.policy.decisions[container_id]
            if set(texts) - set(before[container_id].unmet):
                told = as_it_is(self.policy, decision)
                known = self.policy.containers[container_id]
                self._owner.afterwards(partial(self._decided, "unmet", known, told))
        self._owner.afterwards(self.report.look)
        return found

    def end_cold_start(self, container_id: ContainerId) -> None:
        """A container has run long enough without DRAM."""
        with self.policy.undone_on_fault():
            changes = self.policy.end_cold_start(container_id)
        self.adjust("end of cold start", changes)

    def observe_memory(self, free_bytes: Mapping[int, int]) -> None:
        """Available memory in bytes by NUMA node id, as read just now."""
        with self.policy.undone_on_fault():
            changes = self.policy.observe_memory(free_bytes)
        self.adjust("memory pressure", changes)

    def adjust(self, cause: str, changes: tuple[Change, ...]) -> None:
        """Tell containers that something else follows for them, and report why."""
        self._actuator.want(new_pinnings(changes))
        known = self.policy.containers
        found = [Adjusted(cause=cause, container=known[c.container_id], change=c) for c in changes]

        def tell() -> None:
            for one in found:
                self.report(one)

        self._owner.afterwards(tell)

    def post(self, answer: Answer) -> None:
        """Send an answer's updates by themselves, as the call they belong to is over."""
        self._actuator.want(answer.all)

    def created(self, answer: Answer) -> Answer:
        """An answer that creates a container, noted as told; with it goes what waits for others."""
        if answer.refusal or answer.own is None or answer.container_id is None:
            return self.answered(answer)
        self._actuator.create(answer.container_id, answer.own)
        others = self._actuator.answer(answer.others, but=answer.container_id)
        return answer if others == answer.others else structs.replace(answer, others=others)

    def answered(self, answer: Answer) -> Answer:
        """An answer to any other call, noted as told; with it goes what waits for others."""
        if answer.refusal:
            # The answer is an error and carries nothing.
            self._actuator.want(answer.others)
            return answer
        if answer.is_echo and answer.container_id is not None:
            others = self._actuator.echo(answer.container_id, answer.others)
            if others is not None:
                return structs.replace(answer, others=others)
        told = self._actuator.answer(answer.all)
        if answer.own is not None and answer.container_id is not None:
            told.pop(answer.container_id, None)
        return answer if told == answer.others else structs.replace(answer, others=told)

    def _tell_cold_start(self, container_id: ContainerId) -> None:
        container = self.policy.containers.get(container_id)
        decision = self.policy.decisions.get(container_id)
        if container is None or decision is None or not decision.cold_start_ns:
            return
        if container.state is ContainerState.RUNNING:
            self.report(ColdStarted(container_id, decision.cold_start_ns))

    def _placed(
        self,
        event: str,
        newcomer: Newcomer,
        state: ContainerState,
        place: Callable[[Container], Decision],
    ) -> Answer:
        container, problems = newcomer.container, newcomer.problems
        if container.state is not state:
            container = structs.replace(container, state=state)
        decision = place(container)
        # With what central rules give it. Where another one of its id runs on, that one is known.
        runs_on = isinstance(decision.result, Refusal) and container.id in self.policy.grants
        known = None if runs_on else self.policy.containers.get(container.id)
        container = known or self.policy.completed(container)
        others = new_pinnings(decision.changes)
        if isinstance(decision.result, Refusal):
            reason = decision.result.reason
            answer = Answer(container_id=container.id, others=others, refusal=reason)
        else:
            answer = Answer(
                container_id=container.id,
                own=decision.pinning,
                scheduling=decision.scheduling,
                classes=decision.classes,
                lifts_quota=self.policy.lifts_quota(container.id),
                interleaved=self.policy.interleaved(container.id),
                others=others,
            )

        def tell() -> None:
            notes = () if runs_on else self.policy.note(container.id)
            told = structs.replace(decision, notes=notes, weights={})
            self.report(Decided(event=event, container=container, decision=told, problems=problems))
            self.policy.compact(container.id)

        # Last of all: where a fault shows before, nobody is to hear of it.
        self._owner.afterwards(tell)
        if not answer.refusal:
            self.asked[container.id] = newcomer.linux
        return answer

    def _adopt(self, mention: Mention) -> None:
        """Take over a container that runs already: it cannot be refused any more."""
        late = mention.read()
        with self.policy.undone_on_fault():
            answer = self._placed("adopt", late, ContainerState.RUNNING, self.policy.adopt)
        self.post(answer)
        changes = self.moves.resized_meanwhile([late.container], {})
        self._actuator.want(new_pinnings(changes))

    def _is_news(self, mention: Mention) -> bool:
        """Whether a container that runs holds nothing."""
        known = self.policy.containers.get(container_id := mention.container_id)
        return (
            container_id not in self.policy.grants
            and container_id not in self._gone
            and not mention.is_over
            and (known is None or known.state is not ContainerState.EXITED)
        )

    def _note_gone(self, container_id: ContainerId) -> None:
        self._gone[container_id] = None
        if len(self._gone) > _GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def _of_pod(self, pod_id: PodId) -> tuple[ContainerId, ...]:
        return self.policy.of_pod(pod_id) if pod_id else ()

    def _decided(self, event: str, known: Container, decision: Decision) -> None:
        container = self.policy.containers.get(known.id, known)
        self.report(Decided(event=event, container=container, decision=decision))
        self._look_again(known.id)

    def _look_again(self, container_id: ContainerId, looks_left: int = 16) -> None:
        """Have the notes at others catch up with a decision, piece by piece: plans go by them."""
        if self.policy.compact(container_id) and looks_left:
            self._owner.afterwards(lambda: self._look_again(container_id, looks_left - 1))
        else:
            self.report.look_at_lost()
