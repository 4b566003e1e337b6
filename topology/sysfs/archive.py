"""Snapshot archives: a tar of sys/ and proc/, held in memory; nothing is unpacked to disk."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zlib
from typing import IO, Final, TypeAlias

from ..sets.base_errors import TopologyError

MAX_ARCHIVE_BYTES: Final = 2**29
"""Of the unpacked tar; that of a 4096-cpu machine has less than half of it."""
_MAX_LINKS: Final = 40
"""Links followed for one path before it counts as a loop; Linux gives up at the same number."""

_Entry: TypeAlias = "bytes | str | dict[str, _Entry]"
"""A file's content, a link's target, or a directory."""
Directory: TypeAlias = dict[str, _Entry]
_PAGE_CHARACTERS: Final = 4096


class ArchiveTree:
    """The files of an archive; links are followed inside it only."""

    def __init__(self, root: str, top: Directory) -> None:
        self._root = root
        self._top = top
        self._directories: dict[str, Directory | None] = {}

    @property
    def root(self) -> str:
        """The path of the archive."""
        return self._root

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none to read."""
        directory, _, name = path.rpartition("/")
        entry = (self._directory(directory) or {}).get(name)
        if isinstance(entry, str):
            _, entry = self._walk(path)
        return entry.decode("utf-8", "replace") if isinstance(entry, bytes) else None

    def beginning(self, path: str) -> str | None:
        """The first page of a file, which may be all; None where there is none to read."""
        text = self.read(path)
        return None if text is None else text[:_PAGE_CHARACTERS]

    def names(self, path: str) -> list[str]:
        """The sorted names in a directory; empty where there is none."""
        return sorted(self._directory(path) or ())

    def resolve(self, path: str) -> str | None:
        """The path with all links followed, still inside the tree; None where it leads nowhere."""
        place, entry = self._walk(path)
        return None if entry is None else place

    def _directory(self, path: str) -> Directory | None:
        if path not in self._directories:
            _, entry = self._walk(path)
            self._directories[path] = entry if isinstance(entry, dict) else None
        return self._directories[path]

    def _walk(self, path: str) -> tuple[str, _Entry | None]:
        """Where a path leads, and what is there; ".." stops at the top, as below a chroot."""
        ahead = path.split("/")[::-1]
        names: list[str] = []
        above = [self._top]
        links = 0
        entry: _Entry = self._top
        while ahead:
            name = ahead.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if names:
                    names.pop()
                    above.pop()
                entry = above[-1]
                continue
            found = above[-1].get(name)
            if isinstance(found, str):
                links += 1
                if links > _MAX_LINKS:
                    return "", None
                if found.startswith("/"):
                    names, above = [], [self._top]
                ahead.extend(found.split("/")[::-1])
                entry = above[-1]
            elif isinstance(found, dict):
                names.append(name)
                above.append(found)
                entry = found
            elif found is not None and not any(one not in ("", ".") for one in ahead):
                return "/".join([*names, name]), found
            else:
                return "", None
        return "/".join(names), entry


def read_archive(root: str, file: IO[bytes], max_file_bytes: int) -> ArchiveTree:
    """The tree in an archive; it may hold sys/ and proc/ at its top or in one folder, or be a /sys.

    Longer files in it are cut.
    Raises `TopologyError` where it is no archive, is damaged or unpacks to too much.
    """
    try:
        top = _read_members(_unpack(file), max_file_bytes)
    except (tarfile.TarError, lzma.LZMAError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TopologyError(
            f"{root}: not a readable archive ({error}) — give a .tar, .tar.gz or .tar.xz"
        ) from error
    return ArchiveTree(root, _rooted(top))


def _unpack(file: IO[bytes]) -> bytes:
    magic = file.read(6)
    file.seek(0)
    if magic == b"\xfd7zXZ\0":
        with lzma.LZMAFile(file) as stream:
            content = stream.read(MAX_ARCHIVE_BYTES + 1)
    elif magic.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=file) as stream:
            content = stream.read(MAX_ARCHIVE_BYTES + 1)
    else:
        content = file.read(MAX_ARCHIVE_BYTES + 1)
    if len(content) > MAX_ARCHIVE_BYTES:
        raise tarfile.ReadError(f"it unpacks to more than {MAX_ARCHIVE_BYTES} bytes")
    return content


def _read_members(content: bytes, max_file_bytes: int) -> Directory:
    top: Directory = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for member in archive:
            names = [name for name in member.name.split("/") if name not in ("", ".")]
            # A name that climbs out of the archive is none of a machine's files.
            if not names or ".." in names:
                continue
            if member.isdir():
                _place(top, names, {})
            elif member.issym():
                _place(top, names, member.linkname)
            elif member.isreg() and not member.issparse():
                start = member.offset_data
                size = min(member.size, max_file_bytes)
                _place(top, names, content[start : start + size])
    return top


def _place(top: Directory, names: list[str], entry: _Entry) -> None:
    """Put an entry at its place; entries below a file or a link are dropped."""
    directory = top
    for name in names[:-1]:
        below = directory.setdefault(name, {})
        if not isinstance(below, dict):
            return
        directory = below
    if entry == {} and isinstance(directory.get(names[-1]), dict):
        return
    directory[names[-1]] = entry


def _rooted(top: Directory) -> Directory:
    if "sys" not in top and len(top) == 1:
        (only,) = top.values()
        if isinstance(only, dict) and "sys" in only:
            return only
    if "sys" not in top and "devices" in top:
        return {"sys": top}
    return top
