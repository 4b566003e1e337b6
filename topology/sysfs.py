"""Trees of sysfs and proc files: a directory or a snapshot archive. Only this module opens files.

Paths begin with "sys/" or "proc/", whatever the root looks like. A file that is missing, or that
the kernel refuses to show (EIO, EBUSY), reads as None: only an unreadable root is an error.
"""

import os
import stat
from typing import Final, Protocol

from .errors import TopologyError

MAX_FILE_BYTES: Final = 2**24
"""Longer files are cut: /proc/cpuinfo of 4096 cpus has 7 MB, everything else is far smaller."""

_CPU_DIRECTORY: Final = "devices/system/cpu"
_PAGE_BYTES: Final = 4096


class SysfsTree(Protocol):
    """Files, directories and links below a root."""

    @property
    def root(self) -> str:
        """The root as messages name it."""
        ...

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none to read."""
        ...

    def names(self, path: str) -> list[str]:
        """The sorted names in a directory; empty where there is none."""
        ...

    def resolve(self, path: str) -> str | None:
        """The path with all links followed, still inside the tree; None where it leads nowhere."""
        ...


class DirectoryTree:
    """A directory that holds sys/ and proc/ (such as "/"), or is a /sys directory itself."""

    def __init__(self, root: str) -> None:
        self._root = root
        is_sys = not os.path.isdir(f"{root}/sys/{_CPU_DIRECTORY}")
        # "sys" is cut from each path where the root is that directory.
        self._skip = 3 if is_sys else 0
        self._prefix = root.rstrip("/") + ("" if is_sys else "/")

    @property
    def root(self) -> str:
        """The directory."""
        return self._root

    def _full(self, path: str) -> str:
        if self._skip and not path.startswith("sys/"):
            return "/dev/null/"  # no such path: a /sys directory has no proc/
        return self._prefix + path[self._skip :]

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none to read."""
        try:
            file = os.open(self._full(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            content = os.read(file, _PAGE_BYTES)
            # The kernel shows up to a page of an attribute in one read: a short one is the end.
            if len(content) == _PAGE_BYTES:
                while len(content) < MAX_FILE_BYTES and (more := os.read(file, 2**18)):
                    content += more
        except OSError:
            return None
        finally:
            os.close(file)
        return content.decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """The sorted names in a directory; empty where there is none."""
        try:
            return sorted(os.listdir(self._full(path)))
        except OSError:
            return []

    def resolve(self, path: str) -> str | None:
        """The path with all links followed, still inside the tree; None where it leads nowhere."""
        full = os.path.realpath(self._full(path))
        top = os.path.realpath(self._prefix or "/")
        if not os.path.exists(full) or not f"{full}/".startswith(f"{top.rstrip('/')}/"):
            return None
        inside = os.path.relpath(full, top)
        return f"sys/{inside}" if self._skip else inside


def _open_at_once(path: str, flags: int) -> int:
    """A file descriptor; a pipe that nobody writes to would otherwise never open."""
    return os.open(path, flags | os.O_NONBLOCK)


def open_tree(root: str) -> SysfsTree:
    """The tree below a directory, or inside a .tar, .tar.gz or .tar.xz archive.

    Raises `TopologyError` where the root cannot be read or holds no cpus.
    """
    tree: SysfsTree
    if not root:
        raise TopologyError("sysfs root: no name at all — give a directory or an archive")
    if os.path.isdir(root):
        tree = DirectoryTree(root)
    else:
        # Imported here: tarfile and its compressors are not needed on a live machine.
        from .archive import read_archive

        try:
            with open(root, "rb", opener=_open_at_once) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    what = "not a regular file — give a directory or an archive"
                    raise TopologyError(f"{root}: {what}")
                tree = read_archive(root, file)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise TopologyError(f"{root}: {reason} — give a directory or an archive") from error
    if not tree.names(f"sys/{_CPU_DIRECTORY}"):
        raise TopologyError(
            f"{root}: no sys/{_CPU_DIRECTORY} in it — "
            "give a directory or archive that holds sys/ and proc/, or a copy of /sys"
        )
    return tree
