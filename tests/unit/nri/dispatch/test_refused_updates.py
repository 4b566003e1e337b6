"""Refused updates: newcomers get cpus of their own where nobody is stuck whom they know of."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.nri.dispatch import acknowledgements
from pinfold.nri.dispatch.refusals import RefusedUpdates
from pinfold.nri.dispatch.report import Unmoved, Unplaceable, Updated
from pinfold.policy.engine.advice import Advice
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet
from tests.unit.nri.dispatch.test_live_moves import LiveNode, in_node
from tests.unit.policy.engine.ruled_pods import container_of

FAILURE = "a hook failed once all was done"


@pytest.fixture(name="node")
def fixture_node() -> Iterator[LiveNode]:
    node = LiveNode()
    yield node
    node.end()


def refusing(node: LiveNode) -> Container:
    """A container on the shared cpus of node 1 whose runtime refuses all updates of it."""
    sharer = container_of("sharer", 0.5, annotations=in_node(1))
    node.run(sharer)
    node.refused.add(sharer.id)
    return sharer


def told(node: LiveNode, container: Container) -> list[str]:
    problems = node.events.policy.decisions[container.id].problems
    return [one.what for one in problems if one.where == "stuck"]


def stuck(node: LiveNode) -> list[str]:
    return [*node.events.policy.stuck_containers.cpus]


def test_nobody_is_put_where_a_refused_container_still_runs(node: LiveNode) -> None:
    sharer = refusing(node)
    node.run(first := container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    here = node.kernel[sharer.id].cpus or NO_CPUS
    assert str(here) == "4-7"
    others = [container_of(f"new-{number}", 2) for number in range(5)]
    node.run(*others)
    assert all((node.kernel[one.id].cpus or NO_CPUS).isdisjoint(here) for one in others)
    assert not any(told(node, one) for one in others)
    assert len(told(node, first)) == 1
    (report,) = [one for one in node.happenings if isinstance(one, Unplaceable)]
    assert report.container.id == first.id
    assert "also run on by default/sharer/main" in report.reason


def test_where_there_are_no_others_a_newcomer_has_them_and_is_told(node: LiveNode) -> None:
    refusing(node)
    node.run(container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    node.run(*(container_of(f"plug-{n}", 4 - (not n), annotations=in_node(n)) for n in (0, 2, 3)))
    last = container_of("last", 2)
    node.run(last)
    assert len(told(node, last)) == 1


def test_it_is_over_once_the_runtime_makes_the_update(node: LiveNode) -> None:
    sharer = refusing(node)
    node.run(first := container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    node.refused.clear()
    node.wait(lambda: not stuck(node))
    assert told(node, first) == []
    assert node.kernel[sharer.id] == node.events.policy.pinning(sharer.id)


def test_it_is_over_once_the_container_ends(node: LiveNode) -> None:
    sharer = refusing(node)
    node.run(first := container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    node.owner.ask("stop", lambda: node.events.stop(sharer.id))
    node.wait(lambda: not stuck(node))
    assert told(node, first) == []


def test_an_update_that_is_on_its_way_is_no_refusal(node: LiveNode) -> None:
    node.run(container_of("sharer", 0.5, annotations=in_node(1)))
    node.answers.clear()
    node.run(container_of("first", 1, annotations=in_node(1)))
    node.run(second := container_of("second", 1, annotations=in_node(1)))
    assert str(node.cpus(second)) in ("4", "5", "6", "7")
    assert stuck(node) == []


def test_one_that_lost_an_update_once_is_not_refused(node: LiveNode) -> None:
    sharer = container_of("sharer", 0.5, annotations=in_node(1))
    node.run(sharer)
    before = node.kernel[sharer.id]
    node.run(container_of("first", 1, annotations=in_node(1)))
    assert node.actuator.settle(10.0)
    node.kernel[sharer.id] = before
    node.actuator.doubt([sharer.id])
    assert node.actuator.settle(10.0)
    assert stuck(node) == []
    assert not [one for one in node.happenings if isinstance(one, Unplaceable)]


def test_a_list_of_all_that_runs_forgets_none(node: LiveNode) -> None:
    sharer = refusing(node)
    node.run(first := container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    node.owner.ask("renew", node.synchronize)
    assert stuck(node) == [sharer.id]
    assert len(told(node, first)) == 1
    assert node.actuator.settle(10.0)
    assert stuck(node) == [sharer.id]
    assert len(told(node, first)) == 1


def test_one_that_is_not_in_such_a_list_keeps_nobody_away(node: LiveNode) -> None:
    sharer = refusing(node)
    node.run(first := container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    node.owner.ask("renew", lambda: node.synchronize(but=sharer.id))
    assert stuck(node) == []
    assert told(node, first) == []
    assert node.actuator.settle(10.0)
    assert stuck(node) == []


def test_one_that_has_what_it_was_told_is_not_stuck_though_the_runtime_fails(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.run(sharer := container_of("sharer", 0.5, annotations=in_node(1)))
    tells = list[Mapping[ContainerId, Pinning]]()

    def send(updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        tells.append(updates)
        node.kernel |= updates
        return dict.fromkeys(updates, FAILURE)

    monkeypatch.setattr(node, "send", send)
    node.run(container_of("first", 1, annotations=in_node(1)))
    node.kernel[sharer.id] = Pinning(cpus=CpuSet.parse("4-7"))
    node.actuator.doubt([sharer.id])
    node.wait(lambda: tells)
    assert node.actuator.settle(10.0)
    node.owner.ask("turn", lambda: None)
    assert stuck(node) == []
    assert node.actuator.counts().failing == 0
    assert node.actuator.acknowledged(sharer.id) == node.events.policy.pinning(sharer.id)
    told_of = [one for one in node.happenings if isinstance(one, Updated)]
    assert {one.error for one in told_of if sharer.id in one.containers} == {FAILURE}


def test_one_that_was_told_in_vain_is_not_told_again_what_it_has_by_now(
    node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acknowledgements, "FIRST_RETRY_SECONDS", 0.2)
    tells, send = list[Mapping[ContainerId, Pinning]](), node.send

    def noted(updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        tells.append(updates)
        return send(updates)

    monkeypatch.setattr(node, "send", noted)
    sharer = refusing(node)
    node.run(container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    wanted, count = node.events.policy.pinning(sharer.id), len(tells)
    assert wanted is not None
    node.kernel[sharer.id] = wanted
    node.wait(lambda: not stuck(node))
    assert len(tells) == count


def test_one_that_another_program_puts_where_it_should_be_is_no_longer_stuck(
    node: LiveNode,
) -> None:
    sharer = refusing(node)
    node.run(first := container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    wanted = node.events.policy.pinning(sharer.id)
    assert wanted is not None
    node.kernel[sharer.id] = wanted
    node.actuator.doubt([sharer.id])
    node.wait(lambda: not stuck(node))
    assert told(node, first) == []
    assert node.refused


@pytest.fixture(name="later")
def fixture_later() -> Iterator[LiveNode]:
    later = LiveNode()
    yield later
    later.end()


def begin_again(later: LiveNode, node: LiveNode, advice: Mapping[ContainerId, Advice]) -> None:
    """A later daemon on the same node, which has yet to send or to read back anything."""
    listed = node.listed()
    later.answers.clear()
    later.kernel, later.refused, later.events.advice = node.kernel, node.refused, advice
    later.owner.ask("s", lambda: later.events.answered(later.events.synchronize(listed)))


def test_one_of_whom_no_state_tells_is_known_after_a_restart_once_it_was_refused_again(
    node: LiveNode, later: LiveNode
) -> None:
    sharer = refusing(node)
    node.run(first := container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    known = node.events.policy.snapshot().advice()
    begin_again(later, node, {one: replace(hint, stuck=NO_CPUS) for one, hint in known.items()})
    assert stuck(later) == []
    later.answers.set()
    later.wait(lambda: stuck(later) == [sharer.id])
    assert len(told(later, first)) == 1
    later.run(newcomer := container_of("newcomer", 2))
    assert (later.kernel[newcomer.id].cpus or NO_CPUS).isdisjoint(CpuSet.parse("4-7"))


@pytest.mark.parametrize("is_refused", [True, False])
def test_one_of_whom_the_state_tells_is_known_before_it_is_refused_again(
    node: LiveNode, later: LiveNode, *, is_refused: bool
) -> None:
    sharer = refusing(node)
    node.run(first := container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    begin_again(later, node, node.events.policy.snapshot().advice())
    assert stuck(later) == [sharer.id]
    assert len(told(later, first)) == 1
    later.run(newcomer := container_of("newcomer", 2))
    assert (later.kernel[newcomer.id].cpus or NO_CPUS).isdisjoint(CpuSet.parse("4-7"))
    if not is_refused:
        node.refused.clear()
    later.answers.set()
    assert later.actuator.settle(10.0)
    later.owner.ask("turn", lambda: None)
    assert (stuck(later), len(told(later, first))) == ([sharer.id] * is_refused, is_refused)


def test_none_is_forgotten_though_the_actuator_looks_while_it_is_told_of_them(
    node: LiveNode, later: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharer = refusing(node)
    node.run(container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: stuck(node))
    refused = vars(later.events)["_refused_updates"]
    look = vars(RefusedUpdates)["_look"]

    class Recalled(deque[Any]):
        def append(self, x: Any, /) -> None:
            look(refused)
            super().append(x)

    monkeypatch.setattr(refused, "_recalled", Recalled())
    # Its own thread is busy meanwhile.
    later.actuator.looked.clear()
    begin_again(later, node, node.events.policy.snapshot().advice())
    later.owner.ask("turn", lambda: None)
    assert stuck(later) == [sharer.id]


def test_it_is_reported_that_others_are_stuck(node: LiveNode) -> None:
    refusing(node)
    node.run(container_of("first", 1, annotations=in_node(1)))
    node.wait(lambda: Unmoved(1) in node.happenings)
    node.refused.clear()
    node.wait(lambda: node.happenings[-1] == Unmoved(0))
