"""Containers that are left as they run for a fault of ours, as newcomers find them."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.adoption import takeover
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerState
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet

from .ruled_pods import apart, container_of, engine_of, reason, term


def test_a_refusal_may_name_one_that_is_left_as_it_runs() -> None:
    """Whoever makes room is looked for among all that have cpus of their own."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    alone = replace(
        container_of("alone", 3), state=ContainerState.RUNNING, cpus=CpuSet.parse("4-6")
    )
    found = engine.synchronize([alone], unread={alone.id: ValueError("odd")})
    assert found.faults
    engine.create(container_of("other", 2))
    rules = apart(term("numa", "other"))
    refused = engine.create(container_of("newcomer", 3, rules, fails=True))
    assert reason(refused).endswith("stop or move one of default/other/main, default/alone/main")
    engine.check()


def test_one_that_restarts_learns_who_is_left_as_it_runs_on_its_cpus() -> None:
    engine = engine_of("socket:1 core:4 mem:4G")
    first = container_of("first", 3)
    engine.create(first)
    had = engine.grants[first.id].exclusive
    engine.stop(first.id)
    alone = replace(container_of("alone", 3), state=ContainerState.RUNNING, cpus=had)
    engine.synchronize([alone], unread={alone.id: ValueError("odd")})
    again = engine.create(replace(first, id=type(first.id)("again")))
    assert reason(again).endswith(
        f"the CPUs {had} that it had before its restart are {alone.path}'s"
    )


SHARES_NODE_1 = replace(
    container_of("odd", 2, shares=True), state=ContainerState.RUNNING, cpus=CpuSet.parse("4-7")
)
HERE = "are also run on by default/odd/main: it is left as it runs for a fault of ours"


def told_of(owner: Container) -> Advice:
    """What is remembered of one that has its cpus for itself."""
    return Advice(pool="NUMA node #1", exclusive=owner.cpus or NO_CPUS, told=owner.cpus)


def beside_odd(monkeypatch: pytest.MonkeyPatch, kind: str) -> Engine:
    """Two NUMA nodes, on the second of which one shares all cpus that is left as it runs."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    if kind == "all":
        monkeypatch.setattr(takeover, "adopted_all", None)
    found = engine.synchronize([SHARES_NODE_1], unread={SHARES_NODE_1.id: ValueError("odd")})
    assert found.fault if kind == "all" else found.faults
    monkeypatch.undo()
    if kind == "a reload":
        config = config_from_values({"reservedResources": {"cpu": "cpuset:0"}, "pinMemory": False})
        engine, _ = engine.reconfigured(config)
    assert engine.decisions[SHARES_NODE_1.id].fault
    return engine


@pytest.mark.parametrize("kind", ["one", "all", "a reload"])
def test_newcomers_get_others_than_the_cpus_that_it_shares_while_there_are_any(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = beside_odd(monkeypatch, kind)
    first = engine.create(container_of("first", 2))
    assert str(engine.grants[first.container_id].exclusive) in ("1-2", "2-3")
    assert not first.problems
    # There is no other place: that is told, and nobody is refused.
    second = engine.create(container_of("second", 3))
    assert engine.grants[second.container_id].exclusive <= CpuSet.parse("4-7")
    assert second.degraded.endswith(HERE)
    # Nothing that a runtime refuses, which is told of by the runtime's own words.
    assert not engine.stuck_containers.refused
    assert engine.snapshot().has_landed
    assert not engine.snapshot().advice()[SHARES_NODE_1.id].stuck
    engine.stuck_containers.note({})
    assert engine.decisions[second.container_id].degraded.endswith(HERE)
    engine.stop(SHARES_NODE_1.id)
    assert not engine.stuck_containers.cpus
    assert not engine.decisions[second.container_id].problems
    engine.check()


def test_who_is_there_already_is_told_who_runs_on_its_cpus() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    owner = replace(
        container_of("owner", 2), state=ContainerState.RUNNING, cpus=CpuSet.parse("4-5")
    )
    advice = {owner.id: told_of(owner)}
    engine.synchronize([owner, SHARES_NODE_1], advice, unread={SHARES_NODE_1.id: ValueError("odd")})
    assert engine.grants[owner.id].exclusive == owner.cpus
    assert engine.decisions[owner.id].degraded.endswith(f"cpus 4-5 of its own {HERE}")
    again = [owner, SHARES_NODE_1]
    engine.synchronize(again, engine.snapshot().advice())
    assert not engine.decisions[owner.id].problems
