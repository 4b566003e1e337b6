"""The reading of all gauges."""

from collections.abc import Callable, Iterator, Mapping

from ....topology.sets.cpuset import CpuSet
from ...pools.pool_tree import PoolTree
from ..snapshot import Snapshot
from .cpu_gauges import CpuLabels, cpu_gauges
from .gauge import SYSTEM, Gauge, Labels
from .node_gauges import node_gauges
from .zone_gauges import PoolZones, zone_gauges


class GaugeReader:
    """Reads gauges of one snapshot after the other, whose labels are made once. For one thread."""

    def __init__(self) -> None:
        self._tree: PoolTree | None = None
        self._zones = PoolZones.of(())
        self._online: CpuSet | None = None
        self._cpus: tuple[int, ...] = ()
        self._cpu_labels: Labels = ()

    def read(
        self,
        snapshot: Snapshot,
        used_bytes: Mapping[int, int],
        pause: Callable[[], None] = lambda: None,
    ) -> Iterator[Gauge]:
        """Every instrument, each as it is asked for. O(pools + nodes + cpus + runs of cpusets).

        `used_bytes`: memory in use by whatever, by node id, as far as that is known. `pause` is
        called often.
        """
        self._learn(snapshot)
        yield from zone_gauges(snapshot, self._zones)
        yield from node_gauges(snapshot, used_bytes)
        yield from cpu_gauges(snapshot, self._cpus, self._cpu_labels, pause)
        unmet = sum([len(one.unmet) for one in snapshot.decisions.values()])
        yield Gauge(
            name="policy.rule.unmet.count",
            unit="",
            help="Required rules between containers, and about pools, that do not hold.",
            group=SYSTEM,
            values=(unmet,),
        )

    def _learn(self, snapshot: Snapshot) -> None:
        tree, online = snapshot.tree, snapshot.machine.online
        if tree is not self._tree:
            self._zones, self._tree = PoolZones.of(tree.pools), tree
        if online != self._online:
            self._cpus = tuple(online)
            self._cpu_labels = CpuLabels(self._cpus)
            self._online = online
