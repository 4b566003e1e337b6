"""Laws of refusals because of rules: if one resident's leaving would do, somebody is named.

And whoever is named makes room. Held against trials of everybody on a copy of the engine, on the
machines and pods of `ruled_worlds`.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Sequence

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Grant
from tests.property import test_plain_reading_laws as reading
from tests.property.plain_reading import WrittenPod
from tests.property.ruled_worlds import FEW_RULES, MANY_RULES, PodOdds, RuleOdds

WORLDS = int(os.environ.get("PINFOLD_NAMED_SEEDS", "72"))
"""So many machines for each of the two laws."""
STEPS = 25
PARTS = 8
NEAR_RULES = RuleOdds((0, 0, 1), (1, 1, 2), (0, 0, 0, 1), (0,))
_NAMED = re.compile(
    r" — to make room, stop or move "
    r"(one of |all of |some of )?([^ ,]+(?:, [^ ,]+)*)( and .* more)?$"
)
_RULE = re.compile(r"\(affinity\.pinfold\.dev/pod:\d+\) of ")


class World(reading.World):
    """A world in which rules insist, and every refusal is taken at its word."""

    names_all = True
    """Whether somebody is named wherever one would do."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        draw = self.random
        rules = draw.choice((NEAR_RULES, NEAR_RULES, FEW_RULES, MANY_RULES))
        self.odds = PodOdds(rules, draw.choice((0.5, 1.0)))
        self.verified = Counter[str]()

    def live(self, steps: int) -> None:
        events = (self.arrive,) * 10 + (self.leave, self.resize)
        try:
            for _ in range(steps):
                self.random.choice(events)()
        except AssertionError:
            print(f"seed {self.seed}", self.machine, self.compat, *self.history, sep="\n")
            raise

    def arrive(self) -> None:
        self.count += 1
        pod, container = self.drawn()
        result = self.engine.create(container).result
        self.note(f"create {pod}", result)
        if isinstance(result, Grant):
            self.pods[pod] = container
            return
        if _RULE.search(result.reason):
            self.judge_departure(pod, container, result.reason)
        self.engine.remove(container.id)

    def judge_departure(self, pod: WrittenPod, container: Container, reason: str) -> None:
        enough = [
            other.path for other, one in self.pods.items() if self.is_room_without([one], container)
        ]
        found = _NAMED.search(reason)
        assert (found is None) == ("to make room" not in reason), reason
        if found is None:
            assert not (enough and self.names_all), f"one of {enough} would do: {reason}"
            return
        if found[3]:
            # Of very many not all are named.
            return
        self.judge_named(found[1], found[2].split(", "), enough, container)
        is_near = any(one.kind == "affinity" for one in pod.rules)
        self.verified["affinity" if is_near else "other"] += 1

    def judge_named(
        self,
        part: str | None,
        named: Sequence[str],
        enough: Collection[str],
        container: Container,
    ) -> None:
        assert len(set(named)) == len(named), "nobody is named twice"
        if part in (None, "one of "):
            assert set(named) <= set(enough), f"{named} are named, {enough} make room"
            return
        by_path = {pod.path: one for pod, one in self.pods.items()}
        leaving = [by_path[one] for one in named]
        assert self.is_room_without(leaving, container), f"{named} make no room"

    def is_room_without(self, leaving: Sequence[Container], container: Container) -> bool:
        trial = Engine.of(self.engine.snapshot())
        trial.remove(container.id)
        for one in leaving:
            trial.stop(one.id)
            trial.remove(one.id)
        return isinstance(trial.create(container).result, Grant)


class SharedWorld(World, reading.SharedWorld):
    """The same with pods that share cpus: who makes way for whom then is not tried in full."""

    names_all = False


class IdleWorld(SharedWorld):
    """The same with pods that ask for no cpu: they run on what is left, and count all the same."""

    sizes_milli = (0, 0, 0, 100, 500, 1000, 1500)


@pytest.mark.parametrize("part", range(PARTS))
def test_somebody_is_named_if_one_would_do_and_makes_room(part: int) -> None:
    for seed in range(part, WORLDS, PARTS):
        World(seed).live(STEPS)


@pytest.mark.parametrize("part", range(PARTS))
def test_who_is_named_makes_room_among_those_who_share_cpus(part: int) -> None:
    for seed in range(part, WORLDS, PARTS):
        SharedWorld(seed).live(STEPS)


@pytest.mark.parametrize("part", range(PARTS))
def test_who_is_named_makes_room_among_those_who_ask_for_nothing(part: int) -> None:
    # In the last two somebody grew to where a spread rule counts it, once others had left.
    for seed in (*range(part, WORLDS, PARTS), *(() if part else (79, 348))):
        IdleWorld(seed).live(STEPS)


@pytest.mark.parametrize("kind", ["affinity", "other"])
def test_some_are_named(kind: str) -> None:
    worlds = [World(seed) for seed in range(8)]
    for one in worlds:
        one.live(STEPS)
    assert sum([one.verified[kind] for one in worlds])
