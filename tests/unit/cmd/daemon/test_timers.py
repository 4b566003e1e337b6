"""Work that is due at some time, with a clock that stands still until it is moved."""

import threading

import pytest

from pinfold.cmd.daemon.timers import Timers


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


@pytest.fixture(name="timers")
def fixture_timers(clock: Clock, crashes: list[str]) -> Timers:
    return Timers(lambda name, error: crashes.append(f"{name}: {error}"), clock)


def test_once_is_done_once_and_not_before_its_time(timers: Timers, clock: Clock) -> None:
    done: list[str] = []
    timers.once("a", 5, lambda: done.append("a"))
    clock.now += 4
    assert timers.work_off() == 1
    assert done == []
    clock.now += 1
    assert timers.work_off() is None
    clock.now += 100
    assert timers.work_off() is None
    assert done == ["a"]


def test_every_begins_after_a_period_and_does_not_catch_up(timers: Timers, clock: Clock) -> None:
    done: list[float] = []
    timers.every("a", 10, lambda: done.append(clock.now))
    assert timers.work_off() == 10
    clock.now += 10
    assert timers.work_off() == 10
    clock.now += 55
    assert timers.work_off() == 10
    assert done == [110, 165]


def test_the_longest_due_is_done_first(timers: Timers, clock: Clock) -> None:
    done: list[str] = []
    timers.once("late", 3, lambda: done.append("late"))
    timers.once("early", 2, lambda: done.append("early"))
    clock.now += 9
    timers.work_off()
    assert done == ["early", "late"]


def test_who_waits_already_stays_and_who_is_cancelled_goes(timers: Timers, clock: Clock) -> None:
    done: list[str] = []
    timers.once("a", 5, lambda: done.append("first"))
    timers.once("a", 1, lambda: done.append("second"))
    timers.once("b", 1, lambda: done.append("b"))
    timers.cancel("b")
    timers.cancel("unknown")
    clock.now += 2
    timers.work_off()
    assert done == []
    clock.now += 3
    timers.work_off()
    assert done == ["first"]


def test_work_that_raises_is_told_and_the_rest_goes_on(
    timers: Timers, clock: Clock, crashes: list[str]
) -> None:
    done: list[str] = []

    def fail() -> None:
        raise OSError("no such thing")

    timers.every("bad", 1, fail)
    timers.once("good", 2, lambda: done.append("good"))
    clock.now += 2
    timers.work_off()
    clock.now += 1
    timers.work_off()
    assert crashes == ["bad: no such thing"] * 2
    assert done == ["good"]


def test_the_thread_does_what_is_entered_while_it_waits() -> None:
    timers = Timers(lambda _name, _error: None)
    timers.start()
    done = threading.Event()
    timers.every("never", 1000, lambda: None)
    timers.once("now", 0, done.set)
    assert done.wait(5)
    timers.stop()
