"""Gauges of pools, which the Go policy calls zones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ....topology.sets.cpuset import CpuSet, NodeSet
from ...pools.pool_tree import Pool
from ..snapshot import Snapshot
from .gauge import ZONES, Gauge, Labels
from .kept_loads import PoolLoads


class PoolZones(Struct, frozen=True, kw_only=True):
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
    def of(cls, pools: Sequence[Pool]) -> "PoolZones":
        """The zones that the pools of a tree are. O(pools)."""
        texts = [_pool_labels(pool) for pool in pools]
        nodes = [pool.memory_nodes for pool in pools]
        return cls(
            labels={
                names: tuple([{label: one[label] for label in names} for one in texts])
                for names in {one.labels for one in _INSTRUMENTS}
            },
            usable=[len(_usable(pool)) for pool in pools],
            reserved=[len(pool.reserved) for pool in pools],
            nodes=[one.mask for one in nodes],
            different={one.mask: one for one in nodes},
        )


def zone_gauges(snapshot: Snapshot, zones: PoolZones, loads: PoolLoads) -> Iterator[Gauge]:
    """Every instrument of pools, each as it is asked for. O(pools)."""
    look = _Look(snapshot, zones, loads)
    for instrument in _INSTRUMENTS:
        yield _gauge(instrument, look)


class _Look(Struct, frozen=True):
    """One snapshot, as zones are measured in it."""

    snapshot: Snapshot
    zones: PoolZones
    loads: PoolLoads


class _Instrument(Struct, frozen=True):
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


_INSTRUMENTS: Final = (
    _Instrument(
        "cpu.capacity",
        "cores",
        "CPUs of the pool that containers may use.",
        ("zone", "cpus", "mems"),
        lambda look: look.zones.usable,
    ),
    _Instrument(
        "cpu.shared.capacity",
        "cores",
        "CPUs of the pool that nobody has for itself, reserved ones included.",
        ("zone",),
        _shared_cpus,
    ),
    _Instrument(
        "cpu.shared.assigned",
        "cores",
        "CPU shares promised to containers of exactly this pool.",
        ("zone",),
        lambda look: _cores(look.loads.promised_milli),
    ),
    _Instrument(
        "cpu.shared.available",
        "cores",
        "CPU shares that can still be promised in the pool.",
        ("zone",),
        lambda look: _cores(look.snapshot.free_milli()),
    ),
    _Instrument(
        "mem.capacity",
        "bytes",
        "Memory of the pool's nodes, without huge pages.",
        ("zone", "mems"),
        lambda look: _of_memory(look, look.snapshot.memory.capacity),
    ),
    _Instrument(
        "mem.assigned",
        "bytes",
        "Memory promised on nodes of the pool alone; with all nodes, what is reserved too.",
        ("zone", "mems"),
        lambda look: _of_memory(look, look.snapshot.memory.usage),
    ),
    _Instrument(
        "mem.available",
        "bytes",
        "Memory of the pool's nodes that can be promised without moving anybody.",
        ("zone", "mems"),
        lambda look: _of_memory(look, look.snapshot.memory.available),
    ),
    _Instrument(
        "container.count",
        "",
        "Containers placed in exactly this pool.",
        ("zone",),
        lambda look: look.loads.containers,
    ),
    _Instrument(
        "shared.container.count",
        "",
        "Containers of exactly this pool that run on shared or reserved CPUs.",
        ("zone",),
        lambda look: look.loads.sharing,
    ),
)


def _pool_labels(pool: Pool) -> Mapping[str, str]:
    return {"zone": pool.name, "cpus": str(_usable(pool)), "mems": str(pool.memory_nodes)}


def _gauge(instrument: _Instrument, look: _Look) -> Gauge:
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
