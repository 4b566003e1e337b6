"""The control socket's file: its place, its lock, its owner, and who may open it.

A lock beside it tells a daemon that runs from one that was killed and left its socket behind.
"""

import contextlib
import errno
import grp
import logging
import os
import socket
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ...topology.sets.base_errors import PinfoldError, os_reason
from ..state.state_folder import LAST_SECONDS, StateClaim, is_free_soon, is_locked

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


def place_control_socket(
    option: str | None,
    claim: StateClaim,
    log: logging.Logger,
    *,
    goes_on: bool,
) -> "ControlSocket | None":
    """The control socket of a daemon; None where it is off, or cannot be made where nobody said.

    `goes_on`: whether one of another daemon, where nobody said, stops nobody, either.
    Raises `ControlSocketError`.
    """
    path = control_path(option, os.environ, claim.folder)
    if path is None:
        return None
    try:
        return ControlSocket(path, patience_seconds=claim.patience_seconds)
    except ControlSocketError as error:
        is_rival = isinstance(error, ControlInUseError) and not goes_on
        if option is not None or is_rival:
            raise
        log.error("%s; pinfold cannot ask this daemon", error)
        return None


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
                self.listener = _listen(path)
            except BaseException:
                os.close(self._lock)
                raise
            self._marks = _marks(path)
            self._folder_mode = stat.S_IMODE(path.parent.stat().st_mode)
        except OSError as error:
            reason = os_reason(error)
            raise ControlSocketError(
                f"--control: {path}: {reason} — name a place where a socket can be made, or 'off'"
            ) from error

    @property
    def is_there(self) -> bool:
        """Whether clients can find it: somebody may have cleaned its folder."""
        try:
            return _marks(self.path) == self._marks
        except OSError:  # its folder may be gone, too, or a file be in its place
            return False

    def renew(self) -> None:
        """Listen at the same path again, with another `listener`; the old one is not closed.

        Nobody but its owner is admitted. Raises `ControlInUseError` and `ControlSocketError`, and
        all is as it was.
        """
        try:
            if not self.path.parent.exists():
                self.path.parent.mkdir(mode=0o700)
                # Whatever the umask leaves of a mode.
                self.path.parent.chmod(self._folder_mode)
            if not self._holds_lock():
                lock = _lock(self.path, time.monotonic, time.sleep, 0.0)
                os.close(self._lock)
                self._lock = lock
            elif _answers(self.path):
                raise ControlInUseError(_in_use(self.path))
            self.listener = _listen(self.path)
            self._marks = _marks(self.path)
        except OSError as error:
            reason = os_reason(error)
            raise ControlSocketError(
                f"--control: {self.path}: gone, and cannot be made again: {reason} — start pinfoldd"
                " anew; containers keep their cpus"
            ) from error

    def _holds_lock(self) -> bool:
        try:
            found = os.lstat(_lock_path(self.path))
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._lock))

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
                f"control.group: {group!r}: {os_reason(error)} — a daemon"
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
    descriptor = os.open(_lock_path(path), flags, 0o600)
    try:

        def is_free() -> bool:
            return is_locked(descriptor) and not _answers(path)

        if not is_free_soon(is_free, clock, sleep, seconds):
            raise ControlInUseError(_in_use(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock_path(path: Path) -> str:
    return f"{path}.lock"


def _in_use(path: Path) -> str:
    return f"--control: {path}: another pinfoldd listens there — stop it, or name another place"


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
