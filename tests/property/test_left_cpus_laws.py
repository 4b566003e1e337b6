"""Laws of left cpus: whatever comes, nobody runs on what a moved container has yet to leave.

And nothing else is otherwise: once it is let go all have what they would have without it.
"""

import os

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.topology.sets.cpuset import NO_CPUS
from tests.property.test_promise_laws import PromisingWorld
from tests.property.test_rule_laws import MACHINES, Pod
from tests.unit.policy.engine.ruled_pods import container_of

STEPS = 60
SEEDS = (*range(int(os.environ.get("PINFOLD_LEFT_SEEDS", "40"))),)


class LeavingWorld(PromisingWorld):
    """A world in which some are moved, and the kernel is told later."""

    kept = 0

    def new_pod(self) -> Pod:
        """Most have cpus of their own, and few of them rules: these would hold them."""
        pod = super().new_pod()
        if self.random.random() < 0.4:
            return pod
        cpus = self.random.choice((1, 2, 1.5, 2.3))
        container = container_of(f"p{self.count}", cpus, app=pod.app, is_guaranteed=True)
        return Pod(container, pod.app, (), fails=False)

    def step(self) -> None:
        if len(self.pods) > 3 and self.random.random() < 0.5:
            self.stop()
        super().step()
        if self.pods and self.random.random() < 0.3:
            self.move()
        if self.random.random() < 0.2:
            self.let_go()
        self.engine.check()
        self.check_left()

    def move(self) -> None:
        engine, draw = self.engine, self.random
        one = draw.choice(sorted(self.pods))
        held = engine.left_cpus.held(one)
        assert held is not None
        here = engine.grants[one].pool_id
        others = [pool.id for pool in engine.tree.pools if pool.id != here]
        pool = draw.choice(others or [here])
        decision = engine.move(one, pool) if draw.random() < 0.7 else engine.place_anew(one)
        if not isinstance(decision.result, Grant):
            return
        self.note(f"move {one}", decision.result)
        plain = Engine.of(engine.snapshot()) if not engine.left else None
        if draw.random() < 0.5:
            engine.left_cpus.keep([held])
            self.check_left()
            self.kept += one in engine.left
            trial = Engine.of(engine.snapshot())
            trial.left_cpus.let_go([one])
            assert plain is None or self.told(trial) == self.told(plain), one

    def told(self, engine: Engine) -> dict[ContainerId, str]:
        return {one: str(engine.pinning(one)) for one in self.pods}

    def let_go(self) -> None:
        if left := sorted(self.engine.left):
            self.engine.left_cpus.let_go([self.random.choice(left)])

    def check_left(self) -> None:
        for left in self.engine.left.values():
            for one in self.pods:
                told = self.engine.pinning(one)
                assert told is not None
                assert left.exclusive.isdisjoint(told.cpus or NO_CPUS), (one, left.exclusive)


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_runs_on_cpus_that_another_has_yet_to_leave(seed: int) -> None:
    world = LeavingWorld(MACHINES[seed % len(MACHINES)], seed)
    for _ in range(STEPS):
        world.step()
    engine = world.engine
    engine.left_cpus.let_go(tuple(engine.left))
    engine.check()
    for one in sorted(world.pods):
        world.end(one, is_gone=True)
    engine.check()
    assert engine.snapshot().free_sharable == world.new_engine().snapshot().free_sharable


def test_some_are_kept() -> None:
    world = LeavingWorld(MACHINES[0], 3)
    for _ in range(4 * STEPS):
        world.step()
    assert world.kept > 3
