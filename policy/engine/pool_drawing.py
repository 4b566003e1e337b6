"""A pool tree for people and for tools: a tree of texts, and one JSON document."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...topology.drawing.machine_tree import bytes_text
from ...topology.drawing.text_tree import TextTree
from ...topology.model.machine import Machine, MemoryKind
from ...topology.sets.cpuset import CpuSet, NodeSet
from ..memory.offers import MemoryRequest
from ..pools.pool_labels import pool_labels
from ..pools.pool_tree import Pool, PoolTree
from ..tuning.speed_select_plan import extended_resources
from .snapshot import Snapshot


class SpareSupply(Struct, frozen=True, kw_only=True):
    """The part of a pool's supply that nobody has taken. Memory of unknown size is None."""

    sharable: CpuSet
    isolated: CpuSet
    shared_milli: int
    """What shared requests can still be promised of the sharable cpus."""
    memory_bytes: Mapping[MemoryKind, int | None]


def spare_supplies(snapshot: Snapshot) -> tuple[SpareSupply, ...]:
    """Spare supplies of all pools, by pool id. O(pools)."""
    memory, free = snapshot.memory, snapshot.free_milli()
    return tuple(
        SpareSupply(
            sharable=CpuSet(snapshot.free_sharable[pool.id]),
            isolated=CpuSet(snapshot.free_isolated[pool.id]),
            shared_milli=free[pool.id],
            memory_bytes={kind: memory.available(nodes) for kind, nodes in pool.memory.items()},
        )
        for pool in snapshot.tree.pools
    )


def pool_texts(
    tree: PoolTree,
    machine: Machine,
    inside: Mapping[str, Sequence[str]] | None = None,
    spare: Sequence[SpareSupply] = (),
) -> TextTree:
    """The pools as a tree of texts, from the root.

    `inside`: further texts below a pool, by its name. `spare`: by pool id what is left of it; the
    whole of it without.
    """
    supplies = spare or [_whole(pool, machine) for pool in tree.pools]

    def drawn(pool: Pool) -> TextTree:
        within = [TextTree(text) for text in (inside or {}).get(pool.name, ())]
        children = [drawn(tree.pools[child]) for child in pool.children]
        return TextTree(_line(pool, machine, supplies[pool.id]), (*within, *children))

    return drawn(tree.root)


def pools_document(snapshot: Snapshot, warnings: Sequence[str]) -> dict[str, object]:
    """The pools of a snapshot as plain values, in the order of their ids."""
    tree, machine, supply, withheld = (
        snapshot.tree,
        snapshot.machine,
        snapshot.supply,
        snapshot.withheld,
    )
    labels = pool_labels(tree, machine, snapshot.config)
    return {
        "allowed": str(supply.allowed),
        "isolated": str(supply.isolated),
        "reserved": str(supply.reserved),
        "sharable": str(supply.sharable),
        "reserved_memory": str(supply.memory.reserved),
        "withheld_memory_bytes": withheld.size_bytes if withheld is not None else 0,
        "pools": [
            {
                "id": pool.id,
                "name": pool.name,
                "kind": pool.kind.value,
                "depth": pool.depth,
                "parent": None if pool.parent is None else tree.pools[pool.parent].name,
                "cpus": str(pool.cpus),
                "isolated": str(pool.isolated),
                "reserved": str(pool.reserved),
                "sharable": str(pool.sharable),
                "memory": {
                    kind.value: {"nodes": str(nodes), "bytes": _bytes(pool, kind, machine)}
                    for kind, nodes in pool.memory.items()
                },
                "labels": dict(labels[pool.id].own),
            }
            for pool in tree.pools
        ],
        "processor_labels": dict(labels[0].processor),
        "warnings": list(warnings),
        "extended_resources": dict(extended_resources(machine, snapshot.config, supply.allowed)),
    }


def withheld_line(withheld: MemoryRequest) -> str:
    """The memory that is not for containers as a line below the tree."""
    size = bytes_text(withheld.size_bytes)
    return f"not for containers: {size} of memory, on any of node {withheld.affinity}"


def _whole(pool: Pool, machine: Machine) -> SpareSupply:
    return SpareSupply(
        sharable=pool.sharable,
        isolated=pool.isolated,
        shared_milli=1000 * len(pool.sharable),
        memory_bytes={kind: _bytes(pool, kind, machine) for kind in pool.memory},
    )


def _line(pool: Pool, machine: Machine, spare: SpareSupply) -> str:
    sharable = str(spare.sharable)
    if spare.shared_milli < 1000 * len(spare.sharable):
        sharable += f" ({spare.shared_milli}m free)"
    cpus = [
        f"{name} {cpus}"
        for name, cpus in (
            ("sharable", sharable),
            ("reserved", str(pool.reserved)),
            ("isolated", str(spare.isolated)),
        )
        if cpus
    ]
    has_some = pool.sharable or pool.isolated
    nothing = "no cpus left" if has_some else "no usable cpus"
    memory = [
        _memory_text(kind, size, _bytes(pool, kind, machine), pool.memory[kind])
        for kind, size in spare.memory_bytes.items()
    ]
    return f"{pool.name}: {', '.join(cpus) or nothing}; {', '.join(memory) or 'no memory'}"


def _memory_text(
    kind: MemoryKind, size: int | None, whole_bytes: int | None, nodes: NodeSet
) -> str:
    if size == whole_bytes:
        return f"{kind.value} {bytes_text(size)} of node {nodes}"
    amount = f"{kind.value} {bytes_text(size)}" if size else f"no {kind.value}"
    return f"{amount} free on node {nodes}"


def _bytes(pool: Pool, kind: MemoryKind, machine: Machine) -> int | None:
    sizes = [machine.node_by_id[node].memory_bytes for node in pool.memory[kind]]
    # A pool's nodes have memory: where they show none, its size is not known.
    known = [size for size in sizes if size]
    return sum(known) if len(known) == len(sizes) else None
