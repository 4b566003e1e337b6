"""Measurements of the books, as values: instruments with their samples.

Instruments, units and labels are those of the Go policy, without those of cache control.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from msgspec import Struct

from ...topology.sets.cpuset import CpuSet, NodeSet, iter_runs
from ..pools.pool_tree import Pool
from ..text.glob import compile_glob
from .snapshot import Snapshot

ZONES: Final = "policy/topologyaware"
SYSTEM: Final = "policy/system"

_FRACTION_BITS: Final = 60
"""Of shares of cpus, which are summed as integers: so differences leave no remainder."""


class Sample(NamedTuple):
    """One value of a gauge."""

    labels: Mapping[str, str]
    value: float


class Gauge(Struct, frozen=True, kw_only=True):
    """One instrument; no two of its samples have the same labels."""

    name: str
    unit: str
    """As OpenTelemetry has it; empty for mere counts."""
    help: str
    group: str
    """A group and a subsystem, by which it is selected."""
    samples: tuple[Sample, ...]


def read_gauges(snapshot: Snapshot, used_bytes: Mapping[int, int]) -> Iterator[Gauge]:
    """Every instrument, each as it is asked for. O(pools + nodes + cpus + runs of cpusets).

    `used_bytes`: memory in use by whatever, by node id, as far as that is known.
    """
    # Texts of cpus and memory nodes take longer than what is measured of them.
    labels = [_pool_labels(pool) for pool in snapshot.tree.pools]
    for instrument in _ZONE_INSTRUMENTS:
        yield _zone_gauge(instrument, snapshot, labels)
    yield from _node_gauges(snapshot, used_bytes)
    yield from _cpu_gauges(snapshot)
    unmet = sum([len(one.unmet) for one in snapshot.decisions.values()])
    yield _system_gauge(
        "rule.unmet.count",
        "",
        "Required rules between containers, and about pools, that do not hold.",
        [Sample(labels={}, value=unmet)],
    )


def is_selected(group: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches a group with its subsystem, or one of the two alone.

    >>> is_selected("policy/system", ["policy"]), is_selected("policy/system", ["*/topology*"])
    (True, False)
    """
    names = {group, *group.split("/")}
    return any(compile_glob(pattern).matches(name) for pattern in patterns for name in names)


class _ZoneInstrument(Struct, frozen=True):
    name: str
    unit: str
    help: str
    labels: tuple[str, ...]
    values: Callable[[Snapshot], Sequence[float | None]]
    """By pool id; None where nothing is known."""


def _usable(pool: Pool) -> CpuSet:
    return pool.isolated | pool.reserved | pool.sharable


def _shared_cpus(snapshot: Snapshot) -> list[int]:
    pairs = zip(snapshot.tree.pools, snapshot.free_sharable, strict=True)
    return [free.bit_count() + len(pool.reserved) for pool, free in pairs]


def _of_memory(
    snapshot: Snapshot, measure: Callable[[NodeSet], int | None]
) -> Sequence[int | None]:
    """A measure of the memory of each pool, by pool id; many pools have the same nodes."""
    nodes = [pool.memory_nodes for pool in snapshot.tree.pools]
    measured = {one: measure(one) for one in dict.fromkeys(nodes)}
    return [measured[one] for one in nodes]


def _cores(milli: Sequence[int]) -> list[float]:
    return [one / 1000 for one in milli]


_ZONE_INSTRUMENTS: Final = (
    _ZoneInstrument(
        "cpu.capacity",
        "cores",
        "CPUs of the pool that containers may use.",
        ("zone", "cpus", "mems"),
        lambda snapshot: [len(_usable(pool)) for pool in snapshot.tree.pools],
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
        lambda snapshot: _cores(snapshot.promised_milli()),
    ),
    _ZoneInstrument(
        "cpu.shared.available",
        "cores",
        "CPU shares that can still be promised in the pool.",
        ("zone",),
        lambda snapshot: _cores(snapshot.room.shared_milli),
    ),
    _ZoneInstrument(
        "mem.capacity",
        "bytes",
        "Memory of the pool's nodes, without huge pages.",
        ("zone", "mems"),
        lambda snapshot: _of_memory(snapshot, snapshot.memory.capacity),
    ),
    _ZoneInstrument(
        "mem.assigned",
        "bytes",
        "Memory promised on nodes of the pool alone; with all nodes, what is reserved too.",
        ("zone", "mems"),
        lambda snapshot: _of_memory(snapshot, snapshot.memory.usage),
    ),
    _ZoneInstrument(
        "mem.available",
        "bytes",
        "Memory of the pool's nodes that can be promised without moving anybody.",
        ("zone", "mems"),
        lambda snapshot: _of_memory(snapshot, snapshot.memory.available),
    ),
    _ZoneInstrument(
        "container.count",
        "",
        "Containers placed in exactly this pool.",
        ("zone",),
        Snapshot.containers_of_pools,
    ),
    _ZoneInstrument(
        "shared.container.count",
        "",
        "Containers of exactly this pool that run on shared or reserved CPUs.",
        ("zone",),
        Snapshot.sharing_of_pools,
    ),
)


def _pool_labels(pool: Pool) -> Mapping[str, str]:
    return {"zone": pool.name, "cpus": str(_usable(pool)), "mems": str(pool.memory_nodes)}


def _zone_gauge(
    instrument: _ZoneInstrument, snapshot: Snapshot, labels: Sequence[Mapping[str, str]]
) -> Gauge:
    """`labels`: by pool id all that any instrument has."""
    samples: list[Sample] = []
    for known, value in zip(labels, instrument.values(snapshot), strict=True):
        if value is not None:
            own = {label: known[label] for label in instrument.labels}
            samples.append(Sample(labels=own, value=value))
    return Gauge(
        name=f"policy.topologyaware.zone.{instrument.name}",
        unit=instrument.unit,
        help=instrument.help,
        group=ZONES,
        samples=tuple(samples),
    )


def _node_gauges(snapshot: Snapshot, used_bytes: Mapping[int, int]) -> Iterator[Gauge]:
    nodes = snapshot.machine.numa_nodes
    counts = dict.fromkeys((int(node.id) for node in nodes), 0)
    masks = Counter(
        snapshot.memory_of(container_id).mask
        for container_id, grant in snapshot.grants.items()
        # Where preserved memory is, nobody knows.
        if not grant.preserve_memory
    )
    for mask, count in masks.items():
        for node_id in NodeSet(mask):
            counts[node_id] += count
    yield _system_gauge(
        "mem.node.capacity",
        "bytes",
        "Memory of the NUMA node.",
        [
            Sample(
                labels={"node.id": str(node.id), "node.type": node.kind.name},
                value=node.memory_bytes,
            )
            for node in nodes
            if node.memory_bytes is not None
        ],
    )
    yield _system_gauge(
        "mem.node.usage",
        "bytes",
        "Memory of the NUMA node that is in use, by whatever.",
        [
            Sample(labels={"node.id": str(node.id)}, value=used_bytes[node.id])
            for node in nodes
            if node.id in used_bytes
        ],
    )
    yield _system_gauge(
        "mem.node.container.count",
        "",
        "Containers that may use memory of the NUMA node.",
        [Sample(labels={"node.id": str(one)}, value=count) for one, count in counts.items()],
    )


def _cpu_gauges(snapshot: Snapshot) -> Iterator[Gauge]:
    online = snapshot.machine.online
    # Differences at the ends of each run of cpus, whose sums are the values: sets have few runs,
    # and a thousand containers on thousands of cpus would be millions of additions.
    parts, users = [0] * (online.mask.bit_length() + 1), [0] * (online.mask.bit_length() + 1)
    for mask, (count, whole) in _cpu_users(snapshot).items():
        part = (whole << _FRACTION_BITS) // mask.bit_count()
        for first, end in iter_runs(mask & online.mask):
            parts[first] += part
            parts[end] -= part
            users[first] += count
            users[end] -= count
    part_sums, counts = list(accumulate(parts)), list(accumulate(users))
    yield _system_gauge(
        "cpu.allocation",
        "milli-cores",
        "What containers ask for, divided evenly among the CPUs they run on.",
        [
            Sample(labels={"cpu.id": str(cpu)}, value=part_sums[cpu] / (1 << _FRACTION_BITS))
            for cpu in online
        ],
    )
    yield _system_gauge(
        "cpu.container.count",
        "",
        "Containers that may run on the CPU.",
        [Sample(labels={"cpu.id": str(cpu)}, value=counts[cpu]) for cpu in online],
    )


def _cpu_users(snapshot: Snapshot) -> Mapping[int, tuple[int, int]]:
    """By mask of cpus: how many containers run on exactly these, and their milli-cpus together."""
    users: dict[int, tuple[int, int]] = {}
    for container_id, grant in snapshot.grants.items():
        cpus = snapshot.cpus_of(container_id)
        if cpus:
            count, milli = users.get(cpus.mask, (0, 0))
            milli += 1000 * len(grant.exclusive) + grant.shared_milli
            users[cpus.mask] = (count + 1, milli)
    return users


def _system_gauge(name: str, unit: str, text: str, samples: Sequence[Sample]) -> Gauge:
    return Gauge(name=f"policy.{name}", unit=unit, help=text, group=SYSTEM, samples=tuple(samples))
