"""What can be measured of the books, as values: instruments with their samples.

Instruments, units and labels are those of the Go policy, without those of cache control.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet, NodeSet, iter_bits
from ..model.request import CpuType
from ..pools.pool_tree import Pool, PoolTree
from ..text.glob import compile_glob
from .engine import Engine

ZONES: Final = "policy/topologyaware"
SYSTEM: Final = "policy/system"


class Sample(NamedTuple):
    """One value of a gauge."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One instrument; no two of its samples have the same labels."""

    name: str
    unit: str
    """As OpenTelemetry has it; empty for mere counts."""
    help: str
    group: str
    """A group and a subsystem, by which it is selected."""
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The books at one moment, as values that stay while the policy goes on.

    Sequences are by pool id. Memory whose size is not known is None.
    """

    machine: Machine
    tree: PoolTree
    shared_cpus: tuple[int, ...]
    """Number of cpus, free sharable and reserved ones."""
    promised_milli: tuple[int, ...]
    available_milli: tuple[int, ...]
    containers: tuple[int, ...]
    sharing: tuple[int, ...]
    memory_capacity_bytes: tuple[int | None, ...]
    memory_assigned_bytes: tuple[int, ...]
    memory_available_bytes: tuple[int | None, ...]
    cpu_users: Mapping[int, tuple[int, int]]
    """By mask of cpus: how many containers run on exactly these, and their milli-cpus together."""
    memory_users: Mapping[int, int]
    """By mask of memory nodes: how many containers may use exactly these."""

    @classmethod
    def of(cls, engine: Engine) -> "Figures":
        """The present ones; only for the policy's thread. O(pools + containers)."""
        ledger, memory, pools = engine.ledger, engine.memory, engine.tree.pools
        by_type = [ledger.neighbours(cpu_type) for cpu_type in CpuType]
        reserved = ledger.neighbours(CpuType.RESERVED)
        cpu_users: dict[int, tuple[int, int]] = {}
        memory_users: dict[int, int] = {}
        for container in engine.running():
            grant = engine.grants[container.id]
            if container.cpus:
                count, milli = cpu_users.get(container.cpus.mask, (0, 0))
                milli += 1000 * len(grant.exclusive) + grant.shared_milli
                cpu_users[container.cpus.mask] = (count + 1, milli)
            # Where preserved memory is, nobody knows.
            if container.mems and not grant.preserve_memory:
                mask = container.mems.mask
                memory_users[mask] = memory_users.get(mask, 0) + 1
        free = ledger.free_sharable
        nodes = [pool.memory_nodes for pool in pools]
        return cls(
            machine=engine.machine,
            tree=engine.tree,
            shared_cpus=tuple(free[pool.id].bit_count() + len(pool.reserved) for pool in pools),
            promised_milli=ledger.promised_milli(),
            available_milli=ledger.room.shared_milli,
            containers=tuple(map(sum, zip(*by_type, strict=True))),
            sharing=tuple(len(ledger.sharing(pool.id)) + reserved[pool.id] for pool in pools),
            memory_capacity_bytes=tuple(map(memory.capacity, nodes)),
            memory_assigned_bytes=tuple(map(memory.usage, nodes)),
            memory_available_bytes=tuple(map(memory.available, nodes)),
            cpu_users=cpu_users,
            memory_users=memory_users,
        )


def read_gauges(figures: Figures, used_bytes: Mapping[int, int]) -> Iterator[Gauge]:
    """Every instrument, each as it is asked for. O(pools + nodes + cpus x distinct cpusets).

    `used_bytes`: memory in use by whatever, by node id, as far as that is known.
    """
    for instrument in _ZONE_INSTRUMENTS:
        yield _zone_gauge(instrument, figures)
    yield from _node_gauges(figures, used_bytes)
    yield from _cpu_gauges(figures)


def is_selected(group: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches a group with its subsystem, or one of the two alone.

    >>> is_selected("policy/system", ["policy"]), is_selected("policy/system", ["*/topology*"])
    (True, False)
    """
    names = {group, *group.split("/")}
    return any(compile_glob(pattern).matches(name) for pattern in patterns for name in names)


@dataclass(frozen=True, slots=True)
class _ZoneInstrument:
    name: str
    unit: str
    help: str
    labels: tuple[str, ...]
    values: Callable[[Figures], Sequence[float | None]]
    """By pool id; None where nothing is known."""


def _usable(pool: Pool) -> CpuSet:
    return pool.isolated | pool.reserved | pool.sharable


def _cores(milli: Sequence[int]) -> list[float]:
    return [one / 1000 for one in milli]


_ZONE_INSTRUMENTS: Final = (
    _ZoneInstrument(
        "cpu.capacity",
        "cores",
        "CPUs of the pool that containers may use.",
        ("zone", "cpus", "mems"),
        lambda figures: [len(_usable(pool)) for pool in figures.tree.pools],
    ),
    _ZoneInstrument(
        "cpu.shared.capacity",
        "cores",
        "CPUs of the pool that nobody has for itself, reserved ones included.",
        ("zone",),
        lambda figures: figures.shared_cpus,
    ),
    _ZoneInstrument(
        "cpu.shared.assigned",
        "cores",
        "CPU shares promised to containers of exactly this pool.",
        ("zone",),
        lambda figures: _cores(figures.promised_milli),
    ),
    _ZoneInstrument(
        "cpu.shared.available",
        "cores",
        "CPU shares that can still be promised in the pool.",
        ("zone",),
        lambda figures: _cores(figures.available_milli),
    ),
    _ZoneInstrument(
        "mem.capacity",
        "bytes",
        "Memory of the pool's nodes, without huge pages.",
        ("zone", "mems"),
        lambda figures: figures.memory_capacity_bytes,
    ),
    _ZoneInstrument(
        "mem.assigned",
        "bytes",
        "Memory promised on nodes of the pool alone; with all nodes, what is reserved too.",
        ("zone", "mems"),
        lambda figures: figures.memory_assigned_bytes,
    ),
    _ZoneInstrument(
        "mem.available",
        "bytes",
        "Memory of the pool's nodes that can be promised without moving anybody.",
        ("zone", "mems"),
        lambda figures: figures.memory_available_bytes,
    ),
    _ZoneInstrument(
        "container.count",
        "",
        "Containers placed in exactly this pool.",
        ("zone",),
        lambda figures: figures.containers,
    ),
    _ZoneInstrument(
        "shared.container.count",
        "",
        "Containers of exactly this pool that run on shared or reserved CPUs.",
        ("zone",),
        lambda figures: figures.sharing,
    ),
)


def _zone_gauge(instrument: _ZoneInstrument, figures: Figures) -> Gauge:
    samples: list[Sample] = []
    for pool, value in zip(figures.tree.pools, instrument.values(figures), strict=True):
        if value is not None:
            known = {
                "zone": pool.name,
                "cpus": str(_usable(pool)),
                "mems": str(pool.memory_nodes),
            }
            labels = {label: known[label] for label in instrument.labels}
            samples.append(Sample(labels=labels, value=value))
    return Gauge(
        name=f"policy.topologyaware.zone.{instrument.name}",
        unit=instrument.unit,
        help=instrument.help,
        group=ZONES,
        samples=tuple(samples),
    )


def _node_gauges(figures: Figures, used_bytes: Mapping[int, int]) -> Iterator[Gauge]:
    nodes = figures.machine.numa_nodes
    counts = dict.fromkeys((int(node.id) for node in nodes), 0)
    for mask, count in figures.memory_users.items():
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


def _cpu_gauges(figures: Figures) -> Iterator[Gauge]:
    milli = dict.fromkeys(figures.machine.online, 0.0)
    counts = dict.fromkeys(figures.machine.online, 0)
    for mask, (count, whole) in figures.cpu_users.items():
        part = whole / mask.bit_count()
        for cpu in iter_bits(mask & figures.machine.online.mask):
            counts[cpu] += count
            milli[cpu] += part
    yield _system_gauge(
        "cpu.allocation",
        "milli-cores",
        "What containers ask for, divided evenly among the CPUs they run on.",
        [Sample(labels={"cpu.id": str(cpu)}, value=value) for cpu, value in milli.items()],
    )
    yield _system_gauge(
        "cpu.container.count",
        "",
        "Containers that may run on the CPU.",
        [Sample(labels={"cpu.id": str(cpu)}, value=count) for cpu, count in counts.items()],
    )


def _system_gauge(name: str, unit: str, text: str, samples: Sequence[Sample]) -> Gauge:
    return Gauge(name=f"policy.{name}", unit=unit, help=text, group=SYSTEM, samples=tuple(samples))
