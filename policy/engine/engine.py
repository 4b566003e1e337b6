"""The one owner of all grants: events in, decisions out. Synchronous and single-threaded."""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from msgspec.structs import replace

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import NodeSet
from ..books.books import Books
from ..configuration.config import Config
from ..model.container import Container, ContainerId, ContainerState, Pod, PodId, Resources
from ..model.grant import Grant, PoolId, Refusal
from ..model.move_purpose import MovePurpose
from ..model.pinning import Change, Pinning
from ..placing.classifier import Classifier
from ..placing.wishes.bandwidth import interleaved, lifts_quota
from ..pools.layout import MachineLayout
from ..pools.pool_labels import idle_pool_labels
from ..pools.pool_tree import PoolTree
from ..pools.supply import Supply
from ..rules.central_rules import CentralRules
from ..tuning.interrupts import Interrupt
from ..tuning.speed_select_plan import speed_select_warnings
from .adoption.adopted_container import adopt_alone
from .adoption.takeover import Remembered, recovered, synchronized, taken_over
from .advice import Advice
from .allocator import Allocator
from .decision import Adopted, Decision
from .left_cpus import LeftCpus
from .missed_resizes import MissedResizes
from .replacing.asked_move import ANYWHERE, AskedMove
from .restoring.restoration import restore, without_faulty
from .restoring.undoing import EventUndoing
from .snapshot import PresentHoldings, Snapshot
from .stuck_containers import StuckContainers, placed_away, resized, resized_pod, seen_gone
from .unmet.lost_rules import UnmetNames
from .unmet.notes import note_placement


class Engine:
    """All grants of one machine under one configuration.

    `Decision.changes` and the changes returned by `stop`, `remove` and `synchronize` name only
    containers whose cpus, mems or shares really differ from what they were told last.
    """

    def __init__(
        self,
        machine: Machine,
        config: Config,
        *,
        interrupts: tuple[Interrupt, ...] = (),
        layout: MachineLayout | None = None,
        central: CentralRules | None = None,
    ) -> None:
        """Raises `ConfigError` where the two do not fit. `layout`, `central`: theirs, at hand."""
        self._central = central or CentralRules(config)
        self.machine = machine
        self.config = config
        self._allocator = Allocator(Books(machine, config, layout), interrupts)

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Engine":
        """Another engine that holds what a snapshot shows, to try out what would follow."""
        engine = cls(snapshot.machine, snapshot.config, layout=snapshot.layout)
        engine._hold(snapshot)
        return engine

    @property
    def tree(self) -> PoolTree:
        """The pools of the machine."""
        return self._allocator.books.tree

    @property
    def supply(self) -> Supply:
        """The usable cpus and memory of the machine."""
        return self._allocator.books.supply

    @property
    def containers(self) -> Mapping[ContainerId, Container]:
        """Every container known, stopped ones included until they are removed."""
        return self._allocator.roster.containers

    @property
    def grants(self) -> Mapping[ContainerId, Grant]:
        """The grants of all placed containers, oldest first."""
        return self._allocator.books.ledger.grants

    @property
    def left(self) -> Mapping[ContainerId, Grant]:
        """Cpus that moved containers, and pens, have left and that are for nobody yet."""
        return self._allocator.books.ledger.left

    @property
    def left_cpus(self) -> LeftCpus:
        """The cpus that containers have left, to be kept and let go."""
        return LeftCpus(self._allocator)

    @property
    def stuck_containers(self) -> StuckContainers:
        """Containers that the runtime does not take off cpus, to be noted."""
        return StuckContainers(self._allocator)

    @property
    def missed_resizes(self) -> MissedResizes:
        """Resizes that were made while nobody looked, to be found and made good."""
        return MissedResizes(self._allocator)

    @property
    def holdings(self) -> PresentHoldings:
        """Holdings of this moment, as they go on: to look at after an event, and not to keep."""
        return PresentHoldings.of(self._allocator.books)

    @property
    def decisions(self) -> Mapping[ContainerId, Decision]:
        """The last decision about each known container."""
        self._allocator.unmet.look_at_postponed()
        return self._allocator.roster.decisions

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The machine's interrupts, for containers that ask for some of them."""
        return self._allocator.interrupts

    @interrupts.setter
    def interrupts(self, interrupts: tuple[Interrupt, ...]) -> None:
        if interrupts != self.interrupts:
            held = self._allocator
            held.interrupts = interrupts
            held.classifier = Classifier(self.config, interrupts, self.machine)
            held.pens.sizes.classifier = held.classifier

    @property
    def warnings(self) -> tuple[str, ...]:
        """Parts of the configuration that this machine cannot have, one sentence each."""
        slow = speed_select_warnings(self.machine, self.config, self.supply.allowed)
        return (*self.supply.remarks, *idle_pool_labels(self.tree, self.config), *slow)

    def snapshot(self) -> Snapshot:
        """The snapshot of this moment: values for any thread. O(containers)."""
        return self._allocator.snapshot()

    @contextmanager
    def undone_on_fault(self) -> Generator[None]:
        """Within it, whatever raises leaves everything as it was. O(grants)."""
        before = EventUndoing(self._allocator)
        try:
            yield
        except Exception as fault:
            try:
                self._allocator = before.allocator()
            except Exception as another:
                raise another from fault
            raise

    def begin(self) -> None:
        """An event begins that `recover` may have to end."""
        for table in self._allocator.books.ledger.tables:
            table.earlier.clear()

    def recover(self, faulty: ContainerId, told: Mapping[ContainerId, Pinning]) -> Adopted:
        """Have a container hold nothing, in whose creation or end a fault of ours showed.

        Books that are half changed are of no use: all others are adopted anew as they were at the
        last `begin`, on what they were `told` by then. O(everything).
        """
        half = self._allocator
        before = without_faulty(half.books, half.roster, faulty, told)
        self._allocator, found = recovered(half, before, self.completed)
        return found

    def pinning(self, container_id: ContainerId) -> Pinning | None:
        """The pinning that the kernel was told last for a container; None for an unknown id."""
        return self._allocator.books.pinner.told(container_id)

    def lifts_quota(self, container_id: ContainerId) -> bool:
        """Whether a container runs without a cpu quota: its cpus are its own, and it wants that."""
        classified = self._allocator.roster.classified.get(container_id)
        grant = self._allocator.books.ledger.grants.get(container_id)
        return self.config.pin_cpu and lifts_quota(grant, classified)

    def interleaved(self, container_id: ContainerId) -> NodeSet | None:
        """The memory nodes on which a container's pages lie in turn; None: as the kernel likes."""
        classified = self._allocator.roster.classified.get(container_id)
        return interleaved(self._allocator.books.pinner.told(container_id), classified)

    def of_pod(self, pod_id: PodId) -> tuple[ContainerId, ...]:
        """The containers known of a pod, stopped ones included, oldest first."""
        return self._allocator.roster.of_pod(pod_id)

    def completed(self, container: Container) -> Container:
        """The container with what central rules give it. For any thread; done again on creation."""
        return self._central.completed(container)

    def expect(self, pod: Pod) -> None:
        """A pod begins: read its texts, for which none of its containers has to wait then."""
        self._allocator.classifier.expect(pod)

    def create(self, container: Container) -> Decision:
        """Place a new container; its own pinning is in the decision, others' in `changes`.

        An older instance of its pod and name is released first. A refusal changes nothing else,
        and nothing at all where one of this id holds something.
        """
        allocator, ledger = self._allocator, self._allocator.books.ledger
        before = EventUndoing(allocator) if container.id in ledger.grants else None
        self._replace(container := self._central.completed(container))
        place = placed_away if ledger.narrowed.stuck else Allocator.place
        placed = place(allocator, container, allocator.know(container))
        decision = allocator.roster.with_shortfall(allocator.conclude(placed, is_awaited=True))
        if before is not None and isinstance(decision.result, Refusal):
            self._allocator = before.allocator()
            return replace(decision, changes=())
        return self.left_cpus.told(decision) if ledger.left else decision

    def adopt(self, container: Container, advice: Advice | None = None) -> Decision:
        """Take over a container that runs already and was never announced: it cannot be refused.

        It keeps its cpus and memory where they are legal, else it is placed; nobody else is looked
        at. Its own pinning is in the decision, others' in `changes`. `advice`: if it is remembered.
        """
        self._replace(container := self._central.completed(container))
        return adopt_alone(self._allocator, container, advice)

    def note(self, container_id: ContainerId, *, is_anew: bool = False) -> tuple[str, ...]:
        """Notes about a placement, which are kept with its decision. For when nobody waits."""
        known = self._allocator
        return note_placement(container_id, known.roster, known.books, is_anew=is_anew)

    def compact(self, container_id: ContainerId) -> bool:
        """Keep a decision's lineup packed soon, and file its container where rules find it.

        And look again at containers at which rules did not hold, those due, and tell more owners.
        For when nobody waits, after `note`; O(pools). Returns whether there may be more to look at.
        """
        self._allocator.books.affinity.file()
        self._allocator.roster.pack_later(container_id)
        return self._allocator.unmet.tidy()

    def identify(self, container_id: ContainerId, runtime_id: str) -> None:
        """The runtime has given a container its id, which is shown. Unknown ids are ignored."""
        self._allocator.roster.identify(container_id, runtime_id)

    def start(self, container_id: ContainerId) -> None:
        """The container runs. Unknown ids are ignored."""
        self._allocator.roster.reach(container_id, ContainerState.RUNNING)

    def stop(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Release what a container held. Unknown ids and repeated stops change nothing."""
        self._allocator.roster.reach(container_id, ContainerState.EXITED)
        return seen_gone(self._allocator, self._allocator.release(container_id))

    def prepare(self) -> None:
        """Measure for the next container what the pools have left. For when nobody waits."""
        _ = (ledger := self._allocator.books.ledger).room, ledger.owed

    def end_cold_start(self, container_id: ContainerId) -> tuple[Change, ...]:
        """A container has run long enough: DRAM for it now, or once there is room. See `stop`."""
        if (grant := self.grants.get(container_id)) is not None:
            self._allocator.books.end_cold_start(grant.held_as)
        return self._allocator.changes()

    def observe_memory(self, free_bytes: Mapping[int, int]) -> tuple[Change, ...]:
        """Available memory in bytes by NUMA node id, which can be had without killing anybody.

        Those under pressure get a wider set, and go back when all is calm; see `Books.observe`.
        """
        self._allocator.books.observe(free_bytes)
        return self._allocator.changes()

    def remove(self, container_id: ContainerId) -> tuple[Change, ...]:
        """Forget a container, releasing it first where it was never stopped."""
        return seen_gone(self._allocator, self._allocator.remove(container_id))

    def update(self, container_id: ContainerId, resources: Resources) -> Decision:
        """Change what a container asks for; a refusal leaves it what it had."""
        return resized(self._allocator, container_id, resources)

    def resize_pod(self, pod: Pod, size: Resources) -> Refusal | tuple[Change, ...]:
        """Another size for a pod, or a refusal that changes nothing; containers `update` by it."""
        return resized_pod(self._allocator, pod, size)

    def pod_size(self, pod: Pod) -> Resources | None:
        """The size of a whole pod, after resizes, as far as it is known."""
        return self._allocator.roster.size_of(pod)

    def forget_places(self, pod_uid: str | None = None) -> None:
        """Let containers that come back choose anew, those of one pod or all."""
        self._allocator.roster.forget_places(pod_uid)

    def move(
        self, container_id: ContainerId, pool_id: PoolId, purpose: MovePurpose = MovePurpose.WISHES
    ) -> Decision:
        """Move a container to another pool; a refusal leaves it where it is, and what it holds.

        Others' pinnings that follow are in `changes`. `purpose`: where no rule of it is unmet.
        """
        return self._allocator.move(container_id, pool_id, purpose)

    def look_at_rules(self) -> Mapping[ContainerId, tuple[str, ...]]:
        """Rules required during execution that do not hold, by owner; none where all of them do.

        Of a few owners at each call, in turn. They are told in the owners' decisions.
        """
        return self._allocator.unmet.look_at_lasting()

    def lost_rules(self) -> Collection[ContainerId]:
        """Containers whose rules stopped holding as others moved, told since this was asked."""
        self._allocator.unmet.look_at_postponed()
        return self._allocator.unmet.lost.take_told()

    def widen(self) -> tuple[Change, ...]:
        """Let containers that had to make way for others, who are gone, have more cpus again.

        Of very many some in the event itself, and some at each call.
        """
        self._allocator.shares.widen_due()
        return self._allocator.changes()

    def place_anew(
        self, container_id: ContainerId, asked: AskedMove = ANYWHERE, *, mends_told: bool = False
    ) -> Decision:
        """Place a container live where rules hold that are required during its execution.

        `mends_told`: or that are told as unmet, by it or by others about it. A refusal leaves it
        where it is. Others' new pinnings are in `changes`.
        """
        return self._allocator.place_anew(container_id, asked, mends_told=mends_told)

    def followers(
        self, container_id: ContainerId, going: Iterable[ContainerId] = (), *, only_lasting: bool
    ) -> Sequence[ContainerId]:
        """Containers that must be with one that goes; `only_lasting`: and follow by themselves.

        `going`: others that go, too. Whoever has one beside it that stays is no such container.
        """
        return self._allocator.parties.followers(container_id, going, only_lasting=only_lasting)

    def synchronize(
        self,
        containers: Sequence[Container],
        advice: Mapping[ContainerId, Advice] = MappingProxyType({}),
        unread: Mapping[ContainerId, Exception] = MappingProxyType({}),
    ) -> Adopted:
        """Adopt what runs: keep every container's cpus and memory where they are still legal.

        Containers that are not in the list are forgotten. Only containers with illegal or missing
        cpus are placed, Guaranteed first, in a fixed order. The runtime's list is the truth;
        `advice` only tells apart what looks the same there. One with which something goes wrong, or
        went wrong already when it was read (`unread`), is left as it runs, and concerns no others.
        """
        self._allocator.roster.unread = unread
        remembered = Remembered(advice=advice, decisions=dict(self.decisions), tree=self.tree)
        self._allocator, found = synchronized(
            self._allocator, containers, remembered, self.completed
        )
        return found

    def reconfigured(
        self, config: Config, machine: Machine | None = None
    ) -> "tuple[Engine, Adopted]":
        """Another engine with the same containers, and what they must be told; this one stays.

        Every container keeps exactly what it has where that is legal under the new configuration,
        on the new machine. Cpus that can be used again go to those that miss exclusive ones, then
        to all that share them. The plan and the change are one call. Raises `ConfigError`.
        """
        machine = machine or self.machine
        layout = MachineLayout.of(machine, config, self.supply.reserved)
        engine = Engine(machine, config, interrupts=self.interrupts, layout=layout)
        return engine, engine.take_over(self.snapshot(), self._allocator.unmet.names)

    def take_over(self, before: Snapshot, unmet_names: UnmetNames | None = None) -> Adopted:
        """Adopt what an older engine held; `unmet_names`: by which what is lost since is told."""
        self._allocator.roster.unread = before.unread
        self._allocator, found = taken_over(self._allocator, before, self.completed, unmet_names)
        return found

    def check(self) -> None:
        """Assert every invariant. O(everything); for tests."""
        self._allocator.books.check()
        assert self.grants.keys() <= self._allocator.roster.containers.keys()

    def _hold(self, snapshot: Snapshot) -> None:
        held = self._allocator
        held.roster.unread = snapshot.unread
        restore(snapshot, held.books, held.roster)
        for container_id in snapshot.grants:
            if (decision := snapshot.decisions[container_id]).unmet:
                held.carry_over(decision)

    def _replace(self, container: Container) -> None:
        """Release what an older instance of a container holds."""
        for older in self._allocator.roster.earlier_instances(container):
            self._allocator.forget(older)
            seen_gone(self._allocator, ())
