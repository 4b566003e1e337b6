"""The progress bar: on terminals, when it takes long, and not a character elsewhere."""

import os
import pty
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from pinfold.cmd.report.console import ProgressBar


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that stands still but for what it is told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def drawn(stream: StringIO, seconds: float) -> str:
    """What twenty steps of so many seconds write."""
    clock = Clock()
    with ProgressBar(20, stream, clock) as bar:
        for _ in bar.track(range(20)):
            clock.seconds += seconds
    return stream.getvalue()


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_what_takes_long_is_drawn_on_a_terminal_and_wiped_at_the_end() -> None:
    text = drawn(Terminal(), 0.4)
    numbers = re.findall(r"(\d+)/20", text)
    assert numbers == sorted(numbers, key=int)
    assert numbers[0] == "3", "the first second is without"
    assert numbers[-1] == "20"
    assert text.rstrip().endswith("\x1b[2K"), "the line is erased"


def test_it_is_not_drawn_more_often_than_eyes_can_follow() -> None:
    assert len(re.findall(r"\d+/20", drawn(Terminal(), 0.09))) <= 12


def test_what_is_soon_over_is_not_drawn() -> None:
    assert drawn(Terminal(), 0.01) == ""


def test_a_file_or_a_pipe_gets_nothing() -> None:
    assert drawn(StringIO(), 9.0) == ""


def test_a_dumb_terminal_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert drawn(Terminal(), 9.0) == ""


def test_a_fault_on_the_way_leaves_the_terminal_as_it_was() -> None:
    terminal, clock = Terminal(), Clock()

    def run() -> None:
        with ProgressBar(9, terminal, clock) as bar:
            for step in bar.track(range(9)):
                clock.seconds += 2
                assert step < 3, "the simulation breaks off"

    with pytest.raises(AssertionError, match="breaks off"):
        run()
    assert "\x1b[?25h" in terminal.getvalue(), "the cursor is shown again"


def test_standard_output_stays_what_it_is_beside_a_terminal(tmp_path: Path) -> None:
    pods = "".join(
        f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}}}\n"
        "spec: {containers: [{name: c, resources: {requests: {cpu: 1m}}}]}\n"
        for number in range(3)
    )
    (tmp_path / "pods.yaml").write_text(pods)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pinfold.cmd.pinfold", "simulate", str(tmp_path / "pods.yaml")]
    outputs: list[bytes] = []
    for stream in (theirs, subprocess.DEVNULL):
        done = subprocess.run(
            [*command, "--machine", "core:4", "-o", "json"],
            stdout=subprocess.PIPE,
            stderr=stream,
            check=True,
        )
        outputs.append(done.stdout)
    os.close(theirs)
    os.close(ours)
    assert outputs[0] == outputs[1]
