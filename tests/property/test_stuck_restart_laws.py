"""Laws of stuck containers and restarts: newcomers keep clear of them, and nobody is moved.

A newcomer has cpus for itself on which the kernel runs a stuck container only where no set of
others would do, as a naive reading of the pools' promises has it. The daemon is started anew with
the state that it left, or without any; then nobody knows of them until they are refused again.
"""

import os
import random
from collections.abc import Mapping
from itertools import combinations

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.decision import KEPT
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Refusal
from pinfold.policy.model.request import CpuType
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet
from tests.unit.policy.engine.ruled_pods import container_of, engine_of

STEPS = 60
SEEDS = (*range(int(os.environ.get("PINFOLD_STUCK_RESTART_SEEDS", "40"))),)
MACHINES = (
    "socket:1 numa:3 core:4 mem:4G",
    "socket:2 numa:1 core:3 thread:2 mem:4G",
    "socket:1 numa:2 core:6 mem:4G isolated:4-5,10-11",
)
RESERVED = CpuSet.of(0)
WANTS_ISOLATED = {"prefer-isolated-cpus.resource-policy.nri.io/pod": "true"}


def has_place(
    before: Snapshot, cpus: int, shared_milli: int, kept: CpuSet, *, wants_isolated: bool
) -> bool:
    """Whether so many cpus without the kept ones are free, and all shares have room without them.

    Each pool's shares stay where they are, and the newcomer's own is anywhere.
    """
    free = CpuSet(before.free_sharable[-1])
    isolated = CpuSet(before.free_isolated[-1]) - kept
    if wants_isolated and not shared_milli and len(isolated) >= cpus:
        return True
    root = before.tree.root
    wanted = {pool.id: 0 for pool in before.tree.pools}
    wanted[root.id] = shared_milli
    for grant in before.grants.values():
        if grant.cpu_type is not CpuType.RESERVED:
            for pool in before.tree.pools:
                if before.tree.pools[grant.pool_id].cpus <= pool.cpus:
                    wanted[pool.id] += grant.shared_milli
    return any(
        all(
            not wanted[pool.id]
            or wanted[pool.id] <= 1000 * len((pool.sharable & free) - CpuSet.collect(taken))
            for pool in before.tree.pools
        )
        for taken in combinations(free - kept, cpus)
    )


class RestartingWorld:
    """An engine, and a kernel that differs from what it wants, as updates are refused."""

    def __init__(self, machine: str, seed: int) -> None:
        self.machine, self.random = machine, random.Random(seed)
        self.engine = engine_of(machine)
        self.pods: dict[ContainerId, Container] = {}
        self.kernel: dict[ContainerId, CpuSet] = {}
        self.count = self.clear = self.told = self.kept = 0

    def new_pod(self) -> Container:
        self.count += 1
        draw = self.random
        wish = WANTS_ISOLATED if draw.random() < 0.5 else None
        cpus = draw.choice((0, 0.2, 0.5, 0.9, 1, 1, 2, 2, 3, 1.5))
        return container_of(
            f"p{self.count}", cpus, annotations=wish, is_guaranteed=cpus >= 1, shares=cpus < 1
        )

    def wanted(self, one: ContainerId) -> CpuSet:
        pinning = self.engine.pinning(one)
        assert pinning is not None
        return pinning.cpus or NO_CPUS

    @property
    def stuck(self) -> Mapping[ContainerId, CpuSet]:
        return {one: cpus for one, cpus in self.kernel.items() if cpus != self.wanted(one)}

    def step(self) -> None:
        draw = self.random
        if self.pods and draw.random() < 0.35:
            self.stop(draw.choice(sorted(self.pods)))
        elif draw.random() < 0.8:
            self.create()
        else:
            self.restart(is_saved=draw.random() < 0.6)
        for one, cpus in self.stuck.items():
            self.kernel[one] = self.wanted(one) if draw.random() < 0.2 else cpus
        if draw.random() < 0.9:
            # Else what is known is what was known before.
            self.engine.stuck_containers.note(self.stuck)
        self.engine.check()

    def stop(self, one: ContainerId) -> None:
        del self.pods[one], self.kernel[one]
        self.engine.remove(one)

    def create(self) -> None:
        pod, before = self.new_pod(), self.engine.snapshot()
        known = self.known()
        if isinstance(self.engine.create(pod).result, Refusal):
            self.engine.remove(pod.id)
            return
        self.pods[pod.id], self.kernel[pod.id] = pod, self.wanted(pod.id)
        self.hold(pod, before, known)

    def known(self) -> Mapping[ContainerId, CpuSet]:
        """Those that the policy knows to be stuck."""
        return {
            one: CpuSet(mask)
            for one, mask in self.engine.stuck_containers.cpus.items()
            if one in self.pods
        }

    def hold(self, pod: Container, before: Snapshot, known: Mapping[ContainerId, CpuSet]) -> None:
        """Hold what one that came got for itself against whom the policy knew to be stuck."""
        grant = self.engine.grants[pod.id]
        kept = CpuSet(sum({1 << cpu for cpus in known.values() for cpu in cpus}))
        is_told = any(one.where == "stuck" for one in self.engine.decisions[pod.id].problems)
        assert is_told is bool(grant.exclusive & kept)
        if is_told:
            wants_isolated = bool(pod.pod.annotations)
            args = len(grant.exclusive), grant.shared_milli, kept
            assert not has_place(before, *args, wants_isolated=wants_isolated), pod.id
        self.told += is_told
        self.clear += bool(grant.exclusive and kept and not is_told)

    def listed(self) -> list[Container]:
        found = [
            replace(pod, state=ContainerState.RUNNING, cpus=self.kernel[one], mems=None)
            for one, pod in self.pods.items()
        ]
        self.random.shuffle(found)
        return found

    def restart(self, *, is_saved: bool) -> None:
        """Nobody is moved; and one that began meanwhile, as nobody pinned it, keeps clear."""
        before = {one: self.wanted(one) for one in self.pods}
        stuck, listed = self.stuck, self.listed()
        self.engine.stuck_containers.note(stuck)
        advice = self.engine.snapshot().advice() if is_saved else dict[ContainerId, Advice]()
        self.engine = self.started(listed, advice)
        decided = {one: self.engine.decisions[one].decided_by for one in self.pods}
        is_room_made = any(
            self.engine.grants[one].exclusive and decided[one] != KEPT for one in self.pods
        )
        for one in self.pods:
            if is_saved:
                assert self.wanted(one) == before[one], one
            elif one not in stuck and not is_room_made:
                self.hold_still(one)
        assert self.known() == (stuck if is_saved else {})
        if self.random.random() < 0.5:
            late, there = self.new_pod(), self.engine.snapshot()
            began_on = self.random.sample([*self.engine.machine.online], 6)
            # With reserved ones among them these are for nobody.
            cpus = CpuSet.collect(began_on) | RESERVED
            late = replace(late, state=ContainerState.RUNNING, cpus=cpus)
            self.engine = self.started([*listed, late], advice)
            self.pods[late.id], self.kernel[late.id] = late, cpus
            self.hold(late, there, self.known())

    def started(self, listed: list[Container], advice: Mapping[ContainerId, Advice]) -> Engine:
        engine = engine_of(self.machine)
        found = engine.synchronize(listed, advice)
        assert not found.faults
        engine.check()
        return engine

    def hold_still(self, one: ContainerId) -> None:
        """Hold that one goes on running on some of its cpus, though nobody remembers any.

        But for those on reserved cpus alone, or on somebody's own, as it seems. Where one that
        nobody had pinned gets cpus for itself, room may be made for that, as for a newcomer.
        """
        kernel, after = self.kernel[one], self.wanted(one)
        owned = [grant.exclusive for other, grant in self.engine.grants.items() if other != one]
        if not (kernel <= RESERVED or any(kernel <= own for own in owned)):
            assert after & kernel, (one, kernel, after)
            self.kept += 1


@pytest.mark.parametrize("seed", SEEDS)
def test_newcomers_keep_clear_and_restarts_move_nobody(seed: int) -> None:
    world = RestartingWorld(MACHINES[seed % len(MACHINES)], seed)
    for _ in range(STEPS):
        world.step()


def test_some_are_told_and_more_are_placed_elsewhere() -> None:
    world = RestartingWorld(MACHINES[1], 4)
    for _ in range(6 * STEPS):
        world.step()
    assert 0 < world.told < world.clear
    assert world.kept > STEPS
