"""The one owner of all grants: events in, decisions out. Synchronous and single-threaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..topology.cpuset import NodeSet
from ..topology.machine import Machine
from .adoption import (
    adopted_grant,
    adoption_order,
    instance_key,
    is_alive,
    newest_of_each_name,
)
from .affinityindex import AffinityIndex
from .classify import Classified, Classifier
from .config import Config, OnBadAnnotation
from .container import Container, ContainerId, ContainerState, Resources
from .decision import Change, Decision, Grant, Pinning, Refusal
from .ledger import Ledger
from .memory import Offer
from .memorychoice import PoolMemory
from .memoryledger import MemoryLedger
from .memorynodes import MemoryNodes
from .picker import CpuPicker
from .pinning import Pinner
from .placement import Chooser
from .placer import Failure, Placer, Plan
from .pool import build_tree
from .request import Request
from .supply import read_supply


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronized:
    """The answer to a list of running containers: one decision each, and who must be updated."""

    decisions: tuple[Decision, ...]
    changes: tuple[Change, ...]


class Engine:
    """All grants of one machine under one configuration.

    `Decision.changes` and the changes returned by `stop`, `remove` and `synchronize` name only
    containers whose cpus, mems or shares really differ from what they were told last.
    """

    def __init__(self, machine: Machine, config: Config) -> None:
        """Raises `ConfigError` where the configuration does not fit the machine."""
        self.machine = machine
        self.config = config
        self._picker = CpuPicker(machine)
        self.supply = read_supply(machine, config, self._picker)
        self.tree = build_tree(machine, self.supply)
        self.ledger = Ledger(self.tree, self._picker)
        self.memory = MemoryLedger(MemoryNodes.of(machine))
        self._classifier = Classifier(config)
        self._pool_memory = PoolMemory(self.tree, self.memory)
        self._placer = Placer(
            self.tree,
            self.ledger,
            self._pool_memory,
            self._picker,
            Chooser(self.tree, self._picker.classes),
        )
        self._pinner = Pinner(self.ledger, config, self._picker.cores)
        self._affinity = AffinityIndex()
        self._containers: dict[ContainerId, Container] = {}
        self._instances: dict[tuple[str, str], ContainerId] = {}
        self._classified: dict[ContainerId, Classified] = {}
        self._decisions: dict[ContainerId, Decision] = {}

    @property
    def containers(self) -> Mapping[ContainerId, Container]:
        """Every container known, stopped ones included until they are removed."""
        return self._containers

    @property
    def grants(self) -> Mapping[ContainerId, Grant]:
        """What every placed container holds."""
        return self.ledger.grants

    @property
    def decisions(self) -> Mapping[ContainerId, Decision]:
        """The last decision about each known container."""
        return self._decisions

    def pinning(self, container_id: ContainerId) -> Pinning | None:
        """What the kernel was told about a container last; None for an unknown id."""
        return self._pinner.told(container_id)

    def create(self, container: Container) -> Decision:
        """Place a new container; its own pinning is in the decision, others' in `changes`.

        An older instance of the same pod and name is released first. A refusal changes nothing
        else.
        """
        self._forget(container.id)
        if (older := self._instances.get(instance_key(container))) is not None:
            self._forget(older)
        classified = self._know(container)
        decision = self._place(container, classified)
        return self._conclude(decision)

    def start(self, container_id: ContainerId) -> None:
        """The container runs. Unknown ids are ignored."""
        container = self._containers.get(container_id)
        if container is not None:
            self._containers[container_id] = replace(container, state=ContainerState.RUNNING)

    def stop(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Release what a container held. Unknown ids and repeated stops change nothing."""
        container = self._containers.get(container_id)
        if container is not None:
            self._containers[container_id] = replace(container, state=ContainerState.EXITED)
            self._release(container_id)
        return self._pinner.changes()

    def remove(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Forget a container, releasing it first where it was never stopped."""
        self._forget(container_id)
        return self._pinner.changes()

    def update(self, container_id: ContainerId, resources: Resources) -> Decision:
        """Change what a container asks for; a refusal leaves it what it had."""
        known = self._containers.get(container_id)
        grant = self.ledger.grants.get(container_id)
        if known is None or grant is None:
            refusal = Refusal(reason=f"container {container_id!r} holds no cpus to resize")
            return Decision(container_id=container_id, result=refusal)
        if resources == known.resources:
            pinning = self._pinner.told(container_id) or Pinning()
            return replace(self._decisions[container_id], pinning=pinning, changes=())
        container = replace(known, resources=resources)
        classified = self._classifier.classify(container)
        plan = self._placer.plan_resize(grant, classified.request)
        if isinstance(plan, Failure):
            return Decision(
                container_id=container_id,
                result=plan.refusal,
                pool=self.tree.pools[grant.pool_id].name,
                pinning=self._pinner.told(container_id) or Pinning(),
                candidates=plan.candidates,
                problems=classified.problems,
            )
        self._containers[container_id] = container
        self._classified[container_id] = classified
        return self._conclude(self._apply(plan, classified))

    def synchronize(self, containers: Sequence[Container]) -> Synchronized:
        """Adopt what runs: keep every container's cpus and memory where they are still legal.

        Containers that are not in the list are forgotten. Only containers with illegal or missing
        cpus are placed, Guaranteed first, in a fixed order.
        """
        for container_id in tuple(self._containers):
            self._forget(container_id)
        running = sorted(
            (one for one in newest_of_each_name(containers) if is_alive(one)), key=adoption_order
        )
        for container in running:
            self._know(container)
        homeless = self._adopt(running)
        # What was adopted keeps its cpus: nobody is told of growth until the next event.
        self._pinner.drain()
        for container in homeless:
            self._conclude(self._place_running(container))
        return Synchronized(
            decisions=tuple(self._decisions[one.id] for one in running),
            changes=tuple(filter(None, map(self._difference, running))),
        )

    def check(self) -> None:
        """Assert every invariant of the ledgers. O(everything); for tests."""
        self.ledger.check()
        self.memory.check()
        for container_id, grant in self.ledger.grants.items():
            assert container_id in self._containers, container_id
            pinning = self._pinner.pinning(grant)
            assert pinning.cpus is None or pinning.cpus, container_id

    def _know(self, container: Container) -> Classified:
        classified = self._classifier.classify(container)
        self._containers[container.id] = container
        self._instances[instance_key(container)] = container.id
        self._classified[container.id] = classified
        self._affinity.add(container, classified.rules)
        return classified

    def _forget(self, container_id: ContainerId) -> None:
        self._release(container_id)
        container = self._containers.pop(container_id, None)
        if container is None:
            return
        key = instance_key(container)
        if self._instances.get(key) == container_id:
            del self._instances[key]
        self._classified.pop(container_id, None)
        self._decisions.pop(container_id, None)

    def _release(self, container_id: ContainerId) -> None:
        if self.ledger.drop(container_id) is not None:
            self.memory.release(container_id)
        self._affinity.remove(container_id)
        self._pinner.forget(container_id)

    def _place(self, container: Container, classified: Classified) -> Decision:
        problems = classified.problems
        is_strict = self.config.on_bad_annotation is OnBadAnnotation.FAIL
        bad = [str(one) for one in problems if one.is_fatal or is_strict]
        if bad:
            refusal = Refusal(reason="; ".join(bad))
            self._affinity.remove(container.id)
            return Decision(container_id=container.id, result=refusal, problems=problems)
        weights = self._affinity.weights(container, classified.rules)
        plan = self._placer.plan(classified.request, weights)
        if isinstance(plan, Failure):
            self._affinity.remove(container.id)
            return Decision(
                container_id=container.id,
                result=plan.refusal,
                candidates=plan.candidates,
                problems=problems,
            )
        return self._apply(plan, classified)

    def _apply(self, plan: Plan, classified: Classified) -> Decision:
        """Take a plan in one step."""
        grant = plan.grant
        self.ledger.drop(grant.container_id)
        self.ledger.add(grant)
        if plan.offer is not None:
            self.memory.commit(plan.offer)
            for container_id, zone in plan.offer.moves.items():
                self.ledger.move_memory(container_id, zone)
                self._pinner.mark(container_id)
        return Decision(
            container_id=grant.container_id,
            result=grant,
            pool=self.tree.pools[grant.pool_id].name,
            candidates=plan.candidates,
            decided_by=plan.decided_by,
            problems=classified.problems,
        )

    def _conclude(self, decision: Decision) -> Decision:
        """Note what the container and the others are told, and the decision itself."""
        container_id = decision.container_id
        changes = self._pinner.changes(container_id)
        grant = self.ledger.grants.get(container_id)
        pinning = Pinning()
        if grant is not None:
            pinning = self._pinner.pinning(grant)
            self._pinner.note(container_id, pinning)
        decision = replace(decision, pinning=pinning, changes=changes)
        self._decisions[container_id] = decision
        return decision

    def _adopt(self, running: Sequence[Container]) -> list[Container]:
        """Book what every container has; returns those that have nothing legal."""
        once = twice = 0
        for container in running:
            mask = container.cpus.mask if container.cpus else 0
            twice |= once & mask
            once |= mask
        # What an exclusive grant holds is legal for nobody else, so those come first.
        homeless: list[Container] = []
        for is_exclusive in (True, False):
            for container in running:
                request = self._classified[container.id].request
                if (request.exclusive > 0) is not is_exclusive:
                    continue
                mask = container.cpus.mask if container.cpus else 0
                others = twice | (once & ~mask)
                grant = adopted_grant(container, request, self.ledger, self._picker, others)
                if grant is None:
                    homeless.append(container)
                    continue
                self._book_adopted(container, request, grant)
        return sorted(homeless, key=adoption_order)

    def _book_adopted(self, container: Container, request: Request, grant: Grant) -> None:
        zone = self._adopt_memory(request, grant, container.mems)
        grant = replace(grant, memory=zone, memory_bytes=request.memory_bytes)
        self.ledger.add(grant)
        pinning = self._pinner.pinning(grant)
        if pinning.cpus is not None:
            pinning = replace(pinning, cpus=container.cpus)
        self._pinner.note(container.id, pinning)
        self._decisions[container.id] = Decision(
            container_id=container.id,
            result=grant,
            pool=self.tree.pools[grant.pool_id].name,
            pinning=pinning,
            decided_by="kept",
            problems=self._classified[container.id].problems,
        )

    def _adopt_memory(self, request: Request, grant: Grant, mems: NodeSet | None) -> NodeSet:
        """Account what a running container has; a legal set stays as it is."""
        wanted = self._pool_memory.choice(request).request_at(grant.pool_id)
        if mems is None or not mems or mems.mask & ~self.memory.nodes.with_memory:
            offer = self.memory.offer(wanted)
            if isinstance(offer, Offer) and not offer.moves:
                self.memory.commit(offer)
                return offer.zone
            mems = self.tree.root.memory_nodes
        return self.memory.adopt(wanted, mems)

    def _difference(self, container: Container) -> Change | None:
        """What a container must be told, given what the runtime says it has."""
        after = self._pinner.told(container.id)
        if after is None:
            return None
        is_pinned = after.cpus is None or after.cpus == container.cpus
        if is_pinned and (after.mems is None or after.mems == container.mems):
            return None
        before = Pinning(cpus=container.cpus, mems=container.mems, cpu_shares=after.cpu_shares)
        return Change(container_id=container.id, before=before, after=after)

    def _place_running(self, container: Container) -> Decision:
        """Place a container that runs already: it cannot be refused any more."""
        classified = self._classified[container.id]
        decision = self._place(container, classified)
        if isinstance(decision.result, Grant):
            return decision
        plan = self._placer.plan_anyway(classified.request)
        self._adopt_memory(classified.request, plan.grant, plan.grant.memory)
        self._affinity.add(container, classified.rules)
        forced = self._apply(plan, classified)
        reason = f"it runs already: {decision.result.reason}"
        return replace(forced, decided_by=reason, candidates=decision.candidates)
