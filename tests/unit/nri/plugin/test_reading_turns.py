"""Two threads at one connection: whatever the one that reads is at, somebody reads on."""

import threading
from collections.abc import Callable

import pytest

from pinfold.nri.plugin.reading_turns import ReadingTurns

PATIENCE = 0.15
SECONDS = 5.0


class Desk:
    """Steps that are taken one by one, by whichever thread reads.

    Its time stands still unless a step lasts: a thread that gets no cpu is not late by that.
    """

    def __init__(self, *steps: Callable[[], None], stand_in: bool = True) -> None:
        self.steps = [*steps]
        self.readers: list[int] = []
        self.stood_in = threading.Event()
        self._can = stand_in
        self._now = 0.0
        self.left: list[int] = []
        self.turns = ReadingTurns(
            self._read,
            lambda since: since + PATIENCE,
            self._stand_in,
            lambda: self.left.append(threading.get_ident()),
            self._clock,
            PATIENCE,
        )

    def last_until(self, event: threading.Event) -> None:
        self._now += 2 * PATIENCE
        event.wait(SECONDS)

    def _clock(self) -> float:
        return self._now

    def run(self) -> str:
        return self.turns.run()

    def _read(self) -> str:
        if not self.steps:
            return "nothing more"
        if not self.turns.begin_wait():
            return ""
        self.turns.end_wait(self._now)
        step = self.steps.pop(0)
        self.readers.append(threading.get_ident())
        step()
        return ""

    def _stand_in(self) -> bool:
        self.stood_in.set()
        return self._can


def nothing() -> None:
    pass


def test_one_thread_reads_as_long_as_it_is_quick() -> None:
    desk = Desk(nothing, nothing, nothing)
    assert desk.run() == "nothing more"
    assert desk.readers == [threading.get_ident()] * 3
    assert not desk.stood_in.is_set()


def test_the_other_one_reads_on_where_a_step_lasts() -> None:
    gate = threading.Event()

    desk = Desk(lambda: desk.last_until(gate), gate.set, nothing)
    assert desk.run() == "nothing more"
    assert desk.readers[0] == threading.get_ident()
    assert desk.readers[1] != threading.get_ident()
    assert desk.stood_in.is_set()


def test_it_does_not_where_the_first_is_nearly_ready() -> None:
    desk = Desk(lambda: desk.last_until(desk.stood_in), nothing, stand_in=False)
    assert desk.run() == "nothing more"
    assert desk.readers == [threading.get_ident()] * 2
    assert desk.stood_in.is_set()


def test_nothing_is_taken_by_one_that_another_stood_in_for() -> None:
    gate = threading.Event()
    taken: list[str | None] = []

    def last() -> None:
        desk.last_until(gate)
        taken.append(desk.turns.take(lambda: "by the first"))

    def short() -> None:
        taken.append(desk.turns.take(lambda: "by the second"))
        gate.set()

    desk = Desk(last, short)
    assert desk.run() == "nothing more"
    assert taken == ["by the second", None]


def test_places_change_again_and_again() -> None:
    gates = [threading.Event() for _ in range(4)]

    def step(own: threading.Event | None, other: threading.Event | None) -> Callable[[], None]:
        def run() -> None:
            if other is not None:
                other.set()
            if own is not None:
                desk.last_until(own)

        return run

    desk = Desk(
        step(gates[0], None),
        step(gates[1], gates[0]),
        step(gates[2], gates[1]),
        step(None, gates[2]),
    )
    assert desk.run() == "nothing more"
    assert len(desk.readers) == 4
    assert len(set(desk.readers)) == 2


def test_one_that_slept_is_woken() -> None:
    gate = threading.Event()
    pause = threading.Event()

    # So many looks without anything that it sleeps by then.
    desk = Desk(nothing, lambda: desk.last_until(gate), gate.set)
    read = desk.turns.begin_wait

    def begin_wait() -> bool:
        is_reader = read()
        if is_reader and len(desk.readers) == 1:
            pause.wait(0.6)
        return is_reader

    desk.turns.begin_wait = begin_wait  # type: ignore[method-assign]  # a wait that lasts
    assert desk.run() == "nothing more"
    assert desk.stood_in.is_set()


def test_one_that_looks_seldom_comes_where_it_is_hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinfold.nri.plugin.reading_turns._LOOK_SECONDS", 100 * SECONDS)
    monkeypatch.setattr("tests.unit.nri.plugin.test_reading_turns.PATIENCE", 100 * SECONDS)
    gate = threading.Event()

    def last() -> None:
        desk.turns.hurry()
        desk.last_until(gate)

    desk = Desk(last, gate.set)
    assert desk.run() == "nothing more"
    assert desk.stood_in.is_set()


def test_the_last_one_to_leave_says_so() -> None:
    has_ended = threading.Event()
    others: list[threading.Thread] = []

    def last() -> None:
        desk.last_until(has_ended)
        others[0].join(SECONDS)
        assert not desk.left, "somebody may be reading still"

    def end() -> None:
        others.append(threading.current_thread())
        desk.steps.clear()
        has_ended.set()

    desk = Desk(last, end)
    assert desk.run() == "nothing more"
    assert desk.left == [desk.readers[0]]


def test_a_fault_of_a_step_ends_it() -> None:
    class OddError(Exception):
        pass

    def fail() -> None:
        raise OddError

    desk = Desk(nothing, fail)
    try:
        desk.run()
    except OddError:
        assert len(desk.readers) == 2
    else:
        raise AssertionError
