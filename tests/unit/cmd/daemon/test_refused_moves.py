"""Refused moves: a pen whose runtime refuses to move one of it stays where it was, all of it."""

from collections.abc import Iterator
from typing import TypeGuard

import pytest
from msgspec.structs import replace

from pinfold.cmd.daemon.moves.refused_moves import RefusedMoves
from pinfold.nri.dispatch.front import Front
from pinfold.nri.dispatch.report import Decided, Happening, Unapplied
from pinfold.policy.engine.decision import STUCK
from pinfold.policy.engine.replacing.joint_replacement import JointStep
from pinfold.policy.model.container import Container, ContainerId
from pinfold.topology.sets.cpuset import NO_CPUS
from tests.unit.nri.dispatch.test_live_moves import SECONDS, LiveNode, in_node
from tests.unit.policy.engine.ruled_pods import apart, container_of, term
from tests.unit.policy.engine.test_penning import container as inside
from tests.unit.policy.engine.test_penning import pod as pod_of
from tests.unit.policy.engine.test_penning import whole
from tests.unit.policy.engine.test_replacement import lasting


class PaperFront(LiveNode, Front):
    """A front whose runtime has told all that runs."""

    def stop(self) -> None: ...

    def wait_until_ready(self, seconds: float) -> bool:
        return seconds >= 0

    def settle(self, seconds: float = SECONDS) -> bool:
        return self.actuator.settle(seconds)


@pytest.fixture(name="node")
def fixture_node() -> Iterator[PaperFront]:
    node = PaperFront()
    yield node
    node.end()


def penned(node: PaperFront) -> tuple[Container, Container]:
    """Two containers of a pen that has two cpus of a node, which a wolf has come to."""
    rules = container_of("any", 1, lasting(apart(term("numa", "wolf")))).pod.annotations
    pod = replace(pod_of(whole(2)), annotations=rules)
    first, second = inside(pod, "a"), inside(pod, "b")
    node.run(first, second)
    home = node.kernel[first.id].cpus or NO_CPUS
    tree = node.events.policy.tree
    (pool,) = (one for one in tree.pools if one.name.startswith("NUMA") and home <= one.cpus)
    node.run(container_of("wolf", 0.2, fails=True, annotations=in_node(int(pool.name[-1]))))
    return first, second


def test_a_pen_is_taken_back_with_all_who_are_in_it(node: PaperFront) -> None:
    first, second = penned(node)
    policy, home = node.events.policy, node.kernel[first.id].cpus or NO_CPUS
    refused, told = RefusedMoves(), list[tuple[ContainerId, str]]()
    refused.start(node, lambda one, error: told.append((one, error)))
    node.listeners.append(refused)
    node.refused.add(second.id)
    node.owner.ask("note", lambda: refused.note(first.id, policy))
    go = [JointStep(first.id)]
    # Within one turn: it may be taken back in the next.
    (made, _), away = node.owner.ask(
        "go", lambda: (node.events.moves.place_anew(go), policy.left_cpus.held(first.id))
    )
    assert list(made) == [first.id]
    assert away is not None
    assert away.exclusive.isdisjoint(home)
    node.wait(lambda: told)
    pen = policy.left_cpus.held(first.id)
    assert pen is not None
    assert pen.exclusive == home
    assert sorted(told) == [(first.id, "no"), (second.id, "no")]
    node.wait(lambda: not policy.left)
    assert node.actuator.settle(SECONDS)
    assert node.kernel[first.id].cpus == node.kernel[second.id].cpus == home
    assert node.actuator.counts().failing == 0
    node.wait(lambda: [one for one in node.happenings if _is_return(one)])
    node.owner.ask("check", policy.check)
    assert policy.decisions[first.id].unmet
    for number in range(8):
        node.refusal(container_of(f"new-{number}", 1))
    others = [grant for grant in policy.grants.values() if not grant.pen]
    assert all(one.exclusive.isdisjoint(home) for one in others)
    node.owner.ask("check", policy.check)


def test_those_of_a_pen_that_is_taken_back_are_told_of_who_is_stuck_there(node: PaperFront) -> None:
    first, second = penned(node)
    policy, home = node.events.policy, node.kernel[first.id]
    refused = RefusedMoves()
    refused.start(node, lambda _one, _error: None)
    node.listeners.append(refused)
    wolf = container_of("wolf").id
    node.refused |= {wolf, second.id}
    node.kernel[wolf] = home
    node.actuator.doubt([wolf])
    node.wait(lambda: wolf in policy.stuck_containers.cpus)
    node.owner.ask("note", lambda: refused.note(first.id, policy))
    go = [JointStep(first.id)]
    node.owner.ask("go", lambda: node.events.moves.place_anew(go))
    node.wait(lambda: [one for one in node.happenings if _is_return(one)])
    (told,) = [one.decision for one in node.happenings if _is_return(one)]
    for problems in (
        told.problems,
        *(policy.decisions[one.id].problems for one in (first, second)),
    ):
        (text,) = [one.what for one in problems if one.where == STUCK]
        assert text.startswith(f"cpus {home.cpus} of its own are also run on by default/wolf/main")


def test_a_pen_that_somebody_has_left_meanwhile_is_not_taken_back(node: PaperFront) -> None:
    first, second = penned(node)
    policy, home = node.events.policy, node.kernel[first.id].cpus or NO_CPUS
    refused = RefusedMoves()
    refused.start(node, lambda _one, _error: None)
    node.refused.add(second.id)
    node.owner.ask("note", lambda: refused.note(first.id, policy))
    go = [JointStep(first.id)]
    node.owner.ask("go", lambda: node.events.moves.place_anew(go))
    node.owner.ask("stop", lambda: node.events.answered(node.events.stop(first.id)))
    node.wait(lambda: node.actuator.counts().failing)
    pinning = policy.pinning(second.id)
    assert pinning is not None
    heard = list[Happening]()
    # In this order: once it was heard, the turn that might take it back was asked for.
    node.listeners.extend((refused, heard.append))
    node.wait(lambda: [one for one in heard if isinstance(one, Unapplied)])
    # In a turn: within another one what was left is lent for a moment.
    assert node.owner.ask("pinning", lambda: policy.pinning(second.id)) == pinning
    left = node.owner.ask("left", lambda: [one.exclusive for one in policy.left.values()])
    assert left == [home]
    node.owner.ask("check", policy.check)


def _is_return(happening: object) -> TypeGuard[Decided]:
    return isinstance(happening, Decided) and happening.event == "return"
