"""A machine whose containers come and go, as many as it has."""

import random

from pinfold.policy.config import Config
from pinfold.policy.container import Container, ContainerId
from pinfold.policy.decision import Decision, Refusal
from pinfold.policy.engine import Engine
from tests.bench.population import containers
from tests.bench.sizes import Size
from tests.bench.timings import Timings

_REFUSALS_MAX_PERCENT = 5


class Turnover:
    """A full machine on which every newcomer replaces a container picked by chance."""

    def __init__(self, size: Size) -> None:
        """Places as many containers as the size says, and lets half of them be replaced."""
        self.engine = Engine(size.machine, Config())
        self.refusals = 0
        self._size = size
        self._chance = random.Random(2)
        self._stream = containers(size)
        self._residents: list[ContainerId] = []
        while len(self._residents) < size.containers:
            self._welcome(self.engine.create(next(self._stream)))
        for _ in range(size.containers // 2):
            self.turn(Timings())
        self.refusals = 0

    @property
    def residents(self) -> list[Container]:
        """Every container that is there."""
        return [self.engine.containers[one] for one in self._residents]

    def turn(self, timings: Timings) -> None:
        """Time the decision about a newcomer; then somebody leaves, if it could stay."""
        newcomer = next(self._stream)
        decision = timings.time(lambda: self.engine.create(newcomer))
        if self._welcome(decision):
            index = self._chance.randrange(len(self._residents) - 1)
            leaving = self._residents[index]
            self._residents[index] = self._residents[-1]
            self._residents.pop()
            self.engine.stop(leaving)
            self.engine.remove(leaving)

    def _welcome(self, decision: Decision) -> bool:
        if isinstance(decision.result, Refusal):
            self.refusals += 1
            self.engine.remove(decision.container_id)
            return False
        assert not decision.problems, decision.problems
        self._residents.append(decision.container_id)
        return True


def time_decisions(size: Size, samples: int) -> Timings:
    """The time of `Engine.create` on a machine that stays as full as it is.

    Each newcomer's annotations are read for the first time. A refusal is a decision, too, but a
    machine that refuses many is not the one that was to be measured.
    """
    turnover = Turnover(size)
    timings = Timings()
    for _ in range(samples):
        turnover.turn(timings)
    if 100 * turnover.refusals > _REFUSALS_MAX_PERCENT * samples:
        raise RuntimeError(f"{size.name}: {turnover.refusals} of {samples} were refused")
    return timings
