"""Searches for zones: where a container can begin, widen to, and come back to."""

from collections.abc import Iterator

from .holdings import Holdings
from .memory_nodes import ALL_KINDS
from .memory_plan import Plan
from .memory_zones import Holding, Zone
from .observed_memory import ObservedMemory
from .offers import MemoryPriority


def possible_starts(held: Holdings, holding: Holding, leaving: Holding | None) -> list[Zone]:
    """The zones in which a container could begin; the best first, each with its huge pages.

    The zone it has, the nearest one with enough memory really free, the nearest one at all.
    """
    zones, observed, pages = held.zones, held.observed, holding.pages()
    given_back = (held.place_of(leaving.id).mask, leaving.pages()) if leaving else None
    kinds = _usable_kinds(held, holding)
    found: list[Zone] = []
    if leaving is not None and leaving.id == holding.id:
        own = held.place_of(leaving.id)
        is_around = not holding.initial & ~own.mask and not own.kinds & ~kinds
        had = leaving.pages()
        is_no_more = all(count <= had.get(size, 0) for size, count in pages.items())
        if is_around and (is_no_more or zones.has_pages(own.mask, pages, given_back)):
            found.append(own)
    nearest: Zone | None = None
    for mask in _ladder(held, holding, holding.initial):
        if not zones.has_pages(mask, pages, given_back):
            continue
        zone = zones.zone(mask)
        nearest = nearest or zone
        if observed is None or not observed.is_short(zone, holding.size):
            found.append(zone)
            break
    return [*found, nearest] if nearest is not None else found


def begun(held: Holdings, holding: Holding, leaving: Holding | None, start: Zone) -> Plan:
    """The plan in which a container begins there, and another one is gone."""
    plan = plan_of(held, holding)
    if leaving is not None:
        plan.shift(leaving, held.place_of(leaving.id), None)
    plan.shift(holding, None, start)
    return plan


def begun_alone(
    held: Holdings, holding: Holding, leaving: Holding | None, start: Zone, plan: Plan
) -> Plan | None:
    """A wider zone for the newcomer alone, where `plan` moves several, none less important.

    Others move rather than that it gets other kinds of memory.
    """
    moved = [held.holders.get(one) for one in plan.moves()]
    own = holding.request.priority
    if holding.request.keeps_near or len(moved) < 2:
        return None
    if any(one is not None and one.request.priority < own for one in moved):
        return None
    nodes = held.nodes_of(holding.request)
    for mask in nodes.ladder(start.mask, start.kinds):
        alone = begun(held, holding, leaving, held.zones.zone(mask))
        if alone.is_settled():
            return alone
    return None


def has_room_anywhere(held: Holdings, holding: Holding, leaving: Holding | None) -> bool:
    """Whether all memory together has room; moving others cannot help where it has none."""
    need = holding.size - (leaving.size if leaving is not None else 0)
    nodes = held.nodes_of(holding.request)
    free = nodes.capacity(nodes.with_memory) - held.bound_to(nodes)
    return need <= 0 or need <= free


def wider_zone(held: Holdings, holding: Holding) -> int | None:
    """The next wider zone with free memory, or the widest; None where there is none."""
    if holding.request.priority >= MemoryPriority.PRESERVED:
        return None
    observed, zones = held.observed, held.zones
    zone = held.place_of(holding.id)
    rungs = list(_ladder(held, holding, zone.mask))[1:]
    for mask in rungs:
        if observed is None or not observed.is_short(zones.zone(mask), 0):
            return mask
    return rungs[-1] if rungs else None


def come_back(
    held: Holdings, plan: Plan, holding: Holding, observed: ObservedMemory | None
) -> bool:
    """Move a container towards its first zone where there is room; whether it was moved."""
    if holding.pages():
        return False
    zone = held.place_of(holding.id)
    for mask in _ladder(held, holding, holding.initial):
        if mask == zone.mask or mask & ~zone.mask:
            return False
        target = plan.zone(mask)
        if observed is not None and not observed.is_calm(target, holding.most):
            continue
        if plan.fits(holding.size, zone, target):
            plan.shift(holding, zone, target)
            if observed is not None:
                observed.grant(holding.id, target, holding.most)
            return True
    return False


def plan_of(held: Holdings, asking: Holding | None = None) -> Plan:
    """A plan without any move yet. `asking`: the container it is for."""
    return Plan(held.nodes, held.zones, asking.id if asking is not None else None)


def _ladder(held: Holdings, holding: Holding, zone: int) -> Iterator[int]:
    """A zone, then wider and wider ones that a container may have."""
    nodes = held.nodes_of(holding.request)
    return nodes.ladder(zone, _usable_kinds(held, holding))


def _usable_kinds(held: Holdings, holding: Holding) -> int:
    return holding.kinds if holding.request.is_strict else ALL_KINDS
