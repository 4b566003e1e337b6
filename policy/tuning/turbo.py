"""Turbo is a budget of a whole socket: where a class of cpus gets it, and takes it from nobody."""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import structs

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..configuration.config import Config, CpuClass
from ..model.request import Request
from ..text.quantity import NamedFrequency, parse_khz
from .effects import Occupancy

_TAKES_TURBO: Final = 1
_GETS_NO_TURBO: Final = 2


def prefer_turbo(
    request: Request, name: str | None, config: Config, look: Callable[[], Occupancy]
) -> Request:
    """The request with its `class_cpus` narrowed to sockets with turbo left for a class.

    To sockets where the class gets its turbo and no running one loses it, else to those where it
    gets it at the cost of others. Only sockets with enough free cpus count; where they are all
    alike, or there are none, the request stays as it is. O(grants), and O(1) where no classes
    compete: then nobody looks who has what.
    """
    if name is None or request.class_cpus is None or not any(map(_competes, config.cpu_classes)):
        return request
    by_name = {one.name: one for one in config.cpu_classes}
    mine = by_name[name]
    now = look()
    free, classes = now.free, now.classes
    by_cost: dict[int, CpuSet] = {}
    for socket in now.machine.sockets:
        here = socket.cpus & request.class_cpus
        if len(here & free) >= request.exclusive:
            present = (by_name[one] for one, cpus in classes.items() if cpus & socket.cpus)
            cost = _cost(mine, present)
            by_cost[cost] = by_cost.get(cost, NO_CPUS) | here
    if len(by_cost) < 2:
        return request
    return structs.replace(request, class_cpus=by_cost[min(by_cost)])


def _cost(mine: CpuClass, present: Iterable[CpuClass]) -> int:
    """How bad a socket with these classes is for turbo; the smaller the better."""
    others = tuple(present)
    top = max((one.turbo_priority for one in others), default=0)
    if mine.turbo_priority < top:
        return _GETS_NO_TURBO if _wants_turbo(mine) else 0
    if mine.turbo_priority == top:
        return 0
    losing = (one for one in others if one.turbo_priority == top)
    return _TAKES_TURBO if any(map(_wants_turbo, losing)) else 0


def _competes(one: CpuClass) -> bool:
    return one.turbo_priority > 0


def _wants_turbo(one: CpuClass) -> bool:
    values = (one.min_freq, one.max_freq)
    return any(value is not None and parse_khz(value) is NamedFrequency.TURBO for value in values)
