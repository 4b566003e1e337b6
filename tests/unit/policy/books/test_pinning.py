"""What the kernel is told of a grant: cpus and memory nodes; and only real changes."""

from functools import partial

import pytest
from msgspec import structs

from pinfold.policy.books.cpu_ledger import Ledger
from pinfold.policy.books.idle_cpus import IdleCpus
from pinfold.policy.books.pinning import Pinner
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant, PoolId
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.model.request import CpuType
from pinfold.policy.pools.domains import Domains
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.policy.rules.affinity_index import AffinityIndex
from pinfold.policy.rules.podaffinity.standing_rules import StandingRules
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.counted_calls import count_lines

# Pools: 0 node #0 (cpus 2-3), 1 node #1 (4-7), 2 socket #0; reserved 0-1; a core is two cpus.
SPEC = "socket:1 numa:2 core:2 thread:2 mem:1G"
NODE0, NODE1, SOCKET = PoolId(0), PoolId(1), PoolId(2)


def pinner_of(config: Config | None = None, spec: str = SPEC) -> tuple[Ledger, Pinner]:
    machine = machine_from_spec(spec)
    picker = CpuPicker(machine)
    reserved = Config(reserved_resources=Amounts(cpu="cpuset:0-1"))
    supply = read_supply(machine, reserved, picker)
    tree = build_tree(machine, supply)
    domains = partial(Domains, machine, supply.allowed)
    ledger, idle = Ledger(tree, picker), IdleCpus(tree, AffinityIndex(), StandingRules(), domains)
    return ledger, Pinner(ledger, config or Config(), picker.cores, idle)


def grant(
    name: str = "a",
    pool_id: PoolId = NODE1,
    exclusive: str = "",
    milli: int = 0,
    cpu_type: CpuType = CpuType.NORMAL,
    *,
    hide_hyperthreads: bool = False,
    preserve_memory: bool = False,
    within: str | None = None,
) -> Grant:
    return Grant(
        container_id=ContainerId(name),
        pool_id=pool_id,
        cpu_type=cpu_type,
        exclusive=CpuSet.parse(exclusive),
        shared_milli=milli,
        memory=NodeSet.of(1),
        hide_hyperthreads=hide_hyperthreads,
        preserve_memory=preserve_memory,
        within=None if within is None else CpuSet.parse(within),
    )


SETS = [
    pytest.param(grant(milli=500), "4-7", id="a share is of the whole pool"),
    pytest.param(grant(), "4-7", id="no request is of the whole pool"),
    pytest.param(grant(milli=500, within="4-5"), "4-5", id="a share narrowed by rules"),
    pytest.param(grant(exclusive="4", milli=9, within="6"), "4,6", id="its own, and narrowed"),
    pytest.param(grant(within="2-3"), "4-7", id="never an empty set"),
    pytest.param(grant(exclusive="4-5"), "4-5", id="cpus of its own"),
    pytest.param(grant(exclusive="4", milli=500), "4-7", id="its own and the shared ones"),
    pytest.param(grant(pool_id=SOCKET, milli=1), "2-7", id="of a wide pool all of it"),
    pytest.param(grant(pool_id=SOCKET, milli=700, cpu_type=CpuType.RESERVED), "0-1", id="reserved"),
    pytest.param(grant(cpu_type=CpuType.PRESERVE, milli=700), None, id="not ours"),
    pytest.param(grant(milli=1, hide_hyperthreads=True), "4,6", id="one thread of each core"),
    pytest.param(grant(exclusive="4-5", hide_hyperthreads=True), "4", id="one thread of its own"),
    pytest.param(
        grant(exclusive="5", milli=9, hide_hyperthreads=True), "4,6", id="hidden and mixed"
    ),
    pytest.param(
        grant(cpu_type=CpuType.RESERVED, hide_hyperthreads=True), "0", id="hidden and reserved"
    ),
]


@pytest.mark.parametrize(("held", "cpus"), SETS)
def test_a_container_is_pinned_to_the_cpus_of_its_grant(held: Grant, cpus: str | None) -> None:
    ledger, pinner = pinner_of()
    ledger.add(held)
    pinner.changes(held.container_id)
    pinning = pinner.pinning(held)
    assert pinning.cpus == (None if cpus is None else CpuSet.parse(cpus))
    assert pinning.mems == NodeSet.of(1)


def test_memory_that_is_kept_is_not_told() -> None:
    _, pinner = pinner_of()
    assert pinner.pinning(grant(preserve_memory=True)).mems is None


def test_memory_that_is_not_accounted_is_not_told() -> None:
    _, pinner = pinner_of()
    held = Grant(container_id=ContainerId("a"), pool_id=NODE1, shared_milli=5)
    assert pinner.pinning(held).mems is None


def test_nothing_is_told_where_pinning_is_off() -> None:
    _, pinner = pinner_of(Config(pin_cpu=False, pin_memory=False))
    assert pinner.pinning(grant(milli=500)) == Pinning()
    assert pinner.pool_cpus.of(grant(milli=500)) == CpuSet.parse("4-7"), "it is known all the same"


def note(ledger: Ledger, pinner: Pinner, held: Grant) -> None:
    ledger.add(held)
    pinner.changes(held.container_id)
    pinner.note(held.container_id, pinner.pinning(held))


def test_only_who_shares_the_changed_pools_is_told() -> None:
    ledger, pinner = pinner_of()
    note(ledger, pinner, grant("near", NODE1, milli=100))
    note(ledger, pinner, grant("far", NODE0, milli=100))
    note(ledger, pinner, grant("wide", SOCKET, milli=100))
    note(ledger, pinner, grant("own", NODE0, exclusive="2"))
    ledger.add(grant("new", NODE1, exclusive="4"))
    changes = pinner.changes(ContainerId("new"))
    assert {one.container_id: str(one.after.cpus) for one in changes} == {
        "near": "5-7",
        "wide": "3,5-7",
    }
    assert pinner.changes() == (), "nobody is told twice"


def test_shares_of_one_pool_have_one_pinning_for_each_set_of_memory_nodes() -> None:
    ledger, pinner = pinner_of()
    note(ledger, pinner, grant("a", NODE1, milli=100))
    note(ledger, pinner, grant("b", NODE1, milli=200))
    note(ledger, pinner, grant("kept", NODE1, preserve_memory=True))
    wide = structs.replace(grant("wide", NODE1, milli=100), memory=NodeSet.of(0, 1))
    note(ledger, pinner, wide)
    ledger.add(grant("new", NODE1, exclusive="4"))
    after = {one.container_id: one.after for one in pinner.changes(ContainerId("new"))}
    assert {name: (str(one.cpus), str(one.mems)) for name, one in after.items()} == {
        "a": ("5-7", "1"),
        "b": ("5-7", "1"),
        "kept": ("5-7", "None"),
        "wide": ("5-7", "0-1"),
    }
    assert after[ContainerId("a")] is after[ContainerId("b")], "written once"


def test_who_has_the_pinning_of_those_beside_it_already_is_not_told() -> None:
    ledger, pinner = pinner_of()
    for name in ("a", "b", "c", "d"):
        note(ledger, pinner, grant(name, NODE1, milli=100))
    ledger.add(grant("new", NODE1, exclusive="4"))
    pinner.note(ContainerId("b"), Pinning(cpus=CpuSet.parse("5-7"), mems=NodeSet.of(1)))
    assert [one.container_id for one in pinner.changes(ContainerId("new"))] == ["a", "c", "d"]


def test_fallback_is_the_nearest_ancestor_then_the_reserved_cpus() -> None:
    ledger, pinner = pinner_of()
    note(ledger, pinner, grant("idle", NODE1))
    ledger.add(grant("x", NODE1, exclusive="4-7"))
    (change,) = pinner.changes(ContainerId("x"))
    assert str(change.after.cpus) == "2-3"
    ledger.add(grant("y", NODE0, exclusive="2-3"))
    (change,) = pinner.changes(ContainerId("y"))
    assert str(change.after.cpus) == "0-1"
    ledger.drop(ContainerId("x"))
    (change,) = pinner.changes()
    assert str(change.after.cpus) == "4-7"


def test_a_pool_without_a_cpu_costs_no_look_at_each_of_the_others() -> None:
    def lines(nodes: int) -> int:
        ledger, pinner = pinner_of(spec=f"socket:1 numa:{nodes} core:2 thread:2 mem:1G")
        ledger.add(grant("full", exclusive="4-7"))
        pinner.changes()
        ledger.add(grant("one", PoolId(2), exclusive="8"))
        return count_lines(pinner.changes)

    assert lines(128) <= lines(4) + 4


def test_who_is_marked_is_told_only_what_is_new() -> None:
    ledger, pinner = pinner_of()
    held = grant("a", NODE1, exclusive="4")
    note(ledger, pinner, held)
    pinner.mark(held.container_id)
    assert pinner.changes() == ()
    ledger.move_memory(held.container_id, NodeSet.of(0, 1))
    pinner.mark(held.container_id)
    (change,) = pinner.changes()
    assert (change.before.mems, change.after.mems) == (NodeSet.of(1), NodeSet.of(0, 1))


def test_who_is_forgotten_is_told_nothing_more() -> None:
    ledger, pinner = pinner_of()
    held = grant("a", NODE1, milli=5)
    note(ledger, pinner, held)
    pinner.mark(held.container_id)
    ledger.drop(held.container_id)
    pinner.forget(held.container_id)
    assert pinner.told(held.container_id) is None
    assert pinner.changes() == ()


def test_a_drain_tells_nobody_of_growth() -> None:
    ledger, pinner = pinner_of()
    note(ledger, pinner, grant("own", NODE1, exclusive="4"))
    note(ledger, pinner, grant("shared", NODE1, milli=5))
    ledger.drop(ContainerId("own"))
    pinner.forget(ContainerId("own"))
    pinner.drain()
    assert pinner.changes() == ()
    told = pinner.told(ContainerId("shared"))
    assert told is not None
    assert str(told.cpus) == "5-7"
    ledger.add(grant("next", NODE0, exclusive="2"))
    assert pinner.changes() == (), "its pool did not change"


def test_a_drain_takes_back_cpus_that_belong_to_another() -> None:
    ledger, pinner = pinner_of()
    note(ledger, pinner, grant("mixed", NODE1, exclusive="4", milli=5))
    note(ledger, pinner, grant("alone", NODE1, exclusive="6"))
    pinner.note(ContainerId("mixed"), Pinning(cpus=CpuSet.parse("4-6"), mems=NodeSet.of(0)))
    pinner.drain()
    told = pinner.told(ContainerId("mixed"))
    assert told is not None
    assert (str(told.cpus), str(told.mems)) == ("4-5,7", "0")
