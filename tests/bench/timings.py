"""How long something took, again and again."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

_NANOSECONDS = 1_000_000


@dataclass(slots=True)
class Timings:
    """Wall-clock times, and cpu times beside them: on a busy machine only those tell much.

    `cpu_clock` counts the calling thread's time; another one is for work that others do.
    """

    cpu_clock: Callable[[], int] = time.thread_time_ns
    wall: list[int] = field(default_factory=list[int])
    """Nanoseconds, as `cpu`, which is empty where other processes do the work."""
    cpu: list[int] = field(default_factory=list[int])

    def time(self, work: Callable[[], T]) -> T:
        """Do it, and note how long it took."""
        cpu = self.cpu_clock()
        wall = time.perf_counter_ns()
        result = work()
        self.wall.append(time.perf_counter_ns() - wall)
        self.cpu.append(self.cpu_clock() - cpu)
        return result


def percentile(amounts: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile: one of the amounts."""
    rank = max(1, -(-len(amounts) * percent // 100))
    return sorted(amounts)[rank - 1]


def percentile_ms(nanoseconds: Sequence[int], percent: int) -> float:
    """The nearest-rank percentile, in milliseconds."""
    return round(percentile(nanoseconds, percent) / _NANOSECONDS, 4)
