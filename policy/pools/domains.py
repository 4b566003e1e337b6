"""Domains of a machine: the groups of usable cpus at every level at which rules can hold.

A level that a machine does not have is the next wider one that it has. Levels need not nest: with
sub-NUMA clustering an L3 group holds several NUMA nodes, elsewhere it is the other way round.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial, reduce
from typing import Final

from ...topology.model.machine import Level, Machine
from ...topology.sets.cpuset import CpuSet, iter_bits, lowest_cpu
from ..cpus.cpu_blocks import CpuBlocks

_LEVELS: Final = tuple(Level)
_KNOWN_SETS: Final = 512
"""More, as containers come and go, are megabytes on a machine with thousands of cpus, and save one
look in thirty."""
_KNOWN_TILINGS: Final = 32
_MOST: Final = 4
"""Where this part of all domains have some cpus, all are asked in less time than those alone."""


class Domains:
    """The domains of every level: disjoint masks that together are all cpus that may be used.

    A domain is named by its lowest cpu, so that a set of domains is a mask, too. NUMA nodes without
    cpus are no domains, and cpus that are offline or not allowed are in none.
    """

    def __init__(self, machine: Machine, allowed: CpuSet) -> None:
        """Computes all levels once. O(cpus x levels)."""
        self._masks: dict[Level, tuple[int, ...]] = {}
        self._stand_ins: dict[Level, Level] = {}
        wider = Level.SYSTEM
        found: tuple[int, ...] = (allowed.mask,)
        for level in _LEVELS:
            groups = [mask & allowed.mask for mask in _groups(machine, level)]
            if level is Level.SYSTEM or any(groups):
                # Cpus that no group of a level has are as far apart as at the next wider one.
                found, wider = _completed(groups, found), level
            self._masks[level], self._stand_ins[level] = found, wider
        blocks = {level: CpuBlocks(masks) for level, masks in self._masks.items()}
        self._blocks: Mapping[Level, CpuBlocks] = blocks
        self.everything = self._masks[Level.SYSTEM][0]
        """All cpus that may be used."""
        self.masks = self._masks.__getitem__
        """The domains of a level, by their lowest cpu."""
        # Worked out for the first who asks.
        self.holders = lru_cache(maxsize=len(_LEVELS))(self._holders)
        """The domain of a level in which each cpu is."""
        self.firsts = lru_cache(maxsize=len(_LEVELS))(self._firsts)
        """The lowest cpu of the domain of a level in which each cpu is, by the cpu's number."""
        # The containers of one pool share one set of cpus, and there are few others.
        self.indexes = lru_cache(maxsize=_KNOWN_SETS)(partial(_indexes, blocks))
        """The domains of a level that hold some of a mask of cpus, by their lowest cpus."""
        self.covering = lru_cache(maxsize=_KNOWN_SETS)(partial(_covering, blocks))
        """All cpus of the domains of a level that hold some of a mask of cpus."""
        self.size_max = lru_cache(maxsize=_KNOWN_SETS)(partial(_size_max, self._masks))
        """How many of a mask of cpus a domain of a level has at most."""
        self.nest = lru_cache(maxsize=len(_LEVELS) ** 2)(self._nest)
        """Whether each domain of a level is in one of a wider level."""
        self.are_inside = lru_cache(maxsize=_KNOWN_TILINGS)(self._are_inside)
        """Whether each domain of a level is in one of some masks that have nothing in common."""

    def stand_in(self, level: Level) -> Level:
        """The level whose domains serve for a level: itself, or the next wider where absent."""
        return self._stand_ins[level]

    def _holders(self, level: Level) -> Mapping[int, int]:
        return {cpu: mask for mask in self._masks[level] for cpu in iter_bits(mask)}

    def _firsts(self, level: Level) -> Sequence[int]:
        # Two bytes each, for there may be thousands.
        found = array("h", bytes(2 * self.everything.bit_length()))
        for cpu, mask in self.holders(level).items():
            found[cpu] = lowest_cpu(mask)
        return found

    def _nest(self, level: Level, wider: Level) -> bool:
        masks, blocks = self._masks[wider], self._blocks[level]
        if masks is self._masks[level]:
            return True
        # In one wider domain is whoever is not divided by any half of them, by a bit of the number.
        for bit in range((len(masks) - 1).bit_length()):
            half = reduce(int.__or__, [one for i, one in enumerate(masks) if i >> bit & 1])
            if blocks.covering(half) != half:
                return False
        return True

    def _are_inside(self, level: Level, masks: tuple[int, ...]) -> bool:
        blocks = self._blocks[level]
        inside = reduce(int.__or__, [blocks.members(blocks.idle(one)) for one in masks], 0)
        return inside == self.everything

    def parts(self, level: Level, cpus: int) -> list[int]:
        """The parts of some cpus in each domain of a level, by the domains' lowest cpus.

        O(domains of the cpus), where a level may have thousands.
        """
        holders, found = self.holders(level), list[int]()
        if not cpus & ~holders.get((cpus & -cpus).bit_length() - 1, 0):
            return [cpus] if cpus else found
        touched, masks = self._blocks[level].touched(cpus), self._masks[level]
        if touched.bit_count() > len(masks) // _MOST:
            return [here for one in masks if (here := one & cpus)]
        for first in iter_bits(touched):
            found.append(cpus & holders[first])
        return found

    def largest(self, level: Level) -> int:
        """The number of cpus of the largest domain of a level."""
        return self._blocks[level].size_max

    def members(self, level: Level, indexes: int) -> int:
        """All cpus of some domains."""
        return self._blocks[level].members(indexes)

    def highest(self, level: Level, cpus: int) -> int:
        """The highest of some cpus in each domain that has any."""
        return self._blocks[level].highest_members(cpus)

    def whole(self, level: Level, cpus: int) -> int:
        """The domains of which some cpus are all, by their lowest cpus, as a mask."""
        return self._blocks[level].idle(cpus)

    def by_count(self, level: Level, cpus: int) -> list[int]:
        """For each number the domains with just so many of some cpus, by their lowest cpus."""
        return self._blocks[level].by_free_count(cpus)


def _indexes(blocks: Mapping[Level, CpuBlocks], level: Level, cpus: int) -> int:
    return blocks[level].touched(cpus)


def _covering(blocks: Mapping[Level, CpuBlocks], level: Level, cpus: int) -> int:
    return blocks[level].covering(cpus)


def _size_max(masks: Mapping[Level, Iterable[int]], level: Level, cpus: int) -> int:
    return max([(one & cpus).bit_count() for one in masks[level]], default=0)


def _completed(groups: Iterable[int], wider: tuple[int, ...]) -> tuple[int, ...]:
    """Disjoint groups, the first of overlapping ones whole, and what they leave of wider ones."""
    rest = 0
    for mask in wider:
        rest |= mask
    found: list[int] = []
    for mask in groups:
        if mask := mask & rest:
            found.append(mask)
            rest ^= mask
    found += [mask & rest for mask in wider if mask & rest]
    return tuple(sorted(found, key=lambda mask: mask & -mask))


def _groups(machine: Machine, level: Level) -> Iterable[int]:
    """The groups of a level, as the kernel has them; none where the machine has no such level."""
    match level:
        case Level.SYSTEM:
            return (machine.online.mask,)
        case Level.SOCKET:
            return (one.cpus.mask for one in machine.sockets)
        case Level.DIE:
            return (one.cpus.mask for one in machine.dies)
        case Level.NUMA:
            return (one.cpus.mask for one in machine.numa_nodes)
        case Level.L3:
            return (one.mask for one in machine.l3_groups)
        case Level.CLUSTER:
            return _clusters(machine)
        case Level.CORE:
            return (one.mask for one in machine.cores)


def _clusters(machine: Machine) -> Iterable[int]:
    """Clusters as the kernel names them, else groups that share an L2; of several cores each."""
    named = [one.cpus.mask for one in machine.clusters]
    shared = [one.mask for one in machine.l2_groups]
    cores = [one.mask for one in machine.cores]
    for groups in (named, shared):
        # A core with an L2 cache of its own is a cluster to the kernel, and to nobody else.
        are_cores = groups == cores
        several = [mask for mask in groups if not are_cores and _has_several_cores(machine, mask)]
        if several:
            return several
    return ()


def _has_several_cores(machine: Machine, mask: int) -> bool:
    lowest = next(iter_bits(mask), None)
    return lowest is not None and bool(mask & ~machine.core_of[lowest].mask)
