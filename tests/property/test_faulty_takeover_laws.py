"""Laws of takeovers in which a fault shows: nobody's own cpus are anybody else's by it.

Where the books are made anew after a fault of ours, or as a runtime lists what runs, another fault
shows at any call of a function of the policy.
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.adoption import takeover
from pinfold.policy.engine.decision import Adopted
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import NO_CPUS
from tests.property.kinds_walk import KindsWalk
from tests.property.test_recovery_laws import Faults
from tests.property.test_undoing_laws import Calls, InjectedError, copied
from tests.property.walk_machines import MACHINES
from tests.unit.policy.engine.ruled_pods import container_of

STEPS = int(os.environ.get("PINFOLD_TAKEOVER_STEPS", "60"))
SEED = int(os.environ.get("PINFOLD_TAKEOVER_SEED", "1"))


class FaultsTwice(Faults):
    """Faults in copies of a walk's engine, and further ones as these recover."""

    def __init__(self, walk: KindsWalk, patch: pytest.MonkeyPatch, seed: int) -> None:
        super().__init__(walk, patch)
        self.random = random.Random(seed)
        self.whole = self.single = 0
        patch.setattr(takeover, "taken_over", self.raising(takeover.taken_over))
        patch.setattr(Engine, "recover", self.noting(Engine.recover))

    def raising(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def taken_over(*args: Any) -> Any:
            with raising_soon(self.random).counted():
                return real(*args)

        return taken_over

    def noting(self, real: Callable[..., Adopted]) -> Callable[..., Adopted]:
        """As by the policy, but told as without the further fault, which is looked at by itself."""

        def recover(*args: Any) -> Adopted:
            found = real(*args)
            self.whole += found.fault is not None
            self.single += bool(found.faults)
            return replace(found, faults={})

        return recover

    def check(self, before: Snapshot, engine: Engine, gone: set[Any]) -> None:
        if not any(one.fault for one in engine.decisions.values()):
            super().check(before, engine, gone)
            return
        engine.check()
        keep_apart(before, engine, gone)
        keep_apart(before, with_newcomers(engine), gone)


def with_newcomers(engine: Engine) -> Engine:
    """A copy of an engine, to which containers come that ask for whole cpus."""
    later = copied(engine)
    for number in range(3):
        later.create(container_of(f"newcomer-{number}", 1))
    return later


def raising_soon(draw: random.Random) -> Calls:
    """A fault at one of the first calls, or of the first thousands."""
    return Calls(draw.choice((1, 10, 100, 1000)) * draw.randint(1, 9))


def keep_apart(before: Snapshot, engine: Engine, gone: set[Any]) -> None:
    """Whoever had cpus of its own has them still, or nobody else has."""
    after = engine.snapshot()
    members = {one: grant.pen for one, grant in before.grants.items()}
    pens = {one: pen for one, pen in members.items() if one not in gone}
    held = before.pens.keys() & pens.values() | pens.keys()
    for one, then in {**before.grants, **before.pens}.items():
        if one not in held or then.pen is not None:
            continue
        for other, now in {**after.grants, **after.pens}.items():
            # One of a pen may be left alone on its part of it, an older instance as well.
            if one not in (other, now.pen, members.get(other)):
                assert then.exclusive.isdisjoint(now.exclusive), (one, other)
        for other in after.grants.keys() & pens.keys():
            if one not in (other, pens[other]):
                told = after.told_cpus_of(other) or NO_CPUS
                assert then.exclusive.isdisjoint(told), (one, other)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_fault_within_a_recovery_gives_nobody_the_cpus_of_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = KindsWalk(machine, SEED)
    faults = FaultsTwice(walk, monkeypatch, SEED)
    steps = 0
    # By chance one kind of them may be among the later ones.
    while steps < STEPS or (steps < 10 * STEPS and not (faults.whole and faults.single)):
        walk.step()
        steps += 1
    assert faults.recovered > STEPS / 2
    assert faults.whole
    assert faults.single


@pytest.mark.parametrize("is_known", [True, False], ids=["a list", "a restart"])
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_fault_within_a_list_gives_nobody_the_cpus_of_others(
    machine: Machine, is_known: bool
) -> None:
    walk, draw = KindsWalk(machine, SEED), random.Random(SEED)
    whole = 0
    for _ in range(STEPS):
        walk.step()
        before = walk.engine.snapshot()
        engine = copied(walk.engine) if is_known else Engine(walk.machine, walk.config)
        listed = [
            replace(one, cpus=walk.kernel[key].cpus, mems=walk.kernel[key].mems)
            for key, one in walk.running.items()
        ]
        try:
            with raising_soon(draw).counted():
                found = engine.synchronize(listed, before.advice())
        except InjectedError:
            # Before anything was changed.
            assert not is_known or dict(engine.grants) == dict(before.grants)
            found = engine.synchronize(listed, before.advice())
        whole += found.fault is not None
        assert {one.id for one in listed} == set(engine.containers)
        engine.check()
        keep_apart(before, engine, set())
        if found.fault is not None or found.faults:
            keep_apart(before, with_newcomers(engine), set())
        # The next list finds all as they are, by what is remembered since as well.
        left_out = engine.containers.keys() - engine.grants.keys()
        for advice in (before.advice(), *(() if left_out else (engine.snapshot().advice(),))):
            later = copied(engine)
            found = later.synchronize(listed, advice)
            for one, grant in before.grants.items():
                assert later.grants[one].exclusive == grant.exclusive, one
                assert later.grants[one].pen == grant.pen, one
    assert whole
