"""Snapshots of an engine: pools, containers, decisions, memory and cpus at one moment.

What metrics, status, plans and the state file are made from: none of them needs to look into the
ledgers, and all of them work while the engine goes on.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import compress
from operator import is_not
from typing import NamedTuple, Self

from msgspec import Struct
from msgspec.structs import replace

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import NO_CPUS, CpuSet, NodeSet
from ..books.books import Books
from ..books.pinning import PoolCpus
from ..books.pool_room import Room
from ..configuration.config import Config
from ..memory.held_memory import HeldMemory
from ..memory.observed_memory import MemoryLook
from ..memory.offers import MemoryRequest
from ..model.container import Container, ContainerId, Resources
from ..model.grant import Grant
from ..model.pinning import Pinning
from ..placing.classifier import Classified
from ..pools.layout import MachineLayout
from ..pools.pool_tree import PoolTree
from ..pools.supply import Supply
from ..tuning.effects import ExclusiveCpus, Occupancy
from .advice import Advice
from .decision import Decision, is_left_alone


class Snapshot(Struct, frozen=True, kw_only=True, eq=False):
    """An engine's containers, grants, decisions and pinnings, with its pools, at one moment.

    Nothing in it ever changes, and its values are shared with the engine and with other snapshots:
    a container is the same object in two of them where nothing happened to it. Any thread may read
    it; what is not at hand is worked out by whoever asks. Sequences are by pool id, masks of cpus.
    """

    machine: Machine
    config: Config
    layout: MachineLayout
    containers: Mapping[ContainerId, Container]
    """Every container known, stopped ones included until they are removed."""
    grants: Mapping[ContainerId, Grant]
    """What every placed container holds, oldest first."""
    pens: Mapping[ContainerId, Grant]
    """What containers hold that are in one pen, all of them together."""
    left: Mapping[ContainerId, Grant]
    """Cpus that moved containers, and pens, have left and that are for nobody yet."""
    stuck: Mapping[ContainerId, int]
    """Cpus on which the kernel runs containers that their runtime does not take off, as masks."""
    pod_sizes: Mapping[str, Resources]
    """The last size of pods that were resized, by uid."""
    decisions: Mapping[ContainerId, Decision]
    """The last decision about each known container."""
    pinnings: Mapping[ContainerId, Pinning]
    """What the kernel was told of every placed container."""
    classified: Mapping[ContainerId, Classified]
    """What every known container asks for."""
    room: Room
    """What every pool could still give."""
    free_sharable: tuple[int, ...]
    free_isolated: tuple[int, ...]
    pool_cpus: PoolCpus
    memory: HeldMemory
    withheld: MemoryRequest | None
    """Memory of the ordinary nodes that is not for containers, wherever on them it is."""
    memory_look: MemoryLook | None
    """The free memory that was last observed."""
    due_dram: tuple[ContainerId, ...]
    """Containers whose cold start is over and for which there was no DRAM yet."""
    unread: Mapping[ContainerId, Exception]
    """What went wrong with containers that could not be read."""

    @property
    def tree(self) -> PoolTree:
        """The pools of the machine."""
        return self.layout.tree

    @property
    def supply(self) -> Supply:
        """The usable cpus and memory of the machine."""
        return self.layout.supply

    def cpus_of(self, container_id: ContainerId) -> CpuSet | None:
        """The cpus a placed container has, whoever chose them; None where that is not known."""
        told = self.told_cpus_of(container_id)
        if told is not None:
            return told
        return self.pool_cpus.of(self.grants[container_id]) or self.containers[container_id].cpus

    def idle_of(self, container_id: ContainerId) -> CpuSet:
        """The idle cpus that a placed container was given beside those of its pool."""
        grant, told = self.grants[container_id], self.pinnings.get(container_id)
        if grant.idle_level is None or told is None or told.cpus is None:
            return NO_CPUS
        return told.cpus - (self.pool_cpus.of(grant) or told.cpus)

    def memory_of(self, container_id: ContainerId) -> NodeSet:
        """The memory nodes a placed container has."""
        told = self.pinnings.get(container_id)
        return told.mems if told is not None and told.mems else self.grants[container_id].memory

    def running(self) -> tuple[Container, ...]:
        """Every placed container with its cpus and memory, as a runtime would list it."""
        return tuple(
            replace(self.containers[one], cpus=self.cpus_of(one), mems=self.memory_of(one))
            for one in self.grants
        )

    def advice(self, config: Config | None = None) -> Mapping[ContainerId, Advice]:
        """Advice to remember of every grant for the next `synchronize`, by container id.

        `config`: the configuration by then, which may have other rules; None: the present one.
        """
        has_same_rules = config is None or config == self.config
        now = self.supply.usable, self.supply.reserved
        stuck, refused, left = self.stuck_for_good(), self.refused, self.left
        return {
            one: replace(
                self._advice_of(one, grant, now, has_same_rules=has_same_rules),
                labels=self.containers[one].pod.labels_at_first_sight,
                stuck=CpuSet(refused.get(one, 0)),
                meant=self.told_cpus_of(one) if one in stuck else None,
                leaving=left[grant.held_as].exclusive if grant.held_as in left else NO_CPUS,
            )
            for one, grant in self.grants.items()
        }

    def _advice_of(
        self, one: ContainerId, grant: Grant, now: tuple[CpuSet, CpuSet], *, has_same_rules: bool
    ) -> Advice:
        """`now`: the cpus that are usable and those that are reserved."""
        decision = self.decisions.get(one)
        if decision is not None and decision.remembered is not None:
            # It is left as it runs for a fault, and what it holds tells little of what it had.
            return replace(decision.remembered, told=None)
        asks = self.placed_for_milli_of(one)
        if asks is None:
            asks = self.containers[one].resources.cpu_request_milli
        pool = self.tree.pools[grant.pool_id]
        return replace(
            Advice.of(grant, pool, self.unmet_of(one), self.pod_size_of(one), asks),
            usable=now[0],
            reserved=now[1],
            beside=self.beside_of(one) if has_same_rules else None,
            pen=NO_CPUS if grant.pen is None else self.pens[grant.pen].exclusive,
        )

    def final_advice(self) -> Mapping[ContainerId, Advice]:
        """Advice that holds as long as nobody is told anything more; see `has_landed`."""
        return {
            one: replace(hint, told=self.told_cpus_of(one)) for one, hint in self.advice().items()
        }

    @property
    def refused(self) -> Mapping[ContainerId, int]:
        """Masks of the cpus of those stuck ones that were told others in vain."""
        known = self.decisions
        return {one: cpus for one, cpus in self.stuck.items() if not is_left_alone(known.get(one))}

    def stuck_for_good(self) -> Mapping[ContainerId, CpuSet]:
        """The cpus on which containers are stuck, but of those whose cpus are kept till they left.

        These are adopted where they run, as nobody else has what they have yet to leave.
        """
        grants, left = self.grants, self.left
        return {
            one: CpuSet(cpus)
            for one, cpus in self.refused.items()
            if one in grants and grants[one].held_as not in left
        }

    @property
    def has_landed(self) -> bool:
        """Whether everybody has left the cpus that are somebody else's, or nobody's, by now.

        Else containers may still run where they were before, although they were told others.
        """
        return not self.left and not self.refused

    def told_cpus_of(self, container_id: ContainerId) -> CpuSet | None:
        """The cpus that the kernel was told of a placed container; None where there are none."""
        told = self.pinnings.get(container_id)
        return None if told is None else told.cpus or None

    def beside_of(self, container_id: ContainerId) -> tuple[CpuSet, ...]:
        """The sets of cpus of each of which one stays shared for a container, or for its pen."""
        grant = self.grants[container_id]
        return (grant if grant.pen is None else self.pens[grant.pen]).beside

    def pod_size_of(self, container_id: ContainerId) -> Resources | None:
        """The last size of a container's pod, where that was resized."""
        pod = self.containers[container_id].pod
        return self.pod_sizes.get(pod.uid or pod.id)

    def placed_for_milli_of(self, container_id: ContainerId) -> int | None:
        """The milli-cpus a container asked for when placed, where a resize since is missed."""
        decision = self.decisions.get(container_id)
        return None if decision is None else decision.placed_for_milli

    def unmet_of(self, container_id: ContainerId) -> tuple[str, ...]:
        """The required rules that do not hold where a container is, and why."""
        decision = self.decisions.get(container_id)
        return () if decision is None else decision.unmet

    def occupancy(self) -> Occupancy:
        """The cpus that containers have for themselves, and what they ask of them."""
        return occupancy_of(self, self.grants, self.classified)

    def free_milli(self) -> tuple[int, ...]:
        """Milli-cpus that shared requests may still be promised of every pool, 0 where none."""
        return tuple(max(0, milli) for milli in self.room.grantable_milli)


class PresentHoldings(NamedTuple):
    """Holdings of an engine in the tables that it goes on changing. O(1).

    For who compares all of them after every event; whoever keeps them takes a snapshot.
    """

    grants: Mapping[ContainerId, Grant]
    pens: Mapping[ContainerId, Grant]
    pinnings: Mapping[ContainerId, Pinning]
    memory: Mapping[ContainerId, object]
    """By the id under which it is held: another object where anybody holds it for other wishes."""
    open_nodes: Callable[[ContainerId], NodeSet]
    """The nodes whose memory may be held under an id; none under an unknown one."""

    @classmethod
    def of(cls, books: Books) -> Self:
        """The holdings in these books."""
        ledger, memory = books.ledger, books.memory
        pinnings = books.pinner.last_told
        return cls(ledger.grants, ledger.pens, pinnings, memory.holders, memory.open_to)


def changed_ids(
    before: Mapping[ContainerId, object],
    after: Mapping[ContainerId, object],
    ids: Collection[ContainerId],
) -> Iterator[ContainerId]:
    """Ids of some containers of which two snapshots have not the same object. O(ids)."""
    # Container by container in C: of a thousand hardly any changed.
    return compress(ids, map(is_not, map(before.get, ids), map(after.get, ids)))


def occupancy_of(
    node: Books | Snapshot,
    grants: Mapping[ContainerId, Grant],
    classified: Mapping[ContainerId, Classified],
) -> Occupancy:
    """The cpus that containers have for themselves, and what they ask of them. O(grants)."""
    holdings = tuple(
        ExclusiveCpus(
            cpus=grant.exclusive,
            irq=classified[container_id].irq,
            cpu_class=classified[container_id].cpu_class,
        )
        for container_id, grant in grants.items()
        if grant.exclusive
    )
    return Occupancy(
        machine=node.machine, config=node.config, supply=node.supply, holdings=holdings
    )
