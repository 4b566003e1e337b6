"""Gauges: what they say of a few containers, and how they are selected."""

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.gauges.gauge import Gauge, is_selected
from pinfold.policy.engine.gauges.gauge_reader import GaugeReader
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.gauge_samples import samples

GIB = 2**30
MACHINE = machine_from_spec("socket:1 numa:2 core:4 thread:1 mem:4G isolated:7")
ZONE = "policy.topologyaware.zone"


def container(
    name: str,
    milli: int,
    *,
    namespace: str = "default",
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> Container:
    pod = Pod(
        id=PodId(name),
        name=name,
        uid=name,
        namespace=namespace,
        qos=QosClass.GUARANTEED,
        annotations=annotations,
    )
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=GIB,
        memory_limit_bytes=GIB,
    )
    return Container(id=ContainerId(name), name=name, pod=pod, resources=resources)


def engine(*containers: Container, config: Config | None = None) -> Engine:
    policy = Engine(MACHINE, config or Config(reserved_resources=Amounts(cpu="cpuset:0")))
    for one in containers:
        assert isinstance(policy.create(one).result, Grant)
    return policy


def gauges(policy: Engine) -> dict[str, Gauge]:
    return {one.name: one for one in GaugeReader().read(policy.snapshot(), {0: 5, 9: 7})}


def test_loads_that_a_fault_left_half_made_are_made_anew() -> None:
    def fail() -> None:
        raise RuntimeError("a fault of ours")

    policy, reader = engine(container("one", 1000)), GaugeReader()
    list(reader.read(policy.snapshot(), {}))
    policy.create(container("two", 2000))
    snapshot = policy.snapshot()
    with pytest.raises(RuntimeError):
        list(reader.read(snapshot, {}, fail))
    found, anew = (
        {gauge.name: list(gauge.values) for gauge in one.read(snapshot, {})}
        for one in (reader, GaugeReader())
    )
    assert found == anew


def test_labels_of_cpus_are_those_of_the_online_ones_in_their_order() -> None:
    labels = gauges(engine())["policy.cpu.container.count"].labels
    assert [dict(one) for one in labels] == [{"cpu.id": str(cpu)} for cpu in range(8)]
    assert list(labels[-2:]) == [{"cpu.id": "6"}, {"cpu.id": "7"}]
    assert labels == gauges(engine())["policy.cpu.container.count"].labels
    assert labels != labels[1:]


def values(policy: Engine, name: str) -> dict[str, float]:
    """The samples of a gauge by their first label."""
    return {next(iter(one.labels.values())): one.value for one in samples(gauges(policy)[name])}


ALONE = container("alone", 2000)
SHARING = container("sharing", 500)
SYSTEM = container("system", 250, namespace="kube-system")

ROWS = [
    pytest.param((), "cpu.capacity", (4, 4, 8), id="usable cpus of each pool"),
    pytest.param((), "cpu.shared.capacity", (4, 3, 7), id="isolated cpus are shared by nobody"),
    pytest.param(
        (ALONE,), "cpu.shared.capacity", (2, 3, 5), id="exclusive cpus are not shared either"
    ),
    pytest.param((SHARING,), "cpu.shared.assigned", (0.5, 0, 0), id="a share counts in its pool"),
    pytest.param((SYSTEM,), "cpu.shared.assigned", (0, 0, 0.25), id="reserved shares in the root"),
    pytest.param((), "cpu.shared.available", (3, 3, 6), id="reserved cpus are not to be had"),
    pytest.param(
        (SHARING,), "cpu.shared.available", (2.5, 3, 5.5), id="a share is gone above it too"
    ),
    pytest.param((), "mem.capacity", (4 * GIB, 4 * GIB, 8 * GIB), id="memory of each pool"),
    pytest.param((ALONE,), "mem.assigned", (GIB, 0, GIB), id="memory is assigned above it too"),
    pytest.param(
        (ALONE,), "mem.available", (3 * GIB, 4 * GIB, 7 * GIB), id="and no longer available"
    ),
    pytest.param((ALONE, SYSTEM), "container.count", (1, 0, 1), id="containers of each pool"),
    pytest.param(
        (ALONE, SYSTEM), "shared.container.count", (0, 0, 1), id="those on reserved cpus share"
    ),
]


@pytest.mark.parametrize(("containers", "name", "expected"), ROWS)
def test_pools_are_measured(
    containers: tuple[Container, ...], name: str, expected: tuple[float, ...]
) -> None:
    found = values(engine(*containers), f"{ZONE}.{name}")
    assert found == dict(zip(("NUMA node #0", "NUMA node #1", "socket #0"), expected, strict=True))


def test_pools_are_told_with_their_cpus_and_memory() -> None:
    first = samples(gauges(engine())[f"{ZONE}.cpu.capacity"])[0]
    assert first.labels == {"zone": "NUMA node #0", "cpus": "0-3", "mems": "0"}


def test_nodes_are_measured() -> None:
    preserved = {"memory.preserve.resource-policy.nri.io/pod": "true"}
    policy = engine(ALONE, container("kept", 500, annotations=preserved))
    found = gauges(policy)
    (node, _) = samples(found["policy.mem.node.capacity"])
    assert node.labels == {"node.id": "0", "node.type": "DRAM"}
    assert node.value == 4 * GIB
    assert values(policy, "policy.mem.node.usage") == {"0": 5}, "known of this node alone"
    assert values(policy, "policy.mem.node.container.count") == {"0": 1, "1": 0}


def test_cpus_are_measured() -> None:
    policy = engine(ALONE, SHARING, SYSTEM)
    assert policy.grants[ContainerId("alone")].exclusive == CpuSet.of(1, 2)
    allocation = values(policy, "policy.cpu.allocation")
    counts = values(policy, "policy.cpu.container.count")
    assert allocation["1"] == 1000
    assert counts["1"] == 1
    assert allocation["0"] == 250
    assert allocation["7"] == 0, "an isolated cpu that nobody has"
    assert sum(allocation.values()) == pytest.approx(2750)


def test_cpus_that_are_not_pinned_are_measured_as_well() -> None:
    policy = engine(ALONE, config=Config(pin_cpu=False, pin_memory=False))
    assert sum(values(policy, "policy.cpu.container.count").values()) == 2
    assert sum(values(policy, "policy.mem.node.container.count").values()) == 1


def test_memory_of_unknown_size_is_left_out() -> None:
    nodes = tuple(dataclasses.replace(one, memory_bytes=None) for one in MACHINE.numa_nodes)
    policy = Engine(dataclasses.replace(MACHINE, numa_nodes=nodes), Config())
    assert values(policy, f"{ZONE}.mem.capacity") == {}
    assert values(policy, f"{ZONE}.mem.available") == {}
    assert values(policy, "policy.mem.node.capacity") == {}


@pytest.mark.parametrize(
    ("patterns", "groups"),
    [
        pytest.param(("policy",), {"policy/topologyaware", "policy/system"}, id="a whole group"),
        pytest.param(("system",), {"policy/system"}, id="a subsystem by its name alone"),
        pytest.param(("policy/topo*",), {"policy/topologyaware"}, id="a pattern over both"),
        pytest.param(("*",), {"policy/topologyaware", "policy/system"}, id="everything"),
        pytest.param(("rdt", "policy/rdt"), set[str](), id="what is not measured"),
        pytest.param((), set[str](), id="nothing"),
    ],
)
def test_groups_are_selected_by_patterns(patterns: Iterable[str], groups: set[str]) -> None:
    known = {gauge.group for gauge in gauges(engine()).values()}
    assert {one for one in known if is_selected(one, [*patterns])} == groups
