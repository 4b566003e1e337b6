"""Adoption by advice that is older than the last changes: where containers run is the truth."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.advice import Advice
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
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

NODES = machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G")
ISOLATED = machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G isolated:4-5")
CONFIG = Config(reserved_resources=Amounts(cpu="cpuset:0"))
GROUP = {"group.pinfold.dev/pod": "front"}
POD_POOL = {"pod-pool.pinfold.dev/pod": "true"}
IDLE = {"idle-cpus.pinfold.dev/pod": "socket"}
ISOLATED_IF_FREE = {"prefer-isolated-cpus.resource-policy.nri.io/pod": "true"}
HIDE = {"hide-hyperthreads.resource-policy.nri.io/pod": "true"}
OWN_IF_FREE = {"exclusive.pinfold.dev/pod": "2"}


def running(
    name: str,
    cpus: str,
    milli: int = 0,
    annotations: Mapping[str, str] = MappingProxyType({}),
    pod: str = "",
    size: int = 0,
) -> Container:
    """A container that runs; `size`: what its pod asks for as a whole, in CPUs."""
    qos = QosClass.GUARANTEED if milli else QosClass.BEST_EFFORT
    pod_id = PodId(pod or f"pod-{name}")
    whole = Resources(cpu_request_milli=1000 * size, cpu_limit_milli=1000 * size) if size else None
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=pod_id, name=pod_id, qos=qos, annotations=annotations, resources=whole),
        resources=Resources(cpu_request_milli=milli, cpu_limit_milli=milli or None),
        state=ContainerState.RUNNING,
        cpus=CpuSet.parse(cpus),
        mems=NodeSet.parse("0-3"),
    )


def advice(pool: str, own: str = "", milli: int | None = None) -> Advice:
    return Advice(pool=pool, exclusive=CpuSet.parse(own), cpu_request_milli=milli)


def penned(pool: str, rest: str, own: str = "", pen: str = "") -> Advice:
    """Advice about a container of a pen. `pen`: all of its cpus, where these are others, too."""
    slice_of_its_own, shared = CpuSet.parse(own), CpuSet.parse(rest)
    whole = slice_of_its_own | shared | CpuSet.parse(pen)
    return Advice(pool=pool, is_penned=True, exclusive=slice_of_its_own, rest=shared, pen=whole)


SOCKET, NODE, OTHER = "socket #0", "NUMA node #1", "NUMA node #2"
CASES = [
    pytest.param(
        (running("user", "1-15", 500, IDLE),),
        {"user": advice(NODE)},
        {},
        id="in a pool that explains no idle cpus so far away",
    ),
    pytest.param(
        (running("first", "4-5", 2000, GROUP), running("since", "6-7", 2000)),
        {"first": penned(NODE, "4-7")},
        {"since": "6-7"},
        id="a group that gave up cpus to one that came",
    ),
    pytest.param(
        (
            running("first", "4", 1000, POD_POOL, size=2),
            running("since", "5", 1000),
            running("shared", "6-7", 500),
        ),
        {"first": penned(NODE, "5", "4", "4-7"), "shared": advice(NODE)},
        {"first": "4", "since": "5"},
        id="a pod that gave up the cpus that nobody of it had for itself",
    ),
    pytest.param(
        (
            running("first", "2,4,8,12", 3000, {**GROUP, **HIDE}),
            running("since", "2-5,8,12-13", 4000, GROUP),
        ),
        {"first": penned("root", "2-5")},
        {},
        id="a group with hidden threads that grew",
    ),
    pytest.param(
        (
            running("first", "4", 1000, POD_POOL, "one", 2),
            running("second", "4", 1000, POD_POOL, "one", 2),
            running("since", "5", 1000),
        ),
        {"first": penned(NODE, "5", "4"), "second": penned(NODE, "5", "", "4-5")},
        {"since": "5"},
        id="two of a pod that share the slice of one",
    ),
    pytest.param(
        (running("first", "4-5", 2000, pod="one"), running("second", "12", 1000, pod="one")),
        {"first": penned(NODE, "4-5"), "second": penned(NODE, "4-5")},
        {"first": "4-5", "second": "12"},
        id="a pod that has no cpus together any more",
    ),
    pytest.param(
        (
            running("first", "4-5", 2000, POD_POOL, "one", 4),
            running("second", "6-7", 4000, POD_POOL, "one", 4),
        ),
        {"first": penned(NODE, "7", "4-6"), "second": penned(NODE, "7", "", "4-7")},
        {"first": "4-5"},
        id="a container that gave back a part of its slice",
    ),
    pytest.param(
        (
            running("first", "4-5", 2000, POD_POOL, "one", 4),
            running("second", "6-7", 4000, POD_POOL, "one", 4),
        ),
        {"first": penned(NODE, "4-7"), "second": penned(NODE, "4-7")},
        {"first": "4-5"},
        id="a container that got a slice",
    ),
    pytest.param(
        (running("first", "6-7", 500, GROUP), running("shared", "4-7", 500)),
        {"first": penned(NODE, "6-7"), "shared": advice(NODE)},
        {},
        id="a group that shares its cpus with others",
    ),
    pytest.param(
        (
            running("first", "6-7", 500, GROUP),
            running("second", "6-7", 500, GROUP),
            running("moved", "4-7", 500),
        ),
        {
            "first": penned(NODE, "5"),
            "second": penned(NODE, "5"),
            "moved": advice(OTHER, "8"),
        },
        {},
        id="a group and another that share cpus by now, and had their own",
    ),
    pytest.param(
        (
            running("first", "4-5", 1000, pod="one", size=2),
            running("since", "4-5", 2000, pod="one", size=2),
            running("shared", "6-7", 500),
        ),
        {"first": advice(NODE, "4-7"), "shared": advice(NODE)},
        {},
        id="one with cpus of its own in a pod that has some together",
    ),
    pytest.param(
        (running("grown", "6-7", 2000),),
        {"grown": advice(NODE, "6", 1000)},
        {"grown": "6-7"},
        id="one that was resized and has more of its own",
    ),
    pytest.param(
        (running("grown", "6-7", 2000),),
        {"grown": advice(NODE, "", 1500)},
        {"grown": "6-7"},
        id="one that was resized and shares no more",
    ),
    pytest.param(
        (running("shared", "4-5", 500, OWN_IF_FREE), running("other", "4-5", 500)),
        {"shared": advice(SOCKET, "2"), "other": advice(NODE)},
        {},
        id="one that shares by now, as many as it wishes for itself",
    ),
]


@pytest.mark.parametrize(("listed", "known", "own"), CASES)
def test_a_restart_moves_nobody_by_what_was_remembered_of(
    listed: Sequence[Container], known: Mapping[str, Advice], own: Mapping[str, str]
) -> None:
    engine = Engine(NODES, CONFIG)
    hints = {ContainerId(key): one for key, one in known.items()}
    adopted = engine.synchronize(listed, hints)
    assert [str(one) for one in adopted.changes] == []
    engine.check()
    grants = engine.grants
    assert {one: str(grants[one].exclusive) for one in grants if grants[one].exclusive} == own


def test_isolated_cpus_that_a_container_got_since_are_its_own() -> None:
    grown = running("grown", "4-5", 2000, ISOLATED_IF_FREE)
    engine = Engine(ISOLATED, CONFIG)
    known = {grown.id: advice("NUMA node #1", "4")}
    assert engine.synchronize([grown], known).changes == ()
    assert str(engine.grants[grown.id].exclusive) == "4-5"
    assert str(engine.grants[grown.id].isolated) == "4-5"


def test_who_was_resized_while_nobody_looked_keeps_the_cpu_that_was_its_own() -> None:
    """It asks for more, and runs where it did."""
    mixed = running("mixed", "4-7", 2500)
    engine = Engine(NODES, CONFIG)
    assert engine.synchronize([mixed], {mixed.id: advice("NUMA node #1", "6", 1500)}).changes == ()
    assert str(engine.grants[mixed.id].exclusive) == "6"


def test_a_pod_keeps_the_slice_of_who_is_gone_though_a_stranger_began_there() -> None:
    """What others of it share tells nothing about a slice."""
    left = running("left", "6-7", 4000, POD_POOL, "one", 4)
    stranger = running("stranger", "4-5", 500)
    engine = Engine(NODES, CONFIG)
    adopted = engine.synchronize([left, stranger], {left.id: penned(NODE, "6-7", pen="4-7")})
    assert [str(pen.exclusive) for pen in engine.snapshot().pens.values()] == ["4-7"]
    assert stranger.id in {one.container_id for one in adopted.changes}
    engine.check()
