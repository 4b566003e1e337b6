"""What is measured, on which machine and how often."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tests.bench.discovery import time_discovery
from tests.bench.figure import Figure
from tests.bench.hostile_creations import time_hostile_pods
from tests.bench.hostile_crowds import time_crowds
from tests.bench.hostile_rules import (
    glob_rules,
    joint_rules,
    time_attacks,
    time_product,
    time_rules,
    time_symmetric,
)
from tests.bench.session import time_round_trips, time_synchronize
from tests.bench.sizes import LARGE, MEDIUM, SMALL, Size
from tests.bench.timings import Timings
from tests.bench.turnover import time_decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One figure to be."""

    name: str
    size: Size
    text: str = ""
    """What was measured, where that is not the whole size."""
    samples: int
    take: Callable[[Size, int], Timings]

    def measure(self, samples: int | None = None) -> Figure:
        """Measure it, by default as often as its percentiles need."""
        timings = self.take(self.size, samples or self.samples)
        return Figure(self.name, self.text or self.size.text, timings)


def benchmarks(
    small: Size = SMALL, medium: Size = MEDIUM, large: Size = LARGE
) -> tuple[Benchmark, ...]:
    """All that need no container runtime, in the order of their names in the table."""
    return (
        Benchmark(name="decision-small", size=small, samples=3000, take=time_decisions),
        Benchmark(name="decision-medium", size=medium, samples=2000, take=time_decisions),
        Benchmark(name="decision-large", size=large, samples=1000, take=time_decisions),
        Benchmark(
            name="decision-small-required",
            size=small.with_required_rules,
            samples=2000,
            take=time_decisions,
        ),
        Benchmark(
            name="decision-medium-required",
            size=medium.with_required_rules,
            samples=1000,
            take=time_decisions,
        ),
        Benchmark(
            name="decision-large-required",
            size=large.with_required_rules,
            samples=500,
            take=time_decisions,
        ),
        Benchmark(
            name="decision-unread",
            size=medium,
            text="as medium, all annotations never read before",
            samples=1000,
            take=partial(time_decisions, unread_percent=100),
        ),
        Benchmark(
            name="decision-crowd",
            size=replace(medium, containers=min(250, medium.containers)),
            text="256 cpus, required rules of 4 apps at 4 levels, by chance",
            samples=500,
            take=time_crowds,
        ),
        Benchmark(
            name="affinity-product",
            size=replace(medium, containers=min(110, medium.containers)),
            text="25 rules of 249 patterns over 16 keys, 110 containers",
            samples=50,
            take=time_product,
        ),
        Benchmark(
            name="affinity-joint-keys",
            size=large,
            text="128 unread rules with a joint key, 1000 containers",
            samples=50,
            take=partial(time_rules, make=joint_rules),
        ),
        Benchmark(
            name="affinity-patterns",
            size=large,
            text="128 unread rules with a pattern, 1000 containers",
            samples=50,
            take=partial(time_rules, make=glob_rules),
        ),
        Benchmark(
            name="affinity-symmetric",
            size=large,
            text="8 symmetric rules of each of 1000 containers",
            samples=200,
            take=time_symmetric,
        ),
        Benchmark(
            name="affinity-hostile",
            size=large,
            text="the largest texts made by chance, 1000 containers",
            samples=50,
            take=time_attacks,
        ),
        Benchmark(
            name="discovery-256",
            size=medium,
            text="256 cpus, files in the page cache",
            samples=50,
            take=time_discovery,
        ),
        Benchmark(
            name="discovery-4096",
            size=large,
            text="4096 cpus, files in the page cache",
            samples=10,
            take=time_discovery,
        ),
        Benchmark(
            name="ttrpc-round-trip",
            size=small,
            text="a call the policy has no part in",
            samples=2000,
            take=time_round_trips,
        ),
        Benchmark(
            name="synchronize-1000",
            size=large,
            text="1000 running containers, 4096 cpus, new policy",
            samples=20,
            take=time_synchronize,
        ),
        Benchmark(
            name="hostile-annotations",
            size=small,
            text="256 KiB of annotations, never read before",
            samples=200,
            take=time_hostile_pods,
        ),
    )
