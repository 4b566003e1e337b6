"""Facts for the expectations of scenarios: sets of names of cpus, cores, nodes, sockets.

And those of Speed Select: classes of service of cpus, limits, resources. Ids are zero padded to the
width of the machine's largest id of that kind ("cpu08").
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, reduce
from typing import Final, TypeVar

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet, NodeSet
from ..engine.engine import Engine
from ..pools.pool_tree import Pool
from ..tuning.clos_plan import ClosId
from ..tuning.effects import Hardware, KnobKind, effects
from ..tuning.interrupts import Interrupt
from ..tuning.speed_select_plan import extended_resources
from .expressions.values import Function, Value, brief, elements

T = TypeVar("T")
_NAME_PARTS: Final = re.compile(r"[^0-9]*")
RESOURCES: Final = "extended_resources"
_NAMES: Final = ("clos", "clos_freq", RESOURCES)
_ASKED: Final = re.compile(rf"\b({'|'.join(_NAMES)})\b *[\[(]")


class PerContainer(Mapping[str, Value]):
    """A fact of every running container, or every pool, computed when it is asked for."""

    def __init__(self, names: Mapping[str, T], fact: Callable[[T], Value]) -> None:
        """`names`: what the fact is computed from, by container."""
        self._names = names
        self._fact = fact

    def __getitem__(self, name: str) -> Value:
        return self._fact(self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def settled(value: Value) -> Value:
    """The value as it is at present, with facts that would be computed later, of what is then."""
    match value:
        case PerContainer():
            return dict(value)
        case list():
            return [*map(settled, value)]
        case tuple():
            return (*map(settled, value),)
        case dict():
            return type(value)({key: settled(one) for key, one in value.items()})
        case _:
            return value


class MachineNames:
    """The names of a machine's parts, by cpu."""

    def __init__(self, machine: Machine) -> None:
        """Computes the widths of ids once; names when asked for."""
        self.machine = machine
        self._cpu_width = _width(machine.present)
        self._node_width = _width(node.id for node in machine.numa_nodes)
        self._core_width = _width(cpu.core for cpu in machine.cpus.values())
        sockets = [socket.label for socket in machine.sockets]
        self._socket_width = max((len(label) for label in sockets), default=1)

    @cached_property
    def all_cpus(self) -> frozenset[Value]:
        """Every online cpu."""
        return self.cpus(self.machine.online)

    def cpus(self, cpus: CpuSet) -> frozenset[Value]:
        """Names of cpus: `cpu08`."""
        return frozenset(f"cpu{cpu:0{self._cpu_width}}" for cpu in cpus)

    def memory_nodes(self, nodes: NodeSet) -> frozenset[Value]:
        """Names of NUMA nodes: `node1`."""
        return frozenset(self._node(node) for node in nodes)

    def numa_nodes(self, cpus: CpuSet) -> frozenset[Value]:
        """The NUMA nodes of some cpus."""
        return frozenset(self._node_of[cpu] for cpu in cpus if cpu in self._node_of)

    def sockets(self, cpus: CpuSet) -> frozenset[Value]:
        """The sockets of some cpus: `socket0`."""
        return frozenset(self._socket(cpu) for cpu in cpus)

    def dies(self, cpus: CpuSet) -> frozenset[Value]:
        """The dies of some cpus: `socket0/die0`."""
        known = self.machine.cpus
        return frozenset(f"{self._socket(cpu)}/die{known[cpu].die}" for cpu in cpus)

    def cores(self, cpus: CpuSet) -> frozenset[Value]:
        """The cores of some cpus: `node0/core1`."""
        return frozenset(self._core(cpu) for cpu in cpus)

    def threads(self, cpus: CpuSet) -> frozenset[Value]:
        """The threads of some cpus: `node0/core1/thread0`, thread 0 the lowest cpu of a core."""
        core_of = self.machine.core_of
        return frozenset(f"{self._core(cpu)}/thread{[*core_of[cpu]].index(cpu)}" for cpu in cpus)

    @cached_property
    def _node_of(self) -> Mapping[int, str]:
        return {cpu: self._node(node.id) for node in self.machine.numa_nodes for cpu in node.cpus}

    def _node(self, node: int) -> str:
        return f"node{node:0{self._node_width}}"

    def _socket(self, cpu: int) -> str:
        return f"socket{self.machine.cpus[cpu].socket:0{self._socket_width}}"

    def _core(self, cpu: int) -> str:
        core = self.machine.cpus[cpu].core
        return f"{self._node_of.get(cpu, 'node')}/core{core:0{self._core_width}}"


def fact_names(
    names: MachineNames,
    running: Mapping[str, T],
    cpus_of: Callable[[T], CpuSet],
    mems_of: Callable[[T], NodeSet],
) -> dict[str, Value]:
    """The variables of expressions, of containers that may use these cpus and memory nodes."""

    def of_cpus(fact: Callable[[CpuSet], Value]) -> Value:
        return PerContainer(running, lambda one: fact(cpus_of(one)))

    return {
        "cpus": of_cpus(names.cpus),
        "mems": PerContainer(running, lambda one: names.memory_nodes(mems_of(one))),
        "nodes": of_cpus(names.numa_nodes),
        "sockets": of_cpus(names.sockets),
        "dies": of_cpus(names.dies),
        "cores": of_cpus(names.cores),
        "threads": of_cpus(names.threads),
        "all_cpus": names.all_cpus,
    }


def served_by(
    engine: Engine | None, interrupts: Sequence[Interrupt], names: MachineNames
) -> Mapping[str, Value]:
    """The cpus that serve an interrupt at present, by any part of its description."""
    if not interrupts:
        return {}
    served = {one.number: one.affinity for one in interrupts}
    if engine is not None:
        found = effects(engine.snapshot().occupancy(), Hardware(interrupts=tuple(interrupts)))
        for knob, text in found.values.items():
            if knob.kind is KnobKind.IRQ_AFFINITY:
                served[knob.number] = CpuSet.parse(text)
    return _ByPart({one.description: names.cpus(served[one.number]) for one in interrupts})


class _ByPart(dict[str, Value]):
    """Values by any part of their key; the first that fits."""

    def __missing__(self, part: str) -> Value:
        for description, value in self.items():
            if part in description:
                return value
        raise KeyError(part)

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str) and any(part in description for description in self)


def classes_of(engine: Engine | None, names: Value) -> Value:
    """The classes of cpus that some cpus (`cpu08`) are in."""
    if engine is None:
        return frozenset[Value]()
    wanted = {one for one in set_ids(names) if isinstance(one, int)}
    classes = engine.snapshot().occupancy().classes
    return frozenset[Value](name for name, cpus in classes.items() if wanted & {*cpus})


def zones(engine: Engine) -> Value:
    """Resources of each pool by its name, as the zones of a NodeResourceTopology show them."""
    grants = engine.grants.values()
    # Of all containers, and most expressions do not ask for it.
    taken = cache(lambda: CpuSet(reduce(int.__or__, [one.exclusive.mask for one in grants], 0)))
    pools = {pool.name: pool for pool in engine.tree.pools}
    return PerContainer(pools, lambda pool: _zone(pool, taken()))


def _zone(pool: Pool, taken: CpuSet) -> Value:
    attributes: dict[str, Value] = {
        "memory set": str(pool.memory_nodes),
        "shared cpuset": str(pool.sharable - taken),
    }
    if pool.reserved:
        attributes["reserved cpuset"] = str(pool.reserved)
    if isolated := pool.isolated - taken:
        attributes["isolated cpuset"] = str(isolated)
    return attributes


def set_ids(strings: Value, chars: Value = "") -> frozenset[Value]:
    """The numbers in names: `{"cpu08"}` gives `{8}`, `{"node0/core1"}` gives `{(0, 1)}`.

    `chars` are the characters to strip; without them, all that are no digits.
    """
    if not isinstance(chars, str):
        raise TypeError(f"{brief(chars)} is no text of characters to strip")
    pattern = re.compile(f"[{_ranges(chars)}]+") if chars else _NAME_PARTS
    found: set[Value] = set()
    for name in elements(strings):
        if not isinstance(name, str):
            raise TypeError(f"{brief(name)} is not a name")
        numbers = [int(pattern.sub("", part)) for part in name.split("/")]
        found.add((*numbers,) if len(numbers) > 1 else numbers[0])
    return frozenset(found)


def _ranges(chars: str) -> str:
    """Characters for a regular expression's brackets, ranges such as `[a-z]` kept."""
    return "".join(one if one == "-" else re.escape(one) for one in chars.strip("[]"))


def _ids(strings: Value) -> Value:
    return set_ids(strings)


FACT_FUNCTIONS: Final[Mapping[str, Function]] = {
    "set_ids": set_ids,
    "socket_ids": _ids,
    "die_ids": _ids,
    "node_ids": _ids,
    "core_ids": _ids,
    "thread_ids": _ids,
    "cpu_ids": _ids,
}


def _width(ids: "Iterator[int] | Mapping[int, object] | CpuSet") -> int:
    return len(str(max(ids, default=0)))


def not_simulated(expression: str, machine: Machine) -> str:
    """The reason an expression cannot be judged on this machine; empty where it can."""
    if machine.speed_select or not (asked := _ASKED.search(expression)):
        return ""
    return f"this machine has no Speed Select, so there is no {asked[1]}"


def published(engine: Engine | None) -> Mapping[str, Value]:
    """The amounts of extended resources by name."""
    if engine is None:
        return {}
    return dict(extended_resources(engine.machine, engine.config, engine.supply.allowed))


def speed_select_functions(engine: Engine | None) -> Mapping[str, Function]:
    """`clos` of cpus and `clos_freq` of a class of service, as set already or else as found."""

    def clos(cpus: Value) -> Value:
        wanted = set_ids(cpus)
        return frozenset[Value](one for cpu, one in _clos_of(engine).items() if cpu in wanted)

    def clos_freq(clos: Value) -> Value:
        if not isinstance(clos, int):
            raise TypeError("a class of service is a number")
        return _limits(engine, clos)

    return {"clos": clos, "clos_freq": clos_freq}


def _clos_of(engine: Engine | None) -> Mapping[int, int]:
    if engine is None:
        return {}
    found = {cpu: one for each in engine.machine.speed_select for cpu, one in each.clos_of.items()}
    return found | dict(engine.snapshot().occupancy().speed_select.clos_of)


def _limits(engine: Engine | None, clos: int) -> tuple[Value, Value]:
    """The limits in kHz; of the first power domain where they differ. 0 is an unknown one."""
    if engine is None:
        return 0, 0
    planned = engine.snapshot().occupancy().speed_select.limits
    for domain in engine.machine.speed_select:
        low, high = domain.clos_khz.get(clos, (0, 0))
        clock = planned.get(ClosId(domain.label, clos))
        if clock is not None:
            low = low if clock.min_khz is None else clock.min_khz
            high = high if clock.max_khz is None else clock.max_khz
        if low or high:
            return low, high
    return 0, 0
