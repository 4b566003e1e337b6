"""The ledger: sums, what is left, and slices that leave everybody below what it is owed."""

import dataclasses
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pinfold.policy.books.cpu_ledger import Ledger
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant, PoolId
from pinfold.policy.model.request import CpuType
from pinfold.policy.pools.supply import Supply, read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet, NodeSet, iter_bits

# Pools: 0 node #0 (cpus 1-3), 1 node #1 (4-7), 2 socket #0, 3 node #2, 4 node #3, 5 socket #1, 6.
NODES = "socket:2 numa:2 core:4 mem:1G"
NODE0, NODE1, SOCKET0, ROOT = PoolId(0), PoolId(1), PoolId(2), PoolId(6)


def ledger_of(spec: str = NODES, reserved: str = "cpuset:0") -> Ledger:
    return ledger_on(machine_from_spec(spec), reserved)


def ledger_on(machine: Machine, reserved: str = "cpuset:0") -> Ledger:
    picker = CpuPicker(machine)
    config = Config(reserved_resources=Amounts(cpu=reserved))
    return Ledger(build_tree(machine, read_supply(machine, config, picker)), picker)


def share(name: str, pool_id: int, milli: int) -> Grant:
    return Grant(container_id=ContainerId(name), pool_id=PoolId(pool_id), shared_milli=milli)


def own(name: str, pool_id: int, cpus: str, milli: int = 0) -> Grant:
    return Grant(
        container_id=ContainerId(name),
        pool_id=PoolId(pool_id),
        exclusive=CpuSet.parse(cpus),
        shared_milli=milli,
    )


ROOM = [
    pytest.param([], (3000, 4000, 7000), (3, 4, 7), id="nothing is held"),
    pytest.param([share("a", NODE1, 500)], (3000, 3500, 6500), (3, 3, 6), id="a share in a leaf"),
    pytest.param([share("a", NODE1, 4000)], (3000, 0, 3000), (3, 0, 3), id="all of a leaf"),
    pytest.param([share("a", SOCKET0, 500)], (3000, 4000, 6500), (3, 4, 6), id="a share above"),
    pytest.param(
        [share("a", SOCKET0, 5500)],
        (1500, 1500, 1500),
        (1, 1, 1),
        id="what a pool owes limits those below",
    ),
    pytest.param(
        [share("a", NODE0, 2500), share("b", NODE1, 2500)],
        (500, 1500, 2000),
        (0, 1, 1),
        id="thin shares keep a whole cpu in each pool",
    ),
    pytest.param(
        [own("a", NODE1, "4-5")], (3000, 2000, 5000), (3, 2, 5), id="cpus of one's own are gone"
    ),
    pytest.param(
        [own("a", SOCKET0, "1,4")], (2000, 3000, 5000), (2, 3, 5), id="from everybody below too"
    ),
    pytest.param(
        [own("a", NODE1, "4", 500)], (3000, 2500, 5500), (3, 2, 5), id="a mixed grant does both"
    ),
    pytest.param(
        [share("a", NODE1, 0)], (3000, 4000, 7000), (3, 3, 6), id="who asks for nothing has a cpu"
    ),
    pytest.param(
        [share("a", NODE1, 0), share("b", ROOT, 12000)],
        (3000, 3000, 3000),
        (3, 2, 2),
        id="who asks for nothing takes nothing from the pools beside",
    ),
    pytest.param(
        [share("a", NODE1, 6000)],
        (1000, -2000, 1000),
        (1, 0, 1),
        id="what was adopted may be more than there is",
    ),
]


@pytest.mark.parametrize(("grants", "milli", "sliceable"), ROOM)
def test_room_is_left(
    grants: list[Grant], milli: tuple[int, ...], sliceable: tuple[int, ...]
) -> None:
    ledger = ledger_of()
    for grant in grants:
        ledger.add(grant)
    zero = [not grant.exclusive and not grant.shared_milli for grant in grants]
    assert ledger.room.grantable_milli[:3] == milli
    assert ledger.room.sliceable[:3] == sliceable
    if not any(zero):
        assert ledger.room.shared_milli == ledger.room.grantable_milli
    ledger.check()


def test_a_container_that_asks_for_nothing_counts_one_in_its_pool_and_above() -> None:
    ledger = ledger_of()
    ledger.add(share("a", NODE1, 0))
    ledger.add(share("b", NODE1, 0))
    assert ledger.room.shared_milli == (3000, 3999, 6999, 4000, 4000, 8000, 14999)


def test_without_reserved_cpus_nobody_takes_the_last_sharable_one() -> None:
    machine = machine_from_spec("socket:2 core:1")
    ledger = Ledger(
        build_tree(machine, Supply(isolated=NO_CPUS, reserved=NO_CPUS, sharable=machine.online)),
        CpuPicker(machine),
    )
    assert ledger.room.sliceable == (1, 1, 1)
    ledger.add(own("a", 0, "0"))
    assert ledger.room.sliceable == (0, 0, 0)


def test_a_slice_takes_nothing_a_pool_below_owes() -> None:
    ledger = ledger_of()
    ledger.add(share("a", NODE1, 3500))
    assert CpuSet(ledger.slice(SOCKET0)) == CpuSet.parse("1-3")
    assert CpuSet(ledger.slice(ROOT)) == CpuSet.parse("1-3,8-15")
    assert ledger.slice(NODE0) == ledger.free_sharable[NODE0]


def test_cpus_of_a_node_without_memory_can_be_sliced_from_the_socket() -> None:
    machine = machine_from_spec("socket:1 numa:3 core:2 mem:1G")
    nodes = list(machine.numa_nodes)
    nodes[2] = dataclasses.replace(nodes[2], memory_bytes=0)
    ledger = ledger_on(dataclasses.replace(machine, numa_nodes=tuple(nodes)))
    ledger.add(share("a", 0, 900))
    ledger.add(share("b", 1, 1900))
    assert [pool.name for pool in ledger.tree.pools][-1] == "socket #0"
    assert ledger.room.sliceable == (0, 0, 2)
    assert CpuSet(ledger.slice(PoolId(2))) == CpuSet.parse("4-5")


def test_reserved_shares_are_of_the_reserved_cpus() -> None:
    ledger = ledger_of(reserved="cpuset:0-1")
    grant = Grant(
        container_id=ContainerId("a"),
        pool_id=ROOT,
        cpu_type=CpuType.RESERVED,
        shared_milli=700,
    )
    before = ledger.room
    ledger.add(grant)
    assert ledger.free_reserved_milli == 1300
    assert ledger.room == before
    assert ledger.sharing(ROOT) == {}
    assert ledger.neighbours[ROOT] == 0
    ledger.drop(grant.container_id)
    assert ledger.free_reserved_milli == 2000


def test_preserved_containers_take_nothing() -> None:
    ledger = ledger_of()
    before = ledger.room
    ledger.add(
        Grant(
            container_id=ContainerId("a"),
            pool_id=ROOT,
            cpu_type=CpuType.PRESERVE,
            shared_milli=9000,
        )
    )
    assert ledger.room == before
    assert ledger.sharing(ROOT) == {}


def test_isolated_cpus_are_no_shared_ones() -> None:
    ledger = ledger_of("socket:1 core:6 isolated:4-5")
    grant = Grant(
        container_id=ContainerId("a"),
        pool_id=PoolId(0),
        exclusive=CpuSet.parse("4"),
        isolated=CpuSet.parse("4"),
    )
    ledger.add(grant)
    assert CpuSet(ledger.free_isolated[0]) == CpuSet.parse("5")
    assert ledger.room.sliceable == (3,)
    ledger.drop(grant.container_id)
    assert CpuSet(ledger.free_isolated[0]) == CpuSet.parse("4-5")
    assert CpuSet(ledger.free_sharable[0]) == CpuSet.parse("1-3")


def test_cpus_outside_the_pool_of_a_grant_are_gone_everywhere() -> None:
    ledger = ledger_of()
    ledger.add(own("a", NODE0, "1,12"))
    assert not any(mask >> 12 & 1 or mask >> 1 & 1 for mask in ledger.free_sharable)
    ledger.drop(ContainerId("a"))
    assert ledger.free_sharable == ledger_of().free_sharable


def test_dropping_who_holds_nothing_changes_nothing() -> None:
    ledger = ledger_of()
    ledger.add(share("a", NODE1, 500))
    room = ledger.room
    assert ledger.drop(ContainerId("b")) is None
    assert ledger.room is room


def test_another_memory_zone_is_seen_wherever_the_grant_is() -> None:
    ledger = ledger_of()
    ledger.add(share("a", NODE1, 500))
    ledger.add(own("b", NODE1, "4"))
    for name in "ab":
        ledger.move_memory(ContainerId(name), NodeSet.of(0, 1))
        assert ledger.grants[ContainerId(name)].memory == NodeSet.of(0, 1)
    assert ledger.sharing(NODE1)[ContainerId("a")].memory == NodeSet.of(0, 1)
    assert ContainerId("b") not in ledger.sharing(NODE1)
    ledger.drop(ContainerId("a"))
    assert ledger.sharing(NODE1) == {}


def test_a_share_given_back_for_a_question_is_still_held() -> None:
    ledger = ledger_of()
    ledger.add(share("a", NODE1, 3500))
    ledger.add(share("b", NODE1, 0))
    grants = ledger.grants
    asked = ledger.without_share(grants[ContainerId("a")])
    assert asked.room.grantable_milli[NODE1] == 4000
    assert asked.room.sliceable[NODE1] == 3
    assert asked.without_share(grants[ContainerId("b")]).room.sliceable[NODE1] == 4
    assert ledger.room.grantable_milli[NODE1] == 500
    ledger.check()


def grants() -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """Pool, milli-cpus and number of whole cpus of each grant tried."""
    return st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from((0, 1, 250, 900, 1500)), st.integers(0, 3)),
        max_size=25,
    )


TREES = ("socket:2 numa:2 core:4 mem:1G", "socket:1 numa:2 l3:2 core:2 mem:1G", "socket:1 core:3")


def placed(ledger: Ledger, wanted: list[tuple[int, int, int]]) -> Iterator[Grant]:
    """Those grants that fit, taken from slices, in order."""
    for number, (pool, milli, count) in enumerate(wanted):
        pool_id = PoolId(pool % len(ledger.tree.pools))
        left = ledger.room.grantable_milli[pool_id] - 1000 * count
        if ledger.room.sliceable[pool_id] < count or left < milli:
            continue
        cpus = list(iter_bits(ledger.slice(pool_id)))[-count:] if count else []
        grant = own(f"c{number}", pool_id, str(CpuSet.collect(cpus)), milli)
        ledger.add(grant)
        yield grant


@pytest.mark.parametrize("spec", TREES)
@settings(max_examples=60, deadline=None)
@given(wanted=grants())
def test_releases_undo_grants(spec: str, wanted: list[tuple[int, int, int]]) -> None:
    ledger = ledger_of(spec)
    states: list[tuple[object, ...]] = []
    held: list[Grant] = []
    tried = placed(ledger, wanted)
    while True:
        states.append((ledger.room, list(ledger.free_sharable), dict(ledger.grants)))
        grant = next(tried, None)
        if grant is None:
            break
        held.append(grant)
        ledger.check()
    for grant in reversed(held):
        states.pop()
        assert ledger.drop(grant.container_id) == grant
        assert states[-1] == (ledger.room, ledger.free_sharable, dict(ledger.grants))


@pytest.mark.parametrize("spec", TREES)
@settings(max_examples=60, deadline=None)
@given(wanted=grants(), data=st.data())
def test_any_cpus_of_a_slice_leave_everybody_what_it_is_owed(
    spec: str, wanted: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    ledger = ledger_of(spec)
    held = list(placed(ledger, wanted))
    pools = ledger.tree.pools
    pool_id = data.draw(st.sampled_from([pool.id for pool in pools]))
    cpus = list(iter_bits(ledger.slice(pool_id)))
    count = ledger.room.sliceable[pool_id]
    taken = sum(1 << cpu for cpu in data.draw(st.permutations(cpus))[:count])
    assert taken.bit_count() == count
    for pool in pools:
        below = [one for one in held if one.pool_id in ledger.tree.subtree(pool.id)]
        left = ledger.free_sharable[pool.id] & ~taken
        assert 1000 * left.bit_count() >= sum(grant.shared_milli for grant in below)
        if any(grant.has_shared_part for grant in below) and ledger.free_sharable[pool.id]:
            assert left, "nobody loses the last cpu"


def narrowed(name: str, pool_id: int, cpus: str, milli: int = 0) -> Grant:
    return structs.replace(share(name, pool_id, milli), within=CpuSet.parse(cpus))


@pytest.mark.parametrize(
    ("grants", "owed"),
    [
        pytest.param([narrowed("a", NODE1, "4-5", 500)], 1, id="half a cpu of two"),
        pytest.param([narrowed("a", NODE1, "4-5")], 1, id="who asks for nothing has to run"),
        pytest.param(
            [narrowed("a", NODE1, "4-5", 700), narrowed("b", NODE1, "4-5", 700)],
            2,
            id="two on the same cpus",
        ),
        pytest.param(
            [narrowed("a", NODE1, "4", 700), narrowed("b", NODE1, "4-5", 300)],
            1,
            id="one on cpus around the other's",
        ),
        pytest.param(
            [narrowed("a", NODE1, "4", 700), narrowed("b", NODE1, "6-7", 300)],
            2,
            id="two apart",
        ),
    ],
)
def test_narrowed_shares_keep_cpus_of_theirs(grants: list[Grant], owed: int) -> None:
    ledger = ledger_of()
    for grant in grants:
        ledger.add(grant)
    kept = CpuSet.parse("4-7") - CpuSet(ledger.slice(NODE1))
    assert len(kept) == owed
    for grant in grants:
        assert grant.within
        assert not kept.isdisjoint(grant.within)
    assert ledger.sliceable(NODE1) == 4 - owed
    assert not CpuSet(ledger.slice(ROOT)) & kept
    ledger.check()
    for grant in grants:
        ledger.drop(grant.container_id)
    assert ledger.sliceable(NODE1) == 4


def test_who_shares_reserved_cpus_is_owed_no_others() -> None:
    ledger = ledger_of()
    ledger.add(narrowed("a", ROOT, "1-7", 500))
    ledger.add(narrowed("b", ROOT, "0", 900))
    assert ledger.owed.bit_count() == 1


def test_a_share_on_some_cpus_of_a_pool_has_room_where_no_other_has_been_promised_it() -> None:
    ledger = ledger_of()
    cpus = CpuSet.parse("4-5").mask
    assert ledger.room_within(NODE1, cpus) == 2000
    ledger.add(narrowed("a", NODE1, "5-6", 500))
    assert ledger.room_within(NODE1, cpus) == 1500
    ledger.add(share("b", NODE1, 3000))
    assert ledger.room_within(NODE1, cpus) == 500
    assert ledger.room_within(SOCKET0, CpuSet.parse("4-7").mask) == 500


def narrow_some(ledger: Ledger, wanted: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Place those grants that fit, and narrow some of them to any cpus of their pools."""
    masks = [pool.cpus.mask for pool in ledger.tree.pools]
    for grant in list(placed(ledger, wanted)):
        within = masks[grant.pool_id] & data.draw(st.integers(0, masks[-1]))
        if within and data.draw(st.booleans()):
            ledger.repool(structs.replace(grant, within=CpuSet(within)))


@pytest.mark.parametrize("spec", TREES)
@settings(max_examples=60, deadline=None)
@given(wanted=grants(), data=st.data())
def test_the_room_but_for_a_grant_is_that_where_its_share_was_given_back(
    spec: str, wanted: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    ledger = ledger_of(spec)
    masks = [pool.cpus.mask for pool in ledger.tree.pools]
    sets = st.integers(0, masks[-1])
    narrow_some(ledger, wanted, data)
    for grant in ledger.grants.values():
        cpus = masks[grant.pool_id] & data.draw(sets)
        given_back = ledger.without_share(grant)
        for one in (cpus, masks[grant.pool_id]):
            room = ledger.room_within(grant.pool_id, one, but=grant)
            assert room == given_back.room_within(grant.pool_id, one)


@pytest.mark.parametrize("spec", TREES)
@settings(max_examples=60, deadline=None)
@given(wanted=grants(), data=st.data())
def test_the_room_in_a_trial_is_that_of_a_ledger_whose_shares_have_fewer_cpus(
    spec: str, wanted: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    ledger = ledger_of(spec)
    for _ in placed(ledger, wanted):
        pass
    masks = [pool.cpus.mask for pool in ledger.tree.pools]
    sets = st.integers(0, masks[-1])
    trial, other = ledger.narrowed.copy(), ledger.copy()
    for grant in [one for one in ledger.grants.values() if not one.exclusive]:
        cpus = masks[grant.pool_id] & data.draw(sets)
        other.drop(grant.container_id)
        room = ledger.room_within(grant.pool_id, cpus, grant, trial)
        assert room == other.room_within(grant.pool_id, cpus)
        if cpus & ledger.tree.pools[grant.pool_id].sharable.mask:
            grant = structs.replace(grant, within=CpuSet(cpus))
            trial.add(grant)
        other.add(grant)


@pytest.mark.parametrize("spec", TREES)
@settings(max_examples=60, deadline=None)
@given(wanted=grants(), data=st.data())
def test_whichever_cpus_of_a_pool_are_left_no_more_is_promised_there_than_inside_it(
    spec: str, wanted: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    ledger = ledger_of(spec)
    masks = [pool.cpus.mask for pool in ledger.tree.pools]
    sets = st.integers(0, masks[-1])
    narrow_some(ledger, wanted, data)
    for pool in ledger.tree.pools:
        cpus = data.draw(sets)
        left = 1000 * (ledger.free_sharable[pool.id] & cpus).bit_count()
        most = ledger.room.grantable_milli[pool.id]
        least = min(most, left - ledger.promised_inside(pool.id))
        assert least <= ledger.room_within(pool.id, cpus) <= most


@pytest.mark.parametrize("spec", TREES)
@settings(max_examples=60, deadline=None)
@given(wanted=grants(), data=st.data())
def test_a_slice_has_what_it_is_said_to_have_before_it_is_picked(
    spec: str, wanted: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    ledger = ledger_of(spec)
    masks = [pool.cpus.mask for pool in ledger.tree.pools]
    narrow_some(ledger, wanted, data)
    region = data.draw(st.integers(0, masks[-1]))
    for pool in ledger.tree.pools:
        cut = ledger.slice(pool.id)
        assert ledger.cut_within(pool.id) <= cut.bit_count()
        assert ledger.cut_within(pool.id, region) <= (cut & region).bit_count()
    cuts = [ledger.cut_within(pool.id, region) for pool in ledger.tree.pools]
    assert list(ledger.cuts_within(region)) == cuts


def test_what_narrowed_shares_are_promised_at_most_is_known_without_looking_at_where_they_are() -> (
    None
):
    ledger = ledger_of()
    for number, within in enumerate(("1-2", "2-3", "2-3", "1")):
        grant = structs.replace(share(f"s{number}", NODE0, 200), within=CpuSet.parse(within))
        ledger.add(grant)
        rough = ledger.promised_inside(NODE0, is_rough=True)
        assert rough == 200 * (number + 1)
        assert rough >= ledger.promised_inside(NODE0)
        for cpus in range(16):
            room = ledger.room_within(NODE0, cpus)
            left = ledger.free_sharable[NODE0] & cpus
            sure = min(ledger.room.grantable_milli[NODE0], 1000 * left.bit_count() - rough)
            assert room >= sure
    ledger.repool(structs.replace(share("s3", NODE0, 100), within=CpuSet.parse("1-2")))
    for number in range(4):
        ledger.drop(ContainerId(f"s{number}"))
    assert not ledger.promised_inside(NODE0, is_rough=True)


@given(st.data())
def test_what_narrowed_shares_are_promised_is_that_of_all_that_have_some_of_the_cpus(
    data: st.DataObject,
) -> None:
    ledger, masks = ledger_of(), st.integers(1, 0xFFFF)
    shares: dict[str, tuple[int, int]] = {}
    for number in range(data.draw(st.integers(1, 12))):
        cpus, milli = data.draw(masks), 100 * data.draw(st.integers(0, 3))
        name, there = f"s{number % 7}", data.draw(st.booleans())
        shares.pop(name, None)
        ledger.drop(ContainerId(name))
        within = cpus & ledger.tree.root.sharable.mask
        if there and within:
            shares[name] = within, milli
            ledger.add(structs.replace(share(name, ROOT, milli), within=CpuSet(within)))
        asked, counted = data.draw(masks), data.draw(masks)
        expected = sum(own for mask, own in shares.values() if mask & asked and mask & ~counted)
        assert ledger.narrowed.promised(asked, counted) == expected
        assert ledger.copy().narrowed.promised(asked, counted) == expected


@settings(max_examples=100)
@given(st.data())
def test_what_is_owed_to_narrowed_shares_is_the_same_whenever_it_was_asked_before(
    data: st.DataObject,
) -> None:
    ledger, sharable = ledger_of(), list(iter_bits(0xFE))
    some = st.sets(st.sampled_from(sharable), min_size=1).map(lambda cpus: CpuSet.of(*cpus))
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from("abcd"))
        ledger.drop(ContainerId(name))
        if data.draw(st.booleans()):
            grant = narrowed(name, SOCKET0, "1", data.draw(st.integers(0, 3000)))
            within, beside = data.draw(st.tuples(some, st.lists(some, max_size=2)))
            ledger.add(structs.replace(grant, within=within, beside=tuple(beside)))
        if data.draw(st.booleans()):
            # To ask may keep what was summed up, for a copy as well.
            assert ledger.owed == ledger.copy().owed
        if grants := list(ledger.grants.values()):
            assert ledger.without_share(grants[0]).owed == anew(ledger, but=grants[0]).owed
    assert ledger.owed == anew(ledger).owed


def anew(ledger: Ledger, but: Grant | None = None) -> Ledger:
    """A ledger of the same grants of which nobody has asked anything."""
    found = ledger_of()
    for one in ledger.grants.values():
        found.add(one)
    return found if but is None else found.without_share(but)
