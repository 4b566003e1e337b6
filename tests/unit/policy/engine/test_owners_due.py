"""When owners of rules required during execution are to be moved."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.replacing.owners_due import SECOND, OwnersDue
from pinfold.policy.model.container import Container
from pinfold.topology.made.online_cpus import with_online
from pinfold.topology.sets.cpuset import CpuSet
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
    assert due.stays(A.id, "no room", engine, 30 * SECOND)
    assert due.due(59 * SECOND) == []
    assert due.due(60 * SECOND) == [A.id]
    assert not due.stays(A.id, "no room", engine, 60 * SECOND)
    assert due.stays(A.id, "its annotation", engine, 90 * SECOND)


def attempts(due: OwnersDue, engine: Engine, begin: int, end: int) -> list[int]:
    """The seconds at which an owner is tried, always in vain, at looks every five seconds."""
    found: list[int] = []
    for second in range(begin, end, 5):
        due.note({A.id: ("rule",)}, engine, second * SECOND)
        if A.id in due.due(second * SECOND):
            due.stays(A.id, "no room", engine, second * SECOND)
            found.append(second)
    return found


def test_an_owner_that_stays_is_tried_more_and_more_rarely() -> None:
    engine, due = made(A, B), OwnersDue()
    assert attempts(due, engine, 0, 1000) == [30, 60, 120, 240, 480, 960]
    later = attempts(due, engine, 1000, 20_000)
    assert [b - a for a, b in zip([960, *later], later, strict=False)] == [960] + [1800] * 10


def test_a_grace_period_that_is_longer_is_kept_to() -> None:
    engine, due = engine_of(NODES, duringExecution={"gracePeriod": "1h"}), OwnersDue()
    engine.create(A)
    assert attempts(due, engine, 0, 15_000) == [3600, 7200, 10_800, 14_400]


def graced(engine: Engine, period: str) -> Engine:
    """The engine after a reload with another grace period."""
    config = engine_of(NODES, duringExecution={"gracePeriod": period}).config
    return engine.reconfigured(config)[0]


def test_a_grace_period_that_is_changed_counts_from_when_the_rule_was_broken() -> None:
    engine, due = made(A, B), OwnersDue()
    due.note({A.id: ("rule",)}, engine, 0)
    # Owners are looked at in turn: at this look another one was.
    due.note({}, graced(engine, "10m"), 5 * SECOND)
    assert due.next(0) == 600 * SECOND
    due.note({A.id: ("rule",)}, graced(engine, "10s"), 10 * SECOND)
    assert due.due(10 * SECOND) == [A.id]


def test_an_owner_that_stays_is_tried_as_soon_as_a_shorter_grace_period_allows() -> None:
    engine, due = graced(made(A, B), "1h"), OwnersDue()
    assert attempts(due, engine, 0, 3700) == [3600]
    due.note({}, graced(engine, "10s"), 3700 * SECOND)
    assert due.next(0) == 3630 * SECOND


def ended(engine: Engine) -> Engine:
    engine.remove(B.id)
    return engine


def shrunk(engine: Engine) -> Engine:
    engine.update(B.id, replace(B.resources, cpu_request_milli=100))
    return engine


def limited(engine: Engine) -> Engine:
    engine.update(B.id, replace(B.resources, cpu_limit_milli=1000))
    return engine


def reloaded(engine: Engine) -> Engine:
    return engine.reconfigured(replace(engine.config, colocate_pods=True))[0]


def with_fewer_cpus(engine: Engine) -> Engine:
    machine = with_online(engine.machine, CpuSet.parse("0-14"))
    return engine.reconfigured(engine.config, machine)[0]


def labelled(engine: Engine) -> Engine:
    other = replace(B, pod=replace(B.pod, labels={"app": "other"}))
    engine.synchronize([A, other])
    return engine


def joined(engine: Engine) -> Engine:
    engine.create(container_of("c", 0.25))
    return engine


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(ended, id="somebody has ended"),
        pytest.param(shrunk, id="somebody gives something back"),
        pytest.param(limited, id="somebody has a limit, and as much as before"),
        pytest.param(reloaded, id="another configuration"),
        pytest.param(with_fewer_cpus, id="a cpu that nobody has gone offline"),
        pytest.param(labelled, id="other labels"),
        pytest.param(joined, id="somebody came"),
    ],
)
def test_what_may_end_otherwise_is_tried_as_soon_as_after_the_first_time(
    change: Callable[[Engine], Engine],
) -> None:
    engine, due = made(A, B), OwnersDue()
    assert attempts(due, engine, 0, 500) == [30, 60, 120, 240, 480]
    engine = change(engine)
    assert attempts(due, engine, 500, 600) == [510, 540]


def test_nobody_is_tried_sooner_by_what_happened_before() -> None:
    engine, due = made(A, B), OwnersDue()
    assert attempts(due, engine, 0, 35) == [30]
    engine.remove(B.id)
    assert attempts(due, engine, 35, 300) == [60, 90, 150, 270]
