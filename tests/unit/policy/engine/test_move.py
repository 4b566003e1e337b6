"""Moves of containers that run: what they get elsewhere, and why they may have to stay."""

from collections.abc import Mapping

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.policy.engine.pods_with_wishes import CONFIG, MACHINE, placed, pool_named, wishing

NODE_0, NODE_1, NODE_2 = "NUMA node #0", "NUMA node #1", "NUMA node #2"


def moved(engine: Engine, name: str, pool: str) -> str:
    """Where a container is after a move, or why it is not elsewhere."""
    before = engine.snapshot()
    decision = engine.move(ContainerId(name), pool_named(engine, pool))
    engine.check()
    if isinstance(decision.result, Refusal):
        assert engine.grants == before.grants
        return decision.result.reason
    assert engine.decisions[ContainerId(name)] is decision
    return f"{decision.pool}: cpus {decision.pinning.cpus}, memory {decision.pinning.mems}"


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param(wishing("a", 500), f"{NODE_2}: cpus 8-11, memory 2", id="a share"),
        pytest.param(wishing("a", 2000), f"{NODE_2}: cpus 8-9, memory 2", id="exclusive cpus"),
        pytest.param(wishing("a", 0), f"{NODE_2}: cpus 8-11, memory 2", id="a request of nothing"),
    ],
)
def test_a_container_goes_with_all_that_it_asks_for(container: Container, expected: str) -> None:
    engine = placed((container, NODE_1))
    assert moved(engine, "a", NODE_2) == expected
    assert moved(engine, "a", NODE_1) != expected


def test_others_are_told_of_cpus_that_a_move_takes_or_gives_back() -> None:
    engine = placed((wishing("a", 2000), NODE_1), (wishing("b"), NODE_1), (wishing("c"), NODE_2))
    changes = engine.move(ContainerId("a"), pool_named(engine, NODE_2)).changes
    told = {one.container_id: str(one.after.cpus) for one in changes}
    assert told == {"b": "4-7", "c": "10-11"}


STAYING: Mapping[str, tuple[Container, str]] = {
    "the reserved cpus are in one place": (
        wishing("a", more={"prefer-reserved-cpus.resource-policy.nri.io/pod": "true"}),
        "it runs on reserved cpus",
    ),
    "preserved cpus are not touched": (
        wishing("a", more={"cpu.preserve.resource-policy.nri.io/pod": "true"}),
        "it runs on preserve cpus",
    ),
    "preserved memory is not touched": (
        wishing("a", more={"memory.preserve.resource-policy.nri.io/pod": "true"}),
        "its memory is not to be touched",
    ),
}


@pytest.mark.parametrize(("container", "reason"), STAYING.values(), ids=STAYING)
def test_some_have_to_stay(container: Container, reason: str) -> None:
    engine = Engine(MACHINE, CONFIG)
    engine.create(container)
    assert moved(engine, "a", NODE_2) == reason


def test_a_container_stays_with_its_devices() -> None:
    hint = Hint(provider="nic", origin=HintOrigin.DEVICE, numa_nodes=NodeSet.of(1))
    engine = Engine(MACHINE, CONFIG)
    engine.create(structs.replace(wishing("a"), hints=(hint,)))
    assert moved(engine, "a", NODE_2) == "it is where its devices are"


FULL: Mapping[str, tuple[Container, Container, str]] = {
    "no room for a share": (
        wishing("a", 999),
        wishing("b", 3002),
        f"{NODE_2}: shared CPU: wanted 999m, available 998m",
    ),
    "no room for exclusive cpus": (
        wishing("a", 2000),
        wishing("b", 2500),
        f"{NODE_2}: exclusive CPUs: wanted 2, available 1",
    ),
    "nobody takes the last cpu of those who asked for none": (
        wishing("a", 4000),
        wishing("b", 0),
        f"{NODE_2}: exclusive CPUs: wanted 4, available 3",
    ),
}


@pytest.mark.parametrize(("mover", "resident", "reason"), FULL.values(), ids=FULL)
def test_a_full_pool_takes_nobody(mover: Container, resident: Container, reason: str) -> None:
    engine = placed((mover, NODE_1), (resident, NODE_2))
    assert moved(engine, "a", NODE_2) == reason


def test_nobody_is_moved_off_its_memory_for_somebody_else() -> None:
    engine = placed(
        (wishing("a", memory_mib=2000), NODE_1), (wishing("b", memory_mib=3000), NODE_2)
    )
    assert "memory" in moved(engine, "a", NODE_2)


def test_a_container_that_is_not_there_cannot_be_moved() -> None:
    engine = Engine(MACHINE, CONFIG)
    decision = engine.move(ContainerId("a"), engine.tree.root.id)
    assert decision.result == Refusal(reason="container 'a' holds no cpus to move")


def test_a_copy_of_a_snapshot_is_the_same_engine_and_leaves_the_first_alone() -> None:
    machine = machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:4G isolated:14-15")
    engine = Engine(machine, Config(reserved_resources=CONFIG.reserved_resources))
    sizes = {"a": 2000, "b": 700, "c": 0, "d": 2500}
    for name, milli in sizes.items():
        assert isinstance(engine.create(wishing(name, milli, {"b": 3})).result, Grant)
    engine.stop(ContainerId("d"))
    before = engine.snapshot()
    copy = Engine.of(before)
    copy.check()
    after = copy.snapshot()
    for field in ("containers", "grants", "decisions", "pinnings", "classified", "room", "memory"):
        assert getattr(after, field) == getattr(before, field), field
    copy.move(ContainerId("b"), pool_named(copy, NODE_2))
    copy.stop(ContainerId("a"))
    assert engine.grants == before.grants
    assert copy.create(wishing("e", 500)).pinning.cpus is not None
    assert CpuSet.parse("14-15").isdisjoint(copy.snapshot().cpus_of(ContainerId("e")) or CpuSet())
