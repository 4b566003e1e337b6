"""Gauges of cpus."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, overload

from ....topology.sets.cpuset import bit_runs
from ..snapshot import Snapshot
from .gauge import Gauge, Labels, system_gauge

_FRACTION_BITS: Final = 60
"""Of shares of cpus, which are summed as integers: so differences leave no remainder."""


class CpuLabels(Sequence[Mapping[str, str]]):
    """The labels of cpus, made as they are asked for: of thousands, they take a megabyte."""

    __slots__ = ("_cpus",)

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus

    def __len__(self) -> int:
        return len(self._cpus)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CpuLabels) and self._cpus == other._cpus

    @overload
    def __getitem__(self, index: int) -> Mapping[str, str]: ...

    @overload
    def __getitem__(self, index: slice) -> Labels: ...

    def __getitem__(self, index: int | slice) -> Mapping[str, str] | Labels:
        if isinstance(index, slice):
            return CpuLabels(self._cpus[index])
        return {"cpu.id": str(self._cpus[index])}


def cpu_gauges(
    snapshot: Snapshot, cpus: Sequence[int], labels: Labels, pause: Callable[[], None]
) -> Iterator[Gauge]:
    """Every instrument of cpus. `cpus`: the online ones, ascending; `labels`: theirs.

    O(cpus + runs of cpusets). `pause` is called often.
    """
    online = snapshot.machine.online.mask
    # Differences at the ends of each run of cpus, whose sums are the values: sets have few runs,
    # and a thousand containers on thousands of cpus would be millions of additions.
    parts, users = dict[int, int](), dict[int, int]()
    for mask, (count, whole) in _cpu_users(snapshot).items():
        pause()
        part = (whole << _FRACTION_BITS) // mask.bit_count()
        for first, end in bit_runs(mask & online):
            parts[first] = parts.get(first, 0) + part
            parts[end] = parts.get(end, 0) - part
            users[first] = users.get(first, 0) + count
            users[end] = users.get(end, 0) - count
    length = online.bit_length()
    pause()
    shares = [one / (1 << _FRACTION_BITS) for one in _levels(parts)]
    yield system_gauge(
        "cpu.allocation",
        "milli-cores",
        "What containers ask for, divided evenly among the CPUs they run on.",
        labels,
        _selected(_spread(parts, shares, length), cpus),
    )
    yield system_gauge(
        "cpu.container.count",
        "",
        "Containers that may run on the CPU.",
        labels,
        _selected(_spread(users, _levels(users), length), cpus),
    )


def _levels(steps: Mapping[int, int]) -> list[int]:
    """The sums of all steps up to each place, in the order of places."""
    return list(accumulate(steps[place] for place in sorted(steps)))


def _spread(places: Iterable[int], levels: Sequence[float], length: int) -> list[float]:
    """A level from each place to the next one; 0 before the first, and behind the last."""
    values: list[float] = [0] * length
    order = sorted(places)
    for first, end, level in zip(order, order[1:], levels, strict=False):
        values[first:end] = [level] * (end - first)
    return values


def _selected(values: Sequence[float], cpus: Sequence[int]) -> Sequence[float]:
    return values if len(cpus) == len(values) else [values[cpu] for cpu in cpus]


def _cpu_users(snapshot: Snapshot) -> Mapping[int, tuple[int, int]]:
    """By mask of cpus: how many containers run on exactly these, and their milli-cpus together."""
    counts, sums = dict[int, int](), dict[int, int]()
    cpus_of = snapshot.cpus_of
    for container_id, grant in snapshot.grants.items():
        cpus = cpus_of(container_id)
        if cpus is not None and (mask := cpus.mask):
            milli = 1000 * grant.exclusive.mask.bit_count() + grant.shared_milli
            counts[mask] = counts.get(mask, 0) + 1
            sums[mask] = sums.get(mask, 0) + milli
    return {mask: (count, sums[mask]) for mask, count in counts.items()}
