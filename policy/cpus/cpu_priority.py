"""Cpus of high, normal and low priority of a machine, and the comparison of cpu sets by it."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...topology.model.machine import CoreKind, Cpu, Machine, SocketId, SpeedSelect
from ...topology.sets.cpuset import CpuSet
from ..model.cpu_preference import CpuPriority

EPP_ORDER: Final = ("performance", "balance_performance", "balance_power", "power")
"""Best first. Source: Documentation/admin-guide/pm/intel_pstate.rst."""

_TURBO_CLOS: Final = (0, 1)
"""With SST-TF the cores of these two classes of service get the raised turbo limits.
Source: Documentation/admin-guide/pm/intel-speed-select.rst."""


class PriorityClasses(Struct, frozen=True, kw_only=True):
    """Masks of the cpus of each priority. A cpu is in at most one of them."""

    high: int = 0
    normal: int = 0
    low: int = 0

    def of(self, priority: CpuPriority) -> int:
        """The cpus of one class; none for NONE."""
        match priority:
            case CpuPriority.HIGH:
                return self.high
            case CpuPriority.NORMAL:
                return self.normal
            case CpuPriority.LOW:
                return self.low
            case CpuPriority.NONE:
                return 0

    def rank(self, cpus: int, priority: CpuPriority, count: int = -1) -> tuple[int, ...]:
        """The rank of `cpus` for a preference; the smaller wins, () for NONE.

        Where sets can serve `count` cpus of the class, the one with fewer to spare wins; below that
        (and always for a `count` of -1) more is better. Then more cpus of lower classes, then fewer
        of classes above the wanted one: those are kept for who asks for them.
        """
        if priority is CpuPriority.NONE:
            return ()
        high = (cpus & self.high).bit_count()
        normal = (cpus & self.normal).bit_count()
        low = (cpus & self.low).bit_count()
        if priority is CpuPriority.HIGH:
            second = (1, -normal) if high else _fit(normal, count)
            return (*_fit(high, count), *second, -low)
        if priority is CpuPriority.NORMAL:
            return (*_fit(normal, count), -low, high)
        return (*_fit(low, count), high, normal)


def _fit(available: int, count: int) -> tuple[int, int]:
    return (0, available) if 0 < count <= available else (1, -available)


def priority_classes(machine: Machine) -> PriorityClasses:
    """The classes of a machine: Speed Select by power domain where enabled, else frequencies.

    Frequencies are compared among those cpus of a socket that Speed Select leaves unordered.
    """
    of_cpu: dict[int, CpuPriority] = {}
    for domain in machine.speed_select:
        of_cpu.update(_of_speed_select(domain, machine.online & domain.cpus))
    sockets: dict[SocketId, list[Cpu]] = {}
    for cpu in machine.cpus.values():
        if cpu.id not in of_cpu:
            sockets.setdefault(cpu.socket, []).append(cpu)
    for cpus in sockets.values():
        of_cpu.update(_of_frequencies(cpus))
    if machine.is_hybrid:
        for cpu in machine.cpus.values():
            if cpu.kind is CoreKind.EFFICIENT:
                of_cpu[cpu.id] = CpuPriority.LOW
    return PriorityClasses(
        high=_mask(of_cpu, CpuPriority.HIGH),
        normal=_mask(of_cpu, CpuPriority.NORMAL),
        low=_mask(of_cpu, CpuPriority.LOW),
    )


def _mask(of_cpu: Mapping[int, CpuPriority], priority: CpuPriority) -> int:
    return CpuSet.collect(cpu for cpu, one in of_cpu.items() if one is priority).mask


def _of_speed_select(domain: SpeedSelect, cpus: CpuSet) -> dict[int, CpuPriority]:
    """The classes of a power domain; none where no feature that orders cpus is enabled."""
    # Classes that nobody is in rank nobody: cpus that are all in one are all alike.
    used = {domain.clos_of.get(cpu) for cpu in cpus}
    order = [clos for clos in domain.clos_order if clos in used]
    if domain.has_turbo_frequency:
        of_clos = {clos: CpuPriority.HIGH for clos in _TURBO_CLOS}
        rest = CpuPriority.LOW
    elif domain.has_core_power and len(order) > 1:
        of_clos = {order[-1]: CpuPriority.LOW, order[0]: CpuPriority.HIGH}
        rest = CpuPriority.NORMAL
    elif preferred := domain.base_frequency_cpus:
        # SST-BF takes from the others' base frequency what it gives to these.
        return {cpu: CpuPriority.HIGH if cpu in preferred else CpuPriority.LOW for cpu in cpus}
    else:
        return {}
    # A cpu whose class of service could not be read is neither the best nor the worst.
    return {
        cpu: of_clos.get(domain.clos_of[cpu], rest) if cpu in domain.clos_of else CpuPriority.NORMAL
        for cpu in cpus
    }


def _of_frequencies(cpus: Sequence[Cpu]) -> dict[int, CpuPriority]:
    of_cpu = {cpu.id: CpuPriority.NORMAL for cpu in cpus}
    _split({cpu.id: -cpu.base_khz for cpu in cpus if cpu.base_khz}, of_cpu)
    _split(
        {
            cpu.id: EPP_ORDER.index(cpu.epp)
            for cpu in cpus
            if cpu.epp in EPP_ORDER and cpu.kind is CoreKind.PERFORMANCE
        },
        of_cpu,
    )
    return of_cpu


def _split(badness: Mapping[int, int], of_cpu: dict[int, CpuPriority]) -> None:
    """Mark the worst cpus low and the others high where they differ at all."""
    if len(set(badness.values())) < 2:
        return
    worst = max(badness.values())
    for cpu, value in badness.items():
        of_cpu[cpu] = CpuPriority.LOW if value == worst else CpuPriority.HIGH
