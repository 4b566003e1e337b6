"""Measurements of the books, as values: instruments with their samples.

Instruments, units and labels are those of the Go policy, without those of cache control.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, overload

from msgspec import Struct

from ...topology.sets.cpuset import CpuSet, NodeSet, bit_runs
from ..pools.pool_tree import Pool, PoolTree
from ..text.glob import compile_glob
from .snapshot import PoolLoads, Snapshot

ZONES: Final = "policy/topologyaware"
SYSTEM: Final = "policy/system"

_FRACTION_BITS: Final = 60
"""Of shares of cpus, which are summed as integers: so differences leave no remainder."""

Labels = Sequence[Mapping[str, str]]


class Sample(NamedTuple):
    """One value of a gauge."""

    labels: Mapping[str, str]
    value: float


class Gauge(Struct, frozen=True, kw_only=True):
    """One instrument with its values, each of which has labels of its own.

    Labels and values are apart: a large machine has thousands, and only the values change.
    """

    name: str
    unit: str
    """As OpenTelemetry has it; empty for mere counts."""
    help: str
    group: str
    """A group and a subsystem, by which it is selected."""
    labels: Sequence[Mapping[str, str]] = ({},)
    """One for each value; the same object as before where nothing changed."""
    values: Sequence[float]

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The values, each with its labels. O(values)."""
        return tuple(map(Sample, self.labels, self.values))


class GaugeReader:
    """Reads gauges of one snapshot after the other, whose labels are made once. For one thread."""

    def __init__(self) -> None:
        self._tree: PoolTree | None = None
        self._zones = _Zones.of(())
        self._online: CpuSet | None = None
        self._cpus: tuple[int, ...] = ()
        self._cpu_labels: Labels = ()

    def read(self, snapshot: Snapshot, used_bytes: Mapping[int, int]) -> Iterator[Gauge]:
        """Every instrument, each as it is asked for. O(pools + nodes + cpus + runs of cpusets).

        `used_bytes`: memory in use by whatever, by node id, as far as that is known.
        """
        self._learn(snapshot)
        look = _Look(snapshot, self._zones, snapshot.pool_loads())
        for instrument in _ZONE_INSTRUMENTS:
            yield _zone_gauge(instrument, look)
        yield from _node_gauges(snapshot, used_bytes)
        yield from _cpu_gauges(snapshot, self._cpus, self._cpu_labels)
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
            self._zones, self._tree = _Zones.of(tree.pools), tree
        if online != self._online:
            self._cpus = tuple(online)
            self._cpu_labels = _CpuLabels(self._cpus)
            self._online = online


class _CpuLabels(Sequence[Mapping[str, str]]):
    """The labels of cpus, made as they are asked for: of thousands, they take a megabyte."""

    __slots__ = ("_cpus",)

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus

    def __len__(self) -> int:
        return len(self._cpus)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CpuLabels) and self._cpus == other._cpus

    @overload
    def __getitem__(self, index: int) -> Mapping[str, str]: ...

    @overload
    def __getitem__(self, index: slice) -> Labels: ...

    def __getitem__(self, index: int | slice) -> Mapping[str, str] | Labels:
        if isinstance(index, slice):
            return _CpuLabels(self._cpus[index])
        return {"cpu.id": str(self._cpus[index])}


def read_gauges(snapshot: Snapshot, used_bytes: Mapping[int, int]) -> Iterator[Gauge]:
    """Every instrument of a single snapshot; see `GaugeReader.read`."""
    return GaugeReader().read(snapshot, used_bytes)


def is_selected(group: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches a group with its subsystem, or one of the two alone.

    >>> is_selected("policy/system", ["policy"]), is_selected("policy/system", ["*/topology*"])
    (True, False)
    """
    names = {group, *group.split("/")}
    return any(compile_glob(pattern).matches(name) for pattern in patterns for name in names)


class _Zones(Struct, frozen=True, kw_only=True):
    """Pools as zones, as far as they stay the same: sequences are by pool id.

    Texts of cpus and memory nodes take longer than what is measured of them.
    """

    labels: Mapping[tuple[str, ...], Labels]
    """By the names of the labels."""
    usable: Sequence[int]
    """Numbers of cpus that containers may use."""
    reserved: Sequence[int]
    """Numbers of cpus that are reserved."""
    nodes: Sequence[int]
    """Masks of memory nodes."""
    different: Mapping[int, NodeSet]
    """By mask: many pools have the same nodes."""

    @classmethod
    def of(cls, pools: Sequence[Pool]) -> "_Zones":
        texts = [_pool_labels(pool) for pool in pools]
        nodes = [pool.memory_nodes for pool in pools]
        return cls(
            labels={
                names: tuple([{label: one[label] for label in names} for one in texts])
                for names in {one.labels for one in _ZONE_INSTRUMENTS}
            },
            usable=[len(_usable(pool)) for pool in pools],
            reserved=[len(pool.reserved) for pool in pools],
            nodes=[one.mask for one in nodes],
            different={one.mask: one for one in nodes},
        )


class _Look(Struct, frozen=True):
    """One snapshot, as zones are measured in it."""

    snapshot: Snapshot
    zones: _Zones
    loads: PoolLoads


class _ZoneInstrument(Struct, frozen=True):
    name: str
    unit: str
    help: str
    labels: tuple[str, ...]
    values: Callable[[_Look], Sequence[float | None]]
    """By pool id; None where nothing is known."""


def _usable(pool: Pool) -> CpuSet:
    return pool.isolated | pool.reserved | pool.sharable


def _shared_cpus(look: _Look) -> list[int]:
    pairs = zip(look.snapshot.free_sharable, look.zones.reserved, strict=True)
    return [free.bit_count() + reserved for free, reserved in pairs]


def _of_memory(look: _Look, measure: Callable[[NodeSet], int | None]) -> Sequence[int | None]:
    """A measure of the memory of each pool, by pool id."""
    measured = {mask: measure(nodes) for mask, nodes in look.zones.different.items()}
    return [measured[mask] for mask in look.zones.nodes]


def _cores(milli: Sequence[int]) -> list[float]:
    return [one / 1000 for one in milli]


_ZONE_INSTRUMENTS: Final = (
    _ZoneInstrument(
        "cpu.capacity",
        "cores",
        "CPUs of the pool that containers may use.",
        ("zone", "cpus", "mems"),
        lambda look: look.zones.usable,
    ),
    _ZoneInstrument(
        "cpu.shared.capacity",
        "cores",
        "CPUs of the pool that nobody has for itself, reserved ones included.",
        ("zone",),
        _shared_cpus,
    ),
    _ZoneInstrument(
        "cpu.shared.assigned",
        "cores",
        "CPU shares promised to containers of exactly this pool.",
        ("zone",),
        lambda look: _cores(look.loads.promised_milli),
    ),
    _ZoneInstrument(
        "cpu.shared.available",
        "cores",
        "CPU shares that can still be promised in the pool.",
        ("zone",),
        lambda look: _cores(look.snapshot.free_milli()),
    ),
    _ZoneInstrument(
        "mem.capacity",
        "bytes",
        "Memory of the pool's nodes, without huge pages.",
        ("zone", "mems"),
        lambda look: _of_memory(look, look.snapshot.memory.capacity),
    ),
    _ZoneInstrument(
        "mem.assigned",
        "bytes",
        "Memory promised on nodes of the pool alone; with all nodes, what is reserved too.",
        ("zone", "mems"),
        lambda look: _of_memory(look, look.snapshot.memory.usage),
    ),
    _ZoneInstrument(
        "mem.available",
        "bytes",
        "Memory of the pool's nodes that can be promised without moving anybody.",
        ("zone", "mems"),
        lambda look: _of_memory(look, look.snapshot.memory.available),
    ),
    _ZoneInstrument(
        "container.count",
        "",
        "Containers placed in exactly this pool.",
        ("zone",),
        lambda look: look.loads.containers,
    ),
    _ZoneInstrument(
        "shared.container.count",
        "",
        "Containers of exactly this pool that run on shared or reserved CPUs.",
        ("zone",),
        lambda look: look.loads.sharing,
    ),
)


def _pool_labels(pool: Pool) -> Mapping[str, str]:
    return {"zone": pool.name, "cpus": str(_usable(pool)), "mems": str(pool.memory_nodes)}


def _zone_gauge(instrument: _ZoneInstrument, look: _Look) -> Gauge:
    labels, values = look.zones.labels[instrument.labels], instrument.values(look)
    measured = [one for one in values if one is not None]
    if len(measured) < len(values):
        labels = [one for one, value in zip(labels, values, strict=True) if value is not None]
    return Gauge(
        name=f"policy.topologyaware.zone.{instrument.name}",
        unit=instrument.unit,
        help=instrument.help,
        group=ZONES,
        labels=labels,
        values=measured,
    )


def _node_gauges(snapshot: Snapshot, used_bytes: Mapping[int, int]) -> Iterator[Gauge]:
    nodes = snapshot.machine.numa_nodes
    counts = dict.fromkeys((int(node.id) for node in nodes), 0)
    memory_of = snapshot.memory_of
    masks = Counter(
        [
            memory_of(container_id).mask
            for container_id, grant in snapshot.grants.items()
            # Where preserved memory is, nobody knows.
            if not grant.preserve_memory
        ]
    )
    for mask, count in masks.items():
        for node_id in NodeSet(mask):
            counts[node_id] += count
    sized = [node for node in nodes if node.memory_bytes is not None]
    yield _system_gauge(
        "mem.node.capacity",
        "bytes",
        "Memory of the NUMA node.",
        [{"node.id": str(node.id), "node.type": node.kind.name} for node in sized],
        [node.memory_bytes or 0 for node in sized],
    )
    used = [int(node.id) for node in nodes if node.id in used_bytes]
    yield _system_gauge(
        "mem.node.usage",
        "bytes",
        "Memory of the NUMA node that is in use, by whatever.",
        [{"node.id": str(one)} for one in used],
        [used_bytes[one] for one in used],
    )
    yield _system_gauge(
        "mem.node.container.count",
        "",
        "Containers that may use memory of the NUMA node.",
        [{"node.id": str(one)} for one in counts],
        list(counts.values()),
    )


def _cpu_gauges(snapshot: Snapshot, cpus: Sequence[int], labels: Labels) -> Iterator[Gauge]:
    """`cpus`: the online ones, ascending; `labels`: theirs."""
    online = snapshot.machine.online.mask
    # Differences at the ends of each run of cpus, whose sums are the values: sets have few runs,
    # and a thousand containers on thousands of cpus would be millions of additions.
    parts, users = dict[int, int](), dict[int, int]()
    for mask, (count, whole) in _cpu_users(snapshot).items():
        part = (whole << _FRACTION_BITS) // mask.bit_count()
        for first, end in bit_runs(mask & online):
            parts[first] = parts.get(first, 0) + part
            parts[end] = parts.get(end, 0) - part
            users[first] = users.get(first, 0) + count
            users[end] = users.get(end, 0) - count
    length = online.bit_length()
    shares = [one / (1 << _FRACTION_BITS) for one in _levels(parts)]
    yield _system_gauge(
        "cpu.allocation",
        "milli-cores",
        "What containers ask for, divided evenly among the CPUs they run on.",
        labels,
        _selected(_spread(parts, shares, length), cpus),
    )
    yield _system_gauge(
        "cpu.container.count",
        "",
        "Containers that may run on the CPU.",
        labels,
        _selected(_spread(users, _levels(users), length), cpus),
    )


def _levels(steps: Mapping[int, int]) -> list[int]:
    """The sums of all steps up to each place, in the order of places."""
    return list(accumulate(steps[place] for place in sorted(steps)))


def _spread(places: Iterable[int], levels: Sequence[float], length: int) -> list[float]:
    """A level from each place to the next one; 0 before the first, and behind the last."""
    values: list[float] = [0] * length
    order = sorted(places)
    for first, end, level in zip(order, order[1:], levels, strict=False):
        values[first:end] = [level] * (end - first)
    return values


def _selected(values: Sequence[float], cpus: Sequence[int]) -> Sequence[float]:
    return values if len(cpus) == len(values) else [values[cpu] for cpu in cpus]


def _cpu_users(snapshot: Snapshot) -> Mapping[int, tuple[int, int]]:
    """By mask of cpus: how many containers run on exactly these, and their milli-cpus together."""
    counts, sums = dict[int, int](), dict[int, int]()
    cpus_of = snapshot.cpus_of
    for container_id, grant in snapshot.grants.items():
        cpus = cpus_of(container_id)
        if cpus is not None and (mask := cpus.mask):
            milli = 1000 * grant.exclusive.mask.bit_count() + grant.shared_milli
            counts[mask] = counts.get(mask, 0) + 1
            sums[mask] = sums.get(mask, 0) + milli
    return {mask: (count, sums[mask]) for mask, count in counts.items()}


def _system_gauge(
    name: str, unit: str, text: str, labels: Labels, values: Sequence[float]
) -> Gauge:
    return Gauge(
        name=f"policy.{name}", unit=unit, help=text, group=SYSTEM, labels=labels, values=values
    )
