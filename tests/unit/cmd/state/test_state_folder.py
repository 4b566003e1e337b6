"""The claim of one daemon on its state directory."""

import fcntl
import os
from pathlib import Path

import pytest

from pinfold.cmd.state.state_folder import (
    StateFolderError,
    StateFolderInUseError,
    claim_folder,
)


class HastyClock:
    """A clock whose sleepers wake at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_folder_is_made_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    claim = claim_folder(tmp_path / "state")
    assert claim is not None
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert not list((tmp_path / "state").iterdir())
    assert fcntl.fcntl(claim, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    os.close(claim)


def test_a_second_claim_waits_for_the_first_ones_end_and_no_longer(tmp_path: Path) -> None:
    first = claim_folder(tmp_path)
    assert first is not None
    clock = HastyClock()
    with pytest.raises(StateFolderInUseError, match=f"^--state-dir: {tmp_path}: another pinfoldd"):
        claim_folder(tmp_path, clock, clock.sleep)
    assert 3 < clock.now < 4

    def end_first(_seconds: float) -> None:
        os.close(first)

    second = claim_folder(tmp_path, clock, end_first)
    assert second is not None
    os.close(second)


def test_a_folder_that_cannot_be_locked_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(37, "No locks available")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(fcntl, "flock", without_locks)
    assert claim_folder(tmp_path) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateFolderError, match="not a directory — name a folder"):
        claim_folder(tmp_path / "file")
