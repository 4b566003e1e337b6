"""Laws of recovery: whatever raises as a container comes or goes, it holds nothing afterwards.

At each event of a walk a copy of the engine meets a fault at any call of a function of the policy.
No other container moves, or has other cpus for itself, and the copy goes on from there.
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import Container, ContainerId
from pinfold.topology.model.machine import Machine
from tests.property.kinds_walk import KindsWalk, instance
from tests.property.test_undoing_laws import Calls, InjectedError, copied
from tests.property.walk_machines import MACHINES

STEPS = int(os.environ.get("PINFOLD_RECOVERY_STEPS", "60"))
SEED = int(os.environ.get("PINFOLD_RECOVERY_SEED", "1"))


class Faults:
    """Faults in copies of a walk's engine, each of which recovers."""

    def __init__(self, walk: KindsWalk, patch: pytest.MonkeyPatch) -> None:
        self.walk = walk
        self.random = random.Random(SEED)
        self.is_on = True
        self.recovered = 0
        for name in ("create", "stop", "remove"):
            patch.setattr(Engine, name, self.failing(getattr(Engine, name)))

    def failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def event(engine: Engine, about: Container | ContainerId) -> Any:
            if self.is_on:
                self.is_on = False
                self.fail(engine, about, real)
                self.is_on = True
            return real(engine, about)

        return event

    def fail(
        self, engine: Engine, about: Container | ContainerId, real: Callable[..., Any]
    ) -> None:
        calls, before, failed = Calls(), engine.snapshot(), copied(engine)
        with calls.counted():
            real(copied(engine), about)
        failed.begin()

        def raising() -> None:
            with Calls(self.random.randint(1, calls.count)).counted():
                real(failed, about)
            # What was worked out for the first copy is known by now: these calls may be fewer.
            raise InjectedError

        with pytest.raises(InjectedError):
            raising()
        faulty = about if isinstance(about, str) else about.id
        found = failed.recover(faulty, self.walk.kernel)
        gone = {faulty}
        if not isinstance(about, str):
            # Older instances are released by a creation.
            gone |= {
                one.id for one in engine.containers.values() if instance(one) == instance(about)
            }
        self.check(before, failed, gone)
        assert {one.container_id for one in found.changes} <= self.left_reserved(before)
        assert not found.faults
        if not isinstance(about, str):
            # What the runtime created without us is heard of as it begins to run.
            failed.adopt(about)
        failed.check()
        self.recovered += 1

    @staticmethod
    def left_reserved(before: Snapshot) -> set[ContainerId]:
        """Containers that were left no other cpus than reserved ones: they may come home."""
        reserved = before.supply.reserved
        cpus = {one: before.told_cpus_of(one) for one in before.grants}
        return {one for one, told in cpus.items() if told is not None and told <= reserved}

    def check(self, before: Snapshot, engine: Engine, gone: set[ContainerId]) -> None:
        engine.check()
        after = engine.snapshot()
        others = before.grants.keys() - gone
        # The one it is about never is; an older instance may be as it was.
        assert others <= after.grants.keys() <= before.grants.keys()
        for one in others - self.left_reserved(before):
            assert after.pinnings[one] == before.pinnings[one], one
            now, then = after.grants[one], before.grants[one]
            assert (now.exclusive, now.pen) == (then.exclusive, then.pen), one
            # In a pen the others share what one gives back.
            if not then.rest <= now.rest:
                self.check_part(one, before, engine)

    @staticmethod
    def check_part(one: ContainerId, before: Snapshot, engine: Engine) -> None:
        """Whoever was told a part of its pen has that, and the pen no less than it asks for.

        The other part, where who is gone ran alone, is the pen's only as far as it asks for it.
        """
        then, now = before.grants[one], engine.grants[one]
        told, allocator = before.told_cpus_of(one), vars(engine)["_allocator"]
        assert told is not None
        assert told < then.rest | then.exclusive, one
        assert then.rest & told <= now.rest, one
        container = engine.containers[one]
        name = allocator.pens.name_of(container, allocator.roster.classified[one])
        asked = allocator.pens.sizes.request_of(name, container)
        assert 1000 * len(engine.snapshot().pens[name.id].exclusive) >= asked.total_milli, one


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_who_comes_or_goes_in_a_fault_holds_nothing_and_moves_nobody(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = KindsWalk(machine, SEED)
    faults = Faults(walk, monkeypatch)
    for _ in range(STEPS):
        walk.step()
    assert faults.recovered > STEPS / 2
