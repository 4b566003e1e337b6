"""Gauges agree with what is granted, and with each other, whatever came and went."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.gauges.gauge_reader import GaugeReader
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from tests.gauge_samples import GaugeSample, samples
from tests.property.test_engine_walk import MACHINES as WALKED
from tests.property.test_engine_walk import Walk

GIB = 2**30
MACHINES = [
    machine_from_spec(spec)
    for spec in (
        "socket:2 numa:2 core:4 thread:2 mem:8G isolated:6-7",
        "socket:1 l3:4 core:4 thread:2 mem:16G",
        "socket:1 core:2 mem:4G",
    )
]
PREFIX = "resource-policy.nri.io"
ANNOTATIONS = [
    {},
    {f"prefer-shared-cpus.{PREFIX}/pod": "false"},
    {f"memory.preserve.{PREFIX}/pod": "true"},
    {f"cpu.preserve.{PREFIX}/pod": "true"},
    {f"hide-hyperthreads.{PREFIX}/pod": "true"},
]


@st.composite
def containers(draw: st.DrawFn) -> list[Container]:
    found: list[Container] = []
    for number in range(draw(st.integers(1, 14))):
        qos = draw(st.sampled_from(QosClass))
        milli = 0 if qos is QosClass.BEST_EFFORT else draw(st.sampled_from((100, 1000, 1500, 3000)))
        memory = 0 if qos is QosClass.BEST_EFFORT else draw(st.sampled_from((GIB // 4, GIB)))
        pod = Pod(
            id=PodId(f"p{number}"),
            name=f"p{number}",
            uid=f"p{number}",
            namespace=draw(st.sampled_from(("default", "default", "kube-system"))),
            annotations=draw(st.sampled_from(ANNOTATIONS)),
            qos=qos,
        )
        resources = Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli if qos is QosClass.GUARANTEED else None,
            memory_request_bytes=memory,
            memory_limit_bytes=memory or None,
        )
        found.append(
            Container(id=ContainerId(f"c{number}"), name="c", pod=pod, resources=resources)
        )
    return found


def key(sample: GaugeSample) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(sample.labels.items()))


def agree(engine: Engine) -> None:
    gauges = {one.name: one for one in GaugeReader().read(engine.snapshot(), {})}
    pools, grants = engine.tree.pools, engine.grants
    for gauge in gauges.values():
        assert len({key(one) for one in samples(gauge)}) == len(gauge.values), gauge.name

    def by_pool(name: str) -> list[float]:
        of_pools = samples(gauges[f"policy.topologyaware.zone.{name}"])
        assert [one.labels["zone"] for one in of_pools] == [pool.name for pool in pools]
        return [one.value for one in of_pools]

    running = engine.snapshot().running()
    promised = [0.0] * len(pools)
    placed = [0] * len(pools)
    for grant in grants.values():
        placed[grant.pool_id] += 1
        if grant.has_shared_part or grant.cpu_type.value == "reserved":
            promised[grant.pool_id] += grant.shared_milli
    assert by_pool("cpu.shared.assigned") == [one / 1000 for one in promised]
    assert by_pool("container.count") == placed
    assert sum(by_pool("shared.container.count")) == sum(
        grant.has_shared_part or grant.cpu_type.value == "reserved" for grant in grants.values()
    )
    taken = sum(grant.exclusive.mask for grant in grants.values())
    assert by_pool("cpu.shared.capacity") == [
        (pool.sharable.mask & ~taken | pool.reserved.mask).bit_count() for pool in pools
    ]
    memory = zip(
        by_pool("mem.capacity"), by_pool("mem.assigned"), by_pool("mem.available"), strict=True
    )
    for capacity, assigned, available in memory:
        assert 0 <= available <= max(0, capacity - assigned)
    per_cpu = {one.labels["cpu.id"]: one.value for one in samples(gauges["policy.cpu.allocation"])}
    counts = {
        one.labels["cpu.id"]: one.value for one in samples(gauges["policy.cpu.container.count"])
    }
    known = [one for one in running if one.cpus]
    assert sum(per_cpu.values()) == pytest.approx(
        sum(1000 * len(grants[one.id].exclusive) + grants[one.id].shared_milli for one in known)
    )
    assert counts == {
        str(cpu): sum(cpu in (one.cpus or ()) for one in known) for cpu in engine.machine.online
    }


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MACHINES), containers(), st.randoms(use_true_random=False))
def test_gauges_agree_with_what_is_granted(
    machine: Machine, newcomers: list[Container], random: Random
) -> None:
    engine = Engine(machine, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    empty = [*GaugeReader().read(engine.snapshot(), {})]
    for newcomer in newcomers:
        engine.create(newcomer)
        agree(engine)
    order = list(engine.grants)
    random.shuffle(order)
    for container_id in order:
        engine.remove(container_id)
        agree(engine)
    assert [*GaugeReader().read(engine.snapshot(), {})] == empty, (
        "nothing is left of those who are gone"
    )


@pytest.mark.parametrize("machine", WALKED.values(), ids=WALKED)
def test_gauges_agree_wherever_a_long_walk_leads(machine: Machine) -> None:
    walk, reader = Walk(machine, seed=7), GaugeReader()
    for step in range(400):
        walk.step()
        if step % 10 == 0:
            agree(walk.engine)
        if step % 3 == 0:
            snapshot = walk.engine.snapshot()
            assert [*reader.read(snapshot, {})] == [*GaugeReader().read(snapshot, {})], (
                "what was kept is as if it were read anew"
            )


def test_whose_cpus_nobody_pins_is_read_anew() -> None:
    config = Config(pin_cpu=False, reserved_resources=Amounts(cpu="cpuset:0"))
    engine, reader = Engine(machine_from_spec("socket:1 numa:2 core:4"), config), GaugeReader()
    resources = Resources(cpu_request_milli=500)
    for name in ("shared", "alone"):
        pod = Pod(id=PodId(name), name=name, uid=name, qos=QosClass.GUARANTEED)
        engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=resources))
        _ = [*reader.read(engine.snapshot(), {})]
        resources = Resources(cpu_request_milli=2000, cpu_limit_milli=2000)
    snapshot = engine.snapshot()
    assert not any(one.cpus for one in snapshot.pinnings.values())
    assert [*reader.read(snapshot, {})] == [*GaugeReader().read(snapshot, {})]
