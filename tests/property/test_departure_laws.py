"""Who could make room as a law: once those that a refusal names have left, there is room."""

import os
import re
from collections.abc import Sequence

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Grant, Refusal
from tests.property import test_rule_laws as laws

STEPS = 60
SEEDS = range(int(os.environ.get("PINFOLD_RULE_SEEDS", "60")))
TOLD = re.compile(
    r" — to make room, stop or move (one of |all of )?([^ ,]+(?:, [^ ,]+)*)( and .* more)?$"
)


class World(laws.World):
    """The world of the laws, in which every refusal is taken at its word."""

    verified = 0
    pod: laws.Pod

    def new_pod(self) -> laws.Pod:
        self.pod = super().new_pod()
        return self.pod

    def note(self, event: str, result: object) -> None:
        super().note(event, result)
        if not (event.startswith("create") and isinstance(result, Refusal)):
            return
        found = TOLD.search(result.reason)
        assert (found is None) == ("to make room" not in result.reason), result.reason
        if found is None or found[3]:
            # Of very many not all are named.
            return
        by_path = {one.container.path: one.container for one in self.pods.values()}
        named = [by_path[one] for one in found[2].split(", ")]
        assert (len(named) == 1) == (found[1] is None), result.reason
        alternatives = [[one] for one in named] if found[1] == "one of " else [named]
        for leaving in alternatives:
            assert self.has_room_without(leaving), f"{result.reason}: without {leaving}"
            self.verified += 1

    def has_room_without(self, leaving: Sequence[Container]) -> bool:
        trial = Engine.of(self.engine.snapshot())
        trial.remove(self.pod.container.id)
        for one in leaving:
            trial.stop(one.id)
            trial.remove(one.id)
        before, after = self.engine.grants, trial.grants
        if any(before[one].within != grant.within for one, grant in after.items()):
            # Whoever was narrowed for them has more by now, which no trial knows.
            return True
        return isinstance(trial.create(self.pod.container).result, Grant)


def walked(seed: int) -> int:
    world = World(laws.MACHINES[seed % len(laws.MACHINES)], seed)
    try:
        for _ in range(STEPS):
            world.step()
    except AssertionError:
        print(*world.history[-3:], sep="\n")
        raise
    return world.verified


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_named_makes_room_by_leaving(seed: int) -> None:
    walked(seed)


def test_some_are_named() -> None:
    assert walked(3)
