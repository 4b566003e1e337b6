"""Snapshots: they stay while their engine goes on, and share what did not change."""

import threading
from collections.abc import Iterator

import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.gauges.gauge import Gauge
from pinfold.policy.engine.gauges.gauge_reader import GaugeReader
from pinfold.policy.engine.gauges.kept_loads import pool_loads
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

MIB = 2**20
MACHINE = machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:1G")
NAMES = tuple(map(ContainerId, ("own", "shared", "nothing", "system", "kept")))


def asking(milli: int, mebibytes: int = 100) -> Resources:
    return Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=mebibytes * MIB,
        memory_limit_bytes=mebibytes * MIB,
    )


def container(name: str, milli: int, namespace: str = "default") -> Container:
    pod = Pod(
        id=PodId(f"pod-{name}"),
        name=f"pod-{name}",
        namespace=namespace,
        qos=QosClass.GUARANTEED if milli else QosClass.BEST_EFFORT,
    )
    resources = asking(milli) if milli else Resources()
    return Container(id=ContainerId(name), name=name, pod=pod, resources=resources)


def engine(*, pin_cpu: bool = True) -> Engine:
    policy = Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0"), pin_cpu=pin_cpu))
    policy.create(container("own", 2000))
    policy.create(container("shared", 700))
    policy.create(container("nothing", 0))
    policy.create(container("system", 300, "kube-system"))
    preserved = Container(
        id=ContainerId("kept"),
        name="kept",
        pod=Pod(
            id=PodId("pod-kept"),
            name="pod-kept",
            annotations={"cpu.preserve.resource-policy.nri.io/pod": "true"},
        ),
        cpus=CpuSet.parse("3-4"),
    )
    policy.create(preserved)
    return policy


def events(policy: Engine) -> Iterator[object]:
    """Whatever can happen to an engine, each kind at least once."""
    yield policy.create(container("late", 3000))
    yield policy.observe_memory({0: 10 * MIB, 1: 900 * MIB, 2: 900 * MIB, 3: 900 * MIB})
    yield policy.update(ContainerId("shared"), asking(1300, 300))
    yield policy.update(ContainerId("own"), asking(4000))
    yield policy.stop(ContainerId("own"))
    yield policy.remove(ContainerId("nothing"))
    yield policy.remove(ContainerId("system"))
    yield policy.synchronize([container("kept", 0), container("other", 1000)])


def contents(snapshot: Snapshot) -> tuple[object, ...]:
    """All that can be asked of a snapshot."""
    everything = NodeSet.parse("0-3")
    gauges: tuple[Gauge, ...] = tuple(GaugeReader().read(snapshot, {}))
    return (
        dict(snapshot.containers),
        dict(snapshot.grants),
        dict(snapshot.decisions),
        dict(snapshot.pinnings),
        dict(snapshot.classified),
        snapshot.running(),
        snapshot.advice(),
        snapshot.occupancy(),
        snapshot.room,
        snapshot.free_sharable,
        snapshot.free_isolated,
        snapshot.memory,
        snapshot.memory.holdings,
        snapshot.memory.usage(everything),
        snapshot.memory.available(everything),
        snapshot.memory_look,
        gauges,
    )


def test_a_snapshot_stays_whatever_happens_to_its_engine() -> None:
    policy = engine()
    snapshot = policy.snapshot()
    before = contents(snapshot)
    for _ in events(policy):
        assert contents(snapshot) == before
    policy.check()
    assert contents(policy.snapshot()) != before


def test_nothing_is_copied_of_containers_to_which_nothing_happened() -> None:
    policy = engine()
    one = policy.snapshot()
    policy.update(ContainerId("own"), asking(3000))
    other = policy.snapshot()
    for name in ("system", "kept"):
        container_id = ContainerId(name)
        assert one.containers[container_id] is other.containers[container_id]
        assert one.grants[container_id] is other.grants[container_id]
        assert one.pinnings[container_id] is other.pinnings[container_id]
        assert one.decisions[container_id] is other.decisions[container_id]
    assert one.grants[ContainerId("own")] is not other.grants[ContainerId("own")]


def test_another_thread_reads_it_while_the_engine_goes_on() -> None:
    policy = engine()
    snapshot = policy.snapshot()
    expected = contents(snapshot)
    is_over = threading.Event()
    found: list[bool] = []

    def read() -> None:
        while not is_over.is_set():
            found.append(contents(snapshot) == expected)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(150):
        name = f"one-{number}"
        policy.create(container(name, 100 + 900 * (number % 2)))
        policy.remove(ContainerId(name))
    is_over.set()
    reader.join()
    assert found
    assert all(found)


@pytest.mark.parametrize("pin_cpu", [True, False], ids=["pinned", "not pinned"])
def test_containers_run_where_they_were_told_or_would_have_been(*, pin_cpu: bool) -> None:
    snapshot = engine(pin_cpu=pin_cpu).snapshot()
    own = snapshot.grants[ContainerId("own")].exclusive
    assert [snapshot.cpus_of(one) for one in NAMES[:1] + NAMES[3:]] == [
        own,
        CpuSet.of(0),
        CpuSet.parse("3-4"),
    ]
    shared = snapshot.cpus_of(ContainerId("shared"))
    assert shared
    assert not shared & own
    assert {one.id: one.cpus for one in snapshot.running()} == {
        one: snapshot.cpus_of(one) for one in NAMES
    }
    told = snapshot.pinnings[ContainerId("own")]
    assert told == Pinning(cpus=own if pin_cpu else None, mems=told.mems)


def test_a_stopped_container_is_known_and_holds_nothing() -> None:
    policy = engine()
    policy.stop(ContainerId("own"))
    snapshot = policy.snapshot()
    assert ContainerId("own") in snapshot.containers
    assert ContainerId("own") not in snapshot.grants
    assert ContainerId("own") not in {one.id for one in snapshot.running()}
    assert ContainerId("own") not in snapshot.advice()


def test_sums_of_pools_follow_from_the_grants() -> None:
    snapshot = engine().snapshot()
    loads = pool_loads(snapshot)
    assert sum(loads.containers) == len(NAMES)
    assert sum(loads.sharing) == 3
    assert sum(loads.promised_milli) == 1000
    assert loads.promised_milli[-1] == 300


def test_an_engine_takes_over_from_a_snapshot_alone() -> None:
    policy = engine()
    snapshot = policy.snapshot()
    list(events(policy))
    other = Engine(MACHINE, policy.config)
    answer = other.take_over(snapshot)
    assert answer.changes == ()
    assert dict(other.snapshot().pinnings) == dict(snapshot.pinnings)
    assert {one: grant.exclusive for one, grant in other.grants.items()} == {
        one: grant.exclusive for one, grant in snapshot.grants.items()
    }
    other.check()
