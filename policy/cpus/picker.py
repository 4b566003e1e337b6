"""The choice of cpus of a pool: whole free domains first, then the least harm to others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ...topology.model.machine import CoreKind, Machine
from ...topology.sets.cpuset import iter_bits
from ..model.cpu_preference import CpuPriority, SmtPreference
from .cache_stage import CacheStage
from .cluster_parts import ClusterParts
from .clusters import ClusterStage, CpuCluster, logical_clusters
from .core_stage import CoreStage
from .cpu_blocks import CpuBlocks
from .cpu_priority import PriorityClasses, priority_classes

_STAND_INS: Final[Mapping[CpuPriority, tuple[CpuPriority, ...]]] = {
    CpuPriority.HIGH: (CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW),
    CpuPriority.NORMAL: (CpuPriority.NORMAL, CpuPriority.LOW, CpuPriority.HIGH),
    CpuPriority.LOW: (CpuPriority.LOW, CpuPriority.NORMAL, CpuPriority.HIGH),
}

_Take = Callable[[int, int, CpuPriority, int], int]


class CpuPicker:
    """Picks cpus out of free ones, on plain int masks. Holds nothing but the machine's shape.

    The stages: whole idle sockets, whole idle clusters, the fewest cache groups, the fewest parts
    of clusters, idle cores, single threads. Every tie ends in the lowest cpu: equal questions have
    equal answers.
    """

    def __init__(
        self,
        machine: Machine,
        classes: PriorityClasses | None = None,
        clusters: Sequence[CpuCluster] | None = None,
    ) -> None:
        """`classes` and `clusters` replace those that follow from the machine's own facts."""
        self.classes = priority_classes(machine) if classes is None else classes
        self._online = machine.online.mask
        self._sockets = _split_up(
            [socket.cpus.mask for socket in machine.sockets], self._online, lambda rest: [rest]
        )
        cores = _split_up(
            [core.mask for core in machine.cores],
            self._online,
            lambda rest: [1 << cpu for cpu in iter_bits(rest)],
        )
        self._cores = CoreStage(cores, self._sockets, self.classes)
        self.cores = self._cores.blocks
        """The cores of the machine."""
        dies = [die.cpus.mask for die in machine.dies]
        l3 = [group.mask for group in machine.l3_groups]
        nodes = [node.cpus.mask for node in machine.numa_nodes if node.cpus]
        self._clusters = ClusterStage(
            logical_clusters(machine) if clusters is None else clusters,
            (l3, dies, self._sockets),
            machine.is_hybrid,
        )
        self._parts = ClusterParts(self._clusters.shared, (l3, nodes, dies, self._sockets))
        self._caches = CacheStage(machine)
        self._efficient = 0
        if machine.is_hybrid:
            for cpu in machine.cpus.values():
                self._efficient |= (cpu.kind is CoreKind.EFFICIENT) << cpu.id
        self._whole_sockets = {one: self._sockets_of(one) for one in CpuPriority}
        self._rings = (
            self.cores,
            CpuBlocks(cluster.cpus.mask for cluster in machine.clusters),
            CpuBlocks(group.mask for group in machine.l2_groups),
            CpuBlocks(l3),
            CpuBlocks(nodes),
            CpuBlocks(dies),
            CpuBlocks(self._sockets),
        )

    def pick(
        self,
        free: int,
        count: int,
        priority: CpuPriority = CpuPriority.NONE,
        smt: SmtPreference = SmtPreference.ANY,
    ) -> int | None:
        """Exactly `count` cpus of `free`, or None where it has fewer. Offline cpus do not count.

        Cpus of the wanted priority are taken alone where there are enough of them; where there are
        not, all of them are taken first.
        """
        free &= self._online
        available = free.bit_count()
        if count <= 0:
            return 0
        if available <= count:
            return free if available == count else None
        if priority is CpuPriority.NONE:
            return self._pick(free, count, priority, smt, self._online)
        priority = self._served_by(free, priority)
        scope = self.classes.of(priority) & self._online or self._online
        preferred = free & scope
        missing = count - preferred.bit_count()
        if missing < 0:
            return self._pick(preferred, count, priority, smt, scope)
        if not missing:
            return preferred
        take = self._take_for(smt)
        return preferred | take(free & ~preferred, missing, priority, preferred)

    def extend(
        self,
        held: int,
        free: int,
        more: int,
        priority: CpuPriority = CpuPriority.NONE,
        *,
        smt: SmtPreference = SmtPreference.ANY,
    ) -> int | None:
        """`more` further cpus of `free`, the nearest to those held; None where it has fewer.

        Nearest: siblings in held cores, then the same cluster, L2, L3, NUMA node, die, socket; the
        smaller of two first, as L3 groups and NUMA nodes may hold each other either way. To spread,
        one thread each of cores with none of those held comes before siblings: idle cores of the
        sockets held, their other cores, then both kinds elsewhere.
        """
        free &= self._online & ~held
        if free.bit_count() < more:
            return None
        if not held or more <= 0:
            return self.pick(free, more, priority, smt)
        if smt is not SmtPreference.SPREAD:
            return self._take_near(held, free, more, priority, smt)
        cores = self.cores
        unheld = cores.lowest_members(free & ~cores.covering(held))
        idle, inside = cores.members(cores.idle(free)), self._rings[-1].covering(held)
        picked = 0
        for part in (
            unheld & idle & inside,
            unheld & ~idle & inside,
            unheld & idle & ~inside,
            unheld & ~idle & ~inside,
            free,
        ):
            here = part & ~picked
            count = min(more - picked.bit_count(), here.bit_count())
            picked |= self._take_near(held, here, count, priority, smt)
        return picked

    def _take_near(
        self, held: int, free: int, more: int, priority: CpuPriority, smt: SmtPreference
    ) -> int:
        """`more` of `free`, which has as many, by nearness alone."""
        picked = 0
        rings = sorted((ring.covering(held) for ring in self._rings), key=int.bit_count)
        for ring in (*rings, self._online):
            if not more:
                break
            if near := free & ring:
                taken = self.pick(near, min(more, near.bit_count()), priority, smt) or 0
                picked |= taken
                free ^= taken
                more -= taken.bit_count()
        return picked

    def _pick(
        self, free: int, count: int, priority: CpuPriority, smt: SmtPreference, scope: int
    ) -> int:
        """As `pick`, for fewer cpus than are free. `scope`: the machine's cpus that may serve."""
        is_spread = smt is SmtPreference.SPREAD
        taken = 0 if is_spread else self._take_sockets(free, count, priority)
        missing = count - taken.bit_count()
        if not is_spread and (size := self._clusters.size_min) and missing >= size:
            rest = free & ~taken
            taken |= self._clusters.take(rest, missing, priority, self.classes)
            missing = count - taken.bit_count()
        if missing > 1 and not self._caches.is_empty:
            pieces = self._divide(free & ~taken, missing, priority, smt, scope)
            for cpus, share in pieces:
                taken |= self._take_part(cpus, share, priority, smt, taken)
            missing = count - taken.bit_count()
        if missing:
            taken |= self._take_part(free & ~taken, missing, priority, smt, taken)
        return taken

    def _take_part(
        self, free: int, count: int, priority: CpuPriority, smt: SmtPreference, taken: int
    ) -> int:
        """`count` cpus by cores and threads, in the fewest clusters where those say something."""
        take = self._take_for(smt)
        if self._parts.is_empty or smt in (SmtPreference.PACK, SmtPreference.SPREAD):
            return take(free, count, priority, taken)
        usable, cores = self._of_kind(free, priority), self.cores
        if usable.bit_count() < count:
            return take(free, count, priority, taken)
        pieces = self._parts.divide(
            usable,
            count,
            whole=cores.members(cores.idle(usable)),
            threads=cores.size_max,
            taken=taken,
        )
        picked = 0
        for cpus, share in pieces:
            picked |= take(cpus, share, priority, taken | picked)
        return picked or take(free, count, priority, taken)

    def _divide(
        self, free: int, count: int, priority: CpuPriority, smt: SmtPreference, scope: int
    ) -> Sequence[tuple[int, int]]:
        """The cache groups that serve `count` cpus, and how much each gives."""
        usable, cores = self._of_kind(free, priority), self.cores
        if smt is SmtPreference.SPREAD:
            counted = whole = cores.lowest_members(usable)
            threads = 1
        else:
            counted, whole = usable, cores.members(cores.idle(free))
            threads = cores.size_max
        return self._caches.divide(
            usable,
            count,
            scope=scope,
            whole=whole,
            threads=threads,
            counted=counted,
            is_loose=threads > 1 and smt is not SmtPreference.PACK,
        )

    def _served_by(self, free: int, priority: CpuPriority) -> CpuPriority:
        """The class that stands in for a priority no free cpu has; the priority itself if one has.

        High cpus are the last to be given to who did not ask for them.
        """
        for one in _STAND_INS[priority]:
            if free & self.classes.of(one):
                return one
        return priority

    def _take_for(self, smt: SmtPreference) -> _Take:
        if smt is SmtPreference.SPREAD:
            return self._cores.take_spread
        return self._cores.take_packed if smt is SmtPreference.PACK else self._cores.take

    def _sockets_of(self, priority: CpuPriority) -> tuple[int, ...]:
        """The part of each socket that has a priority, best socket first."""
        scope = self.classes.of(priority) & self._online or self._online
        parts = [part for socket in self._sockets if (part := socket & scope)]
        return tuple(sorted(parts, key=lambda part: self.classes.rank(part, priority)))

    def _take_sockets(self, free: int, count: int, priority: CpuPriority) -> int:
        taken = 0
        for socket in self._whole_sockets[priority]:
            if socket & free == socket and socket.bit_count() <= count:
                taken |= socket
                count -= socket.bit_count()
        return taken

    def _of_kind(self, free: int, priority: CpuPriority) -> int:
        """On hybrid machines the free cpus of the kind that goes with a priority."""
        if not self._efficient:
            return free
        efficient, performance = free & self._efficient, free & ~self._efficient
        return efficient or free if priority is CpuPriority.LOW else performance or free


def _split_up(
    masks: Iterable[int], online: int, rest: Callable[[int], Iterable[int]]
) -> tuple[int, ...]:
    """Disjoint masks that cover `online`, whatever the kernel says of them; `rest` completes."""
    found: list[int] = []
    for mask in masks:
        own = mask & online
        if own:
            # The same number, not an equal one: of a large machine each has half a kilobyte.
            found.append(mask if own == mask else own)
            online ^= own
    return (*found, *(rest(online) if online else ()))
