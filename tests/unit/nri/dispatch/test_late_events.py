"""Late events: what a runtime still tells of containers that have ended takes no cpus for them."""

from collections.abc import Callable, Iterator

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.allocator import Allocator
from pinfold.policy.model.container import Container, ContainerId, ContainerState
from pinfold.policy.model.kubelet_resources import LinuxResources
from tests.unit.nri.dispatch.test_live_moves import LiveNode, ignored, mention_of
from tests.unit.policy.engine.ruled_pods import container_of

ENDED, OTHER = container_of("ended", 4), container_of("other", 2)
LATE: tuple[Callable[[LiveNode, Container], object], ...] = (
    lambda node, one: node.events.update(mention_of(one), LinuxResources(cpu_shares=2048)),
    lambda node, one: node.events.start(mention_of(one)),
    lambda node, one: node.events.stop(one.id),
)


@pytest.fixture(name="node")
def fixture_node(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveNode]:
    node = LiveNode()
    node.run(ENDED, OTHER)
    node.crashed = ignored
    yield node
    node.end()


def _raise(*_: object, **_named: object) -> None:
    raise ZeroDivisionError


def after_a_fault(node: LiveNode, patch: pytest.MonkeyPatch) -> None:
    """Another one ends, in which a fault of ours shows."""
    node.owner.ask("stop", lambda: node.events.stop(ENDED.id))
    with patch.context() as within:
        within.setattr(Books, "relax", _raise)
        node.owner.ask("stop", lambda: node.events.stop(OTHER.id))


def at_its_end(node: LiveNode, patch: pytest.MonkeyPatch) -> None:
    """It shows as it ends itself."""
    with patch.context() as within:
        within.setattr(Allocator, "release", _raise)
        node.owner.ask("stop", lambda: node.events.stop(ENDED.id))


def after_a_reload(node: LiveNode, _: pytest.MonkeyPatch) -> None:
    node.owner.ask("stop", lambda: node.events.stop(ENDED.id))
    config = Config(reserved_resources=Amounts(cpu="cpuset:0-1"))
    assert node.owner.ask("reload", lambda: node.events.reconfigure(config))


def after_a_list(node: LiveNode, _: pytest.MonkeyPatch) -> None:
    """The runtime came back, and lists it no more."""
    node.owner.ask("stop", lambda: node.events.stop(ENDED.id))
    node.owner.ask("list", lambda: node.synchronize(ENDED.id))


@pytest.mark.parametrize("late", LATE, ids=["update", "start", "stop"])
@pytest.mark.parametrize("ended", [after_a_fault, at_its_end, after_a_reload, after_a_list])
def test_nobody_is_adopted_who_has_ended(
    node: LiveNode,
    monkeypatch: pytest.MonkeyPatch,
    ended: Callable[[LiveNode, pytest.MonkeyPatch], None],
    late: Callable[[LiveNode, Container], object],
) -> None:
    ended(node, monkeypatch)
    assert ENDED.id not in node.events.policy.grants
    node.owner.ask("late", lambda: late(node, ENDED))
    policy = node.events.policy
    assert ENDED.id not in policy.grants
    known = policy.containers.get(ENDED.id)
    assert known is None or known.state is ContainerState.EXITED
    node.owner.ask("remove", lambda: node.events.remove(ENDED.id))
    assert ENDED.id not in policy.containers


def test_no_more_than_a_thousand_that_have_ended_are_remembered(node: LiveNode) -> None:
    """A runtime tells of sandboxes, too, and of containers that nobody knew."""
    node.owner.ask("remove", lambda: node.events.remove(ENDED.id))

    def end(count: int) -> None:
        for number in range(count):
            node.events.stop(ContainerId(f"other-{number}"))
            node.events.remove(ContainerId(f"other-{number}"))

    node.owner.ask("others", lambda: end(999))
    node.start(ENDED)
    assert ENDED.id not in node.events.policy.grants
    node.owner.ask("others", lambda: end(1000))
    node.start(ENDED)
    assert ENDED.id in node.events.policy.grants


def test_one_that_is_created_again_by_the_same_id_is_adopted_where_that_fails(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that made none of it at first may create it once more."""
    node.owner.ask("remove", lambda: node.events.remove(ENDED.id))
    with monkeypatch.context() as within:
        within.setattr(Books, "take", _raise)
        with pytest.raises(ZeroDivisionError):
            node.refusal(ENDED)
    node.start(ENDED)
    assert ENDED.id in node.events.policy.grants
