"""Gauges of cpus."""

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from .gauge import Gauge, Labels, system_gauge
from .kept_loads import KeptLoads
from .value_runs import ValueRuns


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


def cpu_gauges(loads: KeptLoads, cpus: Sequence[int], labels: Labels) -> Iterator[Gauge]:
    """Every instrument of cpus. `cpus`: the online ones, ascending; `labels`: theirs. O(cpus)."""
    yield system_gauge(
        "cpu.allocation",
        "milli-cores",
        "What containers ask for, divided evenly among the CPUs they run on.",
        labels,
        _selected(loads.allocated_milli(), cpus),
    )
    yield system_gauge(
        "cpu.container.count",
        "",
        "Containers that may run on the CPU.",
        labels,
        _selected(loads.container_counts(), cpus),
    )


def _selected(values: ValueRuns, cpus: Sequence[int]) -> Sequence[float]:
    """The values of some cpus, of those of all of them in their order."""
    if len(cpus) == len(values):
        return values
    by_cpu = list(values)
    return [by_cpu[cpu] for cpu in cpus]
