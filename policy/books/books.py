"""Books of one machine: cpus and memory held, affinities, and pinnings told to the kernel."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Final, TypeGuard

from msgspec.structs import replace

from ...topology.model.machine import Machine, MemoryKind
from ...topology.sets.cpuset import NO_CPUS, NO_NODES, NodeSet
from ..configuration.config import Config
from ..memory.memory_choice import PoolMemory
from ..memory.memory_ledger import MemoryLedger
from ..memory.memory_nodes import MemoryNodes
from ..memory.observed_memory import MemoryLook
from ..memory.offers import MemoryPriority, MemoryRequest, Offer
from ..model.container import Container, ContainerId
from ..model.grant import Grant, PoolId, Refusal
from ..model.pinning import Change, Pinning
from ..model.request import Request
from ..pools.domains import Domains
from ..pools.layout import MachineLayout
from ..pools.memory_supply import withheld_bytes
from ..pools.pool_labels import LabelsOfPool, pool_labels
from ..rules.affinity_index import AffinityIndex
from ..rules.affinity_rule import AffinityRule
from ..rules.podaffinity.rule_set import ALL_COUNT, NO_PLACEMENT_RULES, PlacementRules, Uncounted
from ..rules.podaffinity.standing_rules import StandingRules
from .booking import Booking
from .cpu_ledger import Ledger
from .idle_cpus import IdleCpus
from .pinning import Pinner

WITHHELD: Final = ContainerId("(not for containers)")
"""The holder of memory that amounts in the configuration keep from containers."""
_DRAM: Final = frozenset({MemoryKind.DRAM})
_SHRINKS_AT_ONCE: Final = 8
"""Moving memory costs the machine: no event moves more containers back than these."""
_WIDENED_AT_LEAST: Final = 4
"""Memory sets widened per look at the free memory, where so many containers are short of it."""


class Books:
    """The ledgers of one machine, changed together: no method can half happen."""

    def __init__(
        self, machine: Machine, config: Config, layout: MachineLayout | None = None
    ) -> None:
        """Raises `ConfigError` where the configuration does not fit the machine.

        `layout`: that of this machine and configuration, where it is at hand.
        """
        self.layout = layout or MachineLayout.of(machine, config)
        self.picker, self.supply = self.layout.picker, self.layout.supply
        self.tree = self.layout.tree
        self.ledger = Ledger(self.tree, self.picker)
        self.memory = MemoryLedger(MemoryNodes.of(machine, self.supply.memory))
        self.pool_memory = PoolMemory(self.tree, self.memory)
        self.affinity = AffinityIndex()
        self.standing = StandingRules()
        self.idle = IdleCpus(self.tree, self.affinity, self.standing, self.layout.domains)
        self.pinner = Pinner(self.ledger, config, self.picker.cores, self.idle)
        self._due_dram: dict[ContainerId, None] = {}
        self._expected: list[ContainerId] = []
        self.machine, self.config = machine, config
        self._withhold_memory(config)

    @cached_property
    def domains(self) -> Domains:
        """The domains at which rules between containers hold, see `MachineLayout`."""
        return self.layout.domains()

    @cached_property
    def pool_labels(self) -> tuple[LabelsOfPool, ...]:
        """The labels of every pool, by its id; made for the first rule about pools."""
        return pool_labels(self.tree, self.machine, self.config)

    def _withhold_memory(self, config: Config) -> None:
        """Book the memory that is not for containers, wherever on the ordinary nodes it is."""
        everything, nodes = self.tree.root.memory_nodes, self.memory.nodes
        total = self.memory.capacity(NodeSet(nodes.with_memory))
        size = withheld_bytes(config, total, self.memory.capacity(everything))
        if size:
            request = MemoryRequest(
                container_id=WITHHELD,
                affinity=everything,
                size_bytes=size,
                priority=MemoryPriority.RESERVATION,
            )
            self.memory.adopt(request, everything)

    def take(self, booking: Booking) -> Grant:
        """Book what was planned, in place of what the container held; returns what it has now.

        A resize can make room for containers that had to widen their memory, itself included.
        """
        grant = booking.grant
        for lifted in booking.lifted:
            self.ledger.repool(lifted)
            self.pinner.mark(lifted.container_id)
        if grant.container_id in (self.ledger.pens if grant.is_pen else self.ledger.grants):
            self.ledger.drop(grant.container_id)
        self.ledger.add(grant)
        if booking.offer is not None:
            self._commit(booking.offer)
            if booking.offer.replaces is not None:
                self.relax()
        return self.ledger.counted(grant.container_id)

    def observe(self, free_bytes: Mapping[int, int]) -> None:
        """Heed the memory that is really free, by node id; see `MemoryLedger.observe`.

        Half of those whose nodes run short get wider sets, the least important first: the next look
        sees what that helped, and whoever it is comes to its turn after a few. Where nobody needs
        more, some of those that had to widen go back.
        """
        # Nodes that show no memory show none that is free either.
        self.memory.observe(free_bytes if self.machine.shows_memory else {})
        self._give_due_dram()
        pressed = self.memory.pressed()
        left = most = max(_WIDENED_AT_LEAST, len(pressed) // 2)
        for container_id in pressed:
            # Whatever is next and has room: where there is none, it keeps what it has.
            if left and self._widened(container_id, self.memory.widen(container_id)):
                left -= 1
        if left == most:
            self.relax()

    def relax(self) -> None:
        """Let containers have the memory they were short of, now that there is room.

        The DRAM that is due to them; those that had to widen their memory go back.
        """
        if self._due_dram:
            self._give_due_dram()
        offer = self.memory.shrink(_SHRINKS_AT_ONCE)
        if offer is not None:
            self._commit(offer)

    def end_cold_start(self, container_id: ContainerId) -> None:
        """DRAM for a container that ran without until now; where there is no room, once there is.

        It is tried again whenever memory is given back or looked at.
        """
        request = self.memory.request_of(container_id)
        if request is None:
            return
        nodes = self._dram & self.memory.open_to(container_id) if request.is_spread else NO_NODES
        offer = self.memory.realloc(container_id, nodes=nodes, types=_DRAM)
        if self._widened(container_id, offer):
            self._due_dram.pop(container_id, None)
        else:
            self._due_dram[container_id] = None

    def _give_due_dram(self) -> None:
        for container_id in tuple(self._due_dram):
            self.end_cold_start(container_id)

    def _widened(self, container_id: ContainerId, offer: Offer | Refusal) -> bool:
        if not isinstance(offer, Offer):
            return False
        self._commit(offer)
        if container_id in self.ledger.grants or container_id in self.ledger.pens:
            self.ledger.move_memory(container_id, self.memory.zone_of(container_id))
            self.pinner.mark(container_id)
        return True

    @property
    def due_dram(self) -> tuple[ContainerId, ...]:
        """The containers whose cold start is over and for which there was no DRAM yet."""
        return tuple(self._due_dram)

    def emptied(self, layout: MachineLayout | None = None) -> "Books":
        """Books of the same machine that know what was observed, and of no container."""
        found = Books(self.machine, self.config, layout or self.layout)
        found.inherit(self.memory.last_look(), self.due_dram)
        return found

    def inherit(self, look: MemoryLook | None, due_dram: Iterable[ContainerId]) -> None:
        """Know what older books knew of memory beside what is held: the last look, DRAM due.

        To be called before containers are adopted.
        """
        self.memory.observe_like(look)
        self._due_dram = dict.fromkeys(due_dram)

    def _commit(self, offer: Offer) -> None:
        self.memory.commit(offer)
        for container_id, zone in offer.moves.items():
            self.ledger.move_memory(container_id, zone)
            self.pinner.mark(container_id)

    def release(self, container_id: ContainerId) -> None:
        """Give back all that a container holds. Unknown ids change nothing."""
        self.ledger.let_go(container_id)
        grant = self.ledger.drop(container_id)
        if grant is not None:
            self.memory.release(container_id)
            if grant.pen is not None:
                self._leave(grant.pen)
        self.withdraw(container_id)
        self.pinner.forget(container_id)
        self._due_dram.pop(container_id, None)

    def _leave(self, pen_id: ContainerId) -> None:
        """A container has left a pen: the others share its slice, and the last one ends it."""
        if self.ledger.members(pen_id):
            self.pinner.mark(pen_id)
        else:
            self.ledger.let_go(pen_id)
            self.ledger.drop(pen_id)
            self.memory.release(pen_id)
            self.pinner.forget(pen_id)

    def let_count(
        self, container: Container, affinity: Collection[AffinityRule], rules: PlacementRules
    ) -> Uncounted:
        """Let a container count for the rules of others, and its own rules for others.

        Returns how many of those do not: its namespace has too many different ones.
        """
        self.affinity.add(container, affinity)
        if rules is NO_PLACEMENT_RULES and not self.standing.rules:
            return ALL_COUNT
        if self.idle.users:
            self._doubt_idle_cpus(container, rules)
        return self.standing.add(container, rules)

    def _doubt_idle_cpus(self, owner: Container, rules: PlacementRules) -> None:
        """Look anew at who may use idle cpus: rules of a container begin or cease to count."""
        for one in self.idle.doubt(owner, rules):
            self.pinner.mark(one)

    def withdraw(self, container_id: ContainerId) -> None:
        """Let a container and its rules count no more. Unknown ids change nothing."""
        rules = self.standing.of(container_id)
        if rules.required:
            # Who came last is filed by this look: refusals name containers as they were filed.
            owner = self.affinity.residents.container(container_id)
            if self.idle.users:
                self._doubt_idle_cpus(owner, rules)
        self.affinity.remove(container_id)
        self.standing.remove(container_id)

    def without(self, container_id: ContainerId) -> "Books":
        """Books to ask, never to change, where a container holds nothing. O(pools + grants).

        Or a pen, and so nobody who is in it.
        """
        books = copy(self)
        books.ledger = self.ledger.copy()
        for one in (*self.ledger.members(container_id), container_id):
            books.ledger.drop(one)
        books.memory = MemoryLedger(self.memory.nodes)
        books.memory.restore(self.memory.snapshot())
        books.memory.observe_like(self.memory.last_look())
        books.memory.release(container_id)
        books.pool_memory = PoolMemory(self.tree, books.memory)
        return books

    def presence(self, container_id: ContainerId) -> int:
        """A mask of the cpus a container runs on; none where it holds nothing.

        Without the idle ones that it may use: it is not there to anybody's rule.
        """
        grant = self.ledger.grants.get(container_id)
        return 0 if grant is None else self._presence(grant)

    def _presence(self, grant: Grant) -> int:
        told = self.pinner.last_told.get(grant.container_id)
        # After an adoption some run on fewer cpus than they could, or on other threads of a core.
        cpus = told.cpus if told is not None else None
        if cpus is not None and grant.idle_level is None:
            return cpus.mask
        if cpus is not None:
            cpus = cpus & (self.pinner.pool_cpus.with_hidden(grant) or cpus) or cpus
        if cpus is None:
            cpus = self.pinner.pool_cpus.of(grant)
        if cpus is None:
            cpus = self.affinity.residents.container(grant.container_id).cpus
        return (self.tree.root.cpus if cpus is None else cpus).mask

    def reach(self, container_id: ContainerId) -> int:
        """A mask of the cpus that count as a container's place: all of its pen's.

        There it runs on others as soon as somebody in the pen comes, goes or grows.
        """
        grant = self.ledger.grants.get(container_id)
        if grant is None:
            return 0
        own = 0 if grant.pen is None else self.ledger.pens[grant.pen].exclusive.mask
        return own or self._presence(grant)

    def reaches(self, container_ids: Iterable[ContainerId]) -> list[int]:
        """The `reach` of each of many containers."""
        grants, told, found = self.ledger.grants, self.pinner.last_told, list[int]()
        for container_id in container_ids:
            grant = grants.get(container_id)
            is_plain = grant is not None and grant.pen is None and grant.idle_level is None
            pinning = told.get(container_id) if is_plain else None
            cpus = None if pinning is None else pinning.cpus
            found.append(self.reach(container_id) if cpus is None else cpus.mask)
        return found

    def pen_around(self, container_id: ContainerId) -> ContainerId | None:
        """The pen with cpus of its own that a container is in; None where it is in no such."""
        grant = self.ledger.grants.get(container_id)
        if grant is None or grant.pen is None or not self.ledger.pens[grant.pen].exclusive:
            return None
        return grant.pen

    def pool_around(self, container_id: ContainerId) -> PoolId:
        """The pool in which a container is: a wider one than its grant's where that is full."""
        pool_id = self.ledger.grants[container_id].pool_id
        return self.tree.around(pool_id, self.reach(container_id))

    def settle(self, container_id: ContainerId) -> tuple[Pinning, tuple[Change, ...]]:
        """The pinning of a container after a booking, and the changes of others that follow."""
        changes = self.pinner.changes(container_id)
        grant = self.ledger.grants.get(container_id)
        if grant is None:
            return Pinning(), changes
        pinning = self.pinner.pinning(grant)
        self.pinner.note(container_id, pinning)
        return pinning, changes

    def must_expect(self, running: Sequence[Container]) -> bool:
        """Whether nodes have to be left, by whoever must not get what others are about to keep."""
        ordinary = self.memory.nodes.ordinary.with_memory
        return any(one.mems and one.mems.mask & ~ordinary for one in running)

    def expect(self, container: Container, request: Request) -> None:
        """Count the memory of a running container that is adopted later on."""
        wanted = self.pool_memory.choice(request).request_at(self.tree.root.id)
        if self._may_keep(container.mems, wanted):
            self.memory.adopt(wanted, container.mems)
            self._expected.append(container.id)

    def expect_no_more(self) -> None:
        """Release what was counted of containers that were not adopted."""
        for container_id in self._expected:
            if container_id not in self.ledger.grants:
                self.memory.release(container_id)
        self._expected.clear()

    def adopt(self, container: Container, request: Request, grant: Grant) -> tuple[Grant, Pinning]:
        """Book what a running container has; its cpus and a legal memory set stay as they are."""
        zone = self.adopt_memory(request, grant, container.mems)
        grant = replace(grant, memory=zone, memory_bytes=request.memory_bytes)
        self.ledger.add(grant)
        pinning = self.pinner.pinning(grant)
        if pinning.cpus is not None:
            pinning = replace(pinning, cpus=(container.cpus or NO_CPUS) & self.machine.online)
        self.pinner.note(container.id, pinning)
        return grant, pinning

    def adopt_memory(self, request: Request, grant: Grant, mems: NodeSet | None) -> NodeSet:
        """Account the memory of a running container: the nodes it has, where they are for it."""
        wanted = self.pool_memory.choice(request).request_at(grant.pool_id)
        if request.cold_start_ns and self.has_dram(mems or NO_NODES):
            # Its cold start is over: DRAM is part of what it asks for.
            nodes = wanted.affinity | self._dram if wanted.is_spread else wanted.affinity
            wanted = replace(wanted, types=wanted.types | _DRAM, affinity=nodes)
        if not self._may_keep(mems, wanted):
            offer = self.memory.offer(wanted)
            if isinstance(offer, Offer) and not offer.moves:
                self.memory.commit(offer)
                return offer.zone
            mems = self.tree.root.memory_nodes
        return self.memory.adopt(wanted, mems)

    def _may_keep(self, mems: NodeSet | None, request: MemoryRequest) -> TypeGuard[NodeSet]:
        usable = self.memory.nodes.open_to(request.may_use_reserved)
        return mems is not None and bool(mems) and not mems.mask & ~usable.with_memory

    def has_dram(self, nodes: NodeSet) -> bool:
        """Whether some of these nodes are DRAM."""
        return bool(nodes & self._dram)

    @property
    def _dram(self) -> NodeSet:
        nodes = self.memory.nodes
        return NodeSet(nodes.of_kinds(nodes.kinds_mask(_DRAM)))

    def check(self) -> None:
        """Assert every invariant. O(everything); for tests."""
        self.ledger.check()
        self.memory.check()
        for container_id, grant in self.ledger.grants.items():
            assert grant.shared_milli >= 0, container_id
            told = self.pinner.told(container_id)
            assert told is not None, container_id
            open_to = self.memory.open_to(grant.held_as)
            assert told.mems is None or told.mems <= open_to, container_id
            pinning = self.pinner.pinning(grant)
            assert pinning.cpus is None or pinning.cpus, container_id
