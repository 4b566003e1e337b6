"""The guard of the machine: how much the anti-affinity of one namespace may block for others."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ..configuration.config import Config
from ..model.container import Container, ContainerId
from .judgement import Barrier

_Owners = Mapping[ContainerId, tuple[Container, int]]


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
        if one.is_systems or _namespace(one) == newcomer.pod.namespace:
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
        blocked = 0
        for one in found:
            inside, outside, blocked = _divided(one, blocked, limit)
            kept += inside
            preferred += outside
    return tuple(kept), tuple(preferred)


def _namespace(barrier: Barrier) -> str:
    owner, _ = next(iter(barrier.owners.values()))
    return owner.pod.namespace


def _divided(
    barrier: Barrier, blocked: int, limit: int
) -> tuple[list[Barrier], list[Barrier], int]:
    """The part of a barrier within the limit, the part beyond, and all that is blocked then."""
    inside: dict[ContainerId, tuple[Container, int]] = {}
    outside: dict[ContainerId, tuple[Container, int]] = {}
    forbidden = 0
    for owner_id, (owner, presence) in barrier.owners.items():
        mask = barrier.domains.covering(barrier.level, presence)
        if (blocked | mask).bit_count() <= limit:
            blocked |= mask
            forbidden |= mask
            inside[owner_id] = owner, presence
        else:
            outside[owner_id] = owner, presence
    kept = [replace(barrier, owners=inside, forbidden=forbidden)] if inside else []
    return kept, [replace(barrier, owners=outside)] if outside else [], blocked
