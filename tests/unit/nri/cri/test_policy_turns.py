import asyncio
import threading
from collections.abc import Callable

import pytest

from pinfold.nri.cri.policy_turns import PolicyTurns
from pinfold.nri.dispatch.owner import Owner

SECONDS = 10.0


class Asked:
    """A question at a policy that is busy, and who was told of its value."""

    def __init__(self) -> None:
        self.owner = Owner(lambda _, error: self.told.append(str(error)))
        self.turns = PolicyTurns(self.owner)
        self.told: list[str] = []
        self.gate = threading.Event()
        begun = threading.Event()

        def be_busy() -> None:
            begun.set()
            self.gate.wait(SECONDS)

        self.owner.submit("busy", be_busy)
        assert begun.wait(SECONDS)

    async def ask(self, seconds: float = SECONDS) -> str | None:
        return await self.turns.ask(
            "ask",
            lambda: "value",
            seconds,
            late=lambda one: self.told.append(f"late {one}"),
            given_up=lambda one: self.told.append(f"given up {one}"),
        )


def asked(run: Callable[[Asked], object]) -> list[str]:
    """Who was told, once the policy is free again."""
    one = Asked()
    run(one)
    one.gate.set()
    one.owner.close()
    return one.told


async def _cancelled_while_it_waits(one: Asked) -> None:
    task = asyncio.create_task(one.ask())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _cancelled_once_the_work_is_over(one: Asked) -> None:
    task = asyncio.create_task(one.ask())
    await asyncio.sleep(0.05)
    one.gate.set()
    # The loop is not told while it is at work itself.
    one.owner.ask("behind", lambda: None, SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _too_impatient(one: Asked) -> None:
    assert await one.ask(0.05) is None


async def _patient(one: Asked) -> None:
    task = asyncio.create_task(one.ask())
    await asyncio.sleep(0.05)
    one.gate.set()
    assert await task == "value"


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        pytest.param(_patient, [], id="a caller that waits has the value itself"),
        pytest.param(_too_impatient, ["late value"], id="one that goes on is told late"),
        pytest.param(
            _cancelled_while_it_waits, ["given up value"], id="one that is cancelled gives up"
        ),
        pytest.param(
            _cancelled_once_the_work_is_over,
            ["given up value"],
            id="one that is cancelled before it knew of the value gives that up",
        ),
    ],
)
def test_each_value_has_one_who_sees_to_it(
    caller: Callable[[Asked], "asyncio.Future[None]"], expected: list[str]
) -> None:
    def run(one: Asked) -> None:
        async def main() -> None:
            await caller(one)

        asyncio.run(main())

    assert asked(run) == expected


@pytest.mark.parametrize("name", ["do", "ask"])
def test_what_a_turn_leaves_is_done_aside_soon_after_it(name: str) -> None:
    owner = Owner(lambda _, error: pytest.fail(str(error)))
    turns = PolicyTurns(owner)
    done = threading.Event()
    threads: list[threading.Thread] = []

    def report() -> None:
        threads.append(threading.current_thread())
        done.set()

    def work() -> None:
        owner.afterwards(report)

    async def main() -> None:
        if name == "do":
            turns.do("work", work)
        else:
            await turns.ask("work", work, SECONDS, late=_unseen, given_up=_unseen)
        assert not done.is_set(), "the caller goes on first"
        # The loop goes on: it is what sees to it.
        async with asyncio.timeout(SECONDS):
            while not done.is_set():
                await asyncio.sleep(0.01)

    asyncio.run(main())
    owner.close()
    assert threading.current_thread() not in threads


def test_a_turn_that_outlives_the_loop_tells_its_own_fault() -> None:
    one = Asked()

    def fail() -> str:
        raise ZeroDivisionError("a fault")

    async def main() -> None:
        asking = one.turns.ask("ask", fail, SECONDS, late=one.told.append, given_up=one.told.append)
        task = asyncio.create_task(asking)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    one.gate.set()
    one.owner.close()
    assert one.told == ["a fault"]


def _unseen(_value: None) -> None:
    raise AssertionError("nobody is late")
