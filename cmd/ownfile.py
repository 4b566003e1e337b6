"""Files that this program wrote and reads again: others may have put something in their place."""

import errno
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..topology.errors import PinfoldError

_BYTES_MAX: Final = 1 << 26


class ForeignFileError(PinfoldError):
    """A file may be somebody else's."""


def read_own(path: Path) -> bytes:
    """The content. Raises `ForeignFileError` and `OSError`."""
    try:
        # Not blocking: a pipe in its place must not hold up the start.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ForeignFileError(
                f"{path}: a symbolic link, which anybody may have set"
            ) from error
        raise
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ForeignFileError(f"{path}: not a file")
        if found.st_mode & stat.S_IWOTH:
            raise ForeignFileError(f"{path}: anybody may have written it")
        if found.st_size > _BYTES_MAX:
            raise ForeignFileError(f"{path}: {found.st_size} bytes are too many")
        return file.read()


def check_owners(path: Path) -> None:
    """Raises `ForeignFileError` where a file or its folder is another user's to change."""
    ours = (0, os.geteuid())
    file, folder = path.lstat(), path.parent.stat()
    if file.st_uid not in ours:
        raise ForeignFileError(f"{path}: of another user")
    # In a folder that is sticky, as /tmp is, nobody can replace what is ours.
    if folder.st_uid not in ours or folder.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
        raise ForeignFileError(f"{path}: others may have put it into its folder")


def replace_own(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Replace a file in one step: a crash leaves the old or the new one. Raises `OSError`.

    `is_durable`: a crash of the whole machine, too.
    """
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(fresh, flags, 0o600), "wb") as output:
        output.write(data)
        if is_durable:
            output.flush()
            os.fsync(output.fileno())
    fresh.replace(path)
    if is_durable:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def put_aside(path: Path, reason: str, log: logging.Logger, clock: Callable[[], float]) -> None:
    """Keep a file that cannot be believed under another name, with a warning.

    `clock`: seconds since 1970.
    """
    aside = path.with_name(f"{path.name}.corrupt-{int(clock())}")
    try:
        path.rename(aside)
    except OSError as error:
        log.error("%s; cannot be put aside: %s — nothing is remembered", reason, error.strerror)
    else:
        log.warning("%s — put aside as %s; nothing is remembered", reason, aside.name)
