"""Laws of other reserved cpus: a reload and a restart of the daemon with them have one outcome."""

import random
import re
from collections.abc import Iterator

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet
from tests.property.test_rule_laws import MACHINES, SEEDS, STEPS, Pod, World, touched
from tests.unit.policy.engine.ruled_pods import engine_of

LENGTH = max(STEPS, 60)
FOUND = (104, 133, 154, 159, 190, 223, 275, 291)
"""In these some cpus were for nobody once they were not reserved any more."""
TOLD_FOUND = (5, 149)
"""In these a rule was told on that others' moves had mended."""
CPUS = ("cpuset:0", "cpuset:1", "cpuset:0-1", "cpuset:1-2", "cpuset:4", "cpuset:0-3")


def others(world: World, reserved: str) -> Engine:
    """An engine of the world's machine with other cpus reserved, and nobody on it."""
    return engine_of(world.machine, reserved, antiAffinityLimits={"maxBlockedCPUs": "100%"})


def placed(engine: Engine) -> dict[str, tuple[str, Pinning | None, set[str]]]:
    """By container its pool, what it is told, and the rules that do not hold."""
    pools, decisions = engine.tree.pools, engine.decisions
    return {
        one: (pools[grant.pool_id].name, engine.pinning(one), {*decisions[one].unmet})
        for one, grant in engine.grants.items()
    }


def rule_of(text: str) -> str:
    """The rule that a text says does not hold, with its owner."""
    return text.partition(": ")[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_with_other_reserved_cpus_does_what_a_reload_does(seed: int) -> None:
    world, draw = World(MACHINES[seed % len(MACHINES)], seed), random.Random(seed)
    for _ in range(3):
        world.live(LENGTH // 3)
        reserved = draw.choice(CPUS)
        before = world.engine.snapshot()
        after, _ = world.engine.reconfigured(others(world, reserved).config)
        again = others(world, reserved)
        again.synchronize(before.running(), before.advice())
        after.check()
        again.check()
        restarted, reloaded = placed(again), placed(after)
        assert restarted.keys() == reloaded.keys()
        names = {rule_of(text) for *_, unmet in restarted.values() for text in unmet}
        for one, (*place, unmet) in reloaded.items():
            *place_again, unmet_again = restarted[one]
            assert place_again == place, (one, reserved)
            assert unmet_again <= unmet, (one, reserved)
            # A restart knows of no affinity whether it held before, and of the rest tells owners.
            untold = [text for text in unmet - unmet_again if not text.startswith("affinity ")]
            assert {*map(rule_of, untold)} <= names, (one, reserved)


@pytest.mark.parametrize("seed", dict.fromkeys((*SEEDS, *FOUND)))
def test_cpus_that_a_reload_frees_are_for_all_who_share_them_where_rules_allow(seed: int) -> None:
    world, draw = World(MACHINES[seed % len(MACHINES)], seed), random.Random(seed)
    for _ in range(3):
        world.live(LENGTH // 3)
        first = world.engine
        world.engine, _ = first.reconfigured(others(world, draw.choice(CPUS)).config)
        before, broken = world.engine, {*world.broken()}
        world.engine, _ = before.reconfigured(first.config)
        world.engine.check()
        assert {*world.broken()} <= broken
        freed = frozenset(world.engine.supply.usable - before.supply.usable)
        for one, pod in world.pods.items():
            grant, cpus = world.engine.grants[one], world.cpus(pod.container)
            assert before.grants[one].exclusive & first.supply.usable <= grant.exclusive
            if grant.exclusive or world.engine.decisions[one].unmet:
                continue
            if any(not rule.is_anti for rule in pod.rules):
                # They may want it in one domain.
                continue
            pool = world.engine.tree.pools[grant.pool_id]
            free = frozenset(CpuSet(world.engine.snapshot().free_sharable[grant.pool_id]))
            for cpu in freed & free & frozenset(pool.sharable) - cpus:
                assert breaks_rules(world, pod, cpus | {cpu}), f"{cpu} is for {one}, too"
        world.engine = first


@pytest.mark.parametrize("seed", dict.fromkeys((*SEEDS, *TOLD_FOUND)))
def test_a_reload_tells_no_rule_that_holds(seed: int) -> None:
    world, draw = World(MACHINES[seed % len(MACHINES)], seed), random.Random(seed)
    for _ in range(3):
        world.live(LENGTH // 3)
        first = world.engine
        world.engine, _ = first.reconfigured(others(world, draw.choice(CPUS)).config)
        assert not [*told_of_none(world)]
        world.engine = first


def told_of_none(world: World) -> Iterator[str]:
    """Anti-affinity that is told at a pod, though nobody whom it names is in its domain."""
    by_path = {pod.container.path: pod for pod in world.pods.values()}
    for one, pod in world.pods.items():
        here = world.cpus(pod.container)
        for text in world.engine.decisions[one].unmet:
            names = [path for path in re.findall(r"[\w-]+/[\w-]+/main\b", text) if path in by_path]
            others_named = [by_path[path] for path in names if by_path[path] is not pod]
            level = text.removeprefix("anti-affinity at ").partition(" ")[0]
            if not text.startswith("anti-affinity at ") or not others_named:
                continue
            domains = touched(world.machine, level, here)
            if not any(
                domains & touched(world.machine, level, world.cpus(other.container))
                for other in others_named
            ):
                yield f"{one}: {text}"


def breaks_rules(world: World, pod: Pod, cpus: frozenset[int]) -> bool:
    """Whether a rule would not hold between a pod on these cpus and another one."""
    return any(
        touched(world.machine, rule.level, cpus)
        & touched(world.machine, rule.level, world.cpus(other.container))
        for other in world.pods.values()
        if other is not pod
        for owner, about in ((pod, other), (other, pod))
        for rule in owner.rules
        if rule.is_anti and rule.app == about.app
    )
