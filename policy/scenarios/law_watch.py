"""Watch over the laws of a simulated node: what must be true after every step."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, count
from operator import attrgetter, is_not
from typing import Final, Generic, TypeVar

from ...topology.sets.cpuset import CpuSet, NodeSet
from ..engine.engine import Engine
from ..engine.snapshot import PresentHoldings
from ..model.container import ContainerId
from ..model.grant import Grant
from ..model.pinning import Pinning
from ..model.request import CpuType
from .simulated_runtime import Running, Runtime

T = TypeVar("T")
_NOBODY: Final = object()
_CPUS: Final[Callable[[Running], CpuSet | None]] = attrgetter("cpus")
_MEMS: Final[Callable[[Running], NodeSet | None]] = attrgetter("mems")


class SeenValues(Generic[T]):
    """Values by container as a table had them at the last look.

    Nobody need tell what was changed in it: the looks are compared. In C, as next to nothing is
    another one after a step.
    """

    def __init__(self) -> None:
        """Begin with an empty table."""
        self._ids: list[ContainerId] = []
        self._values: list[T] = []

    def changed(self, table: Mapping[ContainerId, T]) -> Mapping[ContainerId, T | None]:
        """The ids of which the table has another object by now, with the one before.

        Without one before, and without a value of None, it is None.
        """
        return self.renewed(table, table.values())

    def renewed(
        self, ids: Iterable[ContainerId], values: Iterable[T]
    ) -> Mapping[ContainerId, T | None]:
        """As `changed`, of the values of these ids in their order."""
        old_ids, old_values = self._ids, self._values
        self._ids, self._values = ids, values = [*ids], [*values]
        size = len(old_ids)
        if ids[:size] == old_ids and values[:size] == old_values:
            return dict.fromkeys(ids[size:])
        # All that changed lies between what is the same at the beginning and at the end.
        begin = min(_alike(ids, old_ids), _alike(values, old_values))
        most = min(len(ids), size) - begin
        end = min(most, _alike(ids[::-1], old_ids[::-1]), _alike(values[::-1], old_values[::-1]))
        before = dict(zip(old_ids[begin : size - end], old_values[begin : size - end], strict=True))
        last = len(ids) - end
        after = dict(zip(ids[begin:last], values[begin:last], strict=True))
        return {
            one: before.get(one)
            for one in {**before, **after}
            if before.get(one, _NOBODY) is not after.get(one, _NOBODY)
        }


def _alike(some: Sequence[object], others: Sequence[object]) -> int:
    """The number of first elements that are the same objects in both."""
    at = next(compress(count(), map(is_not, some, others)), None)
    return min(len(some), len(others)) if at is None else at


_Changed = Mapping[ContainerId, Grant | None]
"""Ids under which another grant is held than at the last look, with the one of then."""


class LawWatch:
    """Watch over the laws of one engine and the containers that run under it.

    Each look checks what changed since the last one. Nobody is believed what that is: the tables of
    the engine are compared, and what the kernel was told. So a law is told at the step that broke
    it, even where no decision names whom it concerns.
    """

    def __init__(self, engine: Engine, runtime: Runtime) -> None:
        """Begin with everything new."""
        self._engine, self._config, self._runtime = engine, engine.config, runtime
        self._machine = runtime.machine
        self._grants, self._pens = SeenValues[Grant](), SeenValues[Grant]()
        self._pinnings, self._memory = SeenValues[Pinning](), SeenValues[object]()
        self._cpus, self._mems = SeenValues[CpuSet | None](), SeenValues[NodeSet | None]()
        self._owners: dict[int, dict[ContainerId, None]] = {}
        """Containers and pens that have a cpu for themselves, by cpu."""
        self._exclusive = 0
        """All these cpus as a mask."""
        self._members = Counter[ContainerId]()
        """The number of containers in each pen."""

    def is_of(self, engine: Engine, runtime: Runtime) -> bool:
        """Whether it watches over this engine, as it is configured, and over this machine."""
        is_same = engine is self._engine and engine.config is self._config
        return is_same and runtime is self._runtime and runtime.machine is self._machine

    def broken(self) -> Iterator[str]:
        """The laws that are broken where anything changed since the last look, a sentence each.

        O(changes), but for the comparison of all tables, in C.
        """
        held, running = self._engine.holdings, self._runtime.running
        grants, pens = self._grants.changed(held.grants), self._pens.changed(held.pens)
        memory = self._memory.changed(held.memory)
        concerned = dict.fromkeys((*grants, *memory, *self._pinnings.changed(held.pinnings)))
        cpus, mems = map(_CPUS, running.values()), map(_MEMS, running.values())
        concerned |= dict.fromkeys(self._cpus.renewed(running, cpus))
        concerned |= dict.fromkeys(self._mems.renewed(running, mems))
        if held_by_pens := memory.keys() & held.pens.keys():
            members = [one for one, grant in held.grants.items() if grant.pen in held_by_pens]
            concerned |= dict.fromkeys(members)
        before = self._exclusive
        taken = [*self._take({**pens, **grants}, held)]
        if moved := before ^ self._exclusive:
            cpus_of = self._runtime.effective_cpus
            beside = [key for key, one in running.items() if cpus_of(one).mask & moved]
            concerned |= dict.fromkeys(beside)
        for container_id in concerned:
            if container_id in held.grants and container_id not in running:
                yield f"{self._path(container_id)} holds cpus and does not run"
        yield from taken
        yield from self._empty_pens(grants, pens, held)
        for container_id in concerned:
            if (one := running.get(container_id)) is not None:
                yield from self._broken_by(one, held)

    def _take(self, changed: _Changed, held: PresentHoldings) -> Iterator[str]:
        """Note whose cpus are their own by now; what several have for themselves is told."""
        touched: dict[int, None] = {}
        for holder, grant in changed.items():
            for cpu in () if grant is None else grant.exclusive:
                self._owners[cpu].pop(holder, None)
                touched[cpu] = None
        for holder in changed:
            grant = held.grants.get(holder) or held.pens.get(holder)
            for cpu in () if grant is None else grant.exclusive:
                self._owners.setdefault(cpu, {})[holder] = None
                touched[cpu] = None
        for cpu in touched:
            owners = self._owners[cpu]
            bit = 1 << cpu
            self._exclusive = self._exclusive | bit if owners else self._exclusive & ~bit
            if len(owners) > 1:
                yield from self._shared_by(cpu, sorted(owners), held)

    def _shared_by(
        self, cpu: int, owners: Sequence[ContainerId], held: PresentHoldings
    ) -> Iterator[str]:
        """Each owner of a cpu with the last one before that must not have it as well."""
        for place, other in enumerate(owners):
            for one in reversed(owners[:place]):
                # A slice of a pen is exclusive to both.
                if _pen_of(one, held) != other and _pen_of(other, held) != one:
                    both = f"{self._path(one)} and {self._path(other)}"
                    yield f"cpu {cpu} is exclusive to both {both}"
                    break

    def _empty_pens(self, grants: _Changed, pens: _Changed, held: PresentHoldings) -> Iterator[str]:
        concerned = dict.fromkeys(pens)
        for holder, before in grants.items():
            after = held.grants.get(holder)
            for grant, change in ((before, -1), (after, 1)):
                if grant is not None and grant.pen is not None:
                    self._members[grant.pen] += change
                    concerned[grant.pen] = None
        for pen_id in concerned:
            if pen_id in held.pens and not self._members[pen_id]:
                yield f"{pen_id} has cpus {held.pens[pen_id].exclusive} and no containers"

    def _path(self, holder: ContainerId) -> str:
        one = self._runtime.running.get(holder)
        return self._runtime.paths.get(holder, holder) if one is None else one.container.path

    def _broken_by(self, one: Running, held: PresentHoldings) -> Iterator[str]:
        """The laws that a container breaks where it is."""
        runtime, path, container_id = self._runtime, one.container.path, one.container.id
        cpus, mems = runtime.effective_cpus(one), runtime.effective_mems(one)
        if not cpus:
            yield f"{path} has no cpus"
        if offline := cpus - runtime.machine.online:
            yield f"{path} is told to use cpus {offline}, which are not online"
        if absent := mems - runtime.numa_nodes:
            yield f"{path} is told to use memory nodes {absent}, which do not exist"
        if one.mems is not None and not one.mems:
            yield f"{path} has no memory nodes"
        grant = held.grants.get(container_id)
        if grant is None:
            yield f"{path} runs and holds nothing"
            return
        told = held.pinnings.get(container_id)
        if told is not None and (told.cpus not in (None, cpus) or told.mems not in (None, mems)):
            yield f"{path} runs on {cpus} and memory {mems}, the policy believes otherwise: {told}"
        is_ours = self._config.pin_memory and not grant.preserve_memory
        if is_ours and (forbidden := mems - held.open_nodes(grant.held_as)):
            yield f"{path} may use memory nodes {forbidden}, which are not for it"
        if not self._config.pin_cpu or grant.cpu_type is CpuType.PRESERVE:
            return
        own = grant.exclusive.mask or grant.rest.mask
        if taken := cpus.mask & self._exclusive & ~own:
            yield f"{path} may run on cpus {CpuSet(taken)}, which are exclusive to others"


def _pen_of(holder: ContainerId, held: PresentHoldings) -> ContainerId | None:
    grant = held.grants.get(holder)
    return None if grant is None else grant.pen
