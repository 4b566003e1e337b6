"""Trees of sysfs and proc files: a directory or a snapshot archive. Only this module opens files.

Paths begin with "sys/" or "proc/", whatever the root looks like. A file that is missing, or that
the kernel refuses to show (EIO, EBUSY), reads as None: only an unreadable root is an error.
"""

import errno
import os
import stat
from collections.abc import Mapping
from typing import Final, Protocol

from ..sets.base_errors import TopologyError, os_reason

_MAX_FILE_BYTES: Final = 2**24
"""Longer files are cut: /proc/cpuinfo of 4096 cpus has 7 MB, everything else is far smaller."""

_CPU_FOLDER: Final = "sys/devices/system/cpu"
_PAGE_BYTES: Final = 4096
_DIRECTORIES_MAX: Final = 8192
"""Directories of which a tree remembers the place: processes and cgroups come and go for ever."""


class SysfsTree(Protocol):
    """Files, directories and links below a root."""

    @property
    def root(self) -> str:
        """The root as messages name it."""
        ...

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none to read."""
        ...

    def beginning(self, path: str) -> str | None:
        """The first page of a file, which may be all; None where there is none to read."""
        ...

    def names(self, path: str) -> list[str]:
        """The sorted names in a directory; empty where there is none."""
        ...

    def resolve(self, path: str) -> str | None:
        """The path with all links followed, still inside the tree; None where it leads nowhere."""
        ...


class DirectoryTree:
    """A directory that holds sys/ and proc/ (such as "/"), or is a /sys directory itself.

    Links that lead out of it lead nowhere: a copy comes from anybody. Each directory is looked at
    once in a long while; a link that is put there meanwhile is not noticed.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        is_sys = not os.path.isdir(f"{root}/{_CPU_FOLDER}")
        # "sys" is cut from each path where the root is that directory.
        self._skip = 3 if is_sys else 0
        self._prefix = root.rstrip("/") + ("" if is_sys else "/")
        self._top = os.path.realpath(self._prefix or "/")
        self._inside = self._top.rstrip("/") + "/"
        # Nothing is outside of "/": a live machine is spared the looking.
        self._is_everything = self._inside == "/"
        self._known: dict[str, str | None] = self._tops()
        """The real places of directories by their paths; None for those outside of the tree."""

    @property
    def root(self) -> str:
        """The directory."""
        return self._root

    def _full(self, path: str) -> str:
        if self._skip and not path.startswith("sys/"):
            return "/dev/null/"  # no such path: a /sys directory has no proc/
        return self._prefix + path[self._skip :]

    def _followed(self, full: str) -> str | None:
        """The path with all links followed; None where it leaves the tree."""
        real = os.path.realpath(full)
        return real if f"{real}/".startswith(self._inside) else None

    def _tops(self) -> dict[str, str | None]:
        # A /sys directory has nothing beside it.
        return {"": None, "sys": self._top} if self._skip else {"": self._top}

    def _directory(self, path: str) -> str | None:
        """The real place of a directory; None outside of the tree."""
        if path in self._known:
            return self._known[path]
        parent, _, name = path.rpartition("/")
        above = self._directory(parent)
        if above is None:
            return None
        here = f"{above}/{name}"
        try:
            is_link = name == ".." or stat.S_ISLNK(os.lstat(here).st_mode)
        except OSError:
            # Not remembered: processes and cgroups come.
            return None
        place = self._followed(here) if is_link else here
        self._remember({path: place})
        return place

    def _remember(self, places: Mapping[str, str | None]) -> None:
        if len(self._known) + len(places) > _DIRECTORIES_MAX:
            # All at once: whatever is still asked for is soon known again.
            self._known = self._tops()
        self._known.update(places)

    def _place(self, path: str) -> str | None:
        """Where to open a file or a directory; its last component may still be a link."""
        if self._is_everything:
            return self._full(path)
        directory, _, name = path.rpartition("/")
        if name in ("", "..") or not directory:
            return self._directory(path.strip("/"))
        above = self._known.get(directory) or self._directory(directory.strip("/"))
        return above and f"{above}/{name}"

    def _open(self, path: str, flags: int) -> int:
        """A descriptor. Raises `OSError`."""
        place = self._place(path)
        if place is None:
            raise FileNotFoundError(path)
        flags |= os.O_CLOEXEC | os.O_NONBLOCK
        if self._is_everything:
            return os.open(place, flags)
        try:
            return os.open(place, flags | os.O_NOFOLLOW)
        except OSError as error:
            # ELOOP: a link; ENOTDIR: one where a directory was asked for.
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
        real = self._followed(place)
        if real is None:
            raise FileNotFoundError(path)
        return os.open(real, flags | os.O_NOFOLLOW)

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none to read."""
        return self._text(path, _MAX_FILE_BYTES)

    def beginning(self, path: str) -> str | None:
        """The first page of a file, which may be all; None where there is none to read."""
        return self._text(path, _PAGE_BYTES)

    def _text(self, path: str, bytes_max: int) -> str | None:
        try:
            file = self._open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            content = os.read(file, _PAGE_BYTES)
            # The kernel shows up to a page of an attribute in one read: a short one is the end.
            if len(content) == _PAGE_BYTES:
                while len(content) < bytes_max and (more := os.read(file, 2**18)):
                    content += more
        except OSError:
            return None
        finally:
            os.close(file)
        return content.decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """The sorted names in a directory; empty where there is none."""
        try:
            file = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return []
        try:
            if self._is_everything:
                return sorted(os.listdir(file))
            with os.scandir(file) as entries:
                found = {one.name: one.is_dir(follow_symlinks=False) for one in entries}
        except OSError:
            return []
        finally:
            os.close(file)
        # Directories that are no links are where they seem to be, and need not be looked at.
        path = path.strip("/")
        place = self._directory(path)
        folders = [name for name, is_folder in found.items() if is_folder]
        if place is not None and len(folders) < _DIRECTORIES_MAX:
            self._remember({f"{path}/{name}": f"{place}/{name}" for name in folders})
        return sorted(found)

    def has_entries(self, path: str) -> bool:
        """Whether there is anything in a directory. None of it is remembered."""
        try:
            file = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            with os.scandir(file) as entries:
                return next(entries, None) is not None
        except OSError:
            return False
        finally:
            os.close(file)

    def resolve(self, path: str) -> str | None:
        """The path with all links followed, still inside the tree; None where it leads nowhere."""
        real = self._followed(self._full(path))
        if real is None or not os.path.exists(real):
            return None
        inside = os.path.relpath(real, self._top)
        return f"sys/{inside}" if self._skip else inside


def _open_at_once(path: str, flags: int) -> int:
    """A file descriptor; a pipe that nobody writes to would otherwise never open."""
    return os.open(path, flags | os.O_NONBLOCK)


def open_tree(root: str) -> SysfsTree:
    """The tree below a directory, or inside a .tar, .tar.gz or .tar.xz archive.

    Raises `TopologyError` where the root cannot be read or holds no cpus.
    """
    if not root:
        raise TopologyError("sysfs root: no name at all — give a directory or an archive")
    tree: SysfsTree
    if os.path.isdir(root):
        tree = DirectoryTree(root)
        has_cpus = tree.has_entries(_CPU_FOLDER)
    else:
        # Imported here: tarfile and its compressors are not needed on a live machine.
        from .archive import read_archive

        try:
            with open(root, "rb", opener=_open_at_once) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    what = "not a regular file — give a directory or an archive"
                    raise TopologyError(f"{root}: {what}")
                tree = read_archive(root, file, _MAX_FILE_BYTES)
        except OSError as error:
            reason = os_reason(error)
            raise TopologyError(f"{root}: {reason} — give a directory or an archive") from error
        has_cpus = bool(tree.names(_CPU_FOLDER))
    if not has_cpus:
        raise TopologyError(
            f"{root}: no {_CPU_FOLDER} in it — "
            "give a directory or archive that holds sys/ and proc/, or a copy of /sys"
        )
    return tree
