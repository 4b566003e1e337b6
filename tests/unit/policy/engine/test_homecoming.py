"""Containers that were driven out come home also where somebody asks for less than before."""

from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, ContainerState, Resources
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import apart, container_of, cpus, engine_of, placed, term

NODES = "socket:2 numa:2 core:2 mem:4G"
"""NUMA nodes of two cpus each: 0 (reserved) and 1, 2-3, 4-5, 6-7."""
THIRD = {"pool-name.pinfold.dev/pod": "NUMA node #2"}
SECOND = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
LARGE_NODES = "socket:2 numa:2 core:4 mem:4G"
"""NUMA nodes of four cpus each."""


def resources(container: Container, cpu: int) -> Resources:
    milli = cpu * 1000
    return replace(container.resources, cpu_request_milli=milli, cpu_limit_milli=milli)


def test_who_was_driven_out_comes_home_when_its_driver_asks_for_less() -> None:
    engine = engine_of(NODES)
    quiet = container_of("quiet", 0, apart(term("core", "noisy")), annotations=THIRD)
    taker = container_of("taker", 2, annotations=THIRD)
    assert [placed(engine, one) for one in (quiet, taker)] == ["4-5", "4-5"]
    away = cpus(engine, quiet)
    assert away != "4-5"
    decision = engine.update(taker.id, resources(taker, 1))
    engine.check()
    assert isinstance(decision.result, Grant)
    assert str(decision.result.exclusive) == "4"
    assert cpus(engine, quiet) == "5"
    (change,) = decision.changes
    assert (change.container_id, str(change.before.cpus)) == (quiet.id, away)
    assert str(change.after.cpus) == "5"


def test_who_comes_home_as_another_shrinks_is_told_once() -> None:
    """What it was lent for a moment is told to nobody."""
    engine = engine_of(NODES)
    quiet = container_of("quiet", 0, apart(term("core", "noisy")), annotations=THIRD)
    taker = container_of("taker", 2, annotations=THIRD)
    for one in (quiet, taker):
        placed(engine, one)
    changes = engine.update(taker.id, resources(taker, 1)).changes
    assert [(one.container_id, one.after) for one in changes] == [
        (quiet.id, engine.pinning(quiet.id))
    ]
    assert engine.decisions[taker.id].changes == changes


def test_who_was_driven_out_comes_home_when_a_pod_with_a_pen_shrinks() -> None:
    engine = engine_of("socket:2 numa:2 core:4 mem:4G")
    quiet = container_of("quiet", 0, apart(term("core", "noisy")), annotations=THIRD)
    placed(engine, quiet)
    taker = container_of("taker", 1, annotations={**THIRD, "pod-pool.pinfold.dev/pod": "true"})
    pod = replace(taker.pod, resources=resources(taker, 4))
    taker = replace(taker, pod=pod)
    assert placed(engine, taker) == "8"
    assert cpus(engine, quiet) == "12-15"
    changes = engine.resize_pod(taker.pod, resources(taker, 2))
    engine.check()
    assert not isinstance(changes, Refusal)
    assert [one.container_id for one in changes] == [quiet.id]
    assert cpus(engine, quiet) == "10-11"


def pool_of(engine: Engine, container: Container) -> str:
    return engine.tree.pools[engine.grants[container.id].pool_id].name


def crowd_of(count: int, pool: Mapping[str, str], cpu: float = 0) -> list[Container]:
    """Containers that insist on a pool, and on a core without noise."""
    rules = apart(term("core", "noisy"))
    number = pool["pool-name.pinfold.dev/pod"][-1]
    names = (f"quiet-{number}-{n}" for n in range(count))
    return [container_of(one, cpu, rules, fails=True, annotations=pool) for one in names]


def driven_from(
    engine: Engine, pool: Mapping[str, str], cpu: int, count: int
) -> tuple[Container, list[Container]]:
    """One that has all cpus of a pool, and so many that it drove out."""
    crowd = crowd_of(count, pool)
    for one in crowd:
        placed(engine, one)
    taker = container_of(f"driver of {crowd[0].id}", cpu, annotations=pool)
    placed(engine, taker)
    assert {pool_of(engine, one) for one in crowd}.isdisjoint(pool.values())
    return taker, crowd


def driven_from_by_a_restart(
    cpu: float, count: int = 1
) -> tuple[Engine, Container, list[Container]]:
    """The same of one that restarts: who was placed meanwhile may have asked for cpus, too."""
    engine = engine_of(NODES)
    owner = container_of("owner", 2, fails=True, annotations=THIRD)
    placed(engine, owner)
    engine.stop(owner.id)
    crowd = crowd_of(count, THIRD, cpu)
    for one in crowd:
        placed(engine, one)
    back = replace(owner, id=ContainerId("back"))
    assert placed(engine, back) == "4-5"
    assert "NUMA node #2" not in {pool_of(engine, one) for one in crowd}
    return engine, back, crowd


def test_who_has_cpus_at_home_again_comes_before_many_whose_home_is_still_full() -> None:
    engine = engine_of(LARGE_NODES)
    driven_from(engine, THIRD, 4, count=40)
    taker, (last,) = driven_from(engine, SECOND, 4, count=1)
    engine.update(taker.id, resources(taker, 3))
    engine.check()
    assert pool_of(engine, last) == "NUMA node #1"


def test_a_crowd_that_has_cpus_at_home_again_comes_home_in_a_few_events() -> None:
    engine = engine_of(LARGE_NODES)
    driven_from(engine, THIRD, 4, count=40)
    taker, crowd = driven_from(engine, SECOND, 4, count=20)
    for cpu in (3, 2):
        engine.update(taker.id, resources(taker, cpu))
        engine.check()
    assert {pool_of(engine, one) for one in crowd} == {"NUMA node #1"}


def test_who_finds_cpus_but_no_room_at_home_keeps_nobody_else_away() -> None:
    engine, back, crowd = driven_from_by_a_restart(0.05, count=30)
    taker, (last,) = driven_from(engine, SECOND, 2, count=1)
    greedy = replace(resources(back, 2), cpu_request_milli=1960, cpu_limit_milli=1960)
    engine.update(back.id, greedy)
    assert engine.grants[back.id].shared_milli == 960
    assert {pool_of(engine, one) for one in crowd} == {"socket #1"}
    engine.update(taker.id, resources(taker, 1))
    engine.check()
    assert pool_of(engine, last) == "NUMA node #1"


def reloaded(engine: Engine) -> Engine:
    return engine.reconfigured(engine.config)[0]


def restarted(engine: Engine) -> Engine:
    """The engine of a daemon that has just started, with what an older one saved."""
    snapshot = engine.snapshot()
    found = engine_of(NODES)
    running = [
        replace(one, state=ContainerState.RUNNING, cpus=snapshot.pinnings[one.id].cpus)
        for one in engine.containers.values()
        if one.id in engine.grants
    ]
    found.synchronize(running, snapshot.advice())
    return found


@pytest.mark.parametrize("again", [reloaded, restarted])
@pytest.mark.parametrize("cpu", [0, 0.05])
def test_who_was_driven_out_before_a_reload_or_a_restart_of_the_daemon_comes_home_later(
    again: Callable[[Engine], Engine], cpu: float
) -> None:
    engine, taker, (quiet,) = driven_from_by_a_restart(cpu)
    away = cpus(engine, quiet)
    engine = again(engine)
    assert cpus(engine, quiet) == away
    engine.remove(taker.id)
    engine.check()
    assert (cpus(engine, quiet), pool_of(engine, quiet)) == ("4-5", "NUMA node #2")
    assert engine.decisions[quiet.id].unmet == ()


@pytest.mark.parametrize("cpu", [0, 0.05])
def test_who_restarts_where_it_was_driven_to_comes_home_later(cpu: float) -> None:
    engine, taker, (quiet,) = driven_from_by_a_restart(cpu)
    away = cpus(engine, quiet)
    engine.stop(quiet.id)
    back = replace(quiet, id=ContainerId("quiet-again"))
    assert placed(engine, back) == away
    engine.remove(taker.id)
    engine.check()
    assert (cpus(engine, back), pool_of(engine, back)) == ("4-5", "NUMA node #2")
    assert engine.decisions[back.id].unmet == ()


def test_who_has_come_home_after_a_reload_stays_there_on_all_of_its_pool() -> None:
    engine, taker, (quiet,) = driven_from_by_a_restart(0)
    engine = reloaded(engine)
    engine.update(taker.id, resources(taker, 1))
    assert cpus(engine, quiet) == "5"
    engine = reloaded(engine)
    engine.remove(taker.id)
    engine.check()
    assert cpus(engine, quiet) == "4-5"


def test_who_wants_a_pool_but_does_not_insist_stays_where_it_was_adopted() -> None:
    engine = engine_of(NODES)
    soft = replace(
        container_of("soft", 0.05, annotations=THIRD),
        state=ContainerState.RUNNING,
        cpus=CpuSet.parse("2-3"),
    )
    other = replace(container_of("other", 1), state=ContainerState.RUNNING, cpus=CpuSet.parse("4"))
    engine.synchronize([soft, other])
    engine.remove(other.id)
    assert cpus(engine, soft) == "2-3"


def test_who_insists_and_refuses_to_be_moved_stays_where_it_was_adopted() -> None:
    engine = engine_of(NODES)
    annotations = {**THIRD, "on-unsatisfiable.pinfold.dev/pod": "fail"}
    still, other = (
        replace(
            container_of(name, 0.05, annotations={**annotations, **more}),
            state=ContainerState.RUNNING,
            cpus=CpuSet.parse("2-3"),
        )
        for name, more in (("still", {"move.pinfold.dev/pod": "never"}), ("other", {}))
    )
    taker = replace(container_of("taker", 1), state=ContainerState.RUNNING, cpus=CpuSet.parse("4"))
    engine.synchronize([still, other, taker])
    engine.remove(taker.id)
    assert (cpus(engine, still), cpus(engine, other)) == ("2-3", "4-5")
