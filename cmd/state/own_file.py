"""Files that this program wrote and reads again: others may have put something in their place."""

import errno
import logging
import os
import stat
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from ...topology.sets.base_errors import PinfoldError, os_reason

BYTES_MAX: Final = 1 << 26
_ASIDE_MAX: Final = 100
"""Files put aside in one second."""
_BYTES_AT_ONCE: Final = 1 << 16


class ForeignFileError(PinfoldError):
    """A file may be somebody else's."""


class OwnFile:
    """A file in a folder of ours, such as that of the state."""

    def __init__(
        self, path: Path, log: logging.Logger, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock`: seconds since 1970, for the names of what is put aside."""
        self.path = path
        self._log = log
        self._clock = clock
        self._left: tuple[int, ...] | None = None

    def read(self) -> bytes | None:
        """The content; None where there is no file, or one that is not ours and is put aside."""
        with self._put_aside_unless_ours(), _opened(self.path, is_ours=True) as file:
            return file.read()
        return None

    def size(self) -> int:
        """The number of bytes; 0 where `read` gives None."""
        with self._put_aside_unless_ours(), _opened(self.path, is_ours=True) as file:
            return os.fstat(file.fileno()).st_size
        return 0

    def lines_backwards(self) -> Iterator[bytes]:
        """The lines that are not empty, the last one first; none where `read` gives None.

        A little is read at once: memory for all of it would hardly be had back.
        """
        with self._put_aside_unless_ours(), _opened(self.path, is_ours=True) as file:
            begin = file.seek(0, os.SEEK_END)
            # Of a line that begins further ahead: joined once, as it may be all there is.
            rest: list[bytes] = []
            while begin:
                end, begin = begin, max(0, begin - _BYTES_AT_ONCE)
                file.seek(begin)
                first, *lines = file.read(end - begin).split(b"\n")
                if lines:
                    lines[-1] += b"".join(reversed(rest))
                    rest.clear()
                    yield from filter(None, reversed(lines))
                rest.append(first)
            if line := b"".join(reversed(rest)):
                yield line

    def disbelieve(self, reason: str) -> None:
        """Keep a file that cannot be believed under another name, with a warning."""
        try:
            aside = self._put_aside(self.path)
        except OSError as error:
            what = "cannot be put aside"
            self._log.error("%s; %s: %s — nothing is remembered", reason, what, error.strerror)
        else:
            self._log.warning("%s — put aside as %s; nothing is remembered", reason, aside.name)

    def replace(self, pieces: Sequence[bytes], *, is_durable: bool = True) -> None:
        """Replace the file in one step: a crash leaves the old or the new one. Raises `OSError`.

        `is_durable`: a crash of the whole machine, too. Folders in the way are put aside.
        """
        if sum(map(len, pieces)) > BYTES_MAX:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        fresh = self.path.with_suffix(".new")
        self._clear(fresh)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(fresh, flags, 0o600), "wb", _BYTES_AT_ONCE) as output:
            output.writelines(pieces)
            output.flush()
            if is_durable:
                os.fsync(output.fileno())
            left = _marks(os.fstat(output.fileno()))
        try:
            fresh.replace(self.path)
        except IsADirectoryError:
            self._clear(self.path)
            fresh.replace(self.path)
        self._left = left
        if is_durable:
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def patch(self, offset: int, data: bytes) -> None:
        """Write over bytes of the file where it lies. Raises `OSError`.

        A crash of the whole machine may leave the old ones.
        """
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.path, flags)
        try:
            if os.pwrite(descriptor, data, offset) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._left = _marks(os.fstat(descriptor))
        finally:
            os.close(descriptor)

    def is_as_left(self) -> bool:
        """Whether the file that lies there is as we wrote it last, as far as is seen."""
        try:
            return self._left == _marks(os.lstat(self.path))
        except OSError:
            return False

    @contextmanager
    def _put_aside_unless_ours(self) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            pass
        except OSError as error:
            self.disbelieve(f"{self.path}: {os_reason(error)}")
        except ForeignFileError as error:
            self.disbelieve(str(error))

    def _clear(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except IsADirectoryError:
            aside = self._put_aside(path)
            self._log.warning("%s: a folder in the way — put aside as %s", path, aside.name)

    def _put_aside(self, path: Path) -> Path:
        """The new path of what was there; nothing else loses its own. Raises `OSError`."""
        first = f"{path.name}.corrupt-{int(self._clock())}"
        names = (first, *(f"{first}-{number}" for number in range(2, _ASIDE_MAX)))
        for aside in map(path.with_name, names):
            if not os.path.lexists(aside):
                return path.rename(aside)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def make_folder(path: Path) -> None:
    """Make a folder that only we can open, unless there is one. Raises `OSError`."""
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    else:
        # Whatever the umask leaves of a mode.
        path.chmod(0o700)


def read_bounded_file(path: Path) -> bytes:
    """The content of a regular file of bounded size, whose last step is no symbolic link.

    Raises `ForeignFileError` and `OSError`.
    """
    with _opened(path) as file:
        return file.read()


@contextmanager
def _opened(path: Path, *, is_ours: bool = False) -> Generator[BinaryIO]:
    """A file that `read_bounded_file` reads.

    `is_ours`: neither the file nor its folder may be another user's to change.
    """
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
    try:
        found = os.fstat(descriptor)
        _check(path, found)
        if is_ours:
            _check_owners(path, found)
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def _marks(found: os.stat_result) -> tuple[int, ...]:
    """Device, inode, size and time: others for another file, or one that was written again."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _check(path: Path, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ForeignFileError(f"{path}: a folder")
    if not stat.S_ISREG(found.st_mode):
        raise ForeignFileError(f"{path}: not a file")
    if found.st_mode & stat.S_IWOTH:
        raise ForeignFileError(f"{path}: anybody may have written it")
    if found.st_size > BYTES_MAX:
        raise ForeignFileError(f"{path}: {found.st_size} bytes are too many")


def _check_owners(path: Path, found: os.stat_result) -> None:
    ours = (0, os.geteuid())
    if found.st_uid not in ours:
        raise ForeignFileError(f"{path}: of another user")
    if _is_writable(found):
        raise ForeignFileError(f"{path}: others may have written it")
    folder = path.parent.stat()
    # In a folder that is sticky, as /tmp is, nobody can replace what is ours.
    if folder.st_uid not in ours or (_is_writable(folder) and not folder.st_mode & stat.S_ISVTX):
        raise ForeignFileError(f"{path}: others may have put it into its folder")


def _is_writable(found: os.stat_result) -> bool:
    """Whether others than its owner, root and our own group may write."""
    is_foreign_group = found.st_gid not in (0, os.getegid())
    return bool(found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and is_foreign_group))
