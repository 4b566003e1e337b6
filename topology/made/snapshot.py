"""Snapshots: the files of a machine as a value, as an archive and as a tree on disk."""

import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..sets.base_errors import TopologyError
from ..sysfs.archive import ArchiveTree, Directory

SUFFIXES: Final = (".tar.xz", ".tar.gz", ".tar")


@dataclass(frozen=True, slots=True, kw_only=True)
class SysfsSnapshot:
    """Files by path, links by path (their targets as paths of the snapshot), further folders."""

    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    folders: frozenset[str] = frozenset()

    def tree(self, root: str = "snapshot") -> ArchiveTree:
        """The snapshot as a tree that discovery reads."""
        top: Directory = {}
        for path in sorted(self.folders):
            _folder(top, path)
        for path, text in self.files.items():
            folder, _, name = path.rpartition("/")
            _folder(top, folder)[name] = text.encode()
        for path, target in self.links.items():
            folder, _, name = path.rpartition("/")
            _folder(top, folder)[name] = _relative(target, folder)
        return ArchiveTree(root, top)


def pack(snapshot: SysfsSnapshot, name: str) -> bytes:
    """The snapshot as an archive of the kind a file name asks for; equal ones give equal bytes.

    Raises `TopologyError` where the name ends in no known suffix.
    """
    if not name.endswith(SUFFIXES):
        raise TopologyError(f"{name}: unknown kind of archive — name it *{' or *'.join(SUFFIXES)}")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted({*_folders(snapshot), *snapshot.files, *snapshot.links}):
            member = tarfile.TarInfo(path)
            content = b""
            if path in snapshot.files:
                content = snapshot.files[path].encode()
                member.size = len(content)
            elif path in snapshot.links:
                member.type = tarfile.SYMTYPE
                member.linkname = _relative(snapshot.links[path], os.path.dirname(path))
            else:
                member.type = tarfile.DIRTYPE
                member.mode = 0o755
            archive.addfile(member, io.BytesIO(content))
    content = buffer.getvalue()
    if name.endswith(".xz"):
        return lzma.compress(content)
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def write_tree(snapshot: SysfsSnapshot, root: str) -> None:
    """Write the snapshot's files below a directory that exists."""
    for path in _folders(snapshot):
        os.makedirs(f"{root}/{path}", exist_ok=True)
    for path, text in snapshot.files.items():
        with open(f"{root}/{path}", "w", encoding="utf-8") as file:
            file.write(text)
    for path, target in snapshot.links.items():
        os.symlink(_relative(target, os.path.dirname(path)), f"{root}/{path}")


def _folders(snapshot: SysfsSnapshot) -> Iterator[str]:
    """Every folder, those above before those below."""
    found = set(snapshot.folders)
    for path in (*snapshot.files, *snapshot.links, *snapshot.folders):
        while (path := os.path.dirname(path)) and path not in found:
            found.add(path)
    yield from sorted(found - set(snapshot.links))


def _folder(top: Directory, path: str) -> Directory:
    for name in path.split("/"):
        below = top.setdefault(name, {})
        assert isinstance(below, dict), f"{path} is inside a file or a link"
        top = below
    return top


def _relative(target: str, folder: str) -> str:
    return os.path.relpath(target, folder)
