"""Memory nodes for containers, and those of them only for containers on the reserved cpus."""

from typing import Final

from msgspec import Struct

from ...topology.drawing.machine_tree import bytes_text
from ...topology.model.machine import Machine
from ...topology.sets.cpuset import NO_NODES, CpuSet, NodeSet
from ..configuration.config import Amounts, Config
from ..text.errors import ConfigError
from ..text.quantity import (
    AllCpusBut,
    AllNodesBut,
    ByteQuantity,
    MemoryAmount,
    OnlyCpus,
    OnlyNodes,
    QuantityError,
)

_AVAILABLE: Final = "availableResources.memory"
_RESERVED: Final = "reservedResources.memory"
_NO_MEMORY: Final = (
    "MemTotal is 0 on every NUMA node: taken as not known, so nobody is refused for want of memory"
    " — look at the meminfo files below /sys/devices/system/node"
)


class MemorySupply(Struct, frozen=True, kw_only=True):
    """Two disjoint sets of nodes, all of which have memory."""

    ordinary: NodeSet | None = None
    """Where every container may have memory; None: on all nodes that have some."""
    reserved: NodeSet = NO_NODES
    """Where only containers on the reserved cpus may have memory."""
    warnings: tuple[str, ...] = ()

    def excludes(self, node: int) -> bool:
        """Whether an ordinary container may not have memory of a node."""
        return self.ordinary is not None and node not in self.ordinary


ALL_MEMORY: Final = MemorySupply()
"""Where the configuration names no nodes."""


def read_memory_supply(machine: Machine, config: Config) -> MemorySupply:
    """The memory nodes of `availableResources` and `reservedResources` on this machine.

    Raises `ConfigError` where a set cannot be read, names nodes that are not there, or leaves no
    memory that containers can run in. What only excludes too much is left out with a warning: a
    configuration for several kinds of machines does that.
    """
    reader = _Reader(machine)
    available = reader.nodes(_AVAILABLE, config.available_resources)
    reserved = reader.nodes(_RESERVED, config.reserved_resources, available)
    if available is None and reserved is None:
        return MemorySupply(warnings=tuple(reader.warnings))
    ordinary = available or reader.having
    if reserved is not None:
        if outside := reserved - ordinary:
            raise ConfigError(
                f"{_RESERVED}: nodes {outside} of {config.reserved_resources.memory!r} are not"
                f" among the available nodes {ordinary} — take them out here or add them to"
                f" {_AVAILABLE}"
            )
        ordinary -= reserved
        reader.require_usable(_RESERVED, config.reserved_resources, ordinary)
    else:
        reader.require_usable(_AVAILABLE, config.available_resources, ordinary)
    return MemorySupply(
        ordinary=ordinary, reserved=reserved or NO_NODES, warnings=tuple(reader.warnings)
    )


class _Reader:
    """Turns amounts into nodes of one machine, and notes what is strange about them."""

    def __init__(self, machine: Machine) -> None:
        nodes = machine.numa_nodes
        self._machine = machine
        self._known = NodeSet.collect(node.id for node in nodes)
        self.having = machine.nodes_with_memory
        self._normal = NodeSet.collect(node.id for node in nodes if node.is_normal) & self.having
        self.warnings = [] if machine.shows_memory else [_NO_MEMORY]

    def nodes(self, where: str, amounts: Amounts, among: NodeSet | None = None) -> NodeSet | None:
        """The nodes an amount stands for, all with memory; None where it names none."""
        try:
            amount = amounts.memory_amount
        except QuantityError as error:
            raise ConfigError(f"{where}: {error}") from error
        if amount is None or isinstance(amount, ByteQuantity):
            return None
        found = self._named(f"{where}: {amounts.memory!r}", amount)
        if isinstance(amount, AllNodesBut | AllCpusBut):
            found = (among or self.having) - found
        elif lacking := found - self.having:
            self.warnings.append(f"{where}: nodes {lacking} of {amounts.memory!r} have no memory")
        found &= self.having
        if not found and self._has_lost(amount):
            self.warnings.append(
                f"{where}: no cpu of {amounts.memory!r} is online, so its nodes are not known:"
                " it counts for nothing until some are back"
            )
            return None
        if not found:
            raise ConfigError(
                f"{where}: {amounts.memory!r} stands for no node with memory"
                f" — the nodes with memory are {among or self.having}, name some of them"
            )
        return found

    def _named(self, where: str, amount: MemoryAmount) -> NodeSet:
        """The nodes that a set names, whether it wants them or not."""
        match amount:
            case OnlyNodes(nodes):
                if absent := nodes - self._known:
                    raise ConfigError(
                        f"{where} names nodes {absent}, which are not there"
                        f" — the nodes with memory are {self.having}, name some of them"
                    )
                return nodes
            case AllNodesBut(nodes):
                if absent := nodes - self._known:
                    self.warnings.append(f"{where}: there are no nodes {absent}")
                return nodes & self._known
            case OnlyCpus(cpus) | AllCpusBut(cpus):
                return self._around(where, cpus)
            case ByteQuantity():
                return NO_NODES

    def _has_lost(self, amount: MemoryAmount) -> bool:
        match amount:
            case OnlyCpus(cpus) | AllCpusBut(cpus):
                return bool(cpus & self._machine.offline)
            case _:
                return False

    def _around(self, where: str, cpus: CpuSet) -> NodeSet:
        if absent := cpus - self._machine.online:
            self.warnings.append(
                f"{where}: cpus {absent} are not online, so their nodes are not known"
            )
        nodes = self._machine.numa_nodes
        return NodeSet.collect(node.id for node in nodes if not node.cpus.isdisjoint(cpus))

    def require_usable(self, where: str, amounts: Amounts, nodes: NodeSet) -> None:
        """Raises `ConfigError` where containers could not run in the memory of these nodes."""
        if not nodes:
            raise ConfigError(
                f"{where}: {amounts.memory!r} leaves no memory for other containers"
                " — reserve fewer nodes, or make more available"
            )
        if self._normal and not nodes & self._normal:
            raise ConfigError(
                f"{where}: {amounts.memory!r} leaves only movable memory (nodes {nodes}), in which"
                f" the kernel keeps nothing of its own — leave one of nodes {self._normal}"
            )


def withheld_bytes(config: Config, total: int | None, ordinary: int | None) -> int:
    """Bytes of memory of the ordinary nodes that are not for containers.

    What a quantity in `reservedResources.memory` sets aside, and what one in
    `availableResources.memory` leaves out. `total` is the memory of all available nodes, `ordinary`
    without the reserved ones; None where the machine does not say: then nothing can be left out.
    Raises `ConfigError` where containers would be left with no memory.
    """
    reserved = _quantity(config.reserved_resources) or 0
    available = _quantity(config.available_resources)
    if total is None or ordinary is None:
        return reserved
    # What is available counts the reserved nodes, as it counts reserved cpus.
    left_out = 0 if available is None else max(0, total - available)
    if reserved + left_out >= ordinary:
        gone = {"reserved": reserved + total - ordinary, "not available": left_out}
        reasons = " and ".join(f"{bytes_text(size)} {why}" for why, size in gone.items() if size)
        raise ConfigError(
            f"{_RESERVED if reserved else _AVAILABLE}: leaves no memory for containers: of"
            f" {bytes_text(total)} are {reasons} — reserve less or make more available"
        )
    return reserved + left_out


def _quantity(amounts: Amounts) -> int | None:
    amount = amounts.memory_amount
    return amount.size_bytes if isinstance(amount, ByteQuantity) else None
