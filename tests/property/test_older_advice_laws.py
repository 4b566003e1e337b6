"""A restart by a state that is older than the last events moves nobody who is in it."""

from collections import deque
from collections.abc import Mapping

import pytest
from msgspec import structs

from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import ContainerId
from tests.property.kinds_walk import KindsWalk
from tests.property.walk_machines import MACHINES

STEPS = 110
SEEDS = (0, 1, 4, 11, 12, 13)
OLDER = 4
"""Events after which a daemon is killed before it saves them."""


class WalkWithKills(KindsWalk):
    """Pods of all kinds, and a daemon that is killed before its state is saved."""

    saved: deque[tuple[Engine, Mapping[ContainerId, Advice]]]

    def step(self) -> None:
        if not hasattr(self, "saved"):
            self.saved = deque(maxlen=OLDER)
        self.saved.append((self.engine, self.engine.snapshot().advice()))
        super().step()
        if self.random.random() < 0.25:
            self.be_killed()

    def be_killed(self) -> None:
        engine, advice = self.random.choice(list(self.saved))
        if engine.snapshot().supply != self.engine.snapshot().supply:
            return
        if any(self.engine.decisions[one].degraded for one in self.engine.grants):
            # It is placed where somebody left.
            return
        if any(one.claimed and key not in advice for key, one in self.running.items()):
            # Nothing tells whether its claim could be booked.
            return
        listed = [
            structs.replace(one, cpus=self.kernel[key].cpus, mems=self.kernel[key].mems)
            for key, one in self.running.items()
        ]
        self.random.shuffle(listed)
        again = Engine(self.machine, self.config)
        adopted = again.synchronize(listed, advice)
        again.check()
        moved = [one for one in adopted.changes if one.container_id in advice]
        assert not moved, "it is moved by what was so before"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", MACHINES)
def test_a_state_that_is_older_than_the_last_events_moves_nobody(name: str, seed: int) -> None:
    walk = WalkWithKills(MACHINES[name], seed)
    for _ in range(STEPS):
        walk.step()
