"""Per-cpu traits: the kind of core and frequencies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..sets.cpuset import CpuSet
from .attributes import Attributes
from .cpus import CPU

_DEVICES: Final = "sys/devices"
_EFFICIENT_UNITS: Final = ("cpu_atom", "cpu_lowpower")
"""Names of the x86 performance-monitoring units of efficient cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequency:
    """The frequencies of a cpu; None where cpufreq does not say."""

    base_khz: int | None = None
    min_khz: int | None = None
    max_khz: int | None = None
    epp: str | None = None


def read_efficient(attributes: Attributes, online: CpuSet, cores: tuple[CpuSet, ...]) -> CpuSet:
    """The efficient cpus of a hybrid machine, whole cores; empty elsewhere."""
    performance = attributes.cpus(f"{_DEVICES}/cpu_core/cpus")
    units = [attributes.cpus(f"{_DEVICES}/{unit}/cpus") for unit in _EFFICIENT_UNITS]
    named = CpuSet()
    for unit in units:
        named |= unit or CpuSet()
    if performance is None and not named:
        return _by_capacity(attributes, online)
    return efficient_cpus(attributes.warn, online, cores, performance, named)


def efficient_cpus(
    warn: Callable[[str, str], None],
    online: CpuSet,
    cores: tuple[CpuSet, ...],
    performance: CpuSet | None,
    efficient: CpuSet,
) -> CpuSet:
    """The efficient cpus, whole cores, when either kind (or both) is named."""
    if performance is not None and not efficient:
        efficient = online - performance if performance & online else CpuSet()
    both = efficient & (performance or CpuSet())
    if both:
        warn(f"{_DEVICES}/cpu_core/cpus", f"cpus {both} are of both kinds of core")
        efficient -= both
    if performance is not None and (neither := online - performance - efficient):
        warn(f"{_DEVICES}/cpu_core/cpus", f"cpus {neither} are of no kind: taken as performance")
    found = CpuSet()
    for core in cores:
        if core <= efficient:
            found |= core
        elif core & efficient:
            warn(f"{_DEVICES}/cpu_atom/cpus", f"names part of core {core}: passed over")
    return found & online


def _by_capacity(attributes: Attributes, online: CpuSet) -> CpuSet:
    """Cpus with at most half the capacity of the largest (arm big.LITTLE, DynamIQ)."""
    # The kernel shows the file on all cpus or on none.
    if attributes.number(f"{CPU}/cpu{online.lowest}/cpu_capacity") is None:
        return CpuSet()
    capacity = {cpu: attributes.number(f"{CPU}/cpu{cpu}/cpu_capacity") or 0 for cpu in online}
    largest = max(capacity.values(), default=0)
    return CpuSet.collect(cpu for cpu, one in capacity.items() if 0 < 2 * one <= largest)


def read_frequencies(attributes: Attributes, online: CpuSet) -> Mapping[int, Frequency]:
    """The frequencies of the cpus that have a cpufreq policy."""
    found: dict[int, Frequency] = {}
    # Where no driver knows the clocks, as in a virtual machine, the folder of policies is empty.
    # So it is in kernels before 4.3, too, which had the policies in the folders of the cpus.
    tree, policies = attributes.tree, f"{CPU}/cpufreq"
    is_empty = tree.resolve(policies) is not None and not tree.names(policies)
    if is_empty and not tree.names(f"{CPU}/cpu{online.lowest}/cpufreq"):
        return found
    for cpu in online:
        directory = f"{CPU}/cpu{cpu}/cpufreq"
        highest = _khz(attributes, f"{directory}/cpuinfo_max_freq")
        if highest is None:
            continue
        found[cpu] = Frequency(
            base_khz=_khz(attributes, f"{directory}/base_frequency"),
            min_khz=_khz(attributes, f"{directory}/cpuinfo_min_freq"),
            max_khz=highest,
            epp=attributes.text(f"{directory}/energy_performance_preference") or None,
        )
    return found


def _khz(attributes: Attributes, path: str) -> int | None:
    found = attributes.number(path)
    return found if found is not None and found > 0 else None
