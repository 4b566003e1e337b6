"""What the kernel's files held before we changed them, remembered over restarts of the daemon.

A file that is lost costs this: what was changed before then counts as having always been so.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

_NAME: Final = "originals.json"


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """A file's text before we changed it."""

    text: str
    owner: str = ""
    """What the file was about; under the same path there may be another thing later."""


class _File(msgspec.Struct, frozen=True, kw_only=True):
    boot_id: str = ""
    originals: Mapping[str, Original] = msgspec.field(default_factory=dict[str, Original])


class Originals:
    """Originals by path. `save` before anything is written: then no crash can lose one."""

    def __init__(self, folder: Path | None, boot_id: str, log: logging.Logger) -> None:
        """`folder`: where to keep them, None for nowhere. A boot makes all of them void."""
        self._path = None if folder is None else folder / _NAME
        self._boot_id = boot_id
        self._log = log
        self._by_path: dict[str, Original] = {}
        self._is_saved = True
        if self._path is not None:
            self._load(self._path)

    @property
    def by_path(self) -> Mapping[str, Original]:
        """Everything that is changed."""
        return self._by_path

    def keep(self, path: str, original: Original) -> None:
        """Remember an original, unless an older one is known."""
        if path not in self._by_path:
            self._by_path[path] = original
            self._is_saved = False

    def drop(self, path: str) -> None:
        """The file is as it was, or gone."""
        if self._by_path.pop(path, None) is not None:
            self._is_saved = False

    def save(self) -> None:
        """Write what changed; a failure is a warning, the originals are still in memory."""
        if self._is_saved or self._path is None:
            return
        fresh = self._path.with_suffix(".new")
        data = msgspec.json.encode(
            _File(boot_id=self._boot_id, originals=self._by_path), order="sorted"
        )
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)
            fresh.replace(self._path)
        except OSError as error:
            self._log.warning(
                "%s: %s — interrupts that were moved cannot be put back after a restart",
                self._path,
                (error.strerror or str(error)).lower(),
            )
        self._is_saved = True

    def _load(self, path: Path) -> None:
        try:
            file = msgspec.json.decode(path.read_bytes(), type=_File)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            self._log.warning("%s: %s — going on without it", path, error)
            return
        if file.boot_id == self._boot_id:
            self._by_path.update(file.originals)
