"""Owners of required affinity keep beside them those who share cpus there."""

from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, ContainerState, Resources
from pinfold.policy.model.grant import Grant
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    GIB,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    reason,
    term,
)
from tests.unit.topology.model.offline import without

MACHINE = "socket:2 core:3 thread:2 mem:4G"
"""Cores 0-1, 2-3, 4-5 (NUMA node 0), 6-7, 8-9, 10-11 (NUMA node 1)."""


def _whole(count: int) -> Resources:
    return Resources(
        cpu_request_milli=1000 * count,
        cpu_limit_milli=1000 * count,
        memory_request_bytes=GIB // 64,
        memory_limit_bytes=GIB // 64,
    )


def _node(*, fails: bool) -> tuple[Engine, Container, Container]:
    engine = engine_of(MACHINE)
    friend = container_of("friend", annotations={"pool-name.pinfold.dev/pod": "socket #1"})
    owner = container_of("owner", 1, near(term("core", "friend")), fails=fails)
    assert placed(engine, friend) == "6-11"
    assert placed(engine, owner) == "6"
    return engine, friend, owner


@pytest.mark.parametrize("fails", [True, False])
def test_who_grows_leaves_a_cpu_of_each_core_to_whom_it_must_be_with(fails: bool) -> None:
    engine, friend, owner = _node(fails=fails)
    decision = engine.update(owner.id, _whole(3))
    engine.check()
    assert isinstance(decision.result, Grant), decision.result
    assert decision.unmet == ()
    assert len(decision.result.exclusive) == 3
    own, others = decision.result.exclusive.mask, engine.grants[friend.id]
    assert others.exclusive.mask == 0
    assert cpus(engine, friend) == "7,9,11"
    assert own == 1 << 6 | 1 << 8 | 1 << 10


def test_who_insists_does_not_grow_to_where_it_would_be_alone() -> None:
    engine, friend, owner = _node(fails=True)
    decision = engine.update(owner.id, _whole(4))
    engine.check()
    assert "rules between containers leave 2 CPUs" in reason(decision)
    assert (cpus(engine, owner), cpus(engine, friend)) == ("6", "7-11")


def _node_beside(count: int) -> tuple[Engine, Container, Container]:
    """An owner that insists on the NUMA node of its friend, which shares it."""
    engine = engine_of(MACHINE)
    friend = container_of("friend", annotations={"pool-name.pinfold.dev/pod": "socket #1"})
    owner = container_of("owner", count, near(term("numa", "friend")), fails=True)
    placed(engine, friend)
    placed(engine, owner)
    return engine, friend, owner


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_who_grows_leaves_whom_it_must_be_with_one_cpu_and_not_two(count: int) -> None:
    engine, friend, owner = _node_beside(count)
    decision = engine.update(owner.id, _whole(5))
    engine.check()
    assert isinstance(decision.result, Grant), decision.result
    assert len(decision.result.exclusive) == 5
    assert len(CpuSet.parse(cpus(engine, friend))) == 1
    assert decision.unmet == ()


def test_who_grows_leaves_a_whole_core_where_one_cpu_would_do() -> None:
    engine, friend, owner = _node_beside(2)
    engine.update(owner.id, _whole(4))
    engine.check()
    assert (cpus(engine, owner), cpus(engine, friend)) == ("6-7,10-11", "8-9")


def test_several_owners_leave_whom_they_must_be_with_one_cpu_together() -> None:
    engine, friend, _ = _node_beside(2)
    rules = near(term("numa", "friend"))
    assert placed(engine, container_of("second", 3, rules, fails=True)) in {"9-11", "8,10-11"}
    assert len(CpuSet.parse(cpus(engine, friend))) == 1


def test_who_gives_way_grows_all_the_same_and_is_told() -> None:
    engine, _, owner = _node(fails=False)
    decision = engine.update(owner.id, _whole(4))
    engine.check()
    assert isinstance(decision.result, Grant), decision.result
    assert len(decision.result.exclusive) == 4
    assert [one.split(" of ")[0] for one in decision.unmet] == [
        "affinity at core to app=friend (affinity.pinfold.dev/pod:1)"
    ]


def _unchanged(engine: Engine) -> Engine:
    return engine


def _reloaded(engine: Engine) -> Engine:
    return engine.reconfigured(replace(engine.config, pin_memory=False))[0]


def _listed(engine: Engine) -> list[Container]:
    found: list[Container] = []
    for container in engine.containers.values():
        pinning = engine.pinning(container.id)
        assert pinning is not None
        state = ContainerState.RUNNING
        found.append(replace(container, cpus=pinning.cpus, mems=pinning.mems, state=state))
    return found


def _restarted(engine: Engine) -> Engine:
    fresh = Engine(engine.machine, engine.config)
    fresh.synchronize(_listed(engine))
    return fresh


def _announced_late(engine: Engine) -> Engine:
    fresh = Engine(engine.machine, engine.config)
    for container in _listed(engine):
        fresh.adopt(container)
    return fresh


@pytest.mark.parametrize("again", [_unchanged, _reloaded, _restarted, _announced_late])
def test_nobody_takes_the_last_cpu_that_others_share_beside_an_owner(
    again: Callable[[Engine], Engine],
) -> None:
    engine, friend, owner = _node(fails=True)
    engine = again(engine)
    newcomer = container_of("new", 1, annotations={"pool-name.pinfold.dev/pod": "socket #1"})
    assert placed(engine, newcomer) == "8"
    assert (cpus(engine, owner), cpus(engine, friend)) == ("6", "7,9-11")


@pytest.mark.parametrize("gone", ["5", "5-7"])
def test_cpus_that_come_back_beside_an_owner_are_kept_shared_as_before(gone: str) -> None:
    machine = machine_from_spec("socket:1 core:4 thread:2 mem:4G")
    engine = engine_of(machine)
    filler, friend = container_of("filler", 2), container_of("friend")
    owner = container_of("owner", 1, near(term("core", "friend")), fails=True)
    assert [placed(engine, one) for one in (filler, friend, owner)] == ["2-3", "1,4-7", "4"]
    for found in (without(machine, CpuSet.parse(gone)), machine):
        engine, _ = engine.reconfigured(engine.config, found)
        assert bool(engine.decisions[owner.id].unmet) == (found is not machine)
    assert cpus(engine, friend) == "1,5-7"
    for name in ("one", "two", "three"):
        placed(engine, container_of(name, 1))
    assert cpus(engine, friend) == "5"
    assert not engine.decisions[owner.id].unmet
    engine.check()


def test_no_cpus_are_kept_shared_for_one_that_has_some_for_itself_instead() -> None:
    engine = engine_of(MACHINE)
    friend = container_of("friend", 0.5, is_guaranteed=True)
    owner = container_of("owner", 1, near(term("socket", "friend")))
    assert [placed(engine, one) for one in (friend, owner)] == ["6-11", "10"]
    assert engine.grants[owner.id].beside
    assert isinstance(engine.update(friend.id, _whole(2)).result, Grant)
    assert cpus(engine, friend) == "6-7"
    assert engine.grants[owner.id].beside == ()
    newcomer = container_of("new", 3, annotations={"pool-name.pinfold.dev/pod": "socket #1"})
    assert placed(engine, newcomer) == "8-9,11"
    engine.check()


FRIEND = container_of("friend", 4, shares=True)
"""Without a limit it spreads over a socket of two NUMA nodes."""
APART_FROM_IT = apart(term("core", "friend"))
CLOSE_BUT_APART = {**near(term("numa", "friend")), **APART_FROM_IT}


@pytest.mark.parametrize(
    ("cpu", "shares"),
    [
        pytest.param(0.5, True, id="a share"),
        pytest.param(2, False, id="a core of its own"),
        pytest.param(6, False, id="three cores of its own"),
    ],
)
def test_a_friend_in_several_numa_nodes_leaves_cores_of_one_to_whom_must_be_with_it(
    cpu: float, *, shares: bool
) -> None:
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    assert placed(engine, FRIEND) == "16-31"
    it = container_of("it", cpu, CLOSE_BUT_APART, shares=shares, fails=True)
    here, friend = CpuSet.parse(placed(engine, it)), CpuSet.parse(cpus(engine, FRIEND))
    assert here <= CpuSet.parse("16-23")
    assert friend == CpuSet.parse("16-31") - here
    assert not engine.decisions[it.id].unmet
    engine.check()


def test_a_friend_stays_where_it_would_not_be_beside_whom_it_makes_way_for() -> None:
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    placed(engine, FRIEND)
    it = container_of("it", 8, CLOSE_BUT_APART, fails=True)
    assert reason(engine.create(it)).startswith("required rules leave no room for 8 exclusive")
    assert cpus(engine, FRIEND) == "16-31"


def test_a_friend_leaves_some_cores_and_not_all_of_a_node_to_whom_must_be_with_it() -> None:
    """The other NUMA node is that of a stranger, which keeps apart from the newcomer."""
    engine = engine_of("numa:2 core:4 thread:2 mem:4G")
    stranger = container_of("stranger", 2, apart(term("numa", "it")), shares=True)
    assert placed(engine, stranger) == "8-15"
    annotations = {"unlimited-burstable.resource-policy.nri.io/pod": "socket"}
    friend = container_of("friend", 0.1, annotations=annotations)
    assert placed(engine, friend) == "1-15"
    in_a_node = {"pool-selector.pinfold.dev/pod": "kind=numa"}
    it = container_of("it", 4, CLOSE_BUT_APART, shares=True, fails=True, annotations=in_a_node)
    assert placed(engine, it) == "1-5"
    assert cpus(engine, friend) == "6-15"
    assert not engine.decisions[it.id].unmet


FOLLOWER = container_of("follower", 0.5, CLOSE_BUT_APART, fails=True)
ONE_NODE = {"unlimited-burstable.resource-policy.nri.io/pod": "numa"}


def _node_of_a_follower() -> tuple[Engine, Container]:
    """The container that it must be with, and the follower, which has its NUMA node by itself."""
    engine = engine_of("numa:2 core:4 thread:2 mem:4G")
    friend = container_of("friend", 4, shares=True, annotations=ONE_NODE)
    assert placed(engine, friend) == "8-15"
    assert placed(engine, FOLLOWER) == "8-9"
    assert cpus(engine, friend) == "10-15"
    engine.stop(friend.id)
    engine.remove(friend.id)
    assert cpus(engine, FOLLOWER) == "8-15"
    return engine, friend


def test_a_follower_makes_way_for_whom_it_must_be_with_once_that_is_back() -> None:
    engine, friend = _node_of_a_follower()
    again = replace(friend, id=ContainerId("again"))
    assert placed(engine, again) == "10-15"
    assert cpus(engine, FOLLOWER) == "8-9"
    engine.check()


def test_a_follower_makes_way_for_one_that_keeps_apart_from_it_by_itself() -> None:
    engine = engine_of("numa:2 core:4 thread:2 mem:4G")
    rules = apart(term("core", "follower"))
    friend = container_of("friend", 4, rules, fails=True, shares=True, annotations=ONE_NODE)
    follower = container_of("follower", 0.5, near(term("numa", "friend")), fails=True)
    assert placed(engine, friend) == "8-15"
    assert placed(engine, follower) == "8-9"
    engine.stop(friend.id)
    engine.remove(friend.id)
    assert cpus(engine, follower) == "8-15"
    assert placed(engine, replace(friend, id=ContainerId("again"))) == "10-15"
    assert cpus(engine, follower) == "8-9"


def test_a_follower_that_must_be_in_a_pool_makes_no_way() -> None:
    engine = engine_of("core:4 thread:2 mem:4G")
    first = container_of("friend", 0.5)
    annotations = {"pool-selector.pinfold.dev/pod": "numa=0"}
    follower = container_of("follower", 0.5, CLOSE_BUT_APART, fails=True, annotations=annotations)
    placed(engine, first)
    placed(engine, follower)
    engine.stop(first.id)
    engine.remove(first.id)
    before = cpus(engine, follower)
    newcomer = container_of("new", 4, app="friend", shares=True)
    assert "required rules leave no room" in reason(engine.create(newcomer))
    assert cpus(engine, follower) == before == "1-7"


@pytest.mark.parametrize(
    ("others", "makes_way"),
    [
        pytest.param([], True, id="it must be with nobody else"),
        pytest.param(["other"], False, id="it must be with another one, too"),
    ],
)
def test_a_follower_makes_way_for_a_newcomer_that_alone_holds_it(
    others: list[str], *, makes_way: bool
) -> None:
    engine = engine_of("core:4 thread:2 mem:4G")
    both = {**near(*[term("numa", one) for one in ("friend", *others)]), **APART_FROM_IT}
    for name in ("friend", *others):
        placed(engine, container_of(name))
    follower = container_of("follower", 0.5, both, fails=True)
    assert placed(engine, follower) == "2-3"
    first = container_of("friend").id
    engine.stop(first)
    engine.remove(first)
    assert cpus(engine, follower) == "1-7"
    newcomer = container_of("new", 4, app="friend", shares=True)
    assert isinstance(engine.create(newcomer).result, Grant) is makes_way
    assert cpus(engine, follower) == ("6-7" if makes_way else "1-7")
    assert not makes_way or cpus(engine, newcomer) == "1-5"
    engine.check()


def test_replicas_of_a_resource_set_have_a_numa_node_each_with_their_sidecars() -> None:
    """A sidecar on a NUMA node of its own would keep the next replica out of that one, too."""
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    homes: list[set[int]] = []
    for number in range(4):
        homes.append(set())
        for main, cpu in (("db", 2), ("sidecar", 0.1)):
            one = container_of(
                "db", cpu, pod=f"db-{number}", main=main, labels={"pinfold.dev/resource-set": "db"}
            )
            own = CpuSet.parse(placed(engine, one))
            assert not engine.decisions[one.id].unmet, one.path
            homes[-1] |= {cpu // 8 for cpu in own}
    assert sorted(map(sorted, homes)) == [[0], [1], [2], [3]]


def _ways_to_be_gone() -> list[tuple[str, Callable[[Engine, Container], object], int]]:
    def ended(engine: Engine, friend: Container) -> None:
        engine.stop(friend.id)

    def forgotten(engine: Engine, friend: Container) -> None:
        engine.stop(friend.id)
        engine.remove(friend.id)

    def killed(engine: Engine, friend: Container) -> None:
        engine.remove(friend.id)

    def replaced(engine: Engine, friend: Container) -> None:
        placed(engine, replace(friend, id=ContainerId("friend-again")))

    return [
        ("one that has ended may be back", ended, 0),
        ("one that is forgotten keeps nothing shared", forgotten, 3),
        ("and so one that was never stopped", killed, 3),
        ("one that is back is kept as before", replaced, 0),
    ]


@pytest.mark.parametrize(("what", "leave", "left"), _ways_to_be_gone())
def test_cpus_are_kept_shared_as_long_as_it_is_for_somebody(
    what: str, leave: Callable[[Engine, Container], object], left: int
) -> None:
    """Of five cores: an owner of 1.2 cpus beside its friend, and who wants some for itself."""
    engine = engine_of("socket:1 numa:1 core:6 mem:4G")
    friend = container_of("friend")
    placed(engine, friend)
    placed(engine, container_of("owner", 1.2, near(term("core", "friend"))))
    leave(engine, friend)
    engine.check()
    count = 0
    while isinstance(engine.create(container_of(f"own-{count}", 1)).result, Grant):
        engine.check()
        count += 1
    assert count == left, what


def test_cpus_stay_shared_for_a_companion_beside_which_another_had_its_own() -> None:
    """The one with cpus of its own may leave after a third one, which is elsewhere."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    there, here = ({"pool-name.pinfold.dev/pod": f"NUMA node #{number}"} for number in range(2))
    wide = container_of(
        "wide", 0.2, app="friend", annotations={"pool-name.pinfold.dev/pod": "root"}
    )
    owner = container_of("owner", 1, near(term("numa", "friend")), annotations=here)
    whole = container_of("whole", 1, app="friend", annotations=here)
    other = container_of("other", 0.1, app="friend", annotations=there)
    for one in (wide, owner, whole, other):
        placed(engine, one)
    engine.remove(other.id)
    engine.remove(whole.id)
    engine.check()
    for count in range(2):
        placed(engine, container_of(f"own-{count}", 1, annotations=here))
    last = engine.create(container_of("own-2", 1, annotations=here))
    assert isinstance(last.result, Grant)
    assert CpuSet.parse(cpus(engine, wide)) & CpuSet.parse("4-7"), "the owner is not left alone"


def _rebuilt(engine: Engine, advice: Mapping[ContainerId, Advice]) -> Engine:
    fresh = Engine(engine.machine, engine.config)
    fresh.synchronize(engine.snapshot().running(), advice)
    return fresh


def _owner_in_a_pen() -> tuple[Engine, Container]:
    """An owner in a pen of its own cpus beside its friend, which shares what the pen leaves."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    here = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    placed(engine, container_of("friend", annotations=here))
    group = {"group.pinfold.dev/pod": "front", **here}
    owner = container_of("owner", 1, near(term("numa", "friend")), annotations=group)
    placed(engine, owner)
    return engine, owner


def test_what_is_kept_shared_for_a_pen_is_remembered_of_those_in_it() -> None:
    engine, owner = _owner_in_a_pen()
    (pen,) = engine.snapshot().pens.values()
    assert pen.beside
    advice = engine.snapshot().advice()
    assert advice[owner.id].beside == pen.beside
    # Nothing but what is remembered says so: other cpus are told apart by that.
    other = (CpuSet.parse("5"),)
    again = _rebuilt(engine, {owner.id: replace(advice[owner.id], beside=other)})
    (pen,) = again.snapshot().pens.values()
    assert pen.beside == other
    again.check()


def test_cpus_kept_shared_for_a_pen_are_given_up_as_well() -> None:
    engine, _ = _owner_in_a_pen()
    engine.remove(container_of("friend").id)
    (pen,) = engine.snapshot().pens.values()
    assert pen.beside == ()
    engine.check()


def _other_place(advice: Advice) -> Advice:
    return replace(advice, exclusive=CpuSet.parse("7"))


def _other_cpus_usable(advice: Advice) -> Advice:
    return replace(advice, usable=CpuSet.parse("1-4"))


def _not_known(advice: Advice) -> Advice:
    return replace(advice, beside=None)


@pytest.mark.parametrize("other", [_other_place, _other_cpus_usable, _not_known])
def test_what_is_remembered_of_another_place_keeps_nothing_shared(
    other: Callable[[Advice], Advice],
) -> None:
    engine, _, owner = _node(fails=True)
    before = engine.grants[owner.id].beside
    assert before
    advice = replace(engine.snapshot().advice()[owner.id], beside=(CpuSet.parse("8"),))
    assert _rebuilt(engine, {owner.id: advice}).grants[owner.id].beside == advice.beside
    assert _rebuilt(engine, {owner.id: other(advice)}).grants[owner.id].beside == before


def test_another_configuration_has_all_rules_looked_at_anew() -> None:
    engine, _, owner = _node(fails=True)
    snapshot, other = engine.snapshot(), replace(engine.config, pin_memory=False)
    assert snapshot.advice(engine.config) == snapshot.advice()
    assert snapshot.advice()[owner.id].beside == engine.grants[owner.id].beside
    assert snapshot.advice(other)[owner.id].beside is None


@pytest.mark.parametrize("is_known", [True, False])
def test_cpus_that_were_kept_for_one_that_is_gone_are_free_soon_after_a_restart(
    is_known: bool,
) -> None:
    engine = engine_of("socket:1 numa:1 core:6 mem:4G")
    friend, other = container_of("friend"), container_of("other")
    placed(engine, friend)
    placed(engine, other)
    owner = container_of("owner", 1.2, near(term("core", "friend")))
    placed(engine, owner)
    engine.stop(friend.id)
    again = _rebuilt(engine, engine.snapshot().advice())
    assert again.grants[owner.id].beside == engine.grants[owner.id].beside != ()
    again.remove(other.id if is_known else friend.id)
    assert again.grants[owner.id].beside == ()
    again.check()


def test_whose_companion_went_first_keeps_no_cpus_for_it_longer_than_others_for_theirs() -> None:
    """Of so many some are looked at in each event."""
    engine, owners = engine_of("numa:1 core:80 mem:64G"), dict[str, list[Container]]()
    friends = [container_of(name) for name in ("first", "second")]
    for friend in friends:
        placed(engine, friend)
        name = friend.pod.labels["app"]
        rules = near(term("numa", name))
        owners[name] = [container_of(f"{name}-{number}", 1, rules) for number in range(30)]
        for one in owners[name]:
            placed(engine, one)

    def keeping(name: str) -> int:
        return sum(bool(engine.grants[one.id].beside) for one in owners[name])

    assert (keeping("first"), keeping("second")) == (30, 30)
    engine.remove(friends[0].id)
    assert 0 < keeping("first") < 30, "not all at once"
    engine.remove(friends[1].id)
    assert keeping("first") == 0
    assert 0 < keeping("second") < 30
    engine.remove(container_of("nobody").id)
    assert keeping("second") == 0


def test_cpus_stay_shared_beside_an_owner_when_a_companion_with_its_own_shares_some() -> None:
    """As long as that one was there, nobody else had to be."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    wide, here = ({"pool-name.pinfold.dev/pod": name} for name in ("root", "NUMA node #1"))
    placed(engine, container_of("wide", 0.2, app="friend", annotations=wide))
    whole = container_of("whole", 1, app="friend", annotations=here)
    placed(engine, whole)
    owner = container_of("owner", 1, near(term("numa", "friend")), annotations=here)
    placed(engine, owner)
    assert engine.grants[owner.id].beside == ()
    # It shares cpus by then, wherever these are.
    engine.update(whole.id, Resources(cpu_request_milli=200, cpu_limit_milli=200))
    engine.check()
    assert engine.grants[owner.id].beside
    while isinstance(engine.create(container_of(f"own-{len(engine.grants)}", 1)).result, Grant):
        engine.check()
    assert not engine.decisions[owner.id].unmet
