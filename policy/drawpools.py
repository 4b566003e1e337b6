"""A pool tree for people and for tools: lines of text, and one JSON document."""

from collections.abc import Iterator, Mapping, Sequence

from ..topology.draw import bytes_text
from ..topology.machine import Machine, MemoryKind
from .memory.request import MemoryRequest
from .pool import Pool, PoolTree
from .supply import Supply


def draw_pools(
    tree: PoolTree, machine: Machine, inside: Mapping[str, Sequence[str]] | None = None
) -> str:
    """The tree as lines, the root first; `inside`: further lines below a pool, by its name."""
    lines = [_line(tree.root, machine)]
    lines.extend(_below(tree, tree.root, machine, inside or {}, ""))
    return "\n".join(lines)


def pools_document(
    tree: PoolTree,
    machine: Machine,
    supply: Supply,
    withheld: MemoryRequest | None,
    warnings: Sequence[str],
) -> dict[str, object]:
    """The tree as plain values, pools in the order of their ids.

    `withheld`: memory of the ordinary nodes that is not for containers, wherever on them it is.
    """
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
            }
            for pool in tree.pools
        ],
        "warnings": list(warnings),
    }


def withheld_line(withheld: MemoryRequest) -> str:
    """The memory that is not for containers as a line below the tree."""
    size = bytes_text(withheld.size_bytes)
    return f"not for containers: {size} of memory, on any of node {withheld.affinity}"


def _below(
    tree: PoolTree, pool: Pool, machine: Machine, inside: Mapping[str, Sequence[str]], indent: str
) -> Iterator[str]:
    rows: list[tuple[str, Pool | None]] = [(text, None) for text in inside.get(pool.name, ())]
    rows.extend((_line(tree.pools[child], machine), tree.pools[child]) for child in pool.children)
    for number, (text, child) in enumerate(rows, start=1):
        is_last = number == len(rows)
        yield f"{indent}{'└─ ' if is_last else '├─ '}{text}"
        if child is not None:
            deeper = indent + ("   " if is_last else "│  ")
            yield from _below(tree, child, machine, inside, deeper)


def _line(pool: Pool, machine: Machine) -> str:
    cpus = [
        f"{name} {cpus}"
        for name, cpus in (
            ("sharable", pool.sharable),
            ("reserved", pool.reserved),
            ("isolated", pool.isolated),
        )
        if cpus
    ]
    memory = [
        f"{kind.value} {bytes_text(_bytes(pool, kind, machine))} of node {nodes}"
        for kind, nodes in pool.memory.items()
    ]
    return f"{pool.name}: {', '.join(cpus) or 'no usable cpus'}; {', '.join(memory) or 'no memory'}"


def _bytes(pool: Pool, kind: MemoryKind, machine: Machine) -> int | None:
    sizes = [machine.node_by_id[node].memory_bytes for node in _nodes(pool, kind)]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _nodes(pool: Pool, kind: MemoryKind) -> Iterator[int]:
    yield from pool.memory[kind]
