"""When owners of rules required during execution are to be moved."""

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.replacing.owners_due import SECOND, OwnersDue
from pinfold.policy.model.container import Container
from tests.unit.policy.engine.ruled_pods import container_of, engine_of

NODES = "socket:1 numa:4 core:4 mem:4G"


def made(*containers: Container) -> Engine:
    engine = engine_of(NODES)
    for one in containers:
        engine.create(one)
    return engine


A, B = container_of("a", 0.5), container_of("b", 0.5)


def test_an_owner_is_due_after_the_grace_period_and_who_waits_longest_comes_first() -> None:
    engine, due = made(A, B), OwnersDue()
    due.note({B.id: ("rule",)}, engine, 0)
    due.note({A.id: ("rule",), B.id: ("rule",)}, engine, 5 * SECOND)
    assert due.next(0) == 30 * SECOND
    assert due.due(30 * SECOND) == [B.id]
    assert due.due(35 * SECOND) == [B.id, A.id]
    due.wait(B.id, 40 * SECOND)
    assert due.due(40 * SECOND) == [A.id, B.id]
    due.note({A.id: ()}, engine, 40 * SECOND)
    assert A.id not in due


def test_who_is_gone_is_not_due() -> None:
    engine, due = made(A), OwnersDue()
    due.note({A.id: ("rule",)}, engine, 0)
    engine.remove(A.id)
    due.note({}, engine, 5 * SECOND)
    assert due.due(100 * SECOND) == []


def test_those_in_a_pen_go_together() -> None:
    group = {"group.pinfold.dev/pod": "front"}
    front = [container_of(name, 0.5, annotations=group) for name in ("x", "y")]
    engine, due = made(A, *front), OwnersDue()
    due.note({one.id: ("rule",) for one in (A, *front)}, engine, 0)
    due.went(front[0].id, engine)
    assert due.due(30 * SECOND) == [A.id]
    due.went(A.id, engine)
    assert due.next(0) is None


def test_the_reason_of_one_that_stays_is_told_where_it_is_another() -> None:
    engine, due = made(A), OwnersDue()
    due.note({A.id: ("rule",)}, engine, 0)
    assert due.stays(A.id, "no room", 30 * SECOND)
    assert due.due(59 * SECOND) == []
    assert due.due(60 * SECOND) == [A.id]
    assert not due.stays(A.id, "no room", 60 * SECOND)
    assert due.stays(A.id, "its annotation", 90 * SECOND)
