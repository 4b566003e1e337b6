"""Groups of cpus that share a cache, and the fewest of them that can serve a request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..topology.machine import CoreKind, Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """Cpus that share a cache narrower than their die and socket and wider than a core."""

    cpus: int
    socket: int
    """Position in the machine's sockets."""
    die: int
    """Position in the machine's dies; -1 where the group spans several."""
    kind: CoreKind


def cache_groups(machine: Machine) -> tuple[CacheGroup, ...]:
    """The groups of the highest cache level that divides sockets, in order of socket, die, cpu.

    Empty where no cache does, or where groups do not nest in sockets and NUMA nodes: taking whole
    groups would then cross the borders that pools are made of.
    """
    for level in sorted({cache.level for cache in machine.caches}, reverse=True):
        groups = _groups_of_level(machine, level)
        if groups:
            return groups
    return ()


def _groups_of_level(machine: Machine, level: int) -> tuple[CacheGroup, ...]:
    shared: dict[int, int] = {}
    for cache in machine.caches:
        if cache.level == level:
            for cpu in cache.cpus:
                shared[cpu] = shared.get(cpu, 0) | cache.cpus.mask
    masks = sorted(set(shared.values()), key=lambda mask: mask & -mask)
    cores = {core.mask for core in machine.cores}
    sockets = [socket.cpus.mask for socket in machine.sockets]
    dies = [die.cpus.mask for die in machine.dies]
    nodes = [node.cpus.mask for node in machine.numa_nodes if node.cpus]
    whole = {*cores, *sockets, *dies}
    if not any(mask.bit_count() > 1 and mask not in whole for mask in masks):
        return ()
    if any(_home(mask, sockets) < 0 or (nodes and _home(mask, nodes) < 0) for mask in masks):
        return ()
    groups = [
        CacheGroup(
            cpus=mask,
            socket=_home(mask, sockets),
            die=_home(mask, dies),
            kind=machine.cpus[(mask & -mask).bit_length() - 1].kind,
        )
        for mask in masks
    ]
    in_socket = [sum(group.socket == one for group in groups) for one in range(len(sockets))]
    divided = [group for group in groups if in_socket[group.socket] > 1]
    return tuple(sorted(divided, key=lambda g: (g.socket, g.die, g.cpus & -g.cpus)))


def _home(mask: int, families: Sequence[int]) -> int:
    """The position of the mask that holds all of `mask`; -1 where it spans several."""
    return next((index for index, one in enumerate(families) if not mask & ~one), -1)


class Share(NamedTuple):
    """What one cache group can give: `free` cpus, `whole` of them in cores with no other user."""

    free: int
    whole: int
    is_used: bool
    """Somebody else runs in the group already."""
    position: int
    """Place in the order of the groups."""


class Piece(NamedTuple):
    """How many cpus to take from the group at a position."""

    position: int
    cpus: int


def plan_pieces(
    shares: Sequence[Share], count: int, threads: int
) -> tuple[tuple[Piece, ...], int] | None:
    """The fewest groups that serve `count` cpus, and how many idle groups are left in part.

    Whole groups first; the rest from the used group with the least to spare, so that idle groups
    stay whole, or else from the smallest idle one. `threads` is the number of cpus to a core: the
    even part of what is taken from a group comes from cores with no other user. None where the
    shares do not reach.
    """
    pieces: list[Piece] = []
    left = list(shares)
    broken = 0
    while count:
        fitting = [
            (share.free != count or share.is_used, not share.is_used, share.free, share)
            for share in left
            if share.free >= count and share.whole >= count - count % threads
        ]
        if fitting:
            share = min(fitting)[3]
            broken += not share.is_used and share.free > count
            pieces.append(Piece(share.position, count))
            return tuple(pieces), broken
        if not left:
            return None
        share = min(left, key=lambda one: (-one.whole, one.is_used, one.position))
        if not share.whole:
            return None
        left.remove(share)
        pieces.append(Piece(share.position, share.whole))
        count -= share.whole
    return tuple(pieces), broken
