"""Missed resizes: a runtime lists another request beside the cpus of before."""

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from pinfold.nri.dispatch.newcomer import Listing, Mention, Newcomer
from pinfold.nri.dispatch.report import Crashed, Decided
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.allocator import Allocator
from pinfold.policy.engine.decision import Decision
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.kubelet_resources import LinuxResources
from pinfold.policy.model.pinning import Pinning
from tests.unit.policy.engine.ruled_pods import container_of, engine_of

from .test_live_moves import LiveNode, in_node, mention_of

MIXED = {"prefer-shared-cpus.resource-policy.nri.io/pod": "false"}
MACHINE = "socket:1 numa:4 core:4 mem:4G"
NOTHING: Mapping[ContainerId, Advice] = MappingProxyType({})


@pytest.fixture(name="node")
def fixture_node() -> Iterator[LiveNode]:
    node = LiveNode()
    yield node
    node.end()


@pytest.fixture(name="old")
def fixture_old() -> Iterator[LiveNode]:
    """The node before its daemon was away."""
    node = LiveNode()
    yield node
    node.end()


def asking(container: Container, milli: int) -> Container:
    resources = replace(container.resources, cpu_request_milli=milli, cpu_limit_milli=milli)
    return replace(container, resources=resources)


def owner_of(milli: int) -> Container:
    return asking(container_of("owner", 4, annotations={**MIXED, **in_node(1)}), milli)


def resized(node: LiveNode, milli: int, owner: Container) -> Listing:
    """The runtime's list, in which an owner asks for so much."""
    listed = node.listed()
    again = [asking(one, milli) if one.id == owner.id else one for one in listed.containers]
    return replace(listed, containers=tuple(again))


def restarted(old: LiveNode, node: LiveNode, listed: Listing, *, is_known: bool) -> None:
    """A daemon takes over that remembers what the older one did, or nothing."""
    node.kernel.update(old.kernel)
    events = node.events
    events.advice = old.events.policy.snapshot().advice() if is_known else NOTHING

    def synchronize() -> None:
        for one, pinning in events.answered(events.synchronize(listed)).others.items():
            if one not in node.refused:
                node.kernel[one] = pinning

    node.owner.ask("list", synchronize)


def events_of(node: LiveNode) -> list[str]:
    return [one.event for one in node.happenings if isinstance(one, Decided)]


def taken_by_newcomers(node: LiveNode, *, but: Container) -> set[int]:
    """The cpus that newcomers get for themselves, as many as there are."""
    for number in range(20):
        node.refusal(container_of(f"new-{number}", 1))
    grants = node.events.policy.grants
    return {cpu for one, held in grants.items() if one != but.id for cpu in held.exclusive}


@pytest.mark.parametrize("is_known", [True, False], ids=["state", "no state"])
@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_one_that_was_made_smaller_keeps_as_many_of_its_own_cpus(
    node: LiveNode, old: LiveNode, is_known: bool, wanted: int
) -> None:
    old.run(owner := owner_of(4000))
    had = old.events.policy.grants[owner.id].exclusive
    listed = resized(old, 1000 * wanted, owner)
    node.refused.add(owner.id)
    restarted(old, node, listed, is_known=is_known)
    kept = node.events.policy.grants[owner.id].exclusive
    assert kept < had
    assert len(kept) == wanted
    # As it would be where the daemon is there.
    less = listed.containers[0].resources
    old.owner.ask("resize", lambda: old.events.policy.update(owner.id, less))
    assert kept == old.events.policy.grants[owner.id].exclusive
    # Its runtime has yet to take it off the others.
    assert taken_by_newcomers(node, but=owner).isdisjoint(had)
    node.refused.clear()
    node.wait(lambda: not node.events.policy.left)
    assert node.kernel[owner.id].cpus == kept
    node.run(container_of("last", 1))


@pytest.mark.parametrize("wanted", [500, 1500, 3000])
def test_one_that_has_by_annotation_what_it_asks_for_leaves_the_others_first(
    node: LiveNode, old: LiveNode, wanted: int
) -> None:
    """It would be served with shared cpus, if need be."""
    wishing = {"exclusive.pinfold.dev/pod": "request", **in_node(1)}
    old.run(owner := container_of("owner", 4, shares=True, annotations=wishing))
    had = old.events.policy.grants[owner.id].exclusive
    listed = resized(old, wanted, owner)
    node.refused.add(owner.id)
    restarted(old, node, listed, is_known=True)
    kept = node.events.policy.grants[owner.id].exclusive
    assert len(kept) == -(-wanted // 1000)
    assert kept < had
    assert taken_by_newcomers(node, but=owner).isdisjoint(had)
    node.refused.clear()
    node.wait(lambda: not node.events.policy.left)
    assert node.kernel[owner.id].cpus == kept


@pytest.mark.parametrize("began_there", [False, True], ids=["alone", "beside a newcomer"])
@pytest.mark.parametrize("wanted", [2000, 1500, 1000])
def test_one_that_shared_cpus_besides_keeps_its_own_ones(
    node: LiveNode, old: LiveNode, wanted: int, began_there: bool
) -> None:
    """Those beside them, which seem to be as much its own, it only shared.

    Another one that began while nobody looked may run anywhere.
    """
    plug = asking(container_of("plug", 1, annotations=in_node(1)), 1000)
    old.run(plug, owner := owner_of(2500))
    old.owner.ask("stop", lambda: old.events.answered(old.events.remove(plug.id)))
    had = old.events.policy.grants[owner.id].exclusive
    assert min(had) > 4
    assert len(had) == 2
    old.kernel[owner.id] = old.events.policy.pinning(owner.id) or old.kernel[owner.id]
    listed = resized(old, wanted, owner)
    if began_there:
        late = replace(container_of("late", 0.2), cpus=node.events.policy.machine.online)
        listed = replace(
            listed,
            containers=(*listed.containers, late),
            problems={**listed.problems, late.id: ()},
            pids={**listed.pids, late.id: 7},
        )
    restarted(old, node, listed, is_known=True)
    kept = node.events.policy.grants[owner.id].exclusive
    assert kept <= had
    assert len(kept) == wanted // 1000
    node.wait(lambda: not node.events.policy.left)
    told = node.kernel[owner.id].cpus
    assert told is not None
    assert kept == told if wanted % 1000 == 0 else kept < told


@pytest.mark.parametrize("is_known", [True, False], ids=["state", "no state"])
@pytest.mark.parametrize("wanted", [3000, 2500])
def test_one_that_was_made_larger_gets_more_beside_its_own(
    node: LiveNode, old: LiveNode, is_known: bool, wanted: int
) -> None:
    old.run(owner := owner_of(1000), *(container_of(f"b-{n}", 1) for n in range(3)))
    had = old.events.policy.grants[owner.id].exclusive
    restarted(old, node, resized(old, wanted, owner), is_known=is_known)
    policy = node.events.policy
    assert had < policy.grants[owner.id].exclusive
    assert len(policy.grants[owner.id].exclusive) == wanted // 1000
    assert not policy.decisions[owner.id].degraded
    told = policy.pinning(owner.id)
    assert told == node.kernel[owner.id]
    node.wait(lambda: events_of(node)[-1:] == ["update"])
    assert "synchronize" in events_of(node)


def test_where_there_is_no_room_it_stays_as_it_is(node: LiveNode, old: LiveNode) -> None:
    old.run(owner := owner_of(1000), *(container_of(f"b-{n}", 1) for n in range(13)))
    had = old.kernel[owner.id]
    restarted(old, node, resized(old, 4000, owner), is_known=True)
    assert node.kernel[owner.id] == had
    assert node.events.policy.decisions[owner.id].degraded == "3 of 4 exclusive CPUs are missing"


def test_one_for_which_there_was_no_room_is_resized_once_there_is_some(
    node: LiveNode, old: LiveNode
) -> None:
    others = [container_of(f"b-{n}", 1) for n in range(13)]
    old.run(owner := owner_of(1000), *others)
    listed = resized(old, 4000, owner)
    restarted(old, node, listed, is_known=True)
    policy, had = node.events.policy, node.kernel[owner.id]

    def look_again() -> None:
        node.owner.ask("look", node.events.moves.resize_missed)
        assert node.actuator.settle(10)

    look_again()
    assert node.kernel[owner.id] == had
    for one in others[:1]:
        node.owner.ask("stop", partial(node.events.stop, one.id))
    look_again()
    assert node.kernel[owner.id] == had
    # The runtime comes back, and lists the same again.
    gone = {one.id for one in others[:1]}
    left = [one for one in listed.containers if one.id not in gone]
    again = replace(listed, containers=tuple(left))
    node.owner.ask("list", lambda: node.events.answered(node.events.synchronize(again)))
    for one in others[1:2]:
        node.owner.ask("stop", partial(node.events.stop, one.id))
    look_again()
    assert len(policy.grants[owner.id].exclusive) == 4
    assert policy.grants[owner.id].exclusive == node.kernel[owner.id].cpus
    assert not policy.decisions[owner.id].degraded
    node.wait(lambda: events_of(node)[-1:] == ["update"])
    count = len(node.happenings)
    look_again()
    assert len(node.happenings) == count


def test_one_that_got_less_than_it_wishes_for_is_not_tried_again(
    node: LiveNode, old: LiveNode
) -> None:
    """There is no other whole core for it, and it may have half of them."""
    for one in (node, old):
        one.events.policy = engine_of("socket:1 core:8 thread:2")
    wishes = {"hide-hyperthreads.resource-policy.nri.io/pod": "whole-cores"}
    old.run(owner := container_of("owner", 1, annotations=wishes))
    old.run(*(container_of(f"b-{number}", 1) for number in range(12)))
    restarted(old, node, resized(old, 2000, owner), is_known=True)
    assert len(node.events.policy.grants[owner.id].exclusive) == 2
    node.wait(lambda: events_of(node)[-1:] == ["update"])
    count = len(node.happenings)
    node.owner.ask("look", node.events.moves.resize_missed)
    assert node.actuator.settle(10)
    node.owner.ask("look", lambda: None)
    assert len(node.happenings) == count


def test_one_that_is_left_as_it_runs_for_a_fault_since_is_not_resized(
    node: LiveNode, old: LiveNode
) -> None:
    """It would be told of as resized at each look, and what is remembered of it be lost."""
    others = [container_of(f"b-{n}", 1) for n in range(13)]
    old.run(owner := owner_of(1000), *others)
    listed = resized(old, 4000, owner)
    restarted(old, node, listed, is_known=True)
    policy = node.events.policy
    odd = replace(listed, unread={owner.id: ValueError("odd")})
    node.owner.ask("list", lambda: node.events.answered(node.events.synchronize(odd)))
    decision = policy.decisions[owner.id]
    assert decision.fault
    for one in others[:4]:
        node.owner.ask("stop", partial(node.events.stop, one.id))
    node.owner.ask("look", node.events.moves.resize_missed)
    assert policy.decisions[owner.id] == decision
    gone = {one.id for one in others[:4]}
    left = [one for one in listed.containers if one.id not in gone]
    again = replace(listed, containers=tuple(left))
    node.owner.ask("list", lambda: node.events.answered(node.events.synchronize(again)))
    assert not policy.decisions[owner.id].fault
    node.owner.ask("look", node.events.moves.resize_missed)
    assert len(policy.grants[owner.id].exclusive) == 4


def test_of_many_for_which_there_was_no_room_some_are_tried_at_each_look(
    node: LiveNode, old: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (old, node):
        one.events.policy = engine_of("socket:1 numa:4 core:10 mem:4G")
    owners = [asking(container_of(f"owner-{n}", 1), 1000) for n in range(39)]
    old.run(*owners)
    listed = old.listed()
    more = replace(listed, containers=tuple(asking(one, 2000) for one in listed.containers))
    restarted(old, node, more, is_known=True)
    real, tried = Allocator.mend, list[ContainerId]()

    def noting(allocator: Allocator, one: ContainerId) -> Decision:
        tried.append(one)
        return real(allocator, one)

    monkeypatch.setattr(Allocator, "mend", noting)
    for looks in range(1, 4):
        node.owner.ask("look", node.events.moves.resize_missed)
        assert len(tried) == 16 * looks
    assert {*tried} == {one.id for one in owners}


def test_who_asks_for_as_much_as_before_is_not_resized(node: LiveNode, old: LiveNode) -> None:
    """Another configuration may have given it more than it would get today."""
    old.run(owner := owner_of(4000))
    had = old.kernel[owner.id]
    advice = old.events.policy.snapshot().advice()
    known = replace(advice[owner.id], cpu_request_milli=2000)
    node.kernel.update(old.kernel)
    node.events.advice = {owner.id: known}
    listed = resized(old, 2000, owner)
    node.owner.ask("list", lambda: node.events.answered(node.events.synchronize(listed)))
    assert node.events.policy.grants[owner.id].exclusive == had.cpus


def remembering(old: LiveNode, node: LiveNode, request: int | None) -> None:
    """A daemon takes over that remembers another request of all that run, or none."""
    node.kernel.update(old.kernel)
    advice = old.events.policy.snapshot().advice()
    node.events.advice = {
        one: replace(hint, cpu_request_milli=request) for one, hint in advice.items()
    }
    node.owner.ask("list", lambda: node.events.answered(node.events.synchronize(old.listed())))


@pytest.mark.parametrize("request_milli", [None, 0])
def test_who_came_before_shared_cpus_were_preferred_keeps_its_own_ones(
    node: LiveNode, old: LiveNode, request_milli: int | None
) -> None:
    """Where nothing is remembered of what it asked for, that is no resize."""
    node.events.policy = engine_of(MACHINE, preferSharedCPUs=True)
    old.run(owner := asking(container_of("owner", 2), 2000))
    remembering(old, node, request_milli)
    assert node.events.policy.grants[owner.id].exclusive == old.kernel[owner.id].cpus
    assert "update" not in events_of(node)
    assert node.kernel == old.kernel


def test_so_does_one_alone_on_an_isolated_cpu_without_a_state(
    node: LiveNode, old: LiveNode
) -> None:
    machine = f"{MACHINE} isolated:4-7"
    old.events.policy = engine_of(machine)
    node.events.policy = engine_of(machine, preferSharedCPUs=True)
    old.run(owner := asking(container_of("owner", 1), 1000))
    assert old.cpus(owner) == "4"
    restarted(old, node, old.listed(), is_known=False)
    assert str(node.events.policy.grants[owner.id].exclusive) == "4"
    assert node.kernel == old.kernel


def test_a_quota_that_was_lifted_does_not_make_it_smaller(node: LiveNode, old: LiveNode) -> None:
    """All requests of 256 cpus and more have the same shares: beyond them only a quota tells."""
    for one in (old, node):
        one.events.policy = engine_of("socket:1 numa:4 core:100 mem:4G")
    old.run(owner := asking(container_of("owner", 300), 300_000))
    restarted(old, node, resized(old, 256_000, owner), is_known=True)
    assert len(node.events.policy.grants[owner.id].exclusive) == 300
    assert node.kernel == old.kernel


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2)])
def test_a_runtime_that_forgot_a_resize_when_it_restarted_does_not_undo_it(
    node: LiveNode, before: int, after: int
) -> None:
    """It lists what the container was created with: the cpus of before, too."""
    node.run(owner := asking(container_of("owner", before), 1000 * before))
    listed = node.listed()
    more = LinuxResources(cpu_shares=1024 * after, cpu_quota=100_000 * after, cpu_period=100_000)

    def resize() -> None:
        answer = node.events.answered(node.events.update(mention_of(owner), more))
        assert answer.own is not None
        node.kernel[owner.id] = answer.own

    node.owner.ask("resize", resize)
    node.wait(lambda: not node.events.policy.left)
    had = node.events.policy.grants[owner.id].exclusive
    assert len(had) == after
    node.owner.ask("list", lambda: node.events.answered(node.events.synchronize(listed)))
    assert node.events.policy.grants[owner.id].exclusive == had


@pytest.mark.parametrize("is_known", [True, False], ids=["state", "no state"])
def test_who_was_served_with_less_than_it_wishes_is_not_resized(
    node: LiveNode, old: LiveNode, is_known: bool
) -> None:
    """Whole cores: without room for them it has as many cpus as it asks for."""
    for one in (old, node):
        one.events.policy = engine_of(
            "socket:1 numa:2 core:2 thread:2 mem:4G", reserved="cpuset:0-1"
        )
    whole = {"hide-hyperthreads.resource-policy.nri.io/pod": "whole-cores"}
    plug = container_of("plug", 3)
    old.run(plug, owner := asking(container_of("owner", 2, annotations=whole), 2000))
    assert len(old.events.policy.grants[owner.id].exclusive) == 2
    assert old.events.policy.decisions[owner.id].problems
    restarted(old, node, old.listed(but=plug.id), is_known=is_known)
    assert len(node.events.policy.grants[owner.id].exclusive) == 2
    assert node.kernel[owner.id] == old.kernel[owner.id]


def test_a_list_without_requests_resizes_nobody(node: LiveNode, old: LiveNode) -> None:
    """The runtime tells no shares, and an annotation wants more than there was room for."""
    wishing = {"exclusive.pinfold.dev/pod": "4"}
    plugs = [asking(container_of(f"plug-{n}", 4, annotations=in_node(n)), 4000) for n in (1, 2, 3)]
    old.run(*plugs, owner := container_of("owner", 0.5, annotations=wishing))
    assert not old.events.policy.grants[owner.id].exclusive
    listed = old.listed(but=plugs[0].id)
    again = [asking(one, 0) if one.id == owner.id else one for one in listed.containers]
    restarted(old, node, replace(listed, containers=tuple(again)), is_known=True)
    assert not node.events.policy.grants[owner.id].exclusive
    assert "update" not in events_of(node)


def test_one_that_was_never_announced_keeps_as_many_as_it_asks_for(node: LiveNode) -> None:
    owner = replace(owner_of(2000), cpus=node.events.policy.tree.pools[1].cpus)
    known = Newcomer(container=owner, linux=LinuxResources())
    mention = Mention(container_id=owner.id, read=lambda: known, pid=7)
    node.answers.clear()
    node.owner.ask("start", lambda: node.events.start(mention))
    kept = node.events.policy.grants[owner.id].exclusive
    assert len(kept) == 2
    assert owner.cpus is not None
    assert kept < owner.cpus
    assert node.events.policy.left[owner.id].exclusive == owner.cpus - kept
    node.answers.set()
    node.wait(lambda: not node.events.policy.left)
    assert node.kernel[owner.id].cpus == kept


def test_a_fault_leaves_it_as_it_is_and_the_others_are_told(
    node: LiveNode, old: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = owner_of(4000), asking(container_of("other", 2, annotations=in_node(2)), 2000)
    old.run(owner, other)
    listed = old.listed()
    listed = replace(listed, containers=tuple(asking(one, 1000) for one in listed.containers))
    real = Allocator.mend

    def failing(allocator: Allocator, one: ContainerId) -> Decision:
        decision = real(allocator, one)
        if one == owner.id:
            raise ZeroDivisionError
        return decision

    monkeypatch.setattr(Allocator, "mend", failing)
    restarted(old, node, listed, is_known=True)
    policy = node.events.policy
    assert len(policy.grants[owner.id].exclusive) == 4
    assert len(policy.grants[other.id].exclusive) == 1
    assert node.kernel[owner.id] == old.kernel[owner.id]
    node.owner.ask("check", policy.check)
    node.wait(lambda: [one for one in node.happenings if isinstance(one, Crashed)])


@pytest.mark.parametrize("is_reloaded", [False, True], ids=["at once", "after a reload"])
@pytest.mark.parametrize("is_known", [True, False], ids=["state", "no state"])
def test_one_for_which_there_was_no_room_is_tried_again_after_another_restart(
    node: LiveNode, old: LiveNode, is_known: bool, is_reloaded: bool
) -> None:
    others = [container_of(f"b-{n}", 1) for n in range(13)]
    old.run(owner := owner_of(1000), *others)
    listed = resized(old, 4000, owner)
    between = LiveNode()
    try:
        restarted(old, between, listed, is_known=is_known)
        policy = between.events.policy
        assert len(policy.grants[owner.id].exclusive) == 1
        if is_reloaded:
            config = replace(policy.config, colocate_pods=True)
            events = between.events
            assert between.owner.ask("reload", lambda: events.reconfigure(config))
        restarted(between, node, listed, is_known=True)
    finally:
        between.end()
    policy = node.events.policy
    for one in others[:4]:
        node.owner.ask("stop", partial(node.events.stop, one.id))
    node.owner.ask("look", node.events.moves.resize_missed)
    assert len(policy.grants[owner.id].exclusive) == 4
    # That is done for good.
    assert policy.snapshot().advice()[owner.id].cpu_request_milli == 4000


def test_one_that_was_never_announced_is_resized_after_a_restart_once_there_is_room(
    node: LiveNode, old: LiveNode
) -> None:
    """It was resized by then, and the daemon that heard of it first found no room."""
    others = [container_of(f"b-{n}", 1) for n in range(13)]
    old.run(*others, plug := container_of("plug", 1))
    own = old.kernel[plug.id].cpus
    old.owner.ask("stop", lambda: old.events.answered(old.events.remove(plug.id)))
    owner = replace(owner_of(4000), cpus=own)
    known = Newcomer(container=owner, linux=LinuxResources())
    mention = Mention(container_id=owner.id, read=lambda: known, pid=7)
    old.kernel[owner.id] = Pinning(cpus=own)
    old.owner.ask("start", lambda: old.events.start(mention))
    assert old.events.policy.grants[owner.id].exclusive == own
    restarted(old, node, old.listed(), is_known=True)
    assert node.events.policy.grants[owner.id].exclusive == own
    for one in others[:3]:
        node.owner.ask("stop", partial(node.events.stop, one.id))
    node.owner.ask("look", node.events.moves.resize_missed)
    assert len(node.events.policy.grants[owner.id].exclusive) == 4
