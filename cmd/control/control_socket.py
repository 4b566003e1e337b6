"""The control socket's file: its place, its lock, its owner, and who may open it.

A lock beside it tells a daemon that runs from one that was killed and left its socket behind.
"""

import contextlib
import errno
import grp
import os
import socket
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ...topology.sets.base_errors import PinfoldError
from ..state.state_folder import LAST_SECONDS, is_free_soon, is_locked

SOCKET_NAME: Final = "control.sock"
USUAL_PLACES: Final = (Path("/run/pinfold") / SOCKET_NAME, Path("/var/lib/pinfold") / SOCKET_NAME)
"""The sockets of a daemon that systemd started, and of one that the runtime started."""
OFF: Final = "off"

_PATH_MAX: Final = 107
"""Bytes of a socket's path. Source: unix(7), sun_path."""
_INNER_BYTES: Final = 16
"""What the path of the service's own socket beside it is longer."""
_WAITING_CLIENTS: Final = 128
"""In the kernel, while the first one has the service loaded."""


class ControlSocketError(PinfoldError):
    """A control socket that nobody can listen at."""


class ControlInUseError(ControlSocketError):
    """Another daemon has the control socket."""


class UnknownGroupError(PinfoldError):
    """A group that may use the control socket is not there, or is not ours to name."""


def control_path(
    option: str | None, environment: Mapping[str, str], state_dir: Path | None
) -> Path | None:
    """The path of the control socket; None for none.

    Without an option it is in systemd's RUNTIME_DIRECTORY, or else in the state directory.
    """
    if option is not None:
        return None if option == OFF else Path(option)
    # Several folders are separated by colons, systemd.exec(5).
    runtime = environment.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    folder = Path(runtime) if runtime else state_dir
    return None if folder is None else folder / SOCKET_NAME


class ControlSocket:
    """The listening socket of one daemon, from its making until `close`."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        patience_seconds: float = LAST_SECONDS,
    ) -> None:
        """`patience_seconds`: how long the daemon before us may still take to end.

        Raises `ControlInUseError`, `ControlSocketError`.
        """
        self.path: Final = path
        if len(os.fsencode(path)) + _INNER_BYTES > _PATH_MAX:
            raise ControlSocketError(
                f"--control: {path}: too long for a socket — name a path of"
                f" {_PATH_MAX - _INNER_BYTES} bytes at most"
            )
        try:
            self._lock = _lock(path, clock, sleep, patience_seconds)
            try:
                self.listener: Final = _listen(path)
            except BaseException:
                os.close(self._lock)
                raise
            self._marks = _marks(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ControlSocketError(
                f"--control: {path}: {reason} — name a place where a socket can be made, or 'off'"
            ) from error

    def admit(self, group: str) -> None:
        """Let a group open the socket too; "" for nobody but its owner.

        Raises `UnknownGroupError`, and the group before has it no more.
        """
        os.chmod(self.path, 0o600)
        if not group:
            return
        group_id = find_group(group)
        try:
            os.chown(self.path, -1, group_id)
        except OSError as error:
            raise UnknownGroupError(
                f"control.group: {group!r}: {(error.strerror or str(error)).lower()} — a daemon"
                " without capabilities has to be in it: SupplementaryGroups= of the service"
            ) from error
        os.chmod(self.path, 0o660)

    def close(self) -> None:
        """Listen no more, and remove the file if it is still this one."""
        with contextlib.suppress(OSError):
            if _marks(self.path) == self._marks:
                self.path.unlink()
        self.listener.close()
        os.close(self._lock)


def find_group(name: str) -> int:
    """The id of a group by its name or number. Raises `UnknownGroupError`."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        if name.isascii() and name.isdigit():
            return int(name)
    raise UnknownGroupError(f"control.group: no group {name!r} — see 'getent group'")


def _lock(
    path: Path, clock: Callable[[], float], sleep: Callable[[float], None], seconds: float
) -> int:
    """The open lock file beside a socket, held by this process alone."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(f"{path}.lock", flags, 0o600)
    try:

        def is_free() -> bool:
            return is_locked(descriptor) and not _answers(path)

        if not is_free_soon(is_free, clock, sleep, seconds):
            raise ControlInUseError(
                f"--control: {path}: another pinfoldd listens there — stop it, or name another"
                " place"
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _answers(path: Path) -> bool:
    """Whether somebody listens at a path, whose clients may be many."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        return probe.connect_ex(os.fspath(path)) in (0, errno.EAGAIN, errno.EINPROGRESS)


def _listen(path: Path) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, "something else than a socket is there")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        # Nobody can connect before `listen`, so the mode is right before anybody can.
        listener.bind(os.fspath(path))
        os.chmod(path, 0o600)
        listener.listen(_WAITING_CLIENTS)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _marks(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino
