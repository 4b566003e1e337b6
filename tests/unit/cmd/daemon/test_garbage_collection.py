"""When garbage is collected, and that decisions leave none."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from pinfold.cmd.daemon.garbage_collection import (
    ASIDE_MAX,
    EVENTS_TOGETHER,
    LOOKS_MAX,
    MORE_THAN_AN_EVENT,
    QUIET_LOOKS,
    SOME_OBJECTS,
    GarbageCollector,
)
from pinfold.nri.dispatch.report import Decided, Released, Synchronized, Updated
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Refusal
from pinfold.topology.made.spec import machine_from_spec

ID = ContainerId("c")
ONE = Container(id=ID, name="c", pod=Pod(id=PodId("p"), name="p"))
DECISION = Decision(container_id=ID, result=Refusal(reason="no room"))


class Knot:
    """Garbage that counting references does not free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(name="garbage")
def fixture_garbage() -> Iterator[GarbageCollector]:
    garbage = GarbageCollector()
    gc.collect()
    garbage.start()
    yield garbage
    garbage.stop()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def knot() -> "weakref.ref[Knot]":
    return weakref.ref(Knot())


def stay_quiet(garbage: GarbageCollector) -> None:
    """Something happened since the look before the first of these."""
    for _ in range(QUIET_LOOKS + 1):
        garbage.look()


def test_nothing_is_collected_within_an_event(garbage: GarbageCollector) -> None:
    lost = knot()
    kept = [[number] for number in range(100_000)]
    assert lost() is not None
    assert len(kept) == 100_000


@pytest.mark.parametrize(
    "happening",
    [
        pytest.param(Decided(event="create", container=ONE, decision=DECISION), id="a decision"),
        pytest.param(Released(ONE, ()), id="a release"),
    ],
)
def test_what_is_new_is_gone_through_after(
    garbage: GarbageCollector, happening: Decided | Released
) -> None:
    lost = knot()
    garbage(happening)
    assert lost() is not None, "for a few objects it is not worth its time"
    kept = [[number] for number in range(SOME_OBJECTS)]
    garbage(happening)
    assert lost() is None
    assert len(kept) == SOME_OBJECTS


def test_what_is_too_much_for_an_event_waits_for_a_quiet_time(garbage: GarbageCollector) -> None:
    lost = knot()
    kept = [[number] for number in range(MORE_THAN_AN_EVENT)]
    garbage(Released(ONE, ()))
    assert lost() is not None
    assert gc.get_count()[0] < SOME_OBJECTS
    stay_quiet(garbage)
    assert lost() is None
    assert len(kept) == MORE_THAN_AN_EVENT


def test_little_that_some_events_left_waits_for_a_quiet_time(garbage: GarbageCollector) -> None:
    lost = knot()
    for _ in range(EVENTS_TOGETHER):
        garbage(Released(ONE, ()))
    kept = [[number] for number in range(SOME_OBJECTS)]
    garbage(Released(ONE, ()))
    assert lost() is not None, f"put aside before there were {len(kept)} more"
    stay_quiet(garbage)
    assert lost() is None


def test_much_that_was_put_aside_is_gone_through_though_it_is_not_quiet(
    garbage: GarbageCollector,
) -> None:
    lost = knot()
    kept = [[number] for number in range(ASIDE_MAX)]
    garbage(Released(ONE, ()))
    assert lost() is not None, f"{len(kept)} are more than an event"
    garbage.look()
    assert lost() is None


@pytest.mark.parametrize(
    "happening",
    [
        pytest.param(
            Decided(event="synchronize", container=ONE, decision=DECISION),
            id="one of the containers that run already",
        ),
        pytest.param(Synchronized(1, 0), id="all of them"),
        pytest.param(Updated((ID,)), id="an update of another thread"),
    ],
)
def test_nothing_is_gone_through_after(
    garbage: GarbageCollector, happening: Decided | Synchronized | Updated
) -> None:
    lost = knot()
    garbage(happening)
    assert lost() is not None


def test_everything_is_gone_through_once_it_is_quiet(garbage: GarbageCollector) -> None:
    lost = knot()
    garbage(Synchronized(1, 0))
    garbage.sweep()
    for _ in range(QUIET_LOOKS):
        garbage.look()
        assert lost() is not None, "put aside, and something happened not long ago"
    garbage.look()
    assert lost() is None


def test_all_that_runs_at_the_start_is_no_reason_to_go_through_it(
    garbage: GarbageCollector,
) -> None:
    lost = knot()
    kept = [[number] for number in range(ASIDE_MAX)]
    garbage(Synchronized(1, 0))
    garbage.look()
    assert lost() is not None, f"{len(kept)} objects that live"
    stay_quiet(garbage)
    assert lost() is None


def test_nothing_is_gone_through_again_while_it_stays_quiet(garbage: GarbageCollector) -> None:
    lost = knot()
    stay_quiet(garbage)
    assert lost() is not None
    many = [[number] for number in range(ASIDE_MAX)]
    garbage.look()
    assert lost() is None, f"{len(many)} new objects, although nothing happened"


def test_everything_is_gone_through_where_it_is_never_quiet(garbage: GarbageCollector) -> None:
    lost = knot()
    garbage(Synchronized(1, 0))
    for _ in range(LOOKS_MAX - 1):
        garbage.sweep()
        garbage.look()
    assert lost() is not None
    garbage.sweep()
    garbage.look()
    assert lost() is None


def test_decisions_and_engines_are_freed_without_it(garbage: GarbageCollector) -> None:
    engine = Engine(machine_from_spec("socket:2 numa:2 core:4"), Config())
    gc.collect()
    rules = {"resource-policy.nri.io/affinity": "c0: [c500]\nc2000: [c0]"}
    for milli in (0, 500, 2000, 90_000):
        wanted = Resources(cpu_request_milli=milli, cpu_limit_milli=milli)
        pod = Pod(id=PodId("p"), name="p", annotations=rules, qos=QosClass.GUARANTEED)
        name = f"c{milli}"
        decision = engine.create(
            Container(id=ContainerId(name), name=name, pod=pod, resources=wanted)
        )
        assert len(decision.candidates) == len(engine.tree.pools)
    engine.remove(ContainerId("c500"))
    assert gc.collect(1) == 0, "decisions left cycles"
    known = weakref.ref(engine)
    held_by_ledgers = weakref.ref(engine.snapshot().pool_cpus.cores)
    del engine
    assert known() is None
    assert held_by_ledgers() is None
