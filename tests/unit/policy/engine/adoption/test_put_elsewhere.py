"""Adoption where another program put a container on the cpus of others while nobody looked."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.decision import Adopted
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.topology.sets.cpuset import CpuSet

from .test_older_advice import CONFIG, GROUP, HIDE, NODES, POD_POOL, running


def restarted(engine: Engine, name: str, cpus: CpuSet) -> Engine:
    """Another daemon, which remembers all of the first; one container was put on other cpus.

    And one began on all that there are.
    """
    before = engine.snapshot()
    listed = [replace(one, cpus=cpus) if one.id == name else one for one in before.running()]
    again = Engine(NODES, CONFIG)
    again.synchronize([*listed, running("since", "0-15")], before.advice())
    again.check()
    return again


def own(engine: Engine) -> Mapping[str, str]:
    snapshot = engine.snapshot()
    held = {**snapshot.pens, **snapshot.grants}
    return {key: str(one.exclusive) for key, one in held.items() if one.exclusive}


@pytest.mark.parametrize("annotations", [POD_POOL, GROUP], ids=["of a pod", "of a group"])
@pytest.mark.parametrize("is_in_part", [True, False], ids=["a part", "all"])
def test_a_pen_loses_no_cpus_to_one_that_was_put_there(
    annotations: Mapping[str, str], is_in_part: bool
) -> None:
    engine = Engine(NODES, CONFIG)
    for name, milli in (("sliced", 2000), ("sharing", 2000)):
        one = running(name, "4", milli, annotations, "one", 4)
        engine.create(replace(one, cpus=None))
    engine.create(replace(running("other", "4", 500), cpus=None))
    (pen,) = engine.snapshot().pens.values()
    cpus = CpuSet.of(min(pen.exclusive)) if is_in_part else pen.exclusive
    again = restarted(engine, "other", cpus)
    assert own(again) == own(engine)
    now = again.snapshot().cpus_of(ContainerId("other"))
    assert now is not None
    assert now.isdisjoint(pen.exclusive)


NOTHING: Mapping[str, str] = MappingProxyType({})


@pytest.mark.parametrize("annotations", [NOTHING, POD_POOL])
def test_who_was_put_on_others_cpus_takes_none_of_them(annotations: Mapping[str, str]) -> None:
    """Neither has it these for itself, nor does its pen go there."""
    engine = Engine(NODES, CONFIG)
    one = running("moved", "4", 2000, annotations, "one", 2)
    engine.create(replace(one, cpus=None))
    engine.create(replace(running("other", "4", 2000), cpus=None))
    held = engine.grants[ContainerId("other")].exclusive
    again = restarted(engine, "moved", held)
    assert again.grants[ContainerId("other")].exclusive == held


def stopped(engine: Engine, name: str, cpus: CpuSet, gone: str = "") -> tuple[Engine, Adopted]:
    """Another daemon after a clean stop; one was put on other cpus meanwhile, and one removed."""
    before = engine.snapshot()
    listed = [replace(one, cpus=cpus) if one.id == name else one for one in before.running()]
    again = Engine(NODES, CONFIG)
    advice = before.final_advice()
    adopted = again.synchronize([one for one in listed if one.id != gone], advice)
    again.check()
    return again, adopted


@pytest.mark.parametrize("annotations", [POD_POOL, GROUP], ids=["of a pod", "of a group"])
def test_after_a_clean_stop_a_pen_loses_none_either_where_another_one_was_removed(
    annotations: Mapping[str, str],
) -> None:
    engine = Engine(NODES, CONFIG)
    for name, milli in (("sliced", 2000), ("sharing", 2000)):
        one = running(name, "4", milli, annotations, "one", 4)
        engine.create(replace(one, cpus=None))
    for name in ("other", "gone"):
        engine.create(replace(running(name, "4", 500), cpus=None))
    (pen,) = engine.snapshot().pens.values()
    again, adopted = stopped(engine, "other", CpuSet.of(min(pen.exclusive)), "gone")
    assert own(again) == own(engine)
    assert [one.container_id for one in adopted.changes] == ["other"]
    assert again.grants[ContainerId("other")] == engine.grants[ContainerId("other")]


@pytest.mark.parametrize("annotations", [NOTHING, HIDE], ids=["plain", "with hidden threads"])
def test_after_a_clean_stop_who_was_put_on_free_cpus_is_led_back(
    annotations: Mapping[str, str],
) -> None:
    engine = Engine(NODES, CONFIG)
    decision = engine.create(replace(running("moved", "4", 4000, annotations), cpus=None))
    held = engine.grants[ContainerId("moved")].exclusive
    free = engine.supply.usable - held
    again, adopted = stopped(engine, "moved", CpuSet.collect([*free][-4:]))
    assert again.grants[ContainerId("moved")].exclusive == held
    (change,) = adopted.changes
    assert change.after.cpus == decision.pinning.cpus


@pytest.mark.parametrize("before", [500, 3500])
def test_one_that_was_resized_after_a_clean_stop_has_for_itself_what_it_alone_runs_on(
    before: int,
) -> None:
    engine = Engine(NODES, CONFIG)
    engine.create(one := replace(running("one", "4", before), cpus=None))
    assert str(engine.snapshot().cpus_of(one.id)) == "4-7"
    (listed,) = engine.snapshot().running()
    resized = replace(listed, resources=running("one", "4", 4000).resources)
    again = Engine(NODES, CONFIG)
    assert not again.synchronize([resized], engine.snapshot().final_advice()).changes
    assert str(again.grants[one.id].exclusive) == "4-7"
    assert again.decisions[one.id].degraded == ""


def test_one_of_the_same_pod_that_was_put_on_its_cpus_after_a_clean_stop_takes_none() -> None:
    engine = Engine(NODES, CONFIG)
    engine.create(one := replace(running("one", "4", 2000, pod="p"), cpus=None))
    own = engine.grants[one.id].exclusive
    late = replace(running("late", "4", 2000, pod="p"), cpus=own)
    again = Engine(NODES, CONFIG)
    listed = [late, *engine.snapshot().running()]
    again.synchronize(listed, engine.snapshot().final_advice())
    again.check()
    assert again.grants[one.id].exclusive == own


def test_after_a_clean_stop_who_was_told_no_cpus_is_left_where_it_runs() -> None:
    unpinned = replace(CONFIG, pin_cpu=False)
    engine = Engine(NODES, unpinned)
    engine.create(replace(running("one", "4", 2000), cpus=None))
    before = engine.snapshot()
    listed = [replace(one, cpus=CpuSet.parse("12-13")) for one in before.running()]
    again = Engine(NODES, CONFIG)
    assert not again.synchronize(listed, before.final_advice()).changes
    assert str(again.grants[ContainerId("one")].exclusive) == "12-13"


def test_not_everybody_has_landed_while_cpus_are_kept_that_one_has_left() -> None:
    engine = Engine(NODES, CONFIG)
    engine.create(replace(running("one", "4", 2000), cpus=None))
    assert engine.snapshot().has_landed
    held = engine.left_cpus.held(ContainerId("one"))
    assert held is not None
    (far,) = [pool for pool in engine.tree.pools if pool.name == "NUMA node #3"]
    assert isinstance(engine.move(ContainerId("one"), far.id).result, Grant)
    engine.left_cpus.keep([held])
    assert not engine.snapshot().has_landed
    engine.left_cpus.let_go([ContainerId("one")])
    assert engine.snapshot().has_landed


@pytest.mark.parametrize("put_on", ["4,6", "4-6", "4,6-7"])
def test_one_that_hides_threads_leaves_the_cpus_beside_its_own_on_which_it_was_put(
    put_on: str,
) -> None:
    """It is told so at once: later on nobody would tell it that another one has got them."""
    engine = Engine(NODES, CONFIG)
    engine.create(one := replace(running("one", "4", 2000, HIDE), cpus=None))
    assert str(engine.grants[one.id].exclusive) == "4-5"
    again = restarted(engine, "one", CpuSet.parse(put_on))
    told = again.pinning(one.id)
    assert told is not None
    assert str(told.cpus) == "4"
    for count in range(14):
        again.create(replace(running(f"later-{count}", "4", 1000), cpus=None))
    owned = [str(grant.exclusive) for grant in again.grants.values()]
    assert "6" in owned
