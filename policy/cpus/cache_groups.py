"""Groups of cpus that share a cache: the units in which cpus are taken between die and core."""

from collections.abc import Sequence

from msgspec import Struct

from ...topology.model.machine import Machine


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
