"""The given tables of single parts: trees, offers of memory, gauges, cold starts."""

import dataclasses
from collections.abc import Callable, Mapping
from itertools import takewhile

import click
import pytest

from pinfold.cmd.daemon.daemon import Daemon
from pinfold.cmd.report.console import tree_lines
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import start_pods
from pinfold.nri.plugin.plugin import Timing
from pinfold.policy.books.books import Books
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.gauges.gauge import Gauge
from pinfold.policy.engine.gauges.gauge_reader import GaugeReader
from pinfold.policy.engine.pool_drawing import pool_texts
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.memory.memory_choice import ZoneSummary
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.policy.model.request import Request
from pinfold.policy.pools.pool_tree import PoolKind, PoolTree
from pinfold.policy.pools.supply import Supply
from pinfold.policy.pools.tree_building import Branch, number_branches
from pinfold.policy.scenarios.expressions.evaluator import evaluate
from pinfold.policy.scenarios.expressions.values import Value
from pinfold.policy.text.yaml_fields import Field
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.gauge_samples import samples
from tests.unit.given_tables import (
    expectations,
    guaranteed,
    holds,
    machine,
    needs_tables,
    rows,
    table,
)

GIB = 2**30
ANYWHERE = "preserved memory counts against all nodes, wherever devices are"
AS_USUAL = "without hints memory is offered as to anybody else"
# Rows that go another way here, by table and name, with what we answer and why.
DIFFERENCES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("unit-libmem-glue", "offer by hints with preserved memory"): ("all nodes", ANYWHERE),
    ("unit-libmem-glue", "offer by hints without pod-resource hints"): ("its own nodes", AS_USUAL),
}


# Trees


def given_tree() -> PoolTree:
    children = {
        name: [one.text() for one in below.elements()]
        for name, below in table("unit-tree-traversal")["tree"].entries().items()
    }

    def branch(name: str) -> Branch:
        below = [branch(child) for child in children.get(name, [])]
        return Branch(name, PoolKind.VIRTUAL, CpuSet.of(0), below)

    return number_branches(
        branch("root"),
        machine_from_spec("socket:1 core:1 mem:1G"),
        Supply(isolated=CpuSet(), reserved=CpuSet(), sharable=CpuSet.of(0)),
    )


@pytest.mark.parametrize("text", expectations("unit-tree-traversal"))
def test_trees_are_walked_as_given(text: str) -> None:
    tree = given_tree()
    by_name = {pool.name: pool for pool in tree.pools}
    upward = [pool.name for pool in tree.pools]
    # The order in which people see them: `pinfold pools` has one line for each.
    machine = machine_from_spec("socket:1 core:1 mem:1G")
    drawn = map(click.unstyle, tree_lines(pool_texts(tree, machine)))
    downward = [line.partition(":")[0].lstrip(" │├└─") for line in drawn]

    def until(names: list[str], last: str) -> list[Value]:
        return [*takewhile(lambda name: name != last, names), last]

    def up(last: str) -> list[Value]:
        return until(upward, last)

    def down(last: str) -> list[Value]:
        return until(downward, last)

    def depth(name: str) -> int:
        return by_name[name].depth

    def is_root(name: str) -> bool:
        return by_name[name].parent is None

    def is_leaf(name: str) -> bool:
        return not by_name[name].children

    names: dict[str, Value] = {"depth_first": [*upward], "breadth_first": [*downward]}
    functions: dict[str, Callable[..., Value]] = {
        "depth_first_until": up,
        "breadth_first_until": down,
        "depth": depth,
        "is_root": is_root,
        "is_leaf": is_leaf,
    }
    assert evaluate(text, names, functions) is True


# Offers of memory


def offered(books: Books, *hints: Hint, preserve: bool = False) -> list[NodeSet]:
    """By pool id the nodes offered to a container that picks by hints."""
    request = Request(
        container_id=ContainerId("c"),
        qos=QosClass.GUARANTEED,
        exclusive=1,
        memory_bytes=GIB,
        memory_kinds=frozenset({MemoryKind.DRAM}),
        pick_by_hints=True,
        preserve_memory=preserve,
        hints=hints,
    )
    zones = books.pool_memory.choice(request).zones()
    return [NodeSet(zone.mask) for zone in zones if isinstance(zone, ZoneSummary)]


def with_preserved_memory(books: Books) -> str:
    near = Hint(provider="gpu", origin=HintOrigin.POD_RESOURCES, numa_nodes=NodeSet.of(2))
    assert NodeSet.of(2) in offered(books, near), "the hint counts where memory is not preserved"
    everything = books.tree.root.memory_nodes
    assert offered(books, near, preserve=True) == [everything] * len(books.tree.pools)
    return "all nodes"


def without_hints(books: Books) -> str:
    own = [pool.memory[MemoryKind.DRAM] for pool in books.tree.pools]
    assert offered(books) == own
    mounted = Hint(provider="disk", origin=HintOrigin.MOUNT, numa_nodes=NodeSet.of(2))
    assert offered(books, mounted) == own, "a hint of another origin is none to pick by"
    return "its own nodes"


def leaf_capacity(books: Books) -> str:
    memory = books.memory
    for nodes in [pool.memory_nodes for pool in books.tree.pools if not pool.children]:
        capacity, free = memory.capacity(nodes), memory.free(nodes)
        assert capacity is not None
        assert free is not None
        assert capacity > 0
        assert 0 <= free <= capacity
    return "capacity > 0 and 0 <= free <= capacity"


OFFERS: Mapping[str, Callable[[Books], str]] = {
    "offer by hints with preserved memory": with_preserved_memory,
    "offer by hints without pod-resource hints": without_hints,
    "leaf pool capacity/free": leaf_capacity,
}


@pytest.mark.parametrize(("table_id", "row"), rows("unit-libmem-glue"))
def test_memory_is_offered_as_given(table_id: str, row: Field) -> None:
    books = Books(machine(table(table_id)["topology"].text()), Config())
    holds(DIFFERENCES, table_id, row, OFFERS[row["name"].text()](books))


# Gauges


def measured(policy: Engine) -> dict[str, Gauge]:
    return {one.name: one for one in GaugeReader().read(policy.snapshot(), {})}


def shared(policy: Engine, name: str) -> dict[str, float]:
    """A gauge of shared cpus, by pool."""
    gauge = measured(policy)[f"policy.topologyaware.zone.cpu.shared.{name}"]
    values = {one.labels["zone"]: one.value for one in samples(gauge)}
    assert len(values) == len(samples(gauge))
    return values


def one_series_for_each_pool(policy: Engine) -> None:
    for name in ("capacity", "assigned", "available"):
        assert list(shared(policy, name)) == [pool.name for pool in policy.tree.pools]


def capacity(policy: Engine) -> None:
    taken = CpuSet.collect(cpu for grant in policy.grants.values() for cpu in grant.exclusive)
    assert shared(policy, "capacity") == {
        pool.name: len((pool.sharable - taken) | pool.reserved) for pool in policy.tree.pools
    }


def assigned(policy: Engine) -> None:
    expected = dict.fromkeys((pool.name for pool in policy.tree.pools), 0.0)
    for grant in policy.grants.values():
        expected[policy.tree.pools[grant.pool_id].name] += grant.shared_milli
    assert shared(policy, "assigned") == {name: one / 1000 for name, one in expected.items()}


def available(policy: Engine) -> None:
    assert shared(policy, "available") == {
        pool.name: policy.snapshot().room.shared_milli[pool.id] / 1000 for pool in policy.tree.pools
    }


MEASURED: Mapping[str, Callable[[Engine], None]] = {
    "series_count(each shared gauge) == number_of_pools, also after shared sets change": (
        one_series_for_each_pool
    ),
    "shared.capacity == len(sharable | reserved)": capacity,
    "shared.assigned == (granted_reserved + granted_shared) / 1000": assigned,
    "shared.available == allocatable_shared / 1000": available,
}


@pytest.mark.parametrize("text", expectations("unit-metrics"))
def test_gauges_are_as_given(text: str) -> None:
    policy = Engine(machine("unit-server"), Config(reserved_resources=Amounts(cpu="cpuset:0")))
    system = Pod(id=PodId("dns"), name="dns", namespace="kube-system", qos=QosClass.BURSTABLE)
    newcomers = (
        guaranteed("alone", 4000),
        guaranteed("mixed", 1500),
        guaranteed("sharing", 250),
        Container(
            id=ContainerId("dns"),
            name="dns",
            pod=system,
            resources=Resources(cpu_request_milli=100),
        ),
    )
    for newcomer in (None, *newcomers):
        if newcomer is not None:
            assert isinstance(policy.create(newcomer).result, Grant)
        if text.startswith("labels("):
            labels = {
                name: frozenset[Value](key for one in samples(gauge) for key in one.labels)
                for name, gauge in measured(policy).items()
            }
            assert evaluate(text, {}, {"labels": labels.__getitem__}) is True
        else:
            MEASURED[text](policy)


# Cold starts


COLD = {"memory_type": "pmem,dram", "cold_start": "duration: 1s"}


def two_memories() -> Machine:
    """One socket with DRAM in node 0, and PMEM in node 1 at the given distance."""
    plain = machine_from_spec("socket:1 core:4 mem:4G")
    told = table("unit-cold-start")["description"]["nodes"].text()
    near = int(told.rpartition("distance ")[2])
    slow = NumaNode(id=NumaNodeId(1), memory_bytes=4 * GIB, kind=MemoryKind.PMEM)
    return dataclasses.replace(
        plain, numa_nodes=(*plain.numa_nodes, slow), distances=((10, near), (near, 10))
    )


@needs_tables
def test_a_cold_start_goes_as_given() -> None:
    assert table("unit-cold-start")["description"]["expect"].text() == (
        "initially only PMEM node, both after the timeout"
    )
    policy = Engine(two_memories(), Config())
    decision = policy.create(guaranteed("cold", 1000, **COLD))
    assert decision.pinning.mems == NodeSet.of(1)
    assert decision.cold_start_ns == 10**9
    (change,) = policy.end_cold_start(ContainerId("cold"))
    assert change.after.mems == NodeSet.of(0, 1)


@needs_tables
def test_a_cold_start_ends_by_the_daemons_clock() -> None:
    clock = [100.0]
    runtime = EmbeddedRuntime()
    daemon = Daemon(
        two_memories(),
        Config(),
        embedded_link(runtime),
        timing=Timing(deadline_seconds=1.4),
        clock=lambda: clock[0],
    )
    # The timers' own thread would look at another clock than the test.
    daemon.timers.start = lambda: None  # type: ignore[method-assign]
    daemon.start()
    try:
        assert runtime.wait_until_synchronized(5)
        assert daemon.front.wait_until_ready(5)
        cold = guaranteed("cold", 1000, **COLD)
        spec = PodSpec(
            name="cold",
            annotations=cold.pod.annotations,
            qos=cold.pod.qos,
            containers=(ContainerSpec(name="cold", resources=cold.resources),),
        )
        assert not start_pods(runtime, [spec], 8 * GIB)
        mems = list[str]()
        for clock[0] in (100.0, 100.9, 101.1):
            assert daemon.front.settle()
            daemon.timers.work_off()
            assert daemon.front.settle()
            (container,) = runtime.containers.values()
            mems.append(container.linux.resources.cpu.mems)
        assert mems == ["1", "1", "0-1"]
    finally:
        daemon.stop()
