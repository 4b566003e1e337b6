"""Gauges of cpus."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, overload

from ....topology.sets.cpuset import bit_runs
from ..snapshot import Snapshot
from .gauge import Gauge, Labels, system_gauge

_FRACTION_BITS: Final = 30
"""Of shares of cpus, which are summed as integers: so differences leave no remainder."""
_WHOLE: Final = 1 << _FRACTION_BITS


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
    length = online.bit_length()
    # Differences at the ends of each run of cpus, whose sums are the values: sets have few runs,
    # and a thousand containers on thousands of cpus would be millions of additions.
    parts, users = [0] * (length + 1), [0] * (length + 1)
    for mask, (count, whole) in _cpu_users(snapshot).items():
        pause()
        part = (whole << _FRACTION_BITS) // mask.bit_count()
        for first, end in bit_runs(mask & online):
            parts[first] += part
            parts[end] -= part
            users[first] += count
            users[end] -= count
    pause()
    yield system_gauge(
        "cpu.allocation",
        "milli-cores",
        "What containers ask for, divided evenly among the CPUs they run on.",
        labels,
        _selected([one / _WHOLE for one in accumulate(parts)], cpus),
    )
    yield system_gauge(
        "cpu.container.count",
        "",
        "Containers that may run on the CPU.",
        labels,
        _selected(list(accumulate(users)), cpus),
    )


def _selected(values: Sequence[float], cpus: Sequence[int]) -> Sequence[float]:
    """The values of some cpus, of those of all of them in their order."""
    return values[: len(cpus)] if cpus[-1] < len(cpus) else [values[cpu] for cpu in cpus]


def _cpu_users(snapshot: Snapshot) -> Mapping[int, tuple[int, int]]:
    """By mask of cpus: how many containers run on exactly these, and their milli-cpus together."""
    found: dict[int, list[int]] = {}
    cpus_of = snapshot.cpus_of
    for container_id, grant in snapshot.grants.items():
        cpus = cpus_of(container_id)
        if cpus is not None and (mask := cpus.mask):
            milli = 1000 * grant.exclusive.mask.bit_count() + grant.shared_milli
            # Looked up once: the hash of thousands of cpus takes a while.
            found.setdefault(mask, []).append(milli)
    return {mask: (len(millis), sum(millis)) for mask, millis in found.items()}
