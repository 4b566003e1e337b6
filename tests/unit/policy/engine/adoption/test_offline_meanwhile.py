"""Adoption where cpus went offline, and others began on all cpus, while nobody looked."""

from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import ContainerId, Resources
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.topology.model.offline import without

from .test_older_advice import CONFIG, NODES, POD_POOL, running


def adopted(engine: Engine, gone: int) -> Engine:
    """Another daemon, without a cpu; a stranger runs on all that are left."""
    before = engine.snapshot()
    again = Engine(without(NODES, CpuSet.of(gone)), CONFIG)
    again.synchronize([*before.running(), running("stranger", "0-15")], before.advice())
    again.check()
    return again


def test_a_container_keeps_the_cpu_of_its_own_that_is_left_and_gets_another() -> None:
    engine, own = Engine(NODES, CONFIG), running("own", "6-7", 2000)
    engine.synchronize([own])
    assert str(adopted(engine, 6).grants[own.id].exclusive) == "4,7"


def test_a_container_that_lost_a_cpu_by_which_it_grew_gives_back_as_many_as_before() -> None:
    engine, own = Engine(NODES, CONFIG), running("own", "4", 2000)
    engine.create(replace(own, cpus=None))
    engine.update(own.id, Resources(cpu_request_milli=3000, cpu_limit_milli=3000))
    assert [str(one) for one in engine.grants[own.id].grown] == ["6"]
    again = adopted(engine, 6)
    again.update(own.id, Resources(cpu_request_milli=2000, cpu_limit_milli=2000))
    again.update(own.id, Resources(cpu_request_milli=1000, cpu_limit_milli=1000))
    again.check()
    assert len(again.grants[own.id].exclusive) == 1


def test_a_pod_keeps_the_cpus_that_are_left_of_a_slice_and_of_the_rest() -> None:
    engine = Engine(NODES, CONFIG)
    for name, milli in (("sliced", 2000), ("sharing", 4000)):
        one = running(name, "4", milli, POD_POOL, "one", 4)
        engine.create(replace(one, cpus=None))
    before = engine.snapshot()
    (pen,) = before.pens.values()
    gone = min(before.grants[ContainerId("sliced")].exclusive)
    now = adopted(engine, gone).snapshot()
    assert [one.exclusive for one in now.pens.values()] == [pen.exclusive - CpuSet.of(gone)]
