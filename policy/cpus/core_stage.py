"""Taking cores and single threads out of a set of free cpus: the finest stages of picking."""

from collections.abc import Iterable, Sequence

from ...topology.sets.cpuset import iter_bits
from ..model.cpu_preference import CpuPriority
from .cpu_blocks import CpuBlocks, lowest_bits
from .cpu_priority import PriorityClasses


class CoreStage:
    """Takes exactly as many cpus as asked: idle cores, then threads beside other users.

    Every method wants `free` to hold at least `count` cpus. `taken` is what the same request has
    already: the socket it is in is preferred.
    """

    def __init__(
        self, cores: Sequence[int], sockets: Sequence[int], classes: PriorityClasses
    ) -> None:
        self.blocks = CpuBlocks(cores)
        self._sockets = tuple(sockets)
        self._classes = classes
        self._core_of = {cpu: core for core in cores for cpu in iter_bits(core)}
        all_cpus = sum(cores)
        classed = classes.high | classes.normal | classes.low
        parts = (classes.high, classes.normal, classes.low, all_cpus & ~classed)
        cpus = [(part & -part, part) for one in parts if (part := one & all_cpus)]
        firsts = _alike(cores, classes)
        self._core_tiers = {one: _tiers(firsts, one, classes) for one in CpuPriority}
        self._cpu_tiers = {one: _tiers(cpus, one, classes) for one in CpuPriority}

    def take(self, free: int, count: int, priority: CpuPriority, taken: int = 0) -> int:
        """`count` cpus: idle cores by class, then id; the rest from the most used cores."""
        cores = self._take_cores(free, count, priority, taken)
        missing = count - cores.bit_count()
        if not missing:
            return cores
        return cores | self._take_threads(free & ~cores, missing, priority, taken | cores)

    def take_packed(self, free: int, count: int, priority: CpuPriority, taken: int = 0) -> int:
        """`count` cpus of as few cores as possible; among equals the most used ones."""
        picked = 0
        for cpus in self._in_order(free, count, priority, taken, by_socket=False):
            while count and (here := cpus & ~picked):
                by_free = self.blocks.by_free_count(here)
                best = next((k for k in range(count, len(by_free)) if by_free[k]), 0)
                if best:
                    core = self._core_of[(by_free[best] & -by_free[best]).bit_length() - 1]
                    more = lowest_bits(core & here, count)
                else:
                    best = max(k for k, firsts in enumerate(by_free) if firsts)
                    firsts = lowest_bits(by_free[best], count // best)
                    more = self.blocks.members(firsts) & here
                picked |= more
                count -= more.bit_count()
        return picked

    def take_spread(self, free: int, count: int, priority: CpuPriority, taken: int = 0) -> int:
        """`count` cpus of as many cores as possible; cores with no other user first."""
        picked = 0
        idle = self.blocks.members(self.blocks.idle(free))
        while count:
            layer = self.blocks.lowest_members(free & ~picked)
            assert layer, "fewer cpus are free than were asked for"
            if (size := layer.bit_count()) <= count:
                picked |= layer
                count -= size
                continue
            home = self._home(layer, count, priority, taken | picked)
            for cpus in self._in_order(home, count, priority, taken | picked, by_socket=True):
                for part in (cpus & idle, cpus & ~idle):
                    more = lowest_bits(part, count)
                    picked |= more
                    count -= more.bit_count()
        return picked

    def _take_cores(self, free: int, count: int, priority: CpuPriority, taken: int) -> int:
        if count < self.blocks.size_min:
            return 0
        idle = self.blocks.idle(free)
        if not idle:
            return 0
        whole = count - count % self.blocks.size_max
        if whole and len(self._sockets) > 1:
            idle &= self._home(self.blocks.members(idle), whole, priority, taken, is_tight=False)
        is_uniform = self.blocks.size_min == self.blocks.size_max
        cores = 0
        for tier in self._core_tiers[priority]:
            here = idle & tier
            if not here:
                continue
            if is_uniform:
                more = self.blocks.members(lowest_bits(here, count // self.blocks.size_max))
                cores |= more
                count -= more.bit_count()
            else:
                for first in iter_bits(here):
                    core = self._core_of[first]
                    if (size := core.bit_count()) <= count:
                        cores |= core
                        count -= size
                    if count < self.blocks.size_min:
                        break
            if count < self.blocks.size_min:
                break
        return cores

    def _take_threads(self, free: int, count: int, priority: CpuPriority, taken: int) -> int:
        by_free = self.blocks.by_free_count(free)
        picked = 0
        for cpus in self._in_order(free, count, priority, taken, by_socket=True):
            for size, firsts in enumerate(by_free):
                here = self.blocks.members(firsts) & cpus if size and firsts else 0
                if not here:
                    continue
                more = lowest_bits(here, count) if size == 1 else self._core_by_core(here, count)
                picked |= more
                count -= more.bit_count()
                if not count:
                    return picked
        return picked

    def _core_by_core(self, cpus: int, count: int) -> int:
        picked = 0
        while cpus and count:
            core = self._core_of[(cpus & -cpus).bit_length() - 1] & cpus
            more = lowest_bits(core, count)
            picked |= more
            count -= more.bit_count()
            cpus &= ~core
        return picked

    def _home(
        self, cpus: int, count: int, priority: CpuPriority, taken: int, *, is_tight: bool = True
    ) -> int:
        """The cpus of the best socket that alone has `count` of `cpus`; all where none has.

        `is_tight`: of sockets with enough cpus of the class the one with fewer to spare.
        """
        if len(self._sockets) == 1 or cpus.bit_count() < count:
            return cpus
        best: tuple[tuple[int, ...], int, int] | None = None
        home = cpus
        for position, socket in enumerate(self._sockets):
            here = cpus & socket
            if here.bit_count() < count:
                continue
            by_class = self._classes.rank(here, priority, count)
            if not is_tight and by_class and by_class[0] == 0:
                by_class = (0,)
            rank = (by_class, -(taken & socket).bit_count(), position)
            if best is None or rank < best:
                best, home = rank, here
        return home

    def _in_order(
        self, free: int, count: int, priority: CpuPriority, taken: int, *, by_socket: bool
    ) -> Iterable[int]:
        """`free` in parts, the preferred first: by socket (if so), then by class of cpu."""
        tiers = self._cpu_tiers[priority]
        if not by_socket or len(self._sockets) == 1:
            return [free & tier for tier in tiers if free & tier]
        ranked = sorted(
            (
                -(taken & socket).bit_count(),
                self._classes.rank(here, priority, count),
                position,
                here,
            )
            for position, socket in enumerate(self._sockets)
            if (here := free & socket)
        )
        return [here & tier for *_, here in ranked for tier in tiers if here & tier]


def _alike(masks: Iterable[int], classes: PriorityClasses) -> list[tuple[int, int]]:
    """(one example, all lowest cpus) of the masks with the same number of cpus of each class."""
    kinds: dict[tuple[int, int, int], tuple[int, int]] = {}
    for mask in masks:
        counts = (
            (mask & classes.high).bit_count(),
            (mask & classes.normal).bit_count(),
            (mask & classes.low).bit_count(),
        )
        example, firsts = kinds.get(counts, (mask, 0))
        kinds[counts] = (example, firsts | (mask & -mask))
    return list(kinds.values())


def _tiers(
    alike: Iterable[tuple[int, int]], priority: CpuPriority, classes: PriorityClasses
) -> tuple[int, ...]:
    """The lowest cpus of alike masks, the preferred ones first."""
    by_rank: dict[tuple[int, ...], int] = {}
    for example, firsts in alike:
        rank = classes.rank(example, priority)
        by_rank[rank] = by_rank.get(rank, 0) | firsts
    return tuple(by_rank[rank] for rank in sorted(by_rank))
