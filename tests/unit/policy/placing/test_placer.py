"""Plans: cpus taken from a pool, resizes, reserved cpus, and why nothing fits."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.gauges.kept_loads import pool_loads
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.model.request import CpuType
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet

TWO_NODES = "socket:1 numa:2 core:4 mem:4G"
SHARED = {"prefer-shared-cpus": "true"}
DOMAIN = "resource-policy.nri.io"
GIB = 2**30


def engine(spec: str, reserved: str = "cpuset:0") -> Engine:
    return Engine(machine_from_spec(spec), Config(reserved_resources=Amounts(cpu=reserved)))


def guaranteed(milli: int, memory: int = 0) -> Resources:
    return Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=memory,
        memory_limit_bytes=memory or None,
    )


def container(
    name: str,
    milli: int = 0,
    annotations: dict[str, str] | None = None,
    *,
    namespace: str = "default",
    memory: int = 0,
) -> Container:
    pod = Pod(
        id=PodId(f"pod-{name}"),
        name=f"pod-{name}",
        namespace=namespace,
        annotations={f"{key}.{DOMAIN}/pod": text for key, text in (annotations or {}).items()},
        qos=QosClass.GUARANTEED if milli else QosClass.BEST_EFFORT,
    )
    resources = guaranteed(milli, memory)
    return Container(id=ContainerId(name), name=name, pod=pod, resources=resources)


def granted(decision: Decision) -> Grant:
    assert isinstance(decision.result, Grant), decision.result
    return decision.result


def refused(decision: Decision) -> str:
    assert isinstance(decision.result, Refusal), decision.result
    return decision.result.reason


def resize(one: Engine, name: str, milli: int, memory: int = 0) -> Decision:
    return one.update(ContainerId(name), guaranteed(milli, memory))


def test_a_refusal_names_every_pool_with_its_reason() -> None:
    one = engine(TWO_NODES)
    assert refused(one.create(container("big", 8000))) == (
        "no pool has room for 8 exclusive CPUs — socket #0: exclusive CPUs: wanted 8, available 7;"
        " NUMA node #1: exclusive CPUs: wanted 8, available 4;"
        " NUMA node #0: exclusive CPUs: wanted 8, available 3"
    )


def test_pools_with_the_same_reason_are_named_together() -> None:
    one = engine("socket:2 core:2")
    one.create(container("a", 1000))
    reason = refused(one.create(container("isolated", 1000, {"require-isolated-cpus": "true"})))
    assert reason == (
        "no pool has room for 1 isolated CPU — every pool: isolated CPUs: wanted 1, available 0"
    )
    more = refused(one.create(container("more", 4000)))
    assert more == (
        "no pool has room for 4 exclusive CPUs — root: exclusive CPUs: wanted 4, available 2;"
        " socket #1, socket #0: exclusive CPUs: wanted 4, available 1"
    )


def test_a_refusal_for_want_of_memory_says_so() -> None:
    one = engine(TWO_NODES)
    reason = refused(one.create(container("big", 500, memory=9 * GIB)))
    assert reason == (
        "no pool has room for 500m of shared CPU, 9 GiB of memory"
        " — every pool: memory: wanted 9 GiB,"
        " available 8 GiB on nodes 0-1"
    )


def test_exclusive_cpus_of_a_wide_pool_spare_what_a_pool_below_owes() -> None:
    one = engine("socket:1 numa:2 core:4 mem:4G")
    near = granted(one.create(container("near", 3500, SHARED)))
    assert one.tree.pools[near.pool_id].name == "NUMA node #1"
    wide = granted(one.create(container("wide", 3000)))
    assert str(wide.exclusive) == "1-3", "cpus 4-7 are all owed"
    assert "exclusive CPUs: wanted 1, available 0" in refused(one.create(container("more", 1000)))


def test_a_container_that_asks_for_nothing_keeps_the_last_cpu_of_its_pool_while_others_do() -> None:
    one = engine("socket:2 core:2")
    idle = one.create(container("idle"))
    assert str(idle.pinning.cpus) == "2-3"
    cpus = [str(granted(one.create(container(name, 1000))).exclusive) for name in "abc"]
    assert cpus == ["2", "1", "3"]
    left = one.pinning(ContainerId("idle"))
    assert left is not None
    assert str(left.cpus) == "0", "at last it runs on the reserved cpus"


def test_whole_cpus_come_from_isolated_ones_only_where_all_of_them_do() -> None:
    one = engine("socket:1 core:6 isolated:4-5")
    annotations = {"prefer-isolated-cpus": "true"}
    three = granted(one.create(container("three", 3000, annotations)))
    assert (str(three.exclusive), str(three.isolated)) == ("1-3", "")
    two = granted(one.create(container("two", 2000, annotations)))
    assert (str(two.exclusive), str(two.isolated)) == ("4-5", "4-5")


RESIZES = [
    pytest.param([2000, 3000], "1-3", 0, id="it grows inside its pool"),
    pytest.param([1000, 3000, 1000], "1", 0, id="it gives up what it got last"),
    pytest.param([3000, 1000], "1", 0, id="it gives up some of what it began with"),
    pytest.param([1000, 2000, 3000, 2000], "1-2", 0, id="of two growths the later goes first"),
    pytest.param([1000, 2000, 3000, 1000], "1", 0, id="then the earlier one"),
    pytest.param([1000, 3000, 2000], "1-2", 0, id="of one growth it may keep a part"),
    pytest.param([1000, 1500], "1", 500, id="a rest is a share beside its own cpu"),
    pytest.param([1500, 1000], "1", 0, id="without a rest it has no share"),
    pytest.param([1000, 300], "", 300, id="below one cpu it has a share of all"),
    pytest.param([500, 2000], "1-2", 0, id="from a share to cpus of its own"),
    pytest.param([900, 3000], "1-3", 0, id="its own share is no obstacle to it"),
]


@pytest.mark.parametrize(("sizes", "cpus", "shared"), RESIZES)
def test_a_resized_container_has_what_it_asks_for(sizes: list[int], cpus: str, shared: int) -> None:
    one = engine("socket:1 core:4")
    first, *later = sizes
    one.create(container("a", first))
    for milli in later:
        granted(resize(one, "a", milli))
    grant = one.grants[ContainerId("a")]
    assert str(grant.exclusive) == cpus
    assert grant.shared_milli == shared
    told = one.pinning(ContainerId("a"))
    assert told is not None
    assert told.cpus
    one.check()


def test_what_came_last_goes_first_however_often_it_grew() -> None:
    one = engine("socket:2 numa:2 core:4 thread:2 mem:8G")
    first = granted(one.create(container("a", 2000)))
    had = [str(first.exclusive)]
    for milli in (4000, 9000, 3000, 12000, 2000):
        had.append(str(granted(resize(one, "a", milli)).exclusive))
    assert had == ["8-9", "8-11", "1,8-15", "8-10", "2-5,8-15", "8-9"]


def test_a_container_that_spreads_grows_and_shrinks_spread() -> None:
    one = engine("socket:1 core:8 thread:2 mem:8G")
    plain = container("a", 2000)
    pod = replace(plain.pod, annotations={"smt.pinfold.dev/pod": "spread"})
    one.create(replace(plain, pod=pod))
    had = [str(granted(resize(one, "a", milli)).exclusive) for milli in (4000, 2000, 1000)]
    assert had == ["2,4,6,8", "2,4", "2"]


def test_a_resize_goes_to_the_pool_above_where_its_own_is_full() -> None:
    one = engine("socket:2 numa:2 core:2 mem:1G")
    first = granted(one.create(container("a", 2000)))
    assert one.tree.pools[first.pool_id].name == "NUMA node #1"
    one.create(container("b", 500, SHARED))
    after = granted(resize(one, "a", 3000))
    assert one.tree.pools[after.pool_id].name == "socket #0"
    assert first.exclusive <= after.exclusive
    assert after.exclusive <= one.tree.pools[after.pool_id].cpus


def test_a_refused_resize_leaves_everything_as_it_was() -> None:
    one = engine("socket:1 numa:2 core:2 mem:1G")
    one.create(container("a", 1000, memory=GIB // 2))
    one.create(container("b", 1000))
    before = (dict(one.grants), one.decisions[ContainerId("a")], one.snapshot().memory)
    for milli, memory in ((4000, GIB // 2), (1000, 3 * GIB)):
        decision = resize(one, "a", milli, memory)
        assert isinstance(decision.result, Refusal)
        assert not decision.changes
        assert decision.pinning == one.pinning(ContainerId("a"))
        after = (dict(one.grants), one.decisions[ContainerId("a")], one.snapshot().memory)
        assert after == before
    reason = refused(resize(one, "a", 4000, GIB // 2))
    assert reason.startswith("no room to grow to 4 exclusive CPUs")
    assert "socket #0: exclusive CPUs: wanted 3 more, available 1" in reason


def test_shared_cpus_do_not_grow_beyond_what_the_pools_have() -> None:
    one = engine("socket:1 core:3")
    one.create(container("a", 900))
    one.create(container("b", 900))
    assert "shared CPU: wanted 900m, available 100m" in refused(resize(one, "a", 1900))
    one.create(container("c", 100, SHARED))
    assert "shared CPU: wanted 1200m, available 200m" in refused(resize(one, "c", 1200))
    assert granted(resize(one, "c", 200)).shared_milli == 200


def test_who_is_promised_more_than_there_is_may_shrink() -> None:
    one = engine("socket:1 core:3")
    listed = [container("a", 3900, SHARED), container("b", 900)]
    one.synchronize([replace(found, cpus=CpuSet.parse("1-2")) for found in listed])
    assert one.snapshot().room.grantable_milli == (-2800,)
    assert granted(resize(one, "a", 3000)).shared_milli == 3000
    assert granted(resize(one, "b", 900, GIB // 4)).memory_bytes == GIB // 4
    assert "shared CPU: wanted 950m, available 0m" in refused(resize(one, "b", 950))


def test_cpus_given_back_serve_the_share_that_replaces_them() -> None:
    one = engine("socket:1 core:3")
    one.create(container("a", 2000, {"prefer-shared-cpus": "false"}))
    grant = granted(resize(one, "a", 1500))
    assert (len(grant.exclusive), grant.shared_milli) == (1, 500)


def test_a_container_that_requires_isolated_cpus_grows_on_isolated_ones_or_not_at_all() -> None:
    one = engine("socket:1 core:6 isolated:4-5")
    one.create(container("a", 1000, {"require-isolated-cpus": "true"}))
    grant = granted(resize(one, "a", 2000))
    assert str(grant.isolated) == "4-5"
    assert "isolated CPUs: wanted 1 more, available 0" in refused(resize(one, "a", 3000))
    assert one.grants[ContainerId("a")] == grant


def test_a_container_that_prefers_isolated_cpus_grows_on_others_where_there_are_none() -> None:
    one = engine("socket:1 core:6 isolated:5")
    one.create(container("a", 1000, {"prefer-isolated-cpus": "true"}))
    grant = granted(resize(one, "a", 2000))
    assert str(grant.isolated) == "5"
    assert len(grant.exclusive) == 2


def test_cpus_added_are_next_to_those_it_has() -> None:
    one = engine("socket:2 core:4 thread:2", reserved="cpuset:0-1")
    grant = granted(one.create(container("a", 1000)))
    sibling = next(core for core in one.machine.cores if grant.exclusive <= core)
    assert granted(resize(one, "a", 2000)).exclusive == sibling


RESERVED = [
    pytest.param([700], CpuType.RESERVED, id="it fits the reserved cpus"),
    pytest.param([1000], CpuType.RESERVED, id="it fits them exactly"),
    pytest.param([1200], CpuType.NORMAL, id="larger than the reserved cpus it runs shared"),
    pytest.param([9000], CpuType.RESERVED, id="larger than everything it runs reserved"),
    pytest.param([700, 1200], CpuType.NORMAL, id="outgrowing the reserved cpus it runs shared"),
    pytest.param([700, 9000], CpuType.RESERVED, id="outgrowing everything it stays"),
    pytest.param([1200, 2500], CpuType.NORMAL, id="growing where it runs shared"),
    pytest.param([1200, 9000], CpuType.RESERVED, id="outgrowing the shared cpus it runs reserved"),
    pytest.param([9000, 8000], CpuType.RESERVED, id="shrinking it stays where it is"),
    pytest.param([1200, 700], CpuType.NORMAL, id="shrinking it stays on the shared cpus"),
]


@pytest.mark.parametrize(("sizes", "cpu_type"), RESERVED)
def test_containers_of_the_system_are_never_refused(sizes: list[int], cpu_type: CpuType) -> None:
    one = engine("socket:1 core:4")
    first, *later = sizes
    decision = one.create(container("dns", first, namespace="kube-system"))
    for milli in later:
        decision = resize(one, "dns", milli)
    grant = granted(decision)
    assert grant.cpu_type is cpu_type
    assert grant.shared_milli == sizes[-1]
    assert str(decision.pinning.cpus) == ("0" if cpu_type is CpuType.RESERVED else "1-3")
    assert min(one.snapshot().room.grantable_milli) >= 0, "nobody else is owed more than there is"
    one.stop(ContainerId("dns"))
    assert pool_loads(one.snapshot()).promised_milli[-1] == 0, "the reserved cpus are free"


def test_reserved_requests_fill_the_reserved_cpus_in_order_of_arrival() -> None:
    one = engine("socket:1 core:4")
    types = [
        granted(one.create(container(name, 600, {"prefer-reserved-cpus": "true"}))).cpu_type
        for name in "ab"
    ]
    assert types == [CpuType.RESERVED, CpuType.NORMAL]


def test_who_opts_out_of_the_reserved_cpus_is_placed_like_anybody() -> None:
    one = engine("socket:1 core:4")
    annotations = {"prefer-reserved-cpus": "false"}
    grant = granted(one.create(container("dns", 500, annotations, namespace="kube-system")))
    assert grant.cpu_type is CpuType.NORMAL
    assert grant.exclusive == CpuSet()


def test_a_container_that_keeps_its_cpus_is_told_nothing_of_cpus() -> None:
    one = engine("socket:1 core:2")
    decision = one.create(container("own", 5000, {"cpu.preserve": "true"}))
    assert granted(decision).cpu_type is CpuType.PRESERVE
    assert decision.pinning.cpus is None
    assert decision.pinning.mems
    assert granted(one.create(container("other", 1000))).exclusive, "it is accounted nowhere"


def test_memory_that_is_kept_is_accounted_and_not_touched() -> None:
    one = engine(TWO_NODES)
    decision = one.create(container("own", 500, {"memory.preserve": "true"}, memory=GIB))
    assert decision.pinning.mems is None
    assert one.snapshot().memory.usage(one.tree.root.memory_nodes) == GIB
