"""Labels of pools: what rules may ask of a place, from the machine and the configuration.

A label of a level names the one domain that the pool lies in; a pool that lies in several has none.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from ...topology.model.machine import Machine, MemoryKind, NumaNodeId
from ...topology.sets.cpuset import CpuSet
from ...topology.sysfs.processor import parse_processor
from ..configuration.config import Config, PoolLabels
from ..text.glob import compile_glob
from ..text.suggestion import nearest
from .pool_tree import Pool, PoolKind, PoolTree

_KINDS: Final = {
    PoolKind.VIRTUAL: "system",
    PoolKind.SOCKET: "socket",
    PoolKind.DIE: "die",
    PoolKind.NUMA: "numa",
    PoolKind.L3: "l3",
}
_MEMORY_KINDS: Final = (MemoryKind.DRAM, MemoryKind.HBM, MemoryKind.PMEM, MemoryKind.CXL)
_GIB: Final = 1 << 30
_PROCESSOR: Final = "cpu."


class LabelsOfPool(Mapping[str, str]):
    """The labels of one pool. What the processor can do is looked up when it is asked for."""

    def __init__(self, own: Mapping[str, str], processor: "_ProcessorLabels") -> None:
        self._own = own
        self._processor = processor

    @property
    def own(self) -> Mapping[str, str]:
        """Labels of this pool, without the processor's, which all pools share."""
        return self._own

    @property
    def processor(self) -> Mapping[str, str]:
        """Labels of the processor."""
        return self._processor.labels

    def __getitem__(self, key: str) -> str:
        if key in self._own or not key.startswith(_PROCESSOR):
            return self._own[key]
        return self._processor.labels[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (key for key in self._processor.labels if key not in self._own)

    def __len__(self) -> int:
        return len({*self._own, *self._processor.labels})


class _ProcessorLabels:
    """The labels of all pools of a machine: its processor's."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Vendor, model and flags; none where the kernel does not say."""
        processor = parse_processor(self._machine.cpuinfo)
        if processor is None:
            return {}
        flags = {f"cpu.flag/{flag}": "true" for flag in processor.flags}
        return {"cpu.vendor": processor.vendor, "cpu.model": processor.name, **flags}


def pool_labels(tree: PoolTree, machine: Machine, config: Config) -> tuple[LabelsOfPool, ...]:
    """The labels of each pool, by its id."""
    processor = _ProcessorLabels(machine)
    return tuple(
        LabelsOfPool({**_of_machine(pool, machine), **_of_config(pool, config)}, processor)
        for pool in tree.pools
    )


def idle_pool_labels(tree: PoolTree, config: Config) -> Iterator[str]:
    """A warning for each entry of `poolLabels` that is about no pool of the tree."""
    for index, one in enumerate(config.pool_labels):
        if any(_is_about(one, pool) for pool in tree.pools):
            continue
        if one.cpus is not None:
            what = f"no pool has all its cpus among {one.cpus!r}"
            fix = "write all cpus of a pool, as 'pinfold pools' prints them"
            yield f"poolLabels[{index}].cpus: {what} — {fix}"
            continue
        names = [pool.name for pool in tree.pools]
        near = nearest(one.pool or "", names)
        fix = f"did you mean {near!r}? " if near else ""
        what = f"no pool of this machine is called {one.pool!r}"
        yield f"poolLabels[{index}].pool: {what} — {fix}'pinfold pools' prints their names"


def allowed_cpus(pool: Pool) -> CpuSet:
    """All cpus of a pool that containers may have, those of the system's included."""
    return pool.isolated | pool.reserved | pool.sharable


def _of_machine(pool: Pool, machine: Machine) -> Mapping[str, str]:
    cpus = allowed_cpus(pool)
    labels = {
        "kind": _KINDS[pool.kind],
        "cpus": str(len(cpus)),
        **_of_levels(cpus, machine),
        **_of_memory(pool, machine),
    }
    kinds = {machine.cpus[cpu].kind for cpu in cpus}
    if len(kinds) == 1:
        labels["core-kind"] = next(iter(kinds)).value
    if cpus and cpus <= machine.isolated:
        labels["isolated"] = "true"
    for key, speeds in (
        ("cpu.base-mhz", [machine.cpus[cpu].base_khz for cpu in cpus]),
        ("cpu.max-mhz", [machine.cpus[cpu].max_khz for cpu in cpus]),
    ):
        known = [khz for khz in speeds if khz is not None]
        # Of the slowest, so that "greater than" holds for each of them.
        if known and len(known) == len(speeds):
            labels[key] = str(min(known) // 1000)
    return labels


def _of_levels(cpus: CpuSet, machine: Machine) -> Mapping[str, str]:
    levels = {
        "socket": [(one.label, one.cpus) for one in machine.sockets],
        "die": [(one.label, one.cpus) for one in machine.dies],
        "numa": [(str(node.id), node.cpus) for node in machine.numa_nodes],
        "l3": [(str(index), group) for index, group in enumerate(machine.l3_groups)],
    }
    found: dict[str, str] = {}
    for level, domains in levels.items():
        near = [(label, group) for label, group in domains if not group.isdisjoint(cpus)]
        if len(near) == 1 and cpus <= near[0][1]:
            found[level] = near[0][0]
    return found


def _of_memory(pool: Pool, machine: Machine) -> Mapping[str, str]:
    labels: dict[str, str] = {}
    kinds = [kind for kind in _MEMORY_KINDS if kind in pool.memory]
    for kind in kinds:
        sizes = [machine.node_by_id[node].memory_bytes or 0 for node in _nodes(pool, kind)]
        labels[f"memory.{kind.value}-gib"] = str(sum(sizes) // _GIB)
    if kinds:
        labels["memory.types"] = ",".join(kind.value for kind in kinds)
    return labels


def _nodes(pool: Pool, kind: MemoryKind) -> Iterator[NumaNodeId]:
    return (NumaNodeId(node) for node in pool.memory[kind])


def _of_config(pool: Pool, config: Config) -> Mapping[str, str]:
    labels: dict[str, str] = {}
    for one in config.pool_labels:
        if _is_about(one, pool):
            labels.update(one.labels)
    return labels


def _is_about(labels: PoolLabels, pool: Pool) -> bool:
    """Whether an entry of the configuration gives labels to a pool."""
    if labels.pool is not None and compile_glob(labels.pool).matches(pool.name):
        return True
    cpus = allowed_cpus(pool)
    return labels.cpus is not None and bool(cpus) and cpus <= CpuSet.parse(labels.cpus)
