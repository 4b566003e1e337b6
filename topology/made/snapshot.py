"""Snapshots: the files of a machine as a value and as an archive."""

import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..sets.base_errors import TopologyError

SUFFIXES: Final = (".tar.xz", ".tar.gz", ".tar")


@dataclass(frozen=True, slots=True, kw_only=True)
class SysfsSnapshot:
    """Files by path, links by path (their targets as paths of the snapshot), further folders."""

    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    folders: frozenset[str] = frozenset()


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
                member.linkname = os.path.relpath(snapshot.links[path], os.path.dirname(path))
            else:
                member.type = tarfile.DIRTYPE
                member.mode = 0o755
            archive.addfile(member, io.BytesIO(content))
    content = buffer.getvalue()
    if name.endswith(".xz"):
        return lzma.compress(content)
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def _folders(snapshot: SysfsSnapshot) -> Iterator[str]:
    """Every folder, those above before those below."""
    found = set(snapshot.folders)
    for path in (*snapshot.files, *snapshot.links, *snapshot.folders):
        while (path := os.path.dirname(path)) and path not in found:
            found.add(path)
    yield from sorted(found - set(snapshot.links))
