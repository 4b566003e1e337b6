"""Levels at which placements are aligned or not, and the domains of each."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet, bit_runs, lowest_cpu

DOMAIN_LEVELS: Final = ("socket", "die", "numa", "l3")
"""The levels that operators look at."""


class DomainLevel(Struct, frozen=True):
    """One level's domains: a large machine has hundreds, and sets of cpus are held against one."""

    name: str
    outside: Sequence[int]
    """Masks of the cpus that are not in each domain; the last one is that of no domain."""
    number_of: Sequence[int]
    """The number of the domain of each cpu."""

    @classmethod
    def all_of(cls, machine: Machine) -> "Sequence[DomainLevel]":
        """The levels of a machine. O(domains)."""
        return tuple(
            [cls.of(name, list(domains.values())) for name, domains in domains_of(machine).items()]
        )

    @classmethod
    def of(cls, name: str, domains: Sequence[CpuSet]) -> "DomainLevel":
        """The level of these domains, no two of which have a cpu in common."""
        outside = [~one.mask for one in domains]
        width = max([one.mask.bit_length() for one in domains], default=0)
        numbers = array("H", [len(domains)]) * (width + 1)
        for number, one in enumerate(domains):
            for first, end in bit_runs(one.mask):
                numbers[first:end] = array("H", [number]) * (end - first)
        return cls(name, [*outside, ~0], numbers)

    def has_together(self, mask: int) -> bool:
        """Whether cpus are in one domain. O(1)."""
        number = self.number_of[min(lowest_cpu(mask), len(self.number_of) - 1)]
        return not mask & self.outside[number]


def domains_of(machine: Machine) -> Mapping[str, Mapping[str, CpuSet]]:
    """The cpus of every domain by level and label, of the levels that operators look at."""
    groups: tuple[Mapping[str, CpuSet], ...] = (
        {one.label: one.cpus for one in machine.sockets},
        {one.label: one.cpus for one in machine.dies},
        {str(one.id): one.cpus for one in machine.numa_nodes if one.cpus},
        {str(number): cpus for number, cpus in enumerate(machine.l3_groups)},
    )
    return dict(zip(DOMAIN_LEVELS, groups, strict=True))
