"""A machine whose containers come and go, as many as it has."""

import random

from pinfold.cmd.daemon.garbage_collection import GarbageCollector
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Refusal
from tests.bench.population import UNREAD_PERCENT, containers
from tests.bench.sizes import Size
from tests.bench.timings import Timings

_REFUSALS_MAX_PERCENT = 5


class Turnover:
    """A full machine on which every newcomer replaces a container picked by chance."""

    def __init__(
        self, size: Size, garbage: GarbageCollector, unread_percent: int = UNREAD_PERCENT
    ) -> None:
        """Places as many containers as the size says, and lets half of them be replaced."""
        self.engine = Engine(size.machine, Config())
        self.refusals = 0
        self._garbage = garbage
        self._chance = random.Random(2)
        self._stream = containers(size, unread_percent)
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
        """Time the decision about a newcomer; then somebody leaves, if it could stay.

        Garbage is collected when the daemon does it: once either is over.
        """
        newcomer = next(self._stream)
        decision = timings.time(lambda: self.engine.create(newcomer))
        self._garbage.sweep()
        if self._welcome(decision):
            index = self._chance.randrange(len(self._residents) - 1)
            leaving = self._residents[index]
            self._residents[index] = self._residents[-1]
            self._residents.pop()
            self.engine.stop(leaving)
            self.engine.remove(leaving)
            self._garbage.sweep()

    def _welcome(self, decision: Decision) -> bool:
        if isinstance(decision.result, Refusal):
            self.refusals += 1
            self.engine.remove(decision.container_id)
            return False
        assert all(one.is_advice for one in decision.problems), decision.problems
        self._residents.append(decision.container_id)
        return True


def time_decisions(size: Size, samples: int, unread_percent: int = UNREAD_PERCENT) -> Timings:
    """The time of `Engine.create` on a machine that stays as full as it is.

    A refusal is a decision, too, but a machine that refuses many is not the one that was to be
    measured.
    """
    garbage = GarbageCollector()
    garbage.start()
    try:
        turnover = Turnover(size, garbage, unread_percent)
        timings = Timings()
        for _ in range(samples):
            turnover.turn(timings)
    finally:
        garbage.stop()
    if 100 * turnover.refusals > _REFUSALS_MAX_PERCENT * samples:
        raise RuntimeError(f"{size.name}: {turnover.refusals} of {samples} were refused")
    return timings
