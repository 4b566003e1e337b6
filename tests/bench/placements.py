"""How good placements are: on arrival, and once running containers were moved to better places.

The measure is the share of the way from an even spread, which knows of no rules, to the best that a
patient search finds for the same containers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from msgspec.structs import replace

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.rebalance.placement_score import (
    PlacementObjective,
    placement_objective,
    pools_of,
)
from pinfold.policy.engine.rebalance.plan import RebalanceBudget, RebalancePlan, rebalance
from pinfold.policy.engine.rebalance.search import Effort, improve
from pinfold.policy.engine.rebalance.tenants import placement_model
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant
from tests.bench.figure import Figure, Quantity
from tests.bench.population import UNREAD_PERCENT, containers
from tests.bench.sizes import LARGE, MEDIUM, SMALL, Size
from tests.bench.timings import Timings, percentile
from tests.unit.policy.engine.rebalance.made_moves import made

PLACED_SIZES: Final = (
    (SMALL, range(1, 8)),
    (MEDIUM, range(1, 3)),
    (LARGE, range(1, 2)),
)
"""Each with the populations that are placed: on a small machine a few rules decide."""

PATIENT_STEPS: Final = 2_000_000
"""Many times what a plan takes."""
_STEPS_PER_CONTAINER: Final = 5000

_WAYS: Final = ("arrival", "symmetric", "rebalanced", "exclusive")
_ROW: Final = "{:<10}{:>11}{:>11}{:>11}{:>11}{:>8}{:>8}{:>10}  {}"
PLACEMENT_HEADER: Final = _ROW.format("% of way", *_WAYS, "moves", "s", "MiB", "").rstrip()


@dataclass(slots=True)
class Ways:
    """The shares of the way, in percent, of all populations of a size."""

    size: Size
    percents: dict[str, list[float]] = field(default_factory=lambda: {one: [] for one in _WAYS})
    timings: Timings = field(default_factory=Timings)
    """Of the plans that leave exclusive cpus alone."""
    plans: list[RebalancePlan] = field(default_factory=list[RebalancePlan])

    def row(self) -> str:
        """A line below `PLACEMENT_HEADER`: medians."""
        shares = [f"{percentile(self.percents[one], 50):.1f}" for one in _WAYS]
        moves = percentile([len(plan.moves) for plan in self.plans], 50)
        seconds = percentile(self.timings.cpu, 50) / 10**9
        mebibytes = percentile([plan.migrated_bytes >> 20 for plan in self.plans], 50)
        return _ROW.format(
            self.size.name, *shares, moves, f"{seconds:.1f}", mebibytes, self.size.text
        )

    def figures(self) -> Iterator[Figure | Quantity]:
        """The figures as they are kept."""
        name, text = self.size.name, self.size.text
        yield Figure(f"rebalance-{name}", text, self.timings)
        for way, percents in self.percents.items():
            yield Quantity(f"way-{way}-{name}", text, "%", percents)


def measure_placements(size: Size, seeds: range, patient_steps: int = PATIENT_STEPS) -> Ways:
    """Place some populations on a machine, and rebalance what came of it."""
    ways = Ways(size)
    for seed in seeds:
        _measure(ways, seed, patient_steps)
    return ways


def _measure(ways: Ways, seed: int, patient_steps: int) -> None:
    arrival, symmetric, even = _arrivals(ways.size, seed)
    snapshot = arrival.snapshot()
    objective = placement_objective(snapshot)
    worst = objective.score(pools_of(even.grants))
    usual = ways.timings.time(lambda: rebalance(snapshot))
    free = rebalance(snapshot, RebalanceBudget(moves_exclusive=True))
    bounded = _best(objective, snapshot, patient_steps, moves_exclusive=False)
    bounded = max(bounded, usual.score_after)
    best = max(
        bounded,
        free.score_after,
        *(
            _best(objective, one, patient_steps, moves_exclusive=True)
            for one in (_carried_out(snapshot, free), symmetric.snapshot())
        ),
    )
    scores = {
        "arrival": (usual.score, best),
        "symmetric": (objective.score(pools_of(symmetric.grants)), best),
        "rebalanced": (usual.score_after, bounded),
        "exclusive": (free.score_after, best),
    }
    ways.plans.append(usual)
    for way, (score, goal) in scores.items():
        if goal > worst:
            ways.percents[way].append(100 * (score - worst) / (goal - worst))


def _arrivals(size: Size, seed: int) -> tuple[Engine, Engine, Engine]:
    """The same containers placed by their rules, by these in both directions, and by none."""
    engines = (
        Engine(size.machine, Config()),
        Engine(size.machine, Config(symmetric_affinity=True)),
        Engine(size.machine, Config()),
    )
    welcome = (one for one in containers(size, UNREAD_PERCENT, seed) if _is_welcome(one, engines))
    for _ in islice(welcome, size.containers):
        pass
    return engines


def _is_welcome(container: Container, engines: tuple[Engine, Engine, Engine]) -> bool:
    """Whether all engines have room for a container; else none of them has it."""
    plain = replace(container, pod=replace(container.pod, annotations={}))
    copies = zip(engines, (container, container, plain), strict=True)
    granted = [isinstance(engine.create(one).result, Grant) for engine, one in copies]
    if not all(granted):
        for engine in engines:
            engine.remove(ContainerId(container.id))
    return all(granted)


def _carried_out(snapshot: Snapshot, plan: RebalancePlan) -> Snapshot:
    engine = Engine.of(snapshot)
    for move in plan.moves:
        made(move, engine)
    return engine.snapshot()


def _best(
    objective: PlacementObjective, snapshot: Snapshot, steps: int, *, moves_exclusive: bool
) -> int:
    model = placement_model(snapshot, objective, moves_exclusive=moves_exclusive)
    steps = min(steps, _STEPS_PER_CONTAINER * len(model.movable))
    return model.score() + improve(model, Effort(steps=steps, restarts=1, seed=7))
