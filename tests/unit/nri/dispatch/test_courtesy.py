"""Work that nobody waits for rests while somebody else is at work, and not for ever."""

import threading
import time

import pytest

from pinfold.nri.dispatch.courtesy import ALONE, Courtesy
from pinfold.nri.dispatch.owner import Owner

SECONDS = 20


@pytest.fixture(name="pauses")
def fixture_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_values_come_in_their_order_with_a_rest_before_each_so_many(pauses: list[float]) -> None:
    assert [*ALONE.among(range(10), 4)] == [*range(10)]
    assert len(pauses) == 3


def test_nothing_is_taken_before_it_is_asked_for(pauses: list[float]) -> None:
    values = iter(range(5))
    assert next(ALONE.among(values)) == 0
    assert next(values) == 1
    assert len(pauses) == 1


def test_a_rest_lasts_until_nobody_else_is_at_work(pauses: list[float]) -> None:
    answers = iter((True, True, True, False))
    Courtesy(lambda: next(answers)).rest()
    assert len(pauses) == 4
    assert next(answers, None) is None


def test_a_rest_ends_though_somebody_always_is_at_work(pauses: list[float]) -> None:
    Courtesy(lambda: True).rest()
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
        owner.courtesy.rest()
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
