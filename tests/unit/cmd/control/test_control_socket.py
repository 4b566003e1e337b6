"""The control socket's file: who may open it, what is in its way, and who has it."""

import grp
import os
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pinfold.cmd.control.control_socket import (
    ControlInUseError,
    ControlSocket,
    ControlSocketError,
    UnknownGroupError,
    control_path,
)

Clock = Callable[[], float]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def link(path: Path) -> None:
    path.symlink_to("/dev/log")


def link_lock(path: Path) -> None:
    path.with_name("control.sock.lock").symlink_to("/dev/null")


def hasty() -> tuple[Clock, Callable[[float], None]]:
    """A clock and a sleep on which waiting takes no time."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    return (lambda: now[0]), sleep


@pytest.mark.parametrize(
    ("option", "environment", "state_dir", "found"),
    [
        pytest.param("/x/y.sock", {}, "/var/lib/p", "/x/y.sock", id="the one that is named"),
        pytest.param("off", {"RUNTIME_DIRECTORY": "/run/p"}, "/var/lib/p", None, id="none"),
        pytest.param(
            None,
            {"RUNTIME_DIRECTORY": "/run/p"},
            "/var/lib/p",
            "/run/p/control.sock",
            id="systemd's folder first",
        ),
        pytest.param(
            None,
            {"RUNTIME_DIRECTORY": "/run/p:/run/q"},
            None,
            "/run/p/control.sock",
            id="the first of several folders",
        ),
        pytest.param(None, {}, "/var/lib/p", "/var/lib/p/control.sock", id="beside the state"),
        pytest.param(None, {}, None, None, id="nowhere without either"),
    ],
)
def test_place_of_the_socket(
    option: str | None, environment: Mapping[str, str], state_dir: str | None, found: str | None
) -> None:
    path = control_path(option, environment, None if state_dir is None else Path(state_dir))
    assert path == (None if found is None else Path(found))


def test_nobody_else_can_open_it_and_it_goes_with_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    before = os.umask(0)
    try:
        made = ControlSocket(path)
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert connects(path)
    made.close()
    assert not path.exists()


def test_a_socket_that_a_killed_daemon_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.exists()
    made = ControlSocket(path)
    assert connects(path)
    made.close()


def test_a_daemon_that_listens_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    made = ControlSocket(path)
    clock, sleep = hasty()
    with pytest.raises(ControlInUseError, match=f"{path}: another pinfoldd listens there"):
        ControlSocket(path, clock, sleep)
    assert connects(path)
    made.close()
    ControlSocket(path).close()


def test_a_program_that_listens_without_our_lock_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        clock, sleep = hasty()
        with pytest.raises(ControlInUseError):
            ControlSocket(path, clock, sleep)
        assert connects(path)


def test_a_daemon_that_is_just_ending_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    before = ControlSocket(path)
    made = ControlSocket(path, sleep=lambda _: before.close())
    assert connects(path)
    made.close()


def test_a_socket_of_another_daemon_in_our_place_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    made = ControlSocket(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
    made.close()
    assert path.exists()


def remove_socket(folder: Path) -> None:
    (folder / "control.sock").unlink()


def clean(folder: Path) -> None:
    for one in folder.iterdir():
        one.unlink()


def remove(folder: Path) -> None:
    clean(folder)
    folder.rmdir()


@pytest.mark.parametrize(
    "take_away",
    [
        pytest.param(remove_socket, id="the socket"),
        pytest.param(clean, id="the socket and its lock"),
        pytest.param(remove, id="their folder"),
    ],
)
def test_what_was_deleted_is_made_again_and_is_still_ours_alone(
    tmp_path: Path, take_away: Callable[[Path], object]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o755)
    path = folder / "control.sock"
    made = ControlSocket(path)
    assert made.is_there
    take_away(folder)
    assert not made.is_there
    # As that of the service: a group could not reach a socket in the folder that it leaves.
    before = os.umask(0o077)
    try:
        with made.listener:
            made.renew()
    finally:
        os.umask(before)
    assert made.is_there
    assert (connects(path), mode(path), mode(folder)) == (True, 0o600, 0o755)
    clock, sleep = hasty()
    with pytest.raises(ControlInUseError):
        ControlSocket(path, clock, sleep)
    made.close()
    assert not path.exists()


def test_a_deleted_socket_in_whose_place_another_daemon_listens_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    before = len(os.listdir("/proc/self/fd"))
    made = ControlSocket(path)
    clean(tmp_path)
    other = ControlSocket(path)
    assert not made.is_there
    for _ in range(2):
        with pytest.raises(ControlInUseError):
            made.renew()
    made.close()
    assert connects(path)
    other.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_socket_that_cannot_be_made_again_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run" / "control.sock"
    path.parent.mkdir()
    made = ControlSocket(path)
    remove(path.parent)
    path.parent.touch()
    assert not made.is_there
    with pytest.raises(ControlSocketError, match="gone, and cannot be made again: not a directory"):
        made.renew()
    made.close()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        pytest.param(Path.touch, "something else than a socket", id="a file"),
        pytest.param(Path.mkdir, "something else than a socket", id="a folder"),
        pytest.param(link, "something else than a socket", id="a link"),
        pytest.param(
            link_lock, "too many levels of symbolic links", id="a link in place of the lock"
        ),
    ],
)
def test_what_is_in_the_way_stays(
    tmp_path: Path, make: Callable[[Path], object], complaint: str
) -> None:
    path = tmp_path / "control.sock"
    make(path)
    with pytest.raises(ControlSocketError, match=complaint):
        ControlSocket(path)
    assert os.path.lexists(path) or path.with_name("control.sock.lock").is_symlink()


def test_a_place_that_is_not_there_and_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    with pytest.raises(ControlSocketError, match="no such file or directory"):
        ControlSocket(tmp_path / "none" / "control.sock")
    with pytest.raises(ControlSocketError, match="too long for a socket"):
        ControlSocket(tmp_path / ("x" * 90))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to any group")
def test_a_group_is_let_in_and_out_again(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    made = ControlSocket(path)
    group = next(one for one in grp.getgrall() if one.gr_gid != os.getegid())
    made.admit(group.gr_name)
    assert (mode(path), path.stat().st_gid) == (0o660, group.gr_gid)
    made.admit("")
    assert mode(path) == 0o600
    made.admit(str(group.gr_gid))
    with pytest.raises(UnknownGroupError, match="no group 'nobody-has-this'"):
        made.admit("nobody-has-this")
    assert mode(path) == 0o600
    made.close()
