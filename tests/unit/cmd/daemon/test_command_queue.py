"""Commands to the main thread, by signals and by other threads."""

import signal
import threading
import time
from collections.abc import Generator

import pytest

from pinfold.cmd.daemon.daemon import Command, CommandQueue

_TIMES = 20
_SECONDS = 4.0
"""For all of them: a thread that looked twice a second would need longer."""


@pytest.fixture(name="commands")
def fixture_commands() -> Generator[CommandQueue]:
    commands = CommandQueue()
    before = signal.set_wakeup_fd(commands.waker, warn_on_full_buffer=False)

    def obey(_number: int, _frame: object) -> None:
        commands.put(Command.RELOAD)

    handler = signal.signal(signal.SIGUSR2, obey)
    yield commands
    signal.set_wakeup_fd(before)
    signal.signal(signal.SIGUSR2, handler)


def test_a_signal_is_heard_at_once_whichever_thread_it_interrupts(commands: CommandQueue) -> None:
    begun = threading.Semaphore(0)

    def interrupt_itself() -> None:
        for _ in range(_TIMES):
            begun.acquire()
            time.sleep(0.01)  # until the main thread waits
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)

    other = threading.Thread(target=interrupt_itself)
    other.start()
    start = time.monotonic()
    for _ in range(_TIMES):
        begun.release()
        assert commands.get() is Command.RELOAD
    assert time.monotonic() - start < _SECONDS
    other.join()


def test_commands_are_heard_in_their_order_and_none_is_lost(commands: CommandQueue) -> None:
    # More than a pipe holds wakings for.
    for _ in range(70_000):
        commands.put(Command.TOGGLE_DEBUG)
    commands.put(Command.STOP)
    found = [commands.get() for _ in range(70_000)]
    assert set(found) == {Command.TOGGLE_DEBUG}
    assert commands.get() is Command.STOP


def test_one_reading_of_the_configuration_is_waited_for_however_many_are_told(
    commands: CommandQueue,
) -> None:
    for _ in range(70_000):
        commands.put(Command.RELOAD)
    commands.put(Command.STOP)
    assert commands.get() is Command.RELOAD
    assert commands.get() is Command.STOP


def test_a_change_while_the_configuration_is_read_has_it_read_again(
    commands: CommandQueue,
) -> None:
    commands.put(Command.RELOAD)
    assert commands.get() is Command.RELOAD
    commands.put(Command.RELOAD)
    commands.put(Command.STOP)
    assert commands.get() is Command.RELOAD
    assert commands.get() is Command.STOP
