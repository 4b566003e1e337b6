"""Laws of stuck containers: nobody gets for itself what the kernel runs another one on, untold.

Runtimes here refuse updates at random, and what they refused is known before the next event. Of
what they have not refused yet nobody knows.
"""

import os

import pytest

from pinfold.policy.model.container import ContainerId
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet
from tests.property.test_promise_laws import PromisingWorld
from tests.property.test_rule_laws import MACHINES, Pod
from tests.unit.policy.engine.ruled_pods import container_of

STEPS = 60
SEEDS = (*range(int(os.environ.get("PINFOLD_STUCK_SEEDS", "40"))),)


class RefusingWorld(PromisingWorld):
    """A world with a kernel that differs from what the policy wants, as updates are refused."""

    def __init__(self, machine: Machine, seed: int) -> None:
        super().__init__(machine, seed)
        self.kernel: dict[ContainerId, CpuSet] = {}
        self.owned: dict[ContainerId, CpuSet] = {}
        """What each had for itself, or its pen, after the last event."""
        self.known: dict[ContainerId, CpuSet] = {}
        self.gained = self.told = 0

    def new_pod(self) -> Pod:
        """Most have cpus of their own, and few of them rules."""
        pod = super().new_pod()
        if self.random.random() < 0.4:
            return pod
        cpus = self.random.choice((1, 2, 1.5, 0.3))
        container = container_of(f"p{self.count}", cpus, app=pod.app, is_guaranteed=True)
        return Pod(container, pod.app, (), fails=False)

    def step(self) -> None:
        if len(self.pods) > 4 and self.random.random() < 0.5:
            self.stop()
        super().step()
        self.hold()

    def hold(self) -> None:
        """Hold what was given against the kernel before it, and let the runtime do what it does."""
        engine = self.engine
        self.known = {one: cpus for one, cpus in self.known.items() if one in self.pods}
        for one in self.pods:
            before, own = self.owned.get(one, NO_CPUS), engine.grants[one].exclusive
            self.gained += bool(own - before)
            for other, cpus in self.known.items():
                shared = own & cpus
                if other != one and shared:
                    path = engine.containers[other].path
                    texts = [
                        problem.what
                        for problem in engine.decisions[one].problems
                        if problem.where == "stuck"
                    ]
                    is_told = any(path in text or " more: " in text for text in texts)
                    assert is_told, (one, other, shared)
                    self.told += 1
        self.owned = {one: engine.grants[one].exclusive for one in self.pods}
        self.update()

    def wanted(self, one: ContainerId) -> CpuSet:
        pinning = self.engine.pinning(one)
        assert pinning is not None
        return pinning.cpus or NO_CPUS

    def restart(self) -> None:
        """What was known is known again as soon as the runtime refuses once more."""
        super().restart()
        self.engine.stuck_containers.note(self.known)

    def update(self) -> None:
        """The runtime makes some updates, and refuses others."""
        wanted = {one: self.wanted(one) for one in self.pods}
        kernel = {one: self.kernel.get(one, cpus) for one, cpus in wanted.items()}
        for one, cpus in wanted.items():
            is_new = one not in self.kernel
            if is_new or kernel[one] == cpus or self.random.random() < 0.4:
                kernel[one] = cpus
        self.kernel = kernel
        self.known = {one: kernel[one] for one, cpus in wanted.items() if kernel[one] != cpus}
        self.engine.stuck_containers.note(self.known)
        self.engine.check()


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_has_for_itself_what_another_one_is_stuck_on_but_who_is_told(seed: int) -> None:
    world = RefusingWorld(MACHINES[seed % len(MACHINES)], seed)
    for _ in range(STEPS):
        world.step()
    world.engine.stuck_containers.note({})
    world.engine.check()
    assert not any(
        problem.where == "stuck"
        for one in world.pods
        for problem in world.engine.decisions[one].problems
    )


def test_some_are_told_and_more_are_placed_elsewhere() -> None:
    world = RefusingWorld(MACHINES[0], 3)
    for _ in range(4 * STEPS):
        world.step()
    assert world.gained > 40
    assert 0 < world.told < world.gained
