"""`python -m tests.bench.hostile_chances [SEED..]`: crowds with required rules made by chance.

Each shape fills a machine with containers that have some rules of some levels and kinds, from a
few sets that many of them share or each its own; then others come with up to eight rules. What
counts is the processor time of every single event, of what follows its answer, and of a departure.
"""

import argparse
import gc
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from tests.bench.hostile_terms import apart, near, preferred, text
from tests.bench.sizes import LARGE, MEDIUM, WIDE
from tests.bench.timings import Timings, percentile_ms

T = TypeVar("T")

_LEVELS: Final = ("socket", "die", "numa", "l3", "cluster", "core")
_MILLIS: Final = ((100,), (1000,), (0, 100, 1000, 2500), (0,), (2700,), (10, 3000), (500, 1000))
"""What residents ask for in turn, in milli-cpus; whole cpus are their own."""
_NEWCOMERS: Final = (0, 100, 500, 1000, 2500, 3000, 17_000)
_SETS: Final = (1, 3, 12, 60, None)
"""Different sets of rules among the residents; None: each its own."""
_NUMBERS: Final = ("g3", "g20", "g100")
_LABELS: Final = {"g3": 3, "g20": 20, "g100": 100}
_LONG_MS: Final = 20
_ROW: Final = "{:<7}{:<44}{:>6}{:>5}  {:<40}"


@dataclass(frozen=True, slots=True)
class Figures:
    """The times of all events, by what they are."""

    by_event: dict[str, Timings] = field(default_factory=dict[str, Timings])

    def time(self, event: str, work: partial[T]) -> T:
        """Do some work, and note what it cost."""
        timings = self.by_event.setdefault(event, Timings(time.thread_time_ns))
        return timings.time(work)

    @property
    def highest(self) -> Mapping[str, float]:
        """The dearest of each event, in ms, those first that cost most."""
        found = {name: percentile_ms(one.cpu, 100) for name, one in self.by_event.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """The levels, kinds, numbers and labels that rules are made of."""

    levels: Sequence[str]
    kinds: Sequence[str]
    rules_max: int
    labels: Sequence[str]


_ALL: Final = Palette(
    levels=_LEVELS, kinds=("near", "apart"), rules_max=8, labels=("app", *_NUMBERS)
)


class Shape:
    """A crowd, and those who come to it, by a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self.size = chance.choice([LARGE, LARGE, LARGE, WIDE, MEDIUM])
        self.residents = chance.randint(300, 1500 if self.size is LARGE else 900)
        self._millis = chance.choice(_MILLIS)
        levels = chance.sample(_LEVELS, chance.choice([1, 2, 3, 6]))
        kinds = chance.choice(
            [["apart"], ["near"], ["spread"], ["near", "apart"], ["near", "apart"],
             ["near", "apart", "spread", "preferred"]]
        )  # fmt: skip
        self._share = chance.choice([0, 0.5, 1, 1])
        self._fails = chance.choice([0, 0, 0.5, 1])
        rules_max = chance.choice([1, 4, 6, 8])
        self._is_everywhere = chance.random() < 0.3
        self._lasting = chance.choice([0, 0, 1])
        self._namespaces = chance.choice([1, 1, 4])
        labels = chance.sample(["app", *_NUMBERS], chance.choice([1, 2, 4]))
        self._own = Palette(levels=levels, kinds=kinds, rules_max=rules_max, labels=labels)
        sets = chance.choice(_SETS)
        self._sets = [self._rules(self._own) for _ in range(sets)] if sets else None

    def __str__(self) -> str:
        sets = "own" if self._sets is None else len(self._sets)
        return (
            f"{self.residents} of {sets} {'+'.join(self._own.kinds)} x{self._own.rules_max}"
            f" {'+'.join(map(str, self._millis))}"
        )

    def resident(self, number: int) -> Container:
        """The resident of a number."""
        chance = self._chance
        rules: Mapping[str, str] = {}
        if chance.random() < self._share:
            rules = self._rules(self._own) if self._sets is None else chance.choice(self._sets)
        return self._container(f"resident-{number}", chance.choice(self._millis), number, rules)

    def newcomer(self, number: int) -> Container:
        """One that comes late; mostly with rules of many kinds and levels."""
        chance = self._chance
        palette = _ALL if chance.random() < 0.5 else self._own
        rules: Mapping[str, str] = self._rules(palette) if chance.random() < 0.85 else {}
        return self._container(f"newcomer-{number}", chance.choice(_NEWCOMERS), number, rules)

    def _rules(self, palette: Palette) -> Mapping[str, str]:
        chance = self._chance
        field_name = "requiredDuringSchedulingIgnoredDuringExecution"
        if self._lasting:
            field_name = "requiredDuringSchedulingRequiredDuringExecution"
        by_kind: dict[str, list[dict[str, Any]]] = {}
        for _ in range(chance.randint(1, palette.rules_max)):
            kind = chance.choice(palette.kinds)
            by_kind.setdefault(kind, []).append(self._rule(kind, palette))
        rules: list[dict[str, Any]] = []
        for kind, some in by_kind.items():
            match kind:
                case "apart":
                    rules.append(apart(some, field_name))
                case "near":
                    rules.append(near(some, field_name))
                case "spread":
                    rules.append({"topologySpread": some})
                case _:
                    rules.append(preferred(some, chance.randint(1, 100)))
        found = dict(text(*rules))
        if chance.random() < self._fails:
            found["on-unsatisfiable.pinfold.dev/pod"] = "fail"
        return found

    def _rule(self, kind: str, palette: Palette) -> dict[str, Any]:
        chance = self._chance
        found: dict[str, Any] = {
            "topologyKey": chance.choice(palette.levels),
            "labelSelector": self._selector(palette),
        }
        if kind == "spread":
            found["maxSkew"] = chance.choice([1, 1, 2, 5])
            found["whenUnsatisfiable"] = "DoNotSchedule"
        elif self._is_everywhere:
            found["namespaceSelector"] = {}
        return found

    def _selector(self, palette: Palette) -> dict[str, Any]:
        chance = self._chance
        label = chance.choice(palette.labels)
        values = _LABELS.get(label)
        if values is None:
            return {"matchLabels": {label: "friend"}}
        value = f"{chance.randrange(values)}"
        if chance.random() < 0.6:
            return {"matchLabels": {label: value}}
        operator = chance.choice(["NotIn", "NotIn", "In"])
        some = [value, *(f"{chance.randrange(values)}" for _ in range(3))]
        return {"matchExpressions": [{"key": label, "operator": operator, "values": some}]}

    def _container(
        self, name: str, milli: int, number: int, annotations: Mapping[str, str]
    ) -> Container:
        chance = self._chance
        labels = {key: f"{chance.randrange(values)}" for key, values in _LABELS.items()}
        is_own = milli > 0 and milli % 1000 == 0
        qos = QosClass.GUARANTEED if is_own else QosClass.BURSTABLE
        pod = Pod(
            id=PodId(name),
            uid=name,
            name=name,
            namespace=f"ns-{number % self._namespaces}",
            qos=qos if milli else QosClass.BEST_EFFORT,
            labels={"app": "friend", **labels},
            annotations=annotations,
        )
        return Container(
            id=ContainerId(name),
            name="c",
            pod=pod,
            resources=Resources(
                cpu_request_milli=milli,
                cpu_limit_milli=milli if is_own else None,
                memory_request_bytes=(1 << 20) if milli else 0,
                memory_limit_bytes=(1 << 20) if is_own else None,
            ),
        )


class Life:
    """The life of one shape, every event of it timed."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._engine = Engine(shape.size.machine, Config())
        self._numbers = count()
        self.arriving, self.late = Figures(), Figures()
        self.refused = 0

    def arrive(self, seconds: float) -> int:
        """Let the residents come, until it takes too long."""
        began = time.thread_time()
        for number in range(self._shape.residents):
            self._come(self._shape.resident(number), self.arriving)
            if time.thread_time() - began > seconds:
                return number + 1
        return self._shape.residents

    def live_on(self, events: int) -> None:
        """Let others come and go."""
        chance, engine, figures = random.Random(events), self._engine, self.late
        for number in range(events):
            newcomer = self._shape.newcomer(number)
            if self._come(newcomer, figures):
                other = replace(newcomer.resources, cpu_request_milli=200, cpu_limit_milli=None)
                figures.time("update", partial(engine.update, newcomer.id, other))
                self._tidy(newcomer.id, figures)
            figures.time("rules", partial(engine.look_at_rules))
            figures.time("widen", partial(engine.widen))
            self._go(newcomer.id, figures)
            if engine.containers:
                self._go(chance.choice(list(engine.containers)), figures)
            self._come(self._shape.resident(10_000 + number), figures)

    def _come(self, container: Container, figures: Figures) -> bool:
        decision = figures.time("create", partial(self._engine.create, container))
        self._tidy(container.id, figures)
        is_there = isinstance(decision.result, Grant)
        self.refused += not is_there
        if not is_there:
            self._go(container.id, figures)
        return is_there

    def _tidy(self, container_id: ContainerId, figures: Figures) -> None:
        figures.time("note", partial(self._engine.note, container_id))
        figures.time("compact", partial(self._engine.compact, container_id))
        figures.time("prepare", partial(self._engine.prepare))

    def _go(self, container_id: ContainerId, figures: Figures) -> None:
        figures.time("stop", partial(self._engine.stop, container_id))
        figures.time("remove", partial(self._engine.remove, container_id))
        self._tidy(container_id, figures)


def main(arguments: Iterable[str] | None = None) -> None:
    """Print a row for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int, metavar="SEED")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--events", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=10, help="at most while residents arrive")
    chosen = parser.parse_args(arguments if arguments is None else list(arguments))
    seeds = chosen.seeds or range(chosen.first, chosen.first + chosen.count)
    print(_ROW.format("seed", "shape", "there", "no", "dearest events, cpu ms"))
    for seed in seeds:
        gc.collect()
        gc.disable()
        shape = Shape(seed)
        life = Life(shape)
        there = life.arrive(chosen.seconds)
        life.live_on(chosen.events)
        cells = [
            f"{phase} "
            + " ".join(f"{name} {ms:.0f}" for name, ms in list(figures.highest.items())[:4])
            for phase, figures in (("arriving", life.arriving), ("late", life.late))
        ]
        high = max(max(one.highest.values()) for one in (life.arriving, life.late))
        print(
            _ROW.format(seed, f"{shape.size.name} {shape}", there, life.refused, "; ".join(cells)),
            "<<<" if high > _LONG_MS else "",
            flush=True,
        )


if __name__ == "__main__":
    main()
