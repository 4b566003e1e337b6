"""The reserved cpus where their number is configured: those that were reserved before, if any.

Which ones are chosen depends on the cpus that are online. With each that goes offline others would
be chosen, and whoever is there had to leave them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

from ....topology.sets.cpuset import NO_CPUS, CpuSet
from ...annotations.preferences import parse_preferences
from ...books.books import Books
from ...configuration.config import Config
from ...model.container import Container, ContainerId
from ...model.request import CpuType
from ...placing.wishes.cpu_demand import demanded_cpus
from ...pools.layout import MachineLayout
from ..advice import Advice
from .adopted_container import Blame, FaultyContainerError


def with_kept_reserve(
    books: Books, listed: Sequence[Container], advice: Mapping[ContainerId, Advice]
) -> Books:
    """Empty books in which those cpus are reserved that were, as far as they may be.

    The same books where they are. `listed`: what runs, which tells it where nobody remembers.
    """
    known = {one.reserved for one in advice.values() if one.reserved}
    if len(known) > 1:
        return books
    kept = known.pop() if known else _seen(books, listed)
    if not kept or kept == books.supply.reserved:
        return books
    layout = MachineLayout.of(books.machine, books.config, kept)
    return books if layout.supply == books.supply else books.emptied(layout)


def _seen(books: Books, listed: Sequence[Container]) -> CpuSet:
    """Cpus that seem to be reserved by what runs; none where nothing speaks for others than now.

    The system's containers have them, but for those that want more than there is: they share what
    others share. And those lend them some for whom nothing else is left.
    """
    config, supply = books.config, books.supply
    running = [(one, one.cpus) for one in listed if one.cpus]
    if not running:
        return NO_CPUS
    count, system, others = len(supply.reserved), Counter[CpuSet](), set[CpuSet]()
    for one, cpus in running:
        if _is_of_system(one, config):
            system[cpus] += 1
        else:
            others.add(cpus)
    wholly = sorted([cpus for cpus in system if len(cpus) == count], key=lambda one: one.mask)
    shared = reduce(CpuSet.__or__, others, NO_CPUS)
    if alone := [cpus for cpus in wholly if not cpus & shared]:
        return max(alone, key=system.__getitem__)
    free = (supply.usable | supply.reserved) - supply.isolated
    free -= reduce(CpuSet.__or__, system, shared)
    if len(free) >= count:
        return NO_CPUS if supply.reserved <= free else free
    return max(wholly, key=system.__getitem__, default=NO_CPUS)


def _is_of_system(container: Container, config: Config) -> bool:
    """Whether reserved cpus are for a container; not of one that cannot be read, see `Blame`."""
    try:
        with Blame(container):
            demand = demanded_cpus(container, parse_preferences(container), config)
    except FaultyContainerError:
        return False
    return demand.type is CpuType.RESERVED
