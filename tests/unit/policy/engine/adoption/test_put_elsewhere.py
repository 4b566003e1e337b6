"""Adoption where another program put a container on the cpus of others while nobody looked."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import ContainerId
from pinfold.topology.sets.cpuset import CpuSet

from .test_older_advice import CONFIG, GROUP, NODES, POD_POOL, running


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
