"""Adoption where something is wrong with single containers, and of single containers."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.reconfiguration import Fate, find_moves
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.policy.model.instances import newest_of_each_id
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet, NodeSet
from tests.unit.topology.model.offline import without

NODES = machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G")
CONFIG = Config(reserved_resources=Amounts(cpu="cpuset:0"))
OTHER = Config(reserved_resources=Amounts(cpu="cpuset:0"), colocate_pods=True)
NO_PAGES: Mapping[int, int] = {0: 4096}
"""Huge pages of no size: nobody can count them."""
NO_TEXT: Any = {"cold-start.resource-policy.nri.io/pod": 5}
NO_NUMBER: Any = "much"


def running(
    name: str,
    milli: int = 0,
    cpus: str | None = None,
    *,
    pages: Mapping[int, int] = MappingProxyType({}),
    annotations: Mapping[str, str] = MappingProxyType({}),
    namespace: str = "default",
) -> Container:
    qos = QosClass.GUARANTEED if milli else QosClass.BEST_EFFORT
    pod = PodId(f"pod-{name}")
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=pod, name=pod, namespace=namespace, qos=qos, annotations=annotations),
        resources=Resources(
            cpu_request_milli=milli, cpu_limit_milli=milli or None, hugepage_bytes=pages
        ),
        state=ContainerState.RUNNING,
        cpus=None if cpus is None else CpuSet.parse(cpus),
        mems=NodeSet.parse("0-3"),
    )


def told(engine: Engine) -> dict[str, str]:
    found = {one: engine.pinning(one) for one in engine.grants}
    return {one: str(pinning.cpus) for one, pinning in found.items() if pinning is not None}


SOUND = (running("own", 2000, "6-7"), running("shared", 500, "1-3"), running("idle", cpus="1-3"))
FAULTY = [
    pytest.param(running("bad", 2000, "4-5", pages=NO_PAGES), id="that cannot be booked"),
    pytest.param(running("bad", 2000, "4-5", annotations=NO_TEXT), id="that cannot be classified"),
]


@pytest.mark.parametrize("bad", FAULTY)
def test_a_container_is_left_as_it_runs(bad: Container) -> None:
    """It keeps what it runs on, is told nothing, and keeps nobody else from being adopted."""
    engine = Engine(NODES, CONFIG)
    answer = engine.synchronize([bad, *SOUND])
    assert answer.changes == ()
    assert told(engine) == {"bad": "None", "own": "6-7", "shared": "1-3", "idle": "1-3"}
    assert set(answer.faults) == {"bad"}
    decision = engine.decisions[bad.id]
    assert decision.fault == repr(answer.faults[bad.id])
    assert str(decision.problems[0]).startswith("default/pod-bad/bad: kept as it runs, for a fault")
    assert [one.container_id for one in answer.decisions if one.fault] == ["bad"]
    late = engine.create(running("late", 8000)).result
    assert isinstance(late, Grant)
    assert not late.exclusive & CpuSet.parse("4-7"), "what it runs on is not given away"
    engine.check()
    engine.stop(bad.id)
    assert CpuSet.parse("4-5") <= CpuSet(engine.snapshot().free_sharable[-1])
    engine.check()


@pytest.mark.parametrize("bad", FAULTY)
def test_a_reload_and_a_resize_with_a_container(bad: Container) -> None:
    engine = Engine(NODES, CONFIG)
    engine.synchronize([bad, *SOUND])
    more = Resources(cpu_request_milli=4000, cpu_limit_milli=4000)
    assert engine.update(bad.id, replace(more, hugepage_bytes=NO_PAGES)).fault
    assert engine.containers[bad.id].resources.cpu_request_milli == 4000
    again, answer = engine.reconfigured(OTHER)
    assert answer.changes == ()
    assert set(answer.faults) == {"bad"}
    assert str(again.grants[bad.id].exclusive) == "4-5"
    assert {one.fate for one in find_moves(engine.snapshot(), again.snapshot())} == {Fate.STAYS}
    again.check()


UNPROTECTED = [
    pytest.param(
        running("bad", 1000, "8-15", pages=NO_PAGES), None, "", id="more than it asks for"
    ),
    pytest.param(running("bad", 2000, "2-3", pages=NO_PAGES), None, "", id="cpus of others"),
    pytest.param(running("bad", 2000, None, pages=NO_PAGES), None, "", id="no cpus"),
    pytest.param(running("bad", cpus="4-5", pages=NO_PAGES), None, "", id="without asking for any"),
    pytest.param(
        running("bad", 1500, "4-5", pages=NO_PAGES), "4", "4", id="one of its own as is remembered"
    ),
    pytest.param(
        running("bad", 2000, "4-5", pages=NO_PAGES), "", "", id="none of its own as is remembered"
    ),
]


@pytest.mark.parametrize(("bad", "remembered", "own"), UNPROTECTED)
def test_cpus_set_aside_for_a_faulty_container_that_runs_on(
    bad: Container, remembered: str | None, own: str
) -> None:
    engine = Engine(NODES, CONFIG)
    advice: dict[ContainerId, Advice] = {}
    if remembered is not None:
        advice[bad.id] = Advice(pool="root", exclusive=CpuSet.parse(remembered))
    assert engine.synchronize([bad, *SOUND], advice).changes == ()
    assert str(engine.grants[bad.id].exclusive) == own
    engine.check()


def test_a_container_that_cannot_even_be_left_as_it_runs_is_left_out() -> None:
    bad = running("bad", 2000, "4-5")
    bad = replace(bad, resources=replace(bad.resources, cpu_request_milli=NO_NUMBER))
    engine = Engine(NODES, CONFIG)
    answer = engine.synchronize([bad, *SOUND])
    assert answer.changes == ()
    assert told(engine) == {"own": "6-7", "shared": "1-3", "idle": "1-3"}
    assert isinstance(engine.decisions[bad.id].result, Refusal)
    assert set(answer.faults) == {"bad"}
    engine.check()


def test_several_faulty_containers_and_what_was_looked_at_in_memory() -> None:
    engine = Engine(NODES, CONFIG)
    engine.observe_memory({0: 2**30, 1: 0, 2: 0, 3: 0})
    many = [running(f"bad{i}", 1000, str(8 + i), pages=NO_PAGES) for i in range(5)]
    answer = engine.synchronize([*many, *SOUND])
    assert len(answer.faults) == 5
    assert answer.changes == ()
    result = engine.create(replace(running("late", 1000), mems=None))
    assert str(result.pinning.mems) == "0", "the others are known to be full"
    engine.check()


def test_an_id_that_is_listed_twice_counts_once_and_is_reported() -> None:
    """The same id in two pods, which would be booked twice."""
    old, new = running("a", 2000, "4-5"), running("a", 2000, "6-7")
    new = replace(new, name="b", pod=replace(new.pod, name="other"), created_at=1)
    for listed in ([old, new], [new, old]):
        engine = Engine(NODES, CONFIG)
        (decision,) = engine.synchronize(listed).decisions
        assert told(engine) == {"a": "6-7"}
        assert [str(one) for one in decision.problems] == [
            "default/other/b: the runtime lists id 'a' 2 times; the newest entry counts"
        ]
        engine.check()


def test_of_entries_of_one_id_and_age_the_last_live_one_counts() -> None:
    first, last = running("a", cpus="1"), running("a", cpus="2")
    dead = replace(last, state=ContainerState.EXITED)
    assert newest_of_each_id([first, last]) == (last,)
    assert newest_of_each_id([first, dead]) == (first,)


def test_a_reload_keeps_why_a_container_is_where_it_is() -> None:
    engine = Engine(NODES, CONFIG)
    before = engine.create(running("a", 2000))
    engine.create(running("b", 500))
    assert before.candidates
    again, _ = engine.reconfigured(OTHER)
    after = again.decisions[ContainerId("a")]
    assert (after.decided_by, after.candidates) == (before.decided_by, before.candidates)
    assert after.result == again.grants[ContainerId("a")]
    assert again.decisions[ContainerId("b")].decided_by != "kept"


def test_a_reload_with_other_pools_keeps_the_criterion_alone() -> None:
    engine = Engine(NODES, CONFIG)
    before = engine.create(running("a", 500, namespace="kube-system"))
    placed = engine.create(running("b", 2000))
    again, _ = engine.reconfigured(CONFIG, without(NODES, CpuSet.parse("12-15")))
    assert len(again.tree.pools) < len(engine.tree.pools)
    after = again.decisions[ContainerId("b")]
    assert (after.decided_by, after.candidates) == (placed.decided_by, ())
    assert again.decisions[ContainerId("a")].decided_by == before.decided_by


def test_a_reconnection_keeps_why_a_container_is_where_it_is() -> None:
    engine = Engine(NODES, CONFIG)
    before = engine.create(running("a", 2000))
    engine.synchronize(engine.snapshot().running())
    after = engine.decisions[ContainerId("a")]
    assert (after.decided_by, after.lineup) == (before.decided_by, before.lineup)


def test_a_container_that_has_to_move_has_a_new_reason() -> None:
    engine = Engine(NODES, CONFIG)
    engine.create(running("a", 500))
    grant = engine.create(running("b", 1000)).result
    assert isinstance(grant, Grant)
    taken = Config(reserved_resources=Amounts(cpu=f"cpuset:{grant.exclusive}"))
    again, answer = engine.reconfigured(taken)
    assert {one.container_id for one in answer.changes} >= {"b"}
    assert again.decisions[ContainerId("b")].lineup is not engine.decisions[ContainerId("b")].lineup


def test_a_container_that_misses_cpus_still_says_so_after_a_reload() -> None:
    engine = Engine(machine_from_spec("socket:1 core:4"), CONFIG)
    engine.create(running("a", 2000))
    engine.adopt(running("b", 3000))
    said = engine.decisions[ContainerId("b")]
    assert said.degraded
    again, _ = engine.reconfigured(OTHER)
    after = again.decisions[ContainerId("b")]
    assert (after.degraded, after.decided_by) == (said.degraded, said.decided_by)


def test_a_container_that_was_never_announced_keeps_legal_cpus() -> None:
    engine = Engine(NODES, CONFIG)
    engine.synchronize([running("shared", 500, "4-7")])
    decision = engine.adopt(running("late", 2000, "4-5"))
    assert (decision.decided_by, str(decision.pinning.cpus)) == ("kept", "4-5")
    assert {one.container_id: str(one.after.cpus) for one in decision.changes} == {"shared": "6-7"}
    engine.check()


def test_a_container_that_was_never_announced_is_placed_where_it_has_nothing_legal() -> None:
    for cpus in (None, "0-15"):
        engine = Engine(NODES, CONFIG)
        engine.create(running("own", 2000))
        decision = engine.adopt(running("late", 2000, cpus))
        assert isinstance(decision.result, Grant)
        assert len(decision.result.exclusive) == 2
        assert decision.candidates
        assert not decision.degraded
        engine.check()


def test_a_container_that_was_never_announced_is_refused_nothing_and_concerns_nobody() -> None:
    engine = Engine(machine_from_spec("socket:1 core:4"), CONFIG)
    created = replace(running("new", 1000), state=ContainerState.CREATED)
    before = engine.create(created)
    decision = engine.adopt(running("late", 9000))
    assert isinstance(decision.result, Grant)
    assert decision.degraded
    assert str(decision.pinning.cpus) == "2-3"
    assert engine.containers[created.id].state is ContainerState.CREATED
    assert engine.decisions[created.id] == before
    engine.check()


def test_a_container_that_is_adopted_replaces_its_older_instance() -> None:
    engine = Engine(NODES, CONFIG)
    old = running("a", 2000)
    engine.create(old)
    engine.adopt(replace(old, id=ContainerId("again")))
    assert set(engine.grants) == {"again"}
    engine.check()


def test_a_container_on_cpus_that_are_lent_to_it_stays_in_the_pool_it_was_placed_in() -> None:
    engine = Engine(NODES, CONFIG)
    guest = engine.create(running("guest"))
    assert isinstance(guest.result, Grant)
    (pool,) = (one for one in engine.tree.pools if one.name == guest.pool)
    for number in range(len(engine.supply.sharable)):
        engine.create(running(f"owner-{number}", 1000))
    before = engine.snapshot()
    assert not before.free_sharable[pool.id]
    again = Engine(NODES, CONFIG)
    again.synchronize(before.running(), before.advice())
    assert again.grants == before.grants


@pytest.mark.parametrize(
    ("mixed", "others", "stays"),
    [
        pytest.param("0,2", ["1", "3-15"], True, id="beside its own it waits on the reserved one"),
        pytest.param("0,2", ["2-15"], False, id="the other one is not its own"),
        pytest.param("0,2-3", ["1", "4-15"], False, id="it has more than it asks for"),
    ],
)
def test_who_waits_on_reserved_cpus_beside_its_own_keeps_them_though_nobody_remembers(
    mixed: str, others: Sequence[str], *, stays: bool
) -> None:
    engine = Engine(NODES, CONFIG)
    full = [running(f"o{one}", 1000 * len(CpuSet.parse(one)), one) for one in others]
    one = running("mixed", 1500, mixed)
    engine.synchronize([*full, one], {})
    pinning = engine.pinning(one.id)
    assert pinning is not None
    assert (str(pinning.cpus) == mixed) is stays
    engine.check()


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_claim_of_cpus_that_are_anothers_takes_them_from_nobody_at_a_restart(
    is_remembered: bool,
) -> None:
    owner = running("owner", 2000)
    claimer = replace(running("claimer", 3000), claimed=CpuSet.parse("5-7"))
    engine = Engine(NODES, CONFIG)
    cpus = engine.create(owner).pinning.cpus
    assert str(cpus) == "4-5"
    engine.create(claimer)
    before = engine.snapshot()
    again = Engine(NODES, CONFIG)
    advice = before.advice() if is_remembered else dict[ContainerId, Advice]()
    synchronized = again.synchronize([claimer, replace(owner, cpus=cpus)], advice)
    assert [one.container_id for one in synchronized.changes if one.after.cpus != cpus] == []
    assert again.grants[owner.id].exclusive == cpus
    assert str(again.grants[claimer.id].exclusive) == "6-7"
    again.check()


POD_POOL = {"pod-pool.pinfold.dev/pod": "true"}


@pytest.mark.parametrize(
    ("milli", "began_on"),
    [
        pytest.param(500, "0-15", id="nobody pinned it"),
        pytest.param(1000, "4", id="somebody else gave it one of them"),
    ],
)
def test_who_began_while_we_were_away_takes_from_no_pod_what_is_remembered_of_it(
    milli: int, began_on: str
) -> None:
    engine, pod = Engine(NODES, CONFIG), running("pod", 2000, annotations=POD_POOL)
    own = engine.create(pod).pinning.cpus
    assert str(own) == "4-5"
    before = engine.snapshot()
    stranger = running("stranger", milli, began_on)
    again = Engine(NODES, CONFIG)
    synchronized = again.synchronize([*before.running(), stranger], before.advice())
    assert [one.container_id for one in synchronized.changes] == [stranger.id]
    assert again.snapshot().pens == before.pens
    told = again.pinning(stranger.id)
    assert told is not None
    assert told.cpus is not None
    assert own is not None
    assert not told.cpus & own
    again.check()


def test_who_began_on_a_thread_that_is_hidden_from_a_pod_takes_it_from_nobody() -> None:
    """The pod has it for itself, and no cpuset tells."""
    hidden = {**POD_POOL, "hide-hyperthreads.resource-policy.nri.io/pod": "true"}
    engine, owner = Engine(NODES, CONFIG), running("owner", 2000, annotations=hidden)
    assert str(engine.create(owner).pinning.cpus) == "4"
    before = engine.snapshot()
    stranger = replace(running("a-stranger", 1000, "5"), created_at=-1)
    again = Engine(NODES, CONFIG)
    synchronized = again.synchronize([*before.running(), stranger], before.advice())
    assert [one.container_id for one in synchronized.changes] == [stranger.id]
    assert again.snapshot().pens == before.pens
    again.check()


SHARES = [
    pytest.param({}, id="containers"),
    pytest.param({"group.pinfold.dev/pod": "web"}, id="a group"),
    pytest.param(POD_POOL, id="pods with pens"),
]


def with_a_stranger(
    wish: Mapping[str, str], milli: int, *, is_claimed: bool, is_remembered: bool = True
) -> tuple[Snapshot, Engine]:
    """Two that share cpus 4-7, a restart, and who began meanwhile on cpu 5, and what is then."""
    engine = Engine(NODES, CONFIG)
    there, listed = {"pool-name.pinfold.dev/pod": "NUMA node #1", **wish}, list[Container]()
    for name in ("one", "other"):
        one = running(name, milli)
        pod = replace(one.pod, qos=QosClass.BURSTABLE, annotations=there)
        engine.create(replace(one, pod=pod))
        # Nobody insists on the pool any more.
        pinning = engine.pinning(one.id)
        assert pinning is not None
        pod = replace(pod, annotations=wish)
        listed.append(replace(one, pod=pod, cpus=pinning.cpus, mems=pinning.mems))
    before = engine.snapshot()
    assert {str(one.cpus) for one in before.pinnings.values()} == {"4-7"}
    stranger = running("stranger", 1000, "5")
    if is_claimed:
        stranger = replace(stranger, claimed=CpuSet.of(5))
    again = Engine(NODES, CONFIG)
    again.synchronize([*listed, stranger], before.advice() if is_remembered else {})
    again.check()
    return before, again


@pytest.mark.parametrize("is_claimed", [True, False], ids=["a claim", "who asks for it"])
@pytest.mark.parametrize("wish", SHARES)
def test_who_shares_keeps_the_cpus_that_a_stranger_leaves(
    wish: Mapping[str, str], is_claimed: bool
) -> None:
    """It is not placed anew, far from its memory, for one cpu that is somebody's by now."""
    before, again = with_a_stranger(wish, 500, is_claimed=is_claimed)
    assert str(again.grants[ContainerId("stranger")].exclusive) == "5"
    for key, was in before.pinnings.items():
        now = again.pinning(ContainerId(key))
        assert now == replace(was, cpus=CpuSet.parse("4,6-7"))
        assert again.decisions[key].pool == "NUMA node #1"
        assert again.decisions[key].decided_by == "kept"


@pytest.mark.parametrize("is_claimed", [True, False], ids=["a claim", "who asks for it"])
def test_who_shares_keeps_the_cpus_that_a_stranger_leaves_though_nobody_is_remembered(
    *, is_claimed: bool
) -> None:
    before, again = with_a_stranger({}, 500, is_claimed=is_claimed, is_remembered=False)
    assert str(again.grants[ContainerId("stranger")].exclusive) == "5"
    for key, was in before.pinnings.items():
        assert again.pinning(ContainerId(key)) == replace(was, cpus=CpuSet.parse("4,6-7"))
        assert again.decisions[key].pool == "NUMA node #1"
        assert again.decisions[key].decided_by == "kept"


@pytest.mark.parametrize(
    ("core_count", "told"),
    [
        pytest.param(3, {"first": "1", "owner": "2", "sharer": "2"}, id="no room elsewhere"),
        pytest.param(4, {"first": "1", "owner": "2", "sharer": "3"}, id="room elsewhere"),
    ],
)
def test_one_that_may_have_lost_its_own_cpu_drives_nobody_away_who_has_no_room_elsewhere(
    core_count: int, told: Mapping[str, str]
) -> None:
    engine = Engine(machine_from_spec(f"socket:1 core:{core_count} mem:2G"), CONFIG)
    sharer = running("sharer", 500, "2")
    sharer = replace(sharer, pod=replace(sharer.pod, qos=QosClass.BURSTABLE))
    engine.synchronize([running("first", 1000, "1"), running("owner", 1000, "2"), sharer], {})
    pinnings = engine.snapshot().pinnings
    assert {one: str(pinning.cpus) for one, pinning in pinnings.items()} == told
    has_own = bool(engine.grants[ContainerId("owner")].exclusive)
    assert has_own is (core_count > 3)
    missing = "" if has_own else "1 of 1 exclusive CPUs are missing"
    assert engine.decisions[ContainerId("owner")].degraded == missing
    engine.check()


def test_who_runs_on_all_shared_cpus_gets_a_place_as_nobody_may_have_pinned_it() -> None:
    engine = Engine(NODES, CONFIG)
    late = running("late", 500, "1-15")
    late = replace(late, pod=replace(late.pod, qos=QosClass.BURSTABLE))
    engine.synchronize([running("owner", 2000, "4-5"), late], {})
    assert engine.decisions[late.id].decided_by != "kept"
    engine.check()


@pytest.mark.parametrize("is_remembered", [True, False])
@pytest.mark.parametrize("wish", SHARES)
def test_who_shares_keeps_what_a_claim_would_leave_too_little_of(
    wish: Mapping[str, str], *, is_remembered: bool
) -> None:
    """Three cpus are too few for both, so the claim has none, as if it came by now, and is told."""
    before, again = with_a_stranger(wish, 1700, is_claimed=True, is_remembered=is_remembered)
    assert {one: again.pinning(one) for one in before.pinnings} == before.pinnings
    stranger = ContainerId("stranger")
    assert not again.grants[stranger].exclusive
    assert again.decisions[stranger].degraded == (
        "cpus 5 of its claim (5) are not free for it alone"
    )


@pytest.mark.parametrize("milli", [0, 9500], ids=["as it asks for nothing", "with a pen"])
def test_a_claim_of_cpus_on_which_a_stranger_began_comes_before_pods_that_share(
    milli: int,
) -> None:
    """Too much is promised, as cpus went offline: the last to be adopted have nothing left."""
    engine = Engine(NODES, CONFIG)
    claimer = replace(running("claimer", 1000), claimed=CpuSet.of(15))
    engine.create(claimer)
    for name in ("one", "other"):
        pod = running(name, 5500, annotations=POD_POOL)
        engine.create(replace(pod, pod=replace(pod.pod, qos=QosClass.BURSTABLE)))
    engine, _ = engine.reconfigured(CONFIG, without(NODES, CpuSet.parse("2-3,6-7,10-11")))
    assert str(engine.grants[claimer.id].exclusive) == "15"
    before = engine.snapshot()
    again = Engine(engine.machine, CONFIG)
    stranger = running("stranger", milli, "1,4-5,8-9,12-15", annotations=POD_POOL if milli else {})
    stranger = replace(stranger, pod=replace(stranger.pod, qos=QosClass.BURSTABLE))
    again.synchronize([*before.running(), stranger], before.advice())
    assert str(again.grants[claimer.id].exclusive) == "15"
    assert before.pens.items() <= again.snapshot().pens.items()
    again.check()


def test_a_claim_keeps_its_cpus_on_which_a_stranger_began_whatever_another_claims() -> None:
    """Of the other two one has to be left to share, and a stranger's claim is about that."""
    machine = machine_from_spec("socket:1 core:4 mem:2G")
    engine = Engine(machine, CONFIG)
    claimer = replace(running("claimer"), claimed=CpuSet.of(3))
    engine.create(claimer)
    engine.create(running("part", 1500))
    assert [str(one.exclusive) for one in engine.grants.values()] == ["3", "1"]
    later = replace(running("later", 1000), claimed=CpuSet.of(2))
    listed = [*engine.snapshot().running(), later, running("stranger", 0, "3")]
    again = Engine(machine, CONFIG)
    again.synchronize(listed, engine.snapshot().advice())
    assert str(again.grants[claimer.id].exclusive) == "3"
    again.check()


@pytest.mark.parametrize("claimed", [2, 3])
def test_a_claim_keeps_its_cpus_to_which_another_one_could_grow(claimed: int) -> None:
    """A rule leaves that one these cpus alone, so that it is owed one of them."""
    machine = machine_from_spec("socket:1 core:5 mem:2G")
    engine = Engine(machine, CONFIG)
    claimer = replace(running("claimer"), claimed=CpuSet.of(claimed))
    engine.create(claimer)
    engine.create(running("part", 1500))
    assert str(engine.grants[ContainerId("part")].exclusive) == "1"
    left = CpuSet.of(5 - claimed)
    listed = [
        replace(one, cpus=CpuSet.of(1) | left) if one.id == "part" else one
        for one in engine.snapshot().running()
    ]
    advice = dict(engine.snapshot().advice())
    advice[ContainerId("part")] = replace(advice[ContainerId("part")], within=CpuSet.of(2, 3))
    again = Engine(machine, CONFIG)
    assert again.synchronize(listed, advice).changes == ()
    assert str(again.grants[claimer.id].exclusive) == str(claimed)
    again.check()


@pytest.mark.parametrize("is_remembered", [True, False])
@pytest.mark.parametrize("qos", [QosClass.GUARANTEED, QosClass.BURSTABLE])
def test_a_container_that_began_on_all_cpus_moves_nobody_of_its_pod(
    qos: QosClass, is_remembered: bool
) -> None:
    """It restarted, and nobody pinned it: the daemon was away."""
    engine = Engine(NODES, CONFIG)
    one = running("one", 1000, annotations=POD_POOL)
    one = replace(one, pod=replace(one.pod, qos=qos, resources=Resources(cpu_request_milli=3000)))
    other, third = (replace(one, id=ContainerId(name), name=name) for name in ("other", "third"))
    first = running("first", 2000)
    for each in (first, one, other):
        engine.create(each)
    engine.remove(first.id)
    before = engine.snapshot()
    again = Engine(NODES, CONFIG)
    listed = [*before.running(), replace(third, cpus=CpuSet.parse("0-15"))]
    advice = before.advice() if is_remembered else dict[ContainerId, Advice]()
    synchronized = again.synchronize(listed, advice)
    assert again.snapshot().pens == before.pens
    assert [again.pinning(each.id) for each in (one, other)] == [
        before.pinnings[each.id] for each in (one, other)
    ]
    assert again.grants[third.id].pen == before.grants[one.id].pen
    assert [each.container_id for each in synchronized.changes] == [third.id]
    again.check()


@pytest.mark.parametrize("began_on", ["0-15", "1-15", "8-12"])
@pytest.mark.parametrize("qos", [QosClass.GUARANTEED, QosClass.BURSTABLE])
def test_a_container_that_began_on_anothers_cpus_moves_nobody_of_its_group(
    qos: QosClass, began_on: str
) -> None:
    """Nothing is remembered of any of them."""
    engine = Engine(NODES, CONFIG)
    one = running("one", 1000, annotations={"group.pinfold.dev/pod": "web"})
    one = replace(one, pod=replace(one.pod, qos=qos))
    other, third = (replace(one, id=ContainerId(name), name=name) for name in ("other", "third"))
    gone, owner = running("gone", 2000), running("owner", 1000)
    for each in (gone, one, other, owner):
        engine.create(each)
    engine.remove(gone.id)
    before, again = engine.snapshot(), Engine(NODES, CONFIG)
    assert str(before.pinnings[owner.id].cpus) == "12"
    listed = [*before.running(), replace(third, cpus=CpuSet.parse(began_on))]
    synchronized = again.synchronize(listed, {})
    for each in (one, other):
        told, had = again.pinning(each.id), before.pinnings[each.id]
        assert told is not None
        assert had.cpus is not None
        assert told.cpus is not None
        # A group of its own cpus is larger by that container, which has come to it.
        assert had.cpus <= told.cpus
        assert told.mems == had.mems
    assert again.grants[third.id].pen == before.grants[one.id].pen
    assert owner.id not in {each.container_id for each in synchronized.changes}
    again.check()


def test_who_belongs_to_a_group_without_room_is_not_taken_into_its_pods_pen() -> None:
    """It runs already, outside of the group, and its pod begins a pen beside it."""
    engine = Engine(NODES, CONFIG)
    size = Resources(cpu_request_milli=2000, cpu_limit_milli=2000)
    grouped = {"group.pinfold.dev/container.one": "blue"}
    one, other = (replace(running(name, 2000), name=name) for name in ("one", "other"))
    pod = replace(one.pod, id=PodId("pod"), uid="pod", name="pod", annotations=grouped)
    one, other = (replace(each, pod=replace(pod, resources=size)) for each in (one, other))
    crowd = running("crowd", 14500)
    engine.create(replace(crowd, pod=replace(crowd.pod, qos=QosClass.BURSTABLE)))
    engine.adopt(one)
    assert engine.grants[one.id].pen is None
    engine.remove(crowd.id)
    engine.create(other)
    assert engine.grants[one.id].pen is None
    engine.update(one.id, replace(one.resources, cpu_request_milli=1000, cpu_limit_milli=1000))
    engine.check()


def test_a_restart_moves_nobody_by_what_a_pod_had_before_the_last_changes() -> None:
    """It is killed before they are saved: a group had been larger, and others run there by now."""
    group = {"group.pinfold.dev/pod": "front"}
    engine, first = Engine(NODES, CONFIG), running("first", 2000, annotations=group)
    second = running("second", 1000, annotations=group)
    engine.create(first)
    engine.create(second)
    (pen,) = engine.snapshot().pens.values()
    pool = engine.tree.pools[pen.pool_id].name
    sharer = running("sharer", annotations={"pool-name.pinfold.dev/pod": pool})
    engine.create(sharer)
    saved = engine.snapshot().advice()
    engine.remove(first.id)
    now = engine.snapshot()
    assert (now.cpus_of(sharer.id) or NO_CPUS) & pen.exclusive
    again = Engine(NODES, CONFIG)
    assert again.synchronize(now.running(), saved).changes == ()
    assert again.snapshot().pens == now.pens
    again.check()
