"""Claims: cpus that a driver gave to a container are its own for as long as it runs."""

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Resources
from pinfold.policy.model.grant import Grant
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import GIB, container_of, engine_of, placed

MACHINE = "socket:2 core:3 thread:2 mem:4G isolated:8-9"
CLAIMER = replace(container_of("claimer", 3), claimed=CpuSet.parse("1-2,8"))


def _node() -> Engine:
    engine = engine_of(MACHINE)
    engine.create(CLAIMER)
    assert str(engine.grants[CLAIMER.id].exclusive) == "1-2,8"
    return engine


@pytest.mark.parametrize("milli", [500, 1000, 3000, 5000])
def test_a_resize_leaves_a_claim_as_it_is(milli: int) -> None:
    engine = _node()
    wanted = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=GIB // 32,
        memory_limit_bytes=GIB // 32,
    )
    decision = engine.update(CLAIMER.id, wanted)
    engine.check()
    assert isinstance(decision.result, Grant), decision.result
    assert str(decision.result.exclusive) == "1-2,8"
    assert str(decision.result.isolated) == "8"
    assert decision.result.memory_bytes == GIB // 32


def test_nobody_gets_cpus_of_a_claim_after_a_resize() -> None:
    engine = _node()
    engine.update(CLAIMER.id, Resources(cpu_request_milli=1000))
    assert CpuSet.parse(placed(engine, container_of("new", 4))).isdisjoint(CpuSet.parse("1-2,8"))
