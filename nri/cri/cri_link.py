"""The link of a CRI proxy: where it serves, the runtime's socket, and the reading back.

Who may write at that place, and whether somebody listens there. Without gRPC, which takes long.
"""

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ...topology.sets.base_errors import PinfoldError, os_reason
from ..dispatch.update_sender import ReadBack
from .cdi_specs import FOLDERS

_PATH_MAX: Final = 107
"""Bytes of a socket's path. Source: unix(7), sun_path."""
_INNER_BYTES: Final = 24
"""What the path of the socket is longer while it is made."""
_OTHERS_WRITE: Final = 0o022


class ListenPlaceError(PinfoldError):
    """A place where the proxy must not listen, or cannot."""


class ListenPlace:
    """The path at which the kubelet is served. The proxy is as mighty as the runtime's socket.

    The socket is made in a folder nobody else may enter and moved to its place with mode 0600, so
    that nobody connects before, and a kubelet never finds the path empty.
    """

    def __init__(self, path: str, runtime_path: str) -> None:
        """Makes the folder where it is missing. Raises `ListenPlaceError`."""
        self.path: Final = Path(path.removeprefix("unix://")).absolute()
        self._made: Path | None = None
        self._marks: tuple[int, int] | None = None
        self._folder_mode = 0o700
        """For the folder where it is missing: others may have sockets of theirs in it."""
        runtime = runtime_path.removeprefix("unix://")
        if os.path.realpath(self.path) == os.path.realpath(runtime):
            raise ListenPlaceError(
                f"--cri-listen: {self.path}: is the runtime's own socket (--cri-socket) — name"
                " another path, and point the kubelet at that"
            )
        if len(os.fsencode(self.path)) + _INNER_BYTES > _PATH_MAX:
            raise ListenPlaceError(
                f"--cri-listen: {self.path}: too long for a socket — name a path of"
                f" {_PATH_MAX - _INNER_BYTES} bytes at most"
            )
        try:
            self.check()
        except OSError as error:
            reason = os_reason(error)
            raise ListenPlaceError(
                f"--cri-listen: {self.path}: {reason} — name a place where a socket can be made"
            ) from error

    def check(self) -> None:
        """Raise `ListenPlaceError` where others may write, or somebody listens; or `OSError`."""
        folder = self.path.parent
        _make(folder, self._folder_mode)
        # Whoever may write above it may put a folder of theirs in the place of ours, and so may
        # whoever may write where a link to it is.
        above = (*folder.resolve().parents, *folder.parents)
        if writable := [
            *filter(_is_open, (folder,)),
            *(one for one in above if _is_open(one) and not _keeps_others_out(one)),
        ]:
            raise ListenPlaceError(
                f"--cri-listen: {writable[0]}: others may write there and put a socket of theirs in"
                " our place — name a folder that is only root's to change, as /run/pinfold"
            )
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(self.path.lstat().st_mode):
                raise OSError(errno.EEXIST, "something else than a socket is there")
        if _answers(self.path):
            raise ListenPlaceError(
                f"--cri-listen: {self.path}: somebody listens there — stop that program, or name"
                " another path"
            )

    def prepare(self) -> Path:
        """The path at which to make the socket, for `publish` to move. Raises `OSError`."""
        self.check()
        self._made = self.path.parent / f".cri-{os.getpid()}"
        _remove(self._made)
        self._made.mkdir(mode=0o700)
        return self._made / "s"

    def publish(self) -> None:
        """Move the socket that was made to its place, instead of a stale one."""
        made = self._made
        if made is None:
            raise AssertionError("nothing was prepared")
        os.chmod(made / "s", 0o600)
        found = (made / "s").lstat()
        self._marks = found.st_dev, found.st_ino
        os.replace(made / "s", self.path)
        # Whatever ends this process leaves nothing but the socket behind.
        made.rmdir()
        self._made = None
        self._folder_mode = stat.S_IMODE(self.path.parent.stat().st_mode)

    @property
    def is_there(self) -> bool:
        """Whether the kubelet can find the socket that was published: somebody may have cleaned."""
        try:
            found = self.path.lstat()
        except OSError:  # its folder may be gone, too, or a file be in its place
            return False
        return (found.st_dev, found.st_ino) == self._marks

    def close(self) -> None:
        """Remove the socket if it is still ours."""
        with contextlib.suppress(OSError):
            found = self.path.lstat()
            if (found.st_dev, found.st_ino) == self._marks:
                self.path.unlink()
        if self._made is not None:
            _remove(self._made)


def _make(folder: Path, mode: int) -> None:
    """Make a folder with all above it that are missing, whatever the file mode creation mask."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    if folder in missing:
        folder.chmod(mode)


def _is_open(folder: Path) -> bool:
    """Whether others may write in a folder, for its mode or as its owner."""
    found = folder.stat()
    return bool(found.st_mode & _OTHERS_WRITE) or not _is_ours(found)


def _keeps_others_out(folder: Path) -> bool:
    """Whether others may not move what is ours in a folder where they may write: it is sticky."""
    found = folder.stat()
    return bool(found.st_mode & stat.S_ISVTX) and _is_ours(found)


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid())


def _remove(made: Path) -> None:
    """Remove a folder in which a socket was made, by us or by a process of our number before."""
    with contextlib.suppress(OSError):
        (made / "s").unlink(missing_ok=True)
        made.rmdir()


def _answers(path: Path) -> bool:
    """Whether somebody is at a path, whose clients may be many, or of another kind than we are."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        return probe.connect_ex(os.fspath(path)) not in (errno.ENOENT, errno.ECONNREFUSED)


class CriLink(Struct, frozen=True, kw_only=True):
    """The link of a proxy to its runtime and its kubelet."""

    place: ListenPlace
    """Where the kubelet is served."""
    socket: str
    """The runtime's own CRI socket."""
    read_back: ReadBack | None = None
    """By the runtime's ids."""
    cdi_folders: Sequence[Path] = FOLDERS
    """Where the runtime looks devices up."""
