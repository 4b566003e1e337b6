"""The guard of the machine: how much the anti-affinity of one namespace may block for others."""

from collections.abc import Sequence

from msgspec.structs import replace

from ....topology.model.machine import Level
from ...configuration.config import Config
from ...model.container import Container, ContainerId
from .barrier import Barrier, BarrierOwners

_Presence = dict[ContainerId, tuple[Container, int]]
_Parts = tuple[Sequence[BarrierOwners], Sequence[BarrierOwners], int]


def guard(
    barriers: Sequence[Barrier], newcomer: Container, config: Config, cpus: int
) -> tuple[tuple[Barrier, ...], tuple[Barrier, ...]]:
    """The barriers that count for a newcomer as required, and those that count as preferred.

    `cpus`: how many the machine has. A namespace blocks what it likes for its own containers, and
    the system for all.
    """
    kept: list[Barrier] = []
    preferred: list[Barrier] = []
    by_namespace: dict[str, list[Barrier]] = {}
    for one in barriers:
        if one.insisting.are_systems or _namespace(one) == newcomer.pod.namespace:
            kept.append(one)
        else:
            by_namespace.setdefault(_namespace(one), []).append(one)
    for namespace, found in by_namespace.items():
        limit = config.anti_affinity_limits.max_blocked(namespace, cpus)
        blocked = 0
        for one in found:
            blocked |= one.forbidden
        if blocked.bit_count() <= limit:
            kept += found
            continue
        division = _Division(limit)
        for one in found:
            inside, outside = division.divided(one)
            kept += inside
            preferred += outside
    return tuple(kept), tuple(preferred)


def _namespace(barrier: Barrier) -> str:
    # The first of all: they may be many.
    owner, _ = next(iter(barrier.insisting.presence.values()))
    return owner.pod.namespace


class _Division:
    """The division of barriers, one after another, into what is within a limit and what beyond.

    What is blocked only grows: whoever was within the limit stays so, and whoever was beyond it,
    too. So owners on the same cpus are looked at once, and of many rules of the same owners one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocked = 0
        self._is_inside: dict[tuple[Level, int], bool] = {}
        self._parts: dict[tuple[Level, BarrierOwners], _Parts] = {}

    def divided(self, barrier: Barrier) -> tuple[list[Barrier], list[Barrier]]:
        """The part of a barrier within the limit, and the part beyond."""
        key = barrier.level, barrier.insisting
        if key not in self._parts:
            self._parts[key] = self._divided(barrier)
        inside, outside, forbidden = self._parts[key]
        if not (inside and outside):
            # All of it is on one side, as most are.
            return ([barrier], []) if inside else ([], [barrier])
        return (
            [replace(barrier, insisting=one, forbidden=forbidden) for one in inside],
            [replace(barrier, insisting=one) for one in outside],
        )

    def _divided(self, barrier: Barrier) -> "_Parts":
        parts: tuple[_Presence, _Presence] = {}, {}
        forbidden = 0
        level, owners = barrier.level, barrier.insisting
        for owner_id, found in owners.presence.items():
            is_inside = self._is_inside.get((level, found[1]))
            if is_inside is None:
                mask = barrier.domains.covering(level, found[1])
                is_inside = (self._blocked | mask).bit_count() <= self._limit
                self._is_inside[level, found[1]] = is_inside
                self._blocked |= mask if is_inside else 0
            parts[not is_inside][owner_id] = found
        inside, outside = (
            [_part(owners, some)] if some else list[BarrierOwners]() for some in parts
        )
        for one in inside:
            forbidden = barrier.domains.covering(level, one.cpus)
        return inside, outside, forbidden


def _part(owners: BarrierOwners, some: _Presence) -> BarrierOwners:
    """The part of a rule's owners that these are; the same object where it is all of them."""
    if len(some) == len(owners.presence):
        return owners
    return BarrierOwners.of(some, owners.can_break, owners.are_systems)
