"""The one owner of all grants: events in, decisions out. Synchronous and single-threaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..topology.machine import Machine
from .adoption import (
    Advice,
    adopted_grant,
    adoption_order,
    changed,
    difference,
    has_own_cpus,
    is_alive,
    newest_of_each_name,
    on_usable_cpus,
    overlaps,
)
from .books import Books
from .classify import Classified, Classifier, grave_problems
from .configuration.config import Config
from .container import Container, ContainerId, ContainerState, Resources
from .decision import Change, Decision, Grant, Pinning, Refusal
from .placement import Chooser
from .placer import Failure, Placer, Plan
from .request import Request
from .resizer import Resizer
from .roster import Roster
from .tuning.effects import Holding, Occupancy
from .tuning.interrupts import Interrupt
from .tuning.speedselect import speed_select_warnings
from .tuning.turbo import prefer_turbo


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

    def __init__(
        self, machine: Machine, config: Config, *, interrupts: tuple[Interrupt, ...] = ()
    ) -> None:
        """Raises `ConfigError` where the configuration does not fit the machine."""
        self.machine = machine
        self.config = config
        self._interrupts = interrupts
        self._books = Books(machine, config)
        self.tree = self._books.tree
        self.supply = self._books.supply
        self.ledger = self._books.ledger
        self.memory = self._books.memory
        self._classifier = Classifier(config, interrupts, machine)
        self._placer = Placer(self._books, Chooser(self.tree, self._books.picker.classes))
        self._resizer = Resizer(self._books)
        self._roster = Roster()

    @property
    def containers(self) -> Mapping[ContainerId, Container]:
        """Every container known, stopped ones included until they are removed."""
        return self._roster.containers

    @property
    def grants(self) -> Mapping[ContainerId, Grant]:
        """What every placed container holds."""
        return self.ledger.grants

    @property
    def decisions(self) -> Mapping[ContainerId, Decision]:
        """The last decision about each known container."""
        return self._roster.decisions

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The machine's interrupts, for containers that ask for some of them."""
        return self._interrupts

    @interrupts.setter
    def interrupts(self, interrupts: tuple[Interrupt, ...]) -> None:
        if interrupts != self._interrupts:
            self._interrupts = interrupts
            self._classifier = Classifier(self.config, interrupts, self.machine)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of the configuration this machine cannot have."""
        machine, config, allowed = self.machine, self.config, self.supply.allowed
        return (*self.supply.warnings, *speed_select_warnings(machine, config, allowed))

    @property
    def occupancy(self) -> Occupancy:
        """Who has cpus for itself, and what it asks of them beside. O(grants)."""
        classified = self._roster.classified
        return Occupancy(
            machine=self.machine,
            config=self.config,
            supply=self.supply,
            holdings=tuple(
                Holding(
                    cpus=grant.exclusive,
                    irq=classified[container_id].irq,
                    cpu_class=classified[container_id].cpu_class,
                )
                for container_id, grant in self.ledger.grants.items()
                if grant.exclusive
            ),
        )

    def pinning(self, container_id: ContainerId) -> Pinning | None:
        """What the kernel was told about a container last; None for an unknown id."""
        return self._books.pinner.told(container_id)

    def create(self, container: Container) -> Decision:
        """Place a new container; its own pinning is in the decision, others' in `changes`.

        An older instance of the same pod and name is released first. A refusal changes nothing
        else.
        """
        self._forget(container.id)
        if (older := self._roster.instance(container)) is not None:
            self._forget(older)
        classified = self._know(container)
        decision = self._place(container, classified)
        return self._conclude(decision)

    def start(self, container_id: ContainerId) -> None:
        """The container runs. Unknown ids are ignored."""
        self._roster.reach(container_id, ContainerState.RUNNING)

    def stop(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Release what a container held. Unknown ids and repeated stops change nothing."""
        self._roster.reach(container_id, ContainerState.EXITED)
        if container_id in self.ledger.grants:
            self._books.release(container_id)
            self._books.relax()
        return self._books.pinner.changes()

    def end_cold_start(self, container_id: ContainerId) -> tuple[Change, ...]:
        """A container has run long enough without DRAM: it gets some now, or once there is room.

        Unknown ids change nothing.
        """
        if container_id in self.ledger.grants:
            self._books.end_cold_start(container_id)
        return self._books.pinner.changes()

    def observe_memory(self, free_bytes: Mapping[int, int]) -> tuple[Change, ...]:
        """What memory can be had from each node without killing anybody, by node id.

        Who runs short gets a wider set, and goes back when all is calm; see `Books.observe`.
        """
        self._books.observe(free_bytes)
        return self._books.pinner.changes()

    def remove(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Forget a container, releasing it first where it was never stopped."""
        changes = self.stop(container_id)
        self._forget(container_id)
        return changes

    def update(self, container_id: ContainerId, resources: Resources) -> Decision:
        """Change what a container asks for; a refusal leaves it what it had."""
        known = self._roster.containers.get(container_id)
        grant = self.ledger.grants.get(container_id)
        if known is None or grant is None:
            refusal = Refusal(reason=f"container {container_id!r} holds no cpus to resize")
            return Decision(container_id=container_id, result=refusal)
        if resources == known.resources:
            pinning = self._books.pinner.told(container_id) or Pinning()
            return replace(self._roster.decisions[container_id], pinning=pinning, changes=())
        container = replace(known, resources=resources)
        classified = self._classifier.classify(container)
        plan = self._resizer.plan(grant, classified.request)
        if isinstance(plan, Failure):
            return Decision(
                container_id=container_id,
                result=plan.refusal,
                pool=self.tree.pools[grant.pool_id].name,
                pinning=self._books.pinner.told(container_id) or Pinning(),
                lineup=plan.lineup,
                problems=classified.problems,
            )
        self._roster.add(container, classified)
        return self._conclude(self._apply(plan, classified))

    def synchronize(
        self,
        containers: Sequence[Container],
        advice: Mapping[ContainerId, Advice] = MappingProxyType({}),
    ) -> Synchronized:
        """Adopt what runs: keep every container's cpus and memory where they are still legal.

        Containers that are not in the list are forgotten. Only containers with illegal or missing
        cpus are placed, Guaranteed first, in a fixed order. The runtime's list is the truth;
        `advice` only tells apart what looks the same there.
        """
        for container_id in tuple(self._roster.containers):
            self._forget(container_id)
        running = sorted(
            (one for one in newest_of_each_name(containers) if is_alive(one)), key=adoption_order
        )
        for container in running:
            self._know(container)
        with self._books.expecting(running, self._roster.classified):
            homeless = self._adopt(running, advice)
        # What was adopted keeps its cpus: nobody is told of growth until the next event.
        self._books.pinner.drain()
        for container in homeless:
            self._conclude(self._place_running(container))
        for container in running:
            self._mend(container)
        decisions = tuple(self._roster.decisions[one.id] for one in running)
        changes = (difference(one, self.pinning(one.id)) for one in running)
        return Synchronized(decisions=decisions, changes=tuple(filter(None, changes)))

    def advice(self) -> Mapping[ContainerId, Advice]:
        """What to remember of every grant for the next `synchronize`."""
        pools = self.tree.pools
        return {
            container_id: Advice.of(grant, pools[grant.pool_id])
            for container_id, grant in self.ledger.grants.items()
        }

    def reconfigured(
        self, config: Config, machine: Machine | None = None
    ) -> "tuple[Engine, Synchronized]":
        """Another engine with the same containers, and what they must be told; this one stays.

        Every container keeps exactly what it has where that is legal under the new configuration
        (and on the new machine, after a cpu went offline or came back). Cpus that can be used again
        go to those that miss exclusive ones, then to all that share them. The plan and the change
        are the same call: take the new engine. Raises `ConfigError`.
        """
        engine = Engine(machine or self.machine, config, interrupts=self._interrupts)
        engine._books.inherit(self._books)
        running = self.running()
        engine.synchronize([on_usable_cpus(one, engine.supply) for one in running], self.advice())
        has_more = bool(engine.supply.usable - self.supply.usable)
        for container in running:
            engine._mend(container, has_more=has_more)
        if has_more or engine.supply.reserved - self.supply.reserved:
            engine._books.pinner.catch_up()
        changes = (changed(one.id, self.pinning(one.id), engine.pinning(one.id)) for one in running)
        decisions = tuple(engine.decisions.values())
        return engine, Synchronized(decisions=decisions, changes=tuple(filter(None, changes)))

    def running(self) -> tuple[Container, ...]:
        """Every placed container with the cpus and memory it has, as a runtime would list it."""
        pinner, found = self._books.pinner, list[Container]()
        for container_id, grant in self.ledger.grants.items():
            container = self._roster.containers[container_id]
            told = pinner.told(container_id) or Pinning()
            cpus = told.cpus or pinner.cpus(grant) or container.cpus
            found.append(replace(container, cpus=cpus, mems=told.mems or grant.memory))
        return tuple(found)

    def check(self) -> None:
        """Assert every invariant. O(everything); for tests."""
        self._books.check()
        assert self.ledger.grants.keys() <= self._roster.containers.keys()

    def _know(self, container: Container) -> Classified:
        classified = self._classifier.classify(container)
        self._roster.add(container, classified)
        self._books.affinity.add(container, classified.rules)
        return classified

    def _forget(self, container_id: ContainerId) -> None:
        self._books.release(container_id)
        self._roster.remove(container_id)

    def _place(self, container: Container, classified: Classified) -> Decision:
        problems = classified.problems
        bad = grave_problems(problems, container, self.config)
        if bad:
            refusal = Refusal(reason="; ".join(map(str, bad)))
            self._books.affinity.remove(container.id)
            return Decision(container_id=container.id, result=refusal, problems=problems)
        affinities = self._books.affinity.affinities(container, classified.rules)
        if not affinities.is_whole:
            problems = (*problems, *affinities.problems(container))
            classified = replace(classified, problems=problems)
        request = prefer_turbo(
            classified.request, classified.cpu_class, self.config, lambda: self.occupancy
        )
        plan = self._placer.plan(request, affinities.weights)
        if isinstance(plan, Failure):
            self._books.affinity.remove(container.id)
            return Decision(
                container_id=container.id,
                result=plan.refusal,
                lineup=plan.lineup,
                problems=problems,
            )
        return self._apply(plan, classified)

    def _apply(self, plan: Plan, classified: Classified) -> Decision:
        grant = self._books.take(plan)
        return Decision(
            container_id=grant.container_id,
            result=grant,
            pool=self.tree.pools[grant.pool_id].name,
            lineup=plan.lineup,
            decided_by=plan.decided_by,
            problems=classified.problems,
            scheduling=classified.scheduling,
            classes=classified.classes,
            cold_start_ns=classified.request.cold_start_ns,
        )

    def _conclude(self, decision: Decision) -> Decision:
        """Note what the container and the others are told, and the decision itself."""
        pinning, changes = self._books.settle(decision.container_id)
        decision = replace(decision, pinning=pinning, changes=changes)
        self._roster.decisions[decision.container_id] = decision
        return decision

    def _adopt(
        self, running: Sequence[Container], advice: Mapping[ContainerId, Advice]
    ) -> list[Container]:
        """Book what every container has; returns those that have nothing legal."""
        others = overlaps([(one, self._roster.classified[one.id].request) for one in running])
        homeless: list[Container] = []
        left: list[tuple[Container, Request]] = []
        # What an exclusive grant holds is legal for nobody else, so those come first.
        for container in running:
            request = self._roster.classified[container.id].request
            hint = advice.get(container.id)
            if not has_own_cpus(request, hint):
                left.append((container, request))
            elif not self._adopt_one(container, request, others[container.id], hint):
                left.append((container, request.as_shared()))
        for container, request in left:
            hint = advice.get(container.id)
            if not self._adopt_one(container, request, others[container.id], hint):
                homeless.append(container)
        return homeless

    def _adopt_one(
        self, container: Container, request: Request, others: int, advice: Advice | None
    ) -> bool:
        picker = self._books.picker
        grant = adopted_grant(container, request, self.ledger, picker, others, advice)
        if grant is None:
            return False
        grant, pinning = self._books.adopt(container, request, grant)
        asked = self._roster.classified[container.id].request.exclusive
        missing = asked - len(grant.exclusive)
        is_cold = not self._books.has_dram(grant.memory)
        self._roster.decisions[container.id] = Decision(
            container_id=container.id,
            result=grant,
            pool=self.tree.pools[grant.pool_id].name,
            pinning=pinning,
            decided_by="kept",
            cold_start_ns=request.cold_start_ns if is_cold else 0,
            degraded=f"{missing} of {asked} exclusive CPUs are missing" if missing > 0 else "",
            problems=self._roster.classified[container.id].problems,
        )
        return True

    def _place_running(self, container: Container) -> Decision:
        """Place a container that runs already: it cannot be refused any more."""
        classified = self._roster.classified[container.id]
        decision = self._place(container, classified)
        if isinstance(decision.result, Grant):
            return decision
        plan = self._placer.plan_anyway(classified.request)
        self._books.adopt_memory(classified.request, plan.grant, plan.grant.memory)
        self._books.affinity.add(container, classified.rules)
        forced = self._apply(plan, classified)
        reason = f"it runs already: {decision.result.reason}"
        return replace(
            forced,
            decided_by=reason,
            degraded=decision.result.reason,
            lineup=decision.lineup,
        )

    def _mend(self, container: Container, *, has_more: bool = False) -> None:
        """Give a container other cpus for exclusive ones it lost now, or before `has_more` came."""
        is_whole = on_usable_cpus(container, self.supply) is container
        if (is_whole and not has_more) or not self._roster.decisions[container.id].degraded:
            return
        classified = self._roster.classified[container.id]
        plan = self._resizer.plan(self.ledger.grants[container.id], classified.request)
        if isinstance(plan, Plan):
            self._conclude(self._apply(plan, classified))
