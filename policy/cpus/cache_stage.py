"""The fewest cache groups that can serve a request, close together and with least to spare."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import iter_bits


class CacheGroup(Struct, frozen=True, kw_only=True):
    """Cpus that share a cache narrower than their die and socket and wider than a core."""

    cpus: int
    socket: int
    """Position in the machine's sockets."""
    die: int
    """Position in the machine's dies; -1 where the group spans several."""


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
    """Cpus that a cache group can give: `free`, `whole` of them in cores with no other user."""

    free: int
    whole: int
    is_used: bool
    """Whether another container runs in the group already."""
    position: int
    """Place in the order of the groups."""


class Piece(NamedTuple):
    """The number of cpus to take from the group at a position."""

    position: int
    cpus: int


class CacheStage:
    """Divides a request over the cache groups of one die, or else of one socket."""

    def __init__(self, machine: Machine) -> None:
        self._groups = cache_groups(machine)
        self._group_of = {cpu: one.cpus for one in self._groups for cpu in iter_bits(one.cpus)}
        homes = [node.cpus.mask for node in machine.numa_nodes if node.cpus]
        self._blocks = _blocks(self._groups, homes or [machine.online.mask])
        self._size_max = max((group.cpus.bit_count() for group in self._groups), default=0)
        dies = sorted({(group.socket, group.die) for group in self._groups})
        self._die_of = [dies.index((group.socket, group.die)) for group in self._groups]
        self._die_cpus = [0] * len(dies)
        for group, die in zip(self._groups, self._die_of, strict=True):
            self._die_cpus[die] |= group.cpus
        self.is_empty = not self._groups

    def divide(
        self,
        free: int,
        count: int,
        *,
        scope: int,
        whole: int,
        threads: int,
        counted: int,
        is_loose: bool,
    ) -> Sequence[tuple[int, int]]:
        """(free cpus of a group, how many of them to take), together `count`; empty if none fit.

        `scope`: the cpus that make a group complete. `whole`: the free cpus in cores with no other
        user; multiples of `threads` come from those, or from any cpus if `is_loose` and there are
        too few of them everywhere.
        `counted`: the free cpus that may be taken, which are fewer where each core gives only one.
        """
        lone = self._group_of.get((free & -free).bit_length() - 1)
        if lone is not None and not free & ~lone:
            return ()
        if count <= self._size_max:
            position = self._alone(free, count, scope, whole, threads, counted)
            if position >= 0:
                return ((self._groups[position].cpus & free, count),)
        shares = self._shares(free, scope, whole, counted)
        pieces = self._plan(shares, count, threads)
        if not pieces and is_loose and whole.bit_count() < count - count % threads:
            loose = [Share(one.free, one.free, one.is_used, one.position) for one in shares]
            pieces = self._plan(loose, count, 1)
        return [(self._groups[piece.position].cpus & free, piece.cpus) for piece in pieces]

    def _alone(
        self, free: int, count: int, scope: int, whole: int, threads: int, counted: int
    ) -> int:
        """The position of the best group that serves all `count` cpus; -1 if none does.

        Says what a plan of one piece would, without building the shares of all groups.
        """
        best: tuple[bool, int, int, bool, bool, int, int, int] | None = None
        rooms: dict[int, int] = {}
        needed = count - count % threads
        for cpus, shift, groups in self._blocks:
            if not cpus & free:
                continue
            here, complete = (cpus & free) >> shift, (cpus & scope) >> shift
            unshared, sized = (cpus & whole) >> shift, (cpus & counted) >> shift
            for position, group in groups:
                size = (group & sized).bit_count()
                if size < count or (available := (group & unshared).bit_count()) < needed:
                    continue
                is_used = group & here != group & complete
                is_broken = not is_used and size > count
                if best and best[0] < is_broken:
                    continue
                die = self._die_of[position]
                room = rooms.get(die, -1)
                if room < 0:
                    room = rooms[die] = (counted & self._die_cpus[die]).bit_count()
                is_part = size != count or is_used
                rank = (is_broken, room, die, is_part, not is_used, size, available, position)
                if best is None or rank < best:
                    best = rank
        return best[-1] if best else -1

    def _shares(self, free: int, scope: int, whole: int, counted: int) -> list[Share]:
        shares: list[Share] = []
        for cpus, shift, groups in self._blocks:
            if not cpus & free:
                continue
            # Shifted down, as arithmetic on one NUMA node's bits is cheaper than on all cpus'.
            here, complete = (cpus & free) >> shift, (cpus & scope) >> shift
            unshared, sized = (cpus & whole) >> shift, (cpus & counted) >> shift
            for position, group in groups:
                mine = group & here
                if mine:
                    shares.append(
                        Share(
                            (group & sized).bit_count(),
                            (group & unshared).bit_count(),
                            mine != group & complete,
                            position,
                        )
                    )
        return shares

    def _plan(self, shares: Sequence[Share], count: int, threads: int) -> tuple[Piece, ...]:
        """The best plan of all dies, or else of all sockets, that can serve `count` alone."""
        for by_die in (True, False):
            regions: dict[int, list[Share]] = {}
            for share in shares:
                position = share.position
                home = self._die_of[position] if by_die else self._groups[position].socket
                regions.setdefault(home, []).append(share)
            best: tuple[tuple[int, ...], tuple[Piece, ...]] | None = None
            for region in regions.values():
                room = sum(share.free for share in region)
                plan = plan_pieces(region, count, threads) if room >= count else None
                if plan is not None:
                    pieces, broken = plan
                    rank = (len(pieces), broken, room, region[0].position)
                    if best is None or rank < best[0]:
                        best = rank, pieces
            if best is not None:
                return best[1]
        return ()


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
    largest_first = sorted(shares, key=lambda one: (-one.whole, one.is_used, one.position))
    for index, largest in enumerate(largest_first):
        needed = count - count % threads
        if largest.whole >= needed:
            fitting = [
                (share.free != count or share.is_used, not share.is_used, share)
                for share in largest_first[index:]
                if share.free >= count and share.whole >= needed
            ]
            if fitting:
                share = min(fitting)[2]
                pieces.append(Piece(share.position, count))
                return tuple(pieces), int(not share.is_used and share.free > count)
        if not largest.whole:
            return None
        pieces.append(Piece(largest.position, largest.whole))
        count -= largest.whole
        if not count:
            return tuple(pieces), 0
    return None


class _Block(NamedTuple):
    cpus: int
    shift: int
    groups: tuple[tuple[int, int], ...]
    """(position, cpus shifted down)."""


def _blocks(groups: Sequence[CacheGroup], homes: Sequence[int]) -> tuple[_Block, ...]:
    blocks: list[_Block] = []
    for home in homes:
        inside = [(i, group.cpus) for i, group in enumerate(groups) if not group.cpus & ~home]
        cpus = 0
        for _, mask in inside:
            cpus |= mask
        shift = (cpus & -cpus).bit_length() - 1
        if inside:
            blocks.append(_Block(cpus, shift, tuple((i, mask >> shift) for i, mask in inside)))
    return tuple(blocks)
