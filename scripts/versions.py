"""Versions installed side by side below one folder, and the link that says which one runs.

    lib/pinfold/versions/0.1.0-5e8c0f3a91d2/    a whole version: programs, packages, unit, examples
    lib/pinfold/versions/0.1.0-5e8c0f3a91d2/previous -> ../0.1.0-b0d1775f2c46
    lib/pinfold/current -> versions/0.1.0-5e8c0f3a91d2
    lib/pinfold/extras                          packages that the operator adds, for every version

Renaming a link over `current` is all that ever switches: before it everything is as it was, after
it everything is new, `previous` included.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Final

CURRENT: Final = "current"
PREVIOUS: Final = "previous"
VERSIONS: Final = "versions"
_UNFINISHED: Final = ".unfinished-"


class VersionsError(Exception):
    """The version that runs stays as it is, for the reason given."""


class Versions:
    """The versions below one folder (`lib/pinfold`), which need not exist."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self) -> Path | None:
        """The folder of the version that runs."""
        return self._version_at(self._folder / CURRENT)

    def previous(self) -> Path | None:
        """The folder of the version that ran before; None if there is none to go back to."""
        current = self.current()
        return None if current is None else self._version_at(current / PREVIOUS)

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """The sole right to change the folder. Raises `VersionsError` where another has it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise VersionsError(
                f"{self._folder}: another installation is under way — wait for its end"
            ) from error
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def unfinished(self) -> Generator[Path]:
        """An empty folder for a version to be; what is left there at the end is removed."""
        versions = self._folder / VERSIONS
        versions.mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=versions))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def add(self, unfinished: Path, version: str) -> Path:
        """The folder of a version that is complete, named for its content.

        One with this content is used as it is: to install the same thing twice changes nothing.
        """
        digest = tree_digest(unfinished)
        name = f"{version}-{digest[:12]}"
        versions = self._folder / VERSIONS
        number = 1
        while (folder := versions / (name if number == 1 else f"{name}.{number}")).exists():
            if tree_digest(folder) == digest:
                return folder
            number += 1
        unfinished.rename(folder)
        return folder

    def switch(self, version: Path) -> None:
        """Make a version the current one, and the current one the previous one."""
        current = self.current()
        if current == version:
            return
        if current is not None:
            link(version / PREVIOUS, Path("..") / current.name)
        link(self._folder / CURRENT, Path(VERSIONS) / version.name)

    def remove_old(self, but: Path) -> None:
        """Remove all versions but the current one, the previous one and the one about to be.

        Called before a switch, not after it: a daemon that was not started anew since the last
        switch but one still finds its modules.
        """
        kept = {but, self.current(), self.previous()}
        versions = self._folder / VERSIONS
        for one in versions.iterdir() if versions.is_dir() else ():
            if one not in kept:
                shutil.rmtree(one)

    def _version_at(self, path: Path) -> Path | None:
        try:
            name = path.readlink().name
        except OSError:
            return None
        version = self._folder / VERSIONS / name
        return version if version.is_dir() else None


def link(path: Path, target: Path) -> None:
    """Let a path be a link to a target; whatever it was before, it is never absent meanwhile.

    Only a folder has to be removed first, since the kernel renames nothing over one.
    """
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    fresh.replace(path)


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Let a file have this text and mode; it is never absent or half-written."""
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(mode)
    fresh.replace(path)


def tree_digest(folder: Path) -> str:
    """A digest of the files below a folder: names, contents and who may execute them.

    Compiled modules and pip's own records are left out: they hold times and the paths of a build.
    """
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        is_record = path.name == "RECORD" and path.parent.suffix == ".dist-info"
        if path.is_symlink() or not path.is_file() or path.suffix == ".pyc" or is_record:
            continue
        content = path.read_bytes()
        total.update(f"{name}\0{path.stat().st_mode & 0o777:o}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()
