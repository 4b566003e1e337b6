import asyncio
import threading
import time
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
        self.owner.submit("busy", lambda: self.gate.wait(SECONDS))
        time.sleep(0.05)

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
