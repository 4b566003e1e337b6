"""Faults of a scheduling class that every kernel refuses. Source: sched(7)."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from ..text.yaml_document import Path
from .config import IoClass, SchedulingClass, SchedulingPolicy
from .shape import Fault, range_faults

_REALTIME: Final = frozenset({SchedulingPolicy.FIFO, SchedulingPolicy.RR})
_NANOSECONDS_MIN: Final = 1024
_NANOSECONDS_MAX: Final = 2**63 - 1


def scheduling_faults(path: Path, one: SchedulingClass) -> Iterator[Fault]:
    """The faults of the class at a path."""
    policy = one.policy.value
    if one.policy in _REALTIME:
        if one.priority is None:
            yield Fault(path, f"policy {policy} needs a priority — write priority: 1 to 99")
        yield from range_faults((*path, "priority"), one.priority, 1, 99)
    elif one.priority:
        yield Fault((*path, "priority"), f"policy {policy} has no priority — leave it out")
    yield from range_faults((*path, "nice"), one.nice, -20, 19)
    # Source: ioprio_set(2).
    yield from range_faults((*path, "ioPriority"), one.io_priority, 0, 7)
    if one.io_priority is not None and one.io_class in (None, IoClass.NONE):
        yield Fault((*path, "ioPriority"), "needs an ioClass — write rt, be or idle there")
    times = {"runtime": one.runtime, "deadline": one.deadline, "period": one.period}
    if one.policy is SchedulingPolicy.DEADLINE:
        yield from _deadline(path, times)
    else:
        for name, value in times.items():
            if value:
                yield Fault((*path, name), f"policy {policy} has no {name} — leave it out")


def idle_nice(path: Path, one: SchedulingClass) -> Iterator[Fault]:
    """The nice value of the class at a path, where it has no effect: no kernel heeds it."""
    if one.nice and one.effective_nice is None:
        what = f"accepted, but has no effect — policy {one.policy.value} has no nice value"
        yield Fault((*path, "nice"), f"{what}; leave it out")


def _deadline(path: Path, times: Mapping[str, int | None]) -> Iterator[Fault]:
    """Runtime, deadline and period: none above the next. A period of 0 is the deadline."""
    is_fine = True
    for name, value in times.items():
        if value or name == "period":
            faults = list(
                range_faults((*path, name), value or None, _NANOSECONDS_MIN, _NANOSECONDS_MAX)
            )
        else:
            faults = [Fault(path, f"policy deadline needs a {name} — write {name} in nanoseconds")]
        is_fine = is_fine and not faults
        yield from faults
    known = [(name, value) for name, value in times.items() if value]
    if is_fine:
        for (name, value), (next_name, limit) in pairwise(known):
            if value > limit:
                yield Fault((*path, name), f"{value} is above {next_name} {limit} — write less")
