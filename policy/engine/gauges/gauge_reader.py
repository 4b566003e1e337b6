"""The reading of all gauges."""

from collections.abc import Callable, Iterator, Mapping

from ....topology.model.machine import Machine
from ....topology.sets.cpuset import CpuSet
from ...pools.pool_tree import PoolTree
from ..decision import unmet_rule_names
from ..snapshot import Snapshot
from .gauge import Gauge, Labels, system_gauge
from .kept_loads import KeptLoads
from .machine_gauges import CpuLabels, NodeLabels, cpu_gauges, node_gauges
from .zone_gauges import PoolZones, zone_gauges


class GaugeReader:
    """Reads gauges of one snapshot after the other, whose labels are made once. For one thread."""

    def __init__(self) -> None:
        self._tree: PoolTree | None = None
        self._zones = PoolZones.of(())
        self._loads: KeptLoads | None = None
        self._machine: Machine | None = None
        self._nodes = NodeLabels(sized=(), sizes=(), ids=(), all=())
        self._online: CpuSet | None = None
        self._cpus: tuple[int, ...] = ()
        self._cpu_labels: Labels = ()

    def read(
        self,
        snapshot: Snapshot,
        used_bytes: Mapping[int, int],
        pause: Callable[[], None] = lambda: None,
    ) -> Iterator[Gauge]:
        """Every instrument, each as it is asked for. O(containers + pools + nodes + cpus).

        `used_bytes`: memory in use by whatever, by node id, as far as that is known. `pause` is
        called often.
        """
        # Loads that a fault left half made are not kept.
        loads, self._loads = self._learn(snapshot), None
        loads.follow(snapshot, pause)
        self._loads = loads
        yield from zone_gauges(snapshot, self._zones, loads.pool_loads(snapshot))
        yield from node_gauges(self._nodes, loads.nodes, used_bytes)
        yield from cpu_gauges(loads, self._cpus, self._cpu_labels)
        yield system_gauge(
            "rule.unmet.count",
            "",
            "Required rules between containers, and about pools, that do not hold.",
            ({},),
            (len(unmet_rule_names(snapshot.decisions.values())),),
        )

    def _learn(self, snapshot: Snapshot) -> KeptLoads:
        """What stays the same of a machine and its pools, and the loads that are kept of them."""
        tree, machine = snapshot.tree, snapshot.machine
        loads = self._loads
        if loads is None or tree is not self._tree or machine is not self._machine:
            self._zones, self._tree = PoolZones.of(tree.pools), tree
            loads = KeptLoads(machine, len(tree.pools))
            self._nodes, self._machine = NodeLabels.of(machine), machine
        if machine.online != self._online:
            self._cpus = tuple(machine.online)
            self._cpu_labels = CpuLabels(self._cpus)
            self._online = machine.online
        return loads
