"""Events in which a fault of ours shows: what was kept is kept, and nothing is half booked."""

from collections.abc import Callable, Iterator

import pytest

from pinfold.nri.dispatch.pod_updates import resize_pod
from pinfold.nri.dispatch.report import Decided
from pinfold.policy.engine.allocator import Allocator
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.left_cpus import LeftCpus
from pinfold.policy.engine.replacing.asked_move import AskedMove
from pinfold.policy.engine.replacing.joint_replacement import JointStep
from pinfold.policy.engine.restoring.undoing import EventUndoing
from pinfold.policy.model.container import Container
from pinfold.policy.model.kubelet_resources import LinuxResources
from pinfold.policy.model.move_purpose import MovePurpose
from tests.unit.nri.dispatch.test_live_moves import LiveNode, elsewhere, full, ignored, mention_of
from tests.unit.policy.engine.ruled_pods import container_of
from tests.unit.policy.engine.test_penning import whole


@pytest.fixture(name="node")
def fixture_node() -> Iterator[LiveNode]:
    node = LiveNode()
    yield node
    node.end()


@pytest.fixture(name="owner")
def fixture_owner(node: LiveNode) -> Container:
    """One that was moved, and whose runtime refuses that: what it had is kept."""
    owner, _ = full(node)
    node.refused.add(owner.id)
    node.move(owner, elsewhere(node, owner))
    node.wait(lambda: node.actuator.counts().failing)
    return owner


def _raise(*_: object, **_named: object) -> None:
    raise ZeroDivisionError


def _update(node: LiveNode, owner: Container) -> object:
    wanted = LinuxResources(cpu_shares=3072, cpu_quota=300000, cpu_period=100000)
    return node.events.update(mention_of(owner), wanted)


def _move(node: LiveNode, owner: Container) -> object:
    root = node.events.policy.tree.root.id
    return node.events.moves.move(owner.id, AskedMove(root, MovePurpose.WISHES))


def _place_anew(node: LiveNode, owner: Container) -> object:
    return node.events.moves.place_anew([JointStep(owner.id)])


def _resize_pod(node: LiveNode, owner: Container) -> object:
    return resize_pod(node.events, owner.pod, whole(3))


EVENTS = (
    (_update, "resize"),
    (_move, "move"),
    (_place_anew, "place_anew"),
    (_resize_pod, "shift_shares"),
)


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize(("event", "decision"), EVENTS)
def test_cpus_are_kept_where_an_event_of_their_former_owner_raises(
    node: LiveNode,
    owner: Container,
    monkeypatch: pytest.MonkeyPatch,
    event: Callable[[LiveNode, Container], object],
    decision: str,
    is_late: bool,
) -> None:
    policy = node.events.policy
    before, grants = dict(policy.left), dict(policy.grants)
    assert before
    if is_late:
        monkeypatch.setattr(LeftCpus, "keep", _raise)
    else:
        monkeypatch.setattr(Allocator, decision, _raise)
    node.crashed = ignored
    with pytest.raises(ZeroDivisionError):
        node.owner.ask("event", lambda: event(node, owner))
    monkeypatch.undo()
    assert (policy.left, policy.grants) == (before, grants)
    node.owner.ask("check", policy.check)
    assert "are free once" in node.refusal(container_of("newcomer", 4))
    node.refused.clear()
    node.wait(lambda: not policy.left)


def test_cpus_are_let_go_at_the_next_look_where_that_raises_once(
    node: LiveNode, owner: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, raised = node.events.policy, list[str]()

    def note(what: str, error: Exception) -> None:
        ignored(what, error)
        raised.append(what)

    monkeypatch.setattr(Allocator, "return_home", _raise)
    node.crashed = note
    before = dict(policy.left)
    node.refused.clear()
    node.wait(lambda: raised)
    assert node.owner.ask("left", lambda: dict(policy.left)) == before
    monkeypatch.undo()
    node.actuator.doubt([owner.id])
    node.wait(lambda: not policy.left)


def test_nothing_is_awaited_for_a_resize_that_was_undone(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = container_of("owner", 4)
    node.run(owner, container_of("sharer", 0.5))
    # Once it is kept what it leaves: the sharer has to do without that.
    monkeypatch.setattr("pinfold.nri.dispatch.live_moves.changed", _raise)
    node.crashed = ignored
    with pytest.raises(ZeroDivisionError):
        node.owner.ask("event", lambda: _update(node, owner))
    assert not node.events.policy.left
    assert not vars(node.events.moves)["_awaited"]


def test_an_adoption_that_was_undone_is_not_told(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "interleaved", _raise)
    node.crashed = ignored
    newcomer = container_of("newcomer", 1)
    with pytest.raises(ZeroDivisionError):
        node.start(newcomer)
    node.owner.ask("turn", lambda: None)
    assert newcomer.id not in node.events.policy.grants
    assert newcomer.id not in node.events.asked
    assert not [one for one in node.happenings if isinstance(one, Decided)]


def test_a_fault_within_the_undoing_is_told_with_the_first_one(
    node: LiveNode, owner: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undo(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr(Allocator, "resize", _raise)
    monkeypatch.setattr(EventUndoing, "allocator", undo)
    node.crashed = ignored
    with pytest.raises(KeyError) as caught:
        node.owner.ask("event", lambda: _update(node, owner))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    monkeypatch.undo()
    assert node.owner.ask("event", lambda: _update(node, owner))
