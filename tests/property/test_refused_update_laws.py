"""Laws of refused updates as they go by the actuator: newcomers keep clear of them, or are told.

A runtime refuses whatever updates it likes. What it has refused is known as soon as the actuator
has nothing more to do; an update that goes out with a newcomer's own answer is no refusal yet.
"""

import os
import random

import pytest

from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet
from tests.unit.nri.dispatch.test_live_moves import SECONDS, LiveNode, in_node
from tests.unit.policy.engine.ruled_pods import container_of

STEPS = 60
SEEDS = (*range(int(os.environ.get("PINFOLD_REFUSED_SEEDS", "12"))),)


class RefusingNode(LiveNode):
    """A node whose runtime refuses all updates of some containers, for a while."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.count = self.avoided = self.told = 0

    def step(self) -> None:
        draw, running = self.random, sorted(self.events.policy.grants)
        if running and draw.random() < 0.15:
            self.refused ^= {draw.choice(running)}
        if len(running) > 9 or (running and draw.random() < 0.3):
            self.stop_one(draw.choice(running))
        else:
            self.create_one()
        assert self.actuator.settle(SECONDS)
        self.owner.ask("look", self.look)

    def stop_one(self, container_id: ContainerId) -> None:
        self.owner.ask("stop", lambda: self.events.answered(self.events.stop(container_id)))
        del self.kernel[container_id]
        self.refused.discard(container_id)

    def create_one(self) -> None:
        self.count += 1
        cpus = self.random.choice((1, 1, 2, 0.2, 0.5))
        where = in_node(self.random.randrange(4)) if cpus < 1 else None
        newcomer = container_of(f"p{self.count}", cpus, annotations=where)
        stuck = {one: cpus for one, cpus in self.kernel_cpus().items() if self.wanted(one) != cpus}
        if not self.refusal(newcomer):
            self.hold(newcomer, stuck)
            if cpus < 1 and self.random.random() < 0.6:
                self.refused.add(newcomer.id)

    def hold(self, newcomer: Container, stuck: dict[ContainerId, CpuSet]) -> None:
        """Hold what a newcomer got against those that were stuck before it came."""
        policy = self.events.policy
        own = policy.grants[newcomer.id].exclusive
        texts = [one.what for one in policy.decisions[newcomer.id].problems if one.where == "stuck"]
        there = [policy.containers[one].path for one, cpus in stuck.items() if cpus & own]
        for path in there:
            assert any(path in text for text in texts), (newcomer.id, path, own)
        self.told += bool(there)
        self.avoided += bool(own and stuck and not there)

    def look(self) -> None:
        """All who are somewhere else than they should are known."""
        kernel, known = self.kernel_cpus(), self.events.policy.stuck_containers.cpus
        others = {one: cpus.mask for one, cpus in kernel.items() if self.wanted(one) != cpus}
        assert known == others
        self.events.policy.check()

    def kernel_cpus(self) -> dict[ContainerId, CpuSet]:
        return {one: pinning.cpus or NO_CPUS for one, pinning in self.kernel.items()}

    def wanted(self, container_id: ContainerId) -> CpuSet:
        pinning = self.events.policy.pinning(container_id)
        assert pinning is not None
        assert isinstance(self.events.policy.grants[container_id], Grant)
        return pinning.cpus or NO_CPUS


@pytest.mark.parametrize("seed", SEEDS)
def test_newcomers_keep_clear_of_those_that_a_runtime_refuses_or_are_told(seed: int) -> None:
    node = RefusingNode(seed)
    try:
        for _ in range(STEPS):
            node.step()
    finally:
        node.end()
    assert node.avoided
