"""After a clean stop nobody who is remembered loses cpus, whatever other programs wrote since."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec import structs

from pinfold.policy.annotations.annotation_keys import OWN_DOMAIN
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, PodId
from pinfold.topology.sets.cpuset import CpuSet
from tests.property.kinds_walk import KindsWalk
from tests.property.walk_machines import MACHINES

GROUP_KEY = f"group.{OWN_DOMAIN}/pod"
STEPS = 90
SEEDS = (0, 1, 2, 3)


class WalkWithCleanStops(KindsWalk):
    """Pods of all kinds, and a daemon that is stopped; then other programs set cpusets."""

    def step(self) -> None:
        super().step()
        if self.random.random() < 0.25:
            self.stop_and_start()

    def stop_and_start(self) -> None:
        before = self.engine.snapshot()
        listed = [
            structs.replace(one, cpus=self.kernel[key].cpus, mems=self.kernel[key].mems)
            for key, one in self.running.items()
            if self.random.random() < 0.8
        ]
        self.random.shuffle(listed)
        moved = [self.put_elsewhere(one) if self.random.random() < 0.3 else one for one in listed]
        advice = before.final_advice()
        untouched = self.started(listed, advice)
        drifted = self.started(moved, advice)
        assert drifted.grants == untouched.grants, "it matters what other programs wrote"
        crowded = self.started([*moved, *self.begun_since()], advice)
        for one in listed:
            had, has = before.grants[one.id], crowded.grants[one.id]
            assert had.exclusive <= has.exclusive, f"{one.id} loses cpus of its own"
            if had.pen is not None and had.rest:
                pen = crowded.snapshot().pens[had.pen].exclusive
                assert had.rest <= pen, f"the pen of {one.id} loses cpus"

    def started(self, listed: Sequence[Container], advice: Mapping[ContainerId, Advice]) -> Engine:
        engine = Engine(self.machine, self.config)
        engine.synchronize(listed, advice)
        engine.check()
        return engine

    def put_elsewhere(self, container: Container) -> Container:
        return structs.replace(container, cpus=self.any_cpus())

    def begun_since(self) -> list[Container]:
        return [self.stranger(number) for number in range(self.random.randrange(3))]

    def stranger(self, number: int) -> Container:
        """A container that began meanwhile, of a pod that nobody knows, and of no group."""
        one, pod_id = self.new_container(), PodId(f"since-{number}")
        # Of a group that others left it would have those cpus given up that it does not ask for.
        annotations = {key: text for key, text in one.pod.annotations.items() if key != GROUP_KEY}
        pod = structs.replace(
            one.pod, id=pod_id, uid=f"uid-{pod_id}", name=pod_id, annotations=annotations
        )
        return structs.replace(one, pod=pod, cpus=self.any_cpus(), claimed=None)

    def any_cpus(self) -> CpuSet:
        online = sorted(self.machine.online)
        return CpuSet.collect(self.random.sample(online, self.random.randint(1, len(online))))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", MACHINES)
def test_after_a_clean_stop_nobody_loses_cpus_to_other_programs(name: str, seed: int) -> None:
    walk = WalkWithCleanStops(MACHINES[name], seed)
    for _ in range(STEPS):
        walk.step()
