"""Work that nobody waits for rests while somebody else is at work, and not for ever."""

import threading
import time

import pytest

from pinfold.nri.dispatch.owner import Owner
from pinfold.nri.dispatch.pacer import ALONE, Pacer

SECONDS = 20


@pytest.fixture(name="pauses")
def fixture_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_values_come_in_their_order_with_a_rest_where_they_took_long(pauses: list[float]) -> None:
    clock = Clock()
    pacer = Pacer(lambda: False, clock)
    found: list[int] = []
    rests: list[int] = []
    for one in pacer.among(range(10)):
        found.append(one)
        rests.append(len(pauses))
        clock.seconds += 0.0003
    assert found == [*range(10)]
    assert rests == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_each_thread_rests_by_itself(pauses: list[float]) -> None:
    pacer = Pacer(lambda: False, Clock())
    for _ in range(2):
        pacer.rest()
        thread = threading.Thread(target=pacer.rest)
        thread.start()
        thread.join()
    assert len(pauses) == 3


def test_nothing_is_taken_before_it_is_asked_for() -> None:
    values = iter(range(5))
    assert next(ALONE.among(values)) == 0
    assert next(values) == 1


def test_a_rest_lasts_until_nobody_else_is_at_work(pauses: list[float]) -> None:
    answers = iter((True, True, True, False))
    Pacer(lambda: next(answers)).rest()
    assert len(pauses) == 4
    assert next(answers, None) is None


def test_a_rest_ends_though_somebody_always_is_at_work(pauses: list[float]) -> None:
    Pacer(lambda: True).rest()
    assert sum(pauses) < 0.01


def test_an_owner_is_at_work_during_its_turns_alone(pauses: list[float]) -> None:
    crashes: list[str] = []
    owner = Owner(lambda name, _: crashes.append(name))
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert go_on.wait(SECONDS)

    def rests() -> int:
        pauses.clear()
        # Who comes by for the first time rests in any case.
        thread = threading.Thread(target=owner.pacer.rest)
        thread.start()
        thread.join()
        return len(pauses)

    try:
        assert rests() == 1
        turn = owner.submit("work", work)
        assert begun.wait(SECONDS)
        assert rests() > 1
        go_on.set()
        turn.wait(SECONDS)
        owner.ask("behind it", lambda: None)
    finally:
        owner.close()
    assert rests() == 1
    assert not crashes
