"""Configuration files that change, as two looks see them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pinfold.cmd.daemon.config_watch import ConfigWatch


def rewrite(path: Path) -> None:
    path.write_text("pinCPU: false\n")


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def replace(path: Path) -> None:
    fresh = path.with_name("fresh")
    fresh.write_bytes(path.read_bytes())
    fresh.replace(path)


def drop_in(path: Path) -> None:
    path.with_name(f"{path.name}.d").mkdir()
    (path.with_name(f"{path.name}.d") / "10-more.yaml").write_text("pinCPU: false\n")


@pytest.fixture(name="file")
def fixture_file(tmp_path: Path) -> Path:
    path = tmp_path / "pinfold.yaml"
    path.write_text("pinCPU: true\n")
    return path


@pytest.mark.parametrize("change", [rewrite, touch, replace, drop_in, Path.unlink])
def test_a_change_is_told_once_when_it_has_settled(
    file: Path, change: Callable[[Path], None]
) -> None:
    watch = ConfigWatch(file)
    assert not watch.look()
    change(file)
    assert [watch.look() for _ in range(4)] == [False, True, False, False]


def test_a_file_that_is_being_written_is_waited_for(file: Path) -> None:
    watch = ConfigWatch(file)
    found: list[bool] = []
    for number in range(3):
        file.write_text("#" * number)
        found.append(watch.look())
    assert found == [False] * 3
    assert watch.look()


def test_what_is_taken_is_not_told_again(file: Path) -> None:
    watch = ConfigWatch(file)
    rewrite(file)
    watch.take()
    assert not any(watch.look() for _ in range(3))


def test_a_change_that_is_taken_back_is_none(file: Path) -> None:
    watch = ConfigWatch(file)
    before = file.stat()
    os.utime(file, ns=(1, 1))
    assert not watch.look()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not any(watch.look() for _ in range(3))
