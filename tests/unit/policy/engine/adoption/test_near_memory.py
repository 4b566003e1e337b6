"""Running containers that have to leave all their cpus get others near their memory."""

from collections.abc import Mapping

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.topology.model.offline import without

MACHINE = machine_from_spec("socket:4 numa:1 core:4 mem:4G")
CONFIG = Config(reserved_resources=Amounts(cpu="cpuset:0"))
GUARANTEED, BURSTABLE = QosClass.GUARANTEED, QosClass.BURSTABLE
EXCLUSIVE = "exclusive.pinfold.dev/pod"
NEAR_LAST = Hint(provider="test", origin=HintOrigin.TEST, numa_nodes=NodeSet.of(3))


def running(
    name: str,
    milli: int,
    cpus: str,
    mems: str,
    *,
    qos: QosClass = GUARANTEED,
    hints: tuple[Hint, ...] = (),
    annotations: Mapping[str, str] | None = None,
) -> Container:
    limited = qos is GUARANTEED
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=PodId(name), name=name, qos=qos, annotations=annotations or {}),
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli if limited else None,
            memory_request_bytes=2**20,
            memory_limit_bytes=2**20,
        ),
        state=ContainerState.RUNNING,
        hints=hints,
        cpus=CpuSet.parse(cpus),
        mems=NodeSet.parse(mems),
    )


def node_of(engine: Engine, name: str) -> set[int]:
    pinning = engine.pinning(ContainerId(name))
    assert pinning is not None
    assert pinning.cpus
    return {cpu // 4 for cpu in pinning.cpus}


def engine_that_adopts(container: Container) -> Engine:
    """Beside one because of which all others have more room than that of cpu 6, which is gone."""
    engine = Engine(without(MACHINE, CpuSet.of(6)), CONFIG)
    engine.synchronize([running("other", 2000, "4-5", "1"), container])
    memory = engine.pinning(container.id)
    assert memory is not None
    assert memory.mems
    assert len(memory.mems) == 1
    engine.check()
    return engine


@pytest.mark.parametrize(
    ("container", "node"),
    [
        pytest.param(running("a", 1000, "6", "1"), 1, id="one with a cpu of its own"),
        pytest.param(running("a", 500, "6", "1"), 1, id="one that shares"),
        pytest.param(running("a", 500, "6", "1", qos=BURSTABLE), 1, id="one that may burst"),
        pytest.param(
            running("a", 500, "6", "1", qos=BURSTABLE, annotations={EXCLUSIVE: "14"}),
            1,
            id="one that shares, as there are not as many as it wants for itself",
        ),
        pytest.param(running("a", 2000, "6", "1"), 2, id="one for whom too few are left there"),
        pytest.param(running("a", 1000, "6", "0-3"), 2, id="one with memory everywhere, anywhere"),
        pytest.param(
            running("a", 1000, "6", "1", hints=(NEAR_LAST,)), 3, id="one with hints, as they say"
        ),
    ],
)
def test_who_loses_all_cpus_stays_near_its_memory_where_it_can(
    container: Container, node: int
) -> None:
    engine = engine_that_adopts(container)
    assert node_of(engine, "a") == {node}
    assert node_of(engine, "other") == {1}


def test_the_reason_is_said() -> None:
    engine = engine_that_adopts(running("a", 1000, "6", "1"))
    assert engine.decisions[ContainerId("a")].decided_by == "hints"


def penned(name: str, milli: int, key: str, *, qos: QosClass = GUARANTEED) -> Container:
    """One of several on a cpu that is gone, which have their cpus together."""
    one = running(name, milli, "6", "1", qos=qos, annotations={key: "true"})
    pod = structs.replace(one.pod, id=PodId("pen"), name="pen", uid="pen")
    return structs.replace(one, pod=pod)


@pytest.mark.parametrize("key", ["pod-pool.pinfold.dev/pod", "group.pinfold.dev/pod"])
@pytest.mark.parametrize(
    ("milli", "qos"),
    [
        pytest.param(1000, GUARANTEED, id="with cpus of its own"),
        pytest.param(500, GUARANTEED, id="with a cpu of its own"),
        pytest.param(500, BURSTABLE, id="that shares"),
    ],
)
def test_a_pen_that_loses_all_cpus_stays_near_its_memory(
    key: str, milli: int, qos: QosClass
) -> None:
    engine = Engine(without(MACHINE, CpuSet.of(6)), CONFIG)
    inside = [penned(name, milli, key, qos=qos) for name in ("a", "b")]
    other = running("other", 1000, "4", "1")
    engine.synchronize([other, *inside])
    engine.check()
    assert [node_of(engine, one.name) for one in (other, *inside)] == [{1}, {1}, {1}]
    assert len({engine.grants[one.id].pen for one in inside} - {None}) == 1
    requests = [engine.snapshot().classified[one.id].request for one in inside]
    assert not any(one.hints for one in requests), "it is no wish for later"
