"""Laws of other reserved cpus: a reload and a restart of the daemon with them have one outcome."""

import random

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.pinning import Pinning
from tests.property.test_rule_laws import MACHINES, SEEDS, STEPS, World
from tests.unit.policy.engine.ruled_pods import engine_of

CPUS = ("cpuset:0", "cpuset:1", "cpuset:0-1", "cpuset:1-2", "cpuset:4", "cpuset:0-3")


def others(world: World, reserved: str) -> Engine:
    """An engine of the world's machine with other cpus reserved, and nobody on it."""
    return engine_of(world.machine, reserved, antiAffinityLimits={"maxBlockedCPUs": "100%"})


def placed(engine: Engine) -> dict[str, tuple[str, Pinning | None]]:
    """By container its pool, and what it is told."""
    pools = engine.tree.pools
    return {
        one: (pools[grant.pool_id].name, engine.pinning(one))
        for one, grant in engine.grants.items()
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_with_other_reserved_cpus_does_what_a_reload_does(seed: int) -> None:
    world, draw = World(MACHINES[seed % len(MACHINES)], seed), random.Random(seed)
    for _ in range(3):
        world.live(STEPS // 3)
        reserved = draw.choice(CPUS)
        before = world.engine.snapshot()
        after, _ = world.engine.reconfigured(others(world, reserved).config)
        again = others(world, reserved)
        again.synchronize(before.running(), before.advice())
        after.check()
        again.check()
        assert placed(again) == placed(after), reserved
