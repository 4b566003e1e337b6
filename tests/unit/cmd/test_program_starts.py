"""Signals that come while a program still loads its libraries."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STARTS = ("command_start", "daemon_start")

# Whoever runs the tests may ignore interrupts, as a script does that runs them by "&".
HEEDED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def run(folder: Path, start: str, library: str, before: str = HEEDED) -> tuple[int, str]:
    """The status and the standard error of a program whose first library is this one."""
    (folder / "click.py").write_text(f"import os, signal\n{library}\n")
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\nfrom pinfold.cmd.{start} import main; main()"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("start", STARTS)
def test_an_interrupt_while_a_program_loads_ends_it_without_a_word(
    tmp_path: Path, start: str
) -> None:
    status, error = run(tmp_path, start, "os.kill(os.getpid(), signal.SIGINT)")
    assert (status, error) == (-signal.SIGINT, "")


@pytest.mark.parametrize("start", STARTS)
def test_an_interrupt_that_is_ignored_from_outside_stays_ignored(
    tmp_path: Path, start: str
) -> None:
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    library = "os.kill(os.getpid(), signal.SIGINT); os._exit(3)"
    assert run(tmp_path, start, library, ignored) == (3, "")


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_signals_that_a_daemon_takes_orders_by_or_may_get_do_not_end_one_that_loads(
    tmp_path: Path, name: str
) -> None:
    library = f"os.kill(os.getpid(), signal.{name}); os._exit(3)"
    assert run(tmp_path, "daemon_start", library) == (3, "")


def test_a_command_that_was_loaded_is_interrupted_as_ever() -> None:
    program = (
        f"{HEEDED}\n"
        "import pinfold.cmd.pinfold as loaded\n"
        "from pinfold.cmd.command_start import main\n"
        "loaded.main = lambda: print(signal.getsignal(signal.SIGINT).__name__)\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "default_int_handler\n"
