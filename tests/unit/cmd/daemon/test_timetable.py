"""Work that is due at some time, with a clock that stands still until it is moved."""

import threading

import pytest

from pinfold.cmd.daemon.timetable import Timetable


class Clock:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(name="clock")
def fixture_clock() -> Clock:
    return Clock()


@pytest.fixture(name="crashes")
def fixture_crashes() -> list[str]:
    return []


@pytest.fixture(name="timetable")
def fixture_timetable(clock: Clock, crashes: list[str]) -> Timetable:
    return Timetable(lambda name, error: crashes.append(f"{name}: {error}"), clock)


def test_once_is_done_once_and_not_before_its_time(timetable: Timetable, clock: Clock) -> None:
    done: list[str] = []
    timetable.once("a", 5, lambda: done.append("a"))
    clock.now += 4
    assert timetable.work_off() == 1
    assert done == []
    clock.now += 1
    assert timetable.work_off() is None
    clock.now += 100
    assert timetable.work_off() is None
    assert done == ["a"]


def test_every_begins_after_a_period_and_does_not_catch_up(
    timetable: Timetable, clock: Clock
) -> None:
    done: list[float] = []
    timetable.every("a", 10, lambda: done.append(clock.now))
    assert timetable.work_off() == 10
    clock.now += 10
    assert timetable.work_off() == 10
    clock.now += 55
    assert timetable.work_off() == 10
    assert done == [110, 165]


def test_the_longest_due_is_done_first(timetable: Timetable, clock: Clock) -> None:
    done: list[str] = []
    timetable.once("late", 3, lambda: done.append("late"))
    timetable.once("early", 2, lambda: done.append("early"))
    clock.now += 9
    timetable.work_off()
    assert done == ["early", "late"]


def test_who_waits_already_stays_and_who_is_cancelled_goes(
    timetable: Timetable, clock: Clock
) -> None:
    done: list[str] = []
    timetable.once("a", 5, lambda: done.append("first"))
    timetable.once("a", 1, lambda: done.append("second"))
    timetable.once("b", 1, lambda: done.append("b"))
    timetable.cancel("b")
    timetable.cancel("unknown")
    clock.now += 2
    timetable.work_off()
    assert done == []
    clock.now += 3
    timetable.work_off()
    assert done == ["first"]


def test_work_that_raises_is_told_and_the_rest_goes_on(
    timetable: Timetable, clock: Clock, crashes: list[str]
) -> None:
    done: list[str] = []

    def fail() -> None:
        raise OSError("no such thing")

    timetable.every("bad", 1, fail)
    timetable.once("good", 2, lambda: done.append("good"))
    clock.now += 2
    timetable.work_off()
    clock.now += 1
    timetable.work_off()
    assert crashes == ["bad: no such thing"] * 2
    assert done == ["good"]


def test_the_thread_does_what_is_entered_while_it_waits() -> None:
    timetable = Timetable(lambda _name, _error: None)
    timetable.start()
    done = threading.Event()
    timetable.every("never", 1000, lambda: None)
    timetable.once("now", 0, done.set)
    assert done.wait(5)
    timetable.stop()
