"""Creations and ends in which a fault of ours shows: nothing is held by them, and nobody moves."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.nri.dispatch.answer import Answer
from pinfold.nri.dispatch.newcomer import Newcomer
from pinfold.nri.dispatch.report import Adjusted, Crashed, Decided, Released
from pinfold.policy.books.books import Books
from pinfold.policy.engine.decision import Adopted
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.roster import Roster
from pinfold.policy.engine.unmet.unmet_rules import UnmetRules
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.grant import Refusal
from pinfold.policy.model.kubelet_resources import LinuxResources
from pinfold.policy.model.pinning import Change, Pinning
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.nri.dispatch.test_live_moves import LiveNode, ignored
from tests.unit.policy.engine.ruled_pods import container_of, engine_of


@pytest.fixture(name="node")
def fixture_node(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveNode]:
    node = LiveNode()
    # One with cpus of its own, and one that shares: both are told others by whoever comes and goes.
    node.run(container_of("owner", 2), container_of("sharer", 0.5))
    node.crashed = ignored
    yield node
    node.end()


def _raise(*_: object, **_named: object) -> None:
    raise ZeroDivisionError


def create(node: LiveNode, container: Container) -> object:
    newcomer = Newcomer(container=container, linux=LinuxResources())
    return node.owner.ask("create", lambda: node.events.create(newcomer))


def told(node: LiveNode) -> dict[ContainerId, Pinning]:
    """What all have been told as the kernel has it, and nothing is on its way to them, or to us."""
    node.owner.ask("behind what was left", lambda: None)
    assert node.actuator.settle(10)
    return dict(node.kernel)


@pytest.mark.parametrize(
    ("place", "name"),
    [(Books, "take"), (Books, "settle"), (UnmetRules, "refresh_moved")],
)
def test_a_creation_in_which_something_raises_holds_nothing_and_moves_nobody(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch, place: type, name: str
) -> None:
    policy, newcomer = node.events.policy, container_of("newcomer", 4)
    before, kernel, happenings = dict(policy.grants), told(node), len(node.happenings)
    monkeypatch.setattr(place, name, _raise)
    with pytest.raises(ZeroDivisionError):
        create(node, newcomer)
    monkeypatch.undo()
    assert policy.grants == before
    assert told(node) == kernel
    assert not [
        one for one in node.happenings[happenings:] if isinstance(one, Decided | Adjusted)
    ], "nothing is told of what was undone"
    node.owner.ask("check", policy.check)
    node.start(newcomer)
    assert policy.grants[newcomer.id].exclusive, "it is adopted as it begins to run"


@pytest.mark.parametrize(
    ("place", "name"),
    [(Books, "take"), (Books, "release"), (Books, "settle"), (UnmetRules, "refresh_moved")],
)
def test_one_that_runs_keeps_its_cpus_where_its_second_creation_raises(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch, place: type, name: str
) -> None:
    """Its runtime may be wrong, and it goes on."""
    owner = container_of("owner", 2)
    policy, kernel = node.events.policy, told(node)
    before, asked = dict(policy.grants), dict(node.events.asked)
    monkeypatch.setattr(place, name, _raise)
    with pytest.raises(ZeroDivisionError):
        create(node, replace(owner, resources=container_of("owner", 3).resources))
    monkeypatch.undo()
    assert policy.grants == before
    assert policy.containers[owner.id].state is ContainerState.RUNNING
    assert node.events.asked == asked
    assert told(node) == kernel
    node.owner.ask("check", policy.check)
    node.owner.ask("stop", lambda: node.events.stop(owner.id))
    assert owner.id not in policy.grants


def test_one_that_runs_keeps_its_cpus_where_its_second_creation_is_refused(node: LiveNode) -> None:
    policy, kernel = node.events.policy, told(node)
    before, asked = dict(policy.grants), dict(node.events.asked)
    owner = container_of("owner", 2)
    answer = create(node, replace(owner, resources=container_of("owner", 1000).resources))
    assert isinstance(answer, Answer)
    assert answer.refusal
    assert not answer.others
    assert policy.grants == before
    assert policy.containers[owner.id].state is ContainerState.RUNNING
    assert policy.containers[owner.id].resources == owner.resources
    assert node.events.asked == asked
    node.run(container_of("newcomer", 1))
    assert told(node)[owner.id] == kernel[owner.id]
    node.owner.ask("check", policy.check)
    assert policy.grants[owner.id].exclusive.isdisjoint(
        policy.grants[container_of("newcomer", 1).id].exclusive
    )


def test_a_second_creation_that_is_refused_is_told_with_what_it_asked_for(node: LiveNode) -> None:
    """And not with what the one that runs does."""
    wanted = container_of("owner", 1000).resources
    create(node, replace(container_of("owner", 2), resources=wanted))
    node.owner.ask("behind what was left", lambda: None)
    told = [one for one in node.happenings if isinstance(one, Decided)][-1]
    assert isinstance(told.decision.result, Refusal)
    assert told.container.resources == wanted
    assert told.container.state is ContainerState.CREATED


def test_a_second_creation_leaves_nobody_stuck_where_the_first_one_was_left_as_it_ran(
    node: LiveNode,
) -> None:
    policy, owner = node.events.policy, container_of("owner", 2)
    odd = replace(node.listed(), unread={owner.id: ValueError("odd")})
    node.owner.ask("list", lambda: node.events.answered(node.events.synchronize(odd)))
    assert policy.decisions[owner.id].fault
    assert owner.id in policy.stuck_containers.cpus
    for size, is_stuck in ((1000, True), (1, False)):
        create(node, replace(owner, resources=container_of("owner", size).resources))
        assert (owner.id in policy.stuck_containers.cpus) == is_stuck
    assert policy.snapshot().has_landed
    node.owner.ask("check", policy.check)


@pytest.mark.parametrize("size", [1000, 1], ids=["refused", "granted"])
def test_a_new_instance_leaves_the_one_before_not_stuck_where_it_was_left_as_it_ran(
    node: LiveNode, size: int
) -> None:
    policy, owner = node.events.policy, container_of("owner", 2)
    odd = replace(node.listed(), unread={owner.id: ValueError("odd")})
    node.owner.ask("list", lambda: node.events.answered(node.events.synchronize(odd)))
    assert owner.id in policy.stuck_containers.cpus
    create(node, container_of("owner", size, instance="second"))
    assert owner.id not in policy.stuck_containers.cpus
    node.owner.ask("check", policy.check)


def test_who_comes_home_by_a_creation_that_failed_is_told_and_reported(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharer, recover = ContainerId("sharer-main"), Engine.recover
    told(node)

    def recovered(engine: Engine, *args: Any) -> Adopted:
        found, before = recover(engine, *args), engine.pinning(sharer)
        assert before is not None
        after = replace(before, cpus=CpuSet.parse("1-3"))
        change = Change(container_id=sharer, before=before, after=after)
        return replace(found, changes=(change,))

    monkeypatch.setattr(Engine, "recover", recovered)
    monkeypatch.setattr(Books, "take", _raise)
    with pytest.raises(ZeroDivisionError):
        create(node, container_of("newcomer", 4))
    monkeypatch.undo()
    node.owner.ask("turn", lambda: None)
    [adjusted] = [one for one in node.happenings if isinstance(one, Adjusted)]
    assert (adjusted.cause, adjusted.container.id) == ("a creation that failed", sharer)
    assert str(told(node)[sharer].cpus) == "1-3"


ENDS: tuple[Callable[[LiveNode, Container], object], ...] = (
    lambda node, one: node.events.stop(one.id),
    lambda node, one: node.events.remove(one.id),
    lambda node, one: node.events.stop_pod(one.pod.id),
    lambda node, one: node.events.remove_pod(one.pod.id),
)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("place", "name"), [(Books, "relax"), (Roster, "remember_place")])
def test_a_container_is_released_although_something_raises_as_it_ends(
    node: LiveNode,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[LiveNode, Container], object],
    place: type,
    name: str,
) -> None:
    policy, leaver = node.events.policy, container_of("leaver", 4)
    node.run(leaver)
    before = {one: grant for one, grant in policy.grants.items() if one != leaver.id}
    kernel = told(node)
    monkeypatch.setattr(place, name, _raise)
    node.owner.ask("end", lambda: end(node, leaver))
    monkeypatch.undo()
    assert policy.grants == before
    assert told(node) == kernel
    [crashed] = [one for one in node.happenings if isinstance(one, Crashed)]
    assert (crashed.what, type(crashed.error)) == (
        f"release of container {leaver.id}",
        ZeroDivisionError,
    )
    [released] = [one for one in node.happenings if isinstance(one, Released)]
    assert released.container.id == leaver.id
    node.owner.ask("check", policy.check)
    node.owner.ask("removal", lambda: node.events.remove(leaver.id))
    assert leaver.id not in policy.containers
    node.run(container_of("next", 4))


def test_all_of_a_pod_are_released_although_something_raises_at_one_of_them(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = container_of("one", 2), container_of("other", 2)
    other = type(other)(id=other.id, name="other", pod=one.pod, resources=other.resources)
    node.run(one, other)
    raised = list[None]()

    def once(books: Books) -> None:
        if not raised:
            raised.append(None)
            raise ZeroDivisionError

    monkeypatch.setattr(Books, "relax", once)
    node.owner.ask("end", lambda: node.events.stop_pod(one.pod.id))
    assert raised
    assert not {one.id, other.id} & node.events.policy.grants.keys()


def test_a_fault_within_the_recovery_is_told_with_the_first_one(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recover(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr(Books, "take", _raise)
    monkeypatch.setattr(Engine, "recover", recover)
    with pytest.raises(KeyError) as caught:
        create(node, container_of("newcomer", 4))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    monkeypatch.undo()
    node.run(container_of("next", 2))


def test_all_hold_what_they_held_where_the_adoption_after_a_fault_raises_too(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is about no single container, so none of them is at fault."""
    policy = node.events.policy
    before, kernel = dict(policy.grants), told(node)
    monkeypatch.setattr(Books, "take", _raise)
    monkeypatch.setattr(UnmetRules, "refresh_all", _raise)
    with pytest.raises(ZeroDivisionError):
        create(node, container_of("newcomer", 4))
    monkeypatch.undo()
    assert policy.grants == before
    assert told(node) == kernel
    assert [one.what for one in node.happenings if isinstance(one, Crashed)] == [
        "adoption of all that runs"
    ]
    node.owner.ask("check", policy.check)
    node.run(container_of("next", 2))


@pytest.mark.parametrize("is_told", [True, False], ids=["of another's cpus", "nothing"])
def test_who_was_told_otherwise_is_told_where_the_adoption_after_a_fault_raises_too(
    monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    """Of whom nothing is known to be told nothing is noted, either."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    owner, sharer = container_of("owner", 1), container_of("sharer", 0.5)
    for one in (owner, sharer):
        engine.create(one)
    told, meant = dict(engine.snapshot().pinnings), engine.pinning(sharer.id)
    newcomer = container_of("newcomer", 1)
    engine.begin()
    monkeypatch.setattr(Books, "take", _raise)
    monkeypatch.setattr(UnmetRules, "refresh_all", _raise)
    with pytest.raises(ZeroDivisionError):
        engine.create(newcomer)
    vars(engine)["_allocator"].books.pinner.forget(sharer.id)
    before = Pinning(cpus=engine.grants[owner.id].exclusive)
    del told[sharer.id]
    found = engine.recover(newcomer.id, {**told, sharer.id: before} if is_told else told)
    assert found.fault is not None
    if not is_told:
        assert not found.changes
        assert engine.pinning(sharer.id) == Pinning()
        return
    assert [(one.container_id, one.before) for one in found.changes] == [(sharer.id, before)]
    assert meant is not None
    assert found.changes[0].after.cpus == meant.cpus


@pytest.mark.parametrize("is_known", [True, False], ids=["a list", "a restart"])
def test_all_are_left_as_they_run_where_the_adoption_of_a_list_raises(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    listed, kernel = node.listed(), told(node)
    had = node.events.policy.grants[ContainerId("owner-main")].exclusive
    if not is_known:
        node.events.advice = node.events.policy.snapshot().advice()
        node.events.policy = engine_of("socket:1 numa:4 core:4 mem:4G")
    policy = node.events.policy
    monkeypatch.setattr(UnmetRules, "refresh_all", _raise)
    answer = node.owner.ask("list", lambda: node.events.answered(node.events.synchronize(listed)))
    monkeypatch.undo()
    assert not answer.others
    assert node.kernel == kernel
    for number in range(20):
        node.refusal(container_of(f"new-{number}", 1))
    others = [grant for one, grant in policy.grants.items() if one != "owner-main"]
    assert len(others) > 9
    assert all(one.exclusive.isdisjoint(had) for one in others)
    node.owner.ask("list", node.synchronize)
    assert policy.grants[ContainerId("owner-main")].exclusive == had
    assert not policy.decisions[ContainerId("owner-main")].fault
    node.owner.ask("check", policy.check)


def test_who_restarts_after_a_fault_is_back_where_it_was(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, one = node.events.policy, container_of("one", 2)
    node.run(container_of("first", 2), one)
    had = policy.grants[one.id].exclusive
    node.owner.ask("stop", lambda: node.events.stop(one.id))
    node.owner.ask("stop", lambda: node.events.stop(container_of("first", 2).id))
    monkeypatch.setattr(Books, "take", _raise)
    with pytest.raises(ZeroDivisionError):
        create(node, container_of("newcomer", 4))
    monkeypatch.undo()
    again = type(one)(id=type(one.id)("again"), name=one.name, pod=one.pod, resources=one.resources)
    node.run(again)
    assert policy.grants[again.id].exclusive == had
    assert policy.containers[again.id].state is ContainerState.RUNNING
