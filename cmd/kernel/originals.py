"""Original texts of the kernel's files that we changed, remembered over restarts of the daemon.

A file that is lost costs this: what was changed before then counts as having always been so.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from ...topology.sets.base_errors import os_reason
from ..state.own_file import OwnFile
from .knobs import could_hold

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

    def __init__(
        self,
        folder: Path | None,
        boot_id: str,
        log: logging.Logger,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`folder`: where to keep them, None for nowhere. A boot makes all of them void.

        They are written to the kernel's files again, so a file of others is put aside and kept.
        `clock`: seconds since 1970.
        """
        self._file = None if folder is None else OwnFile(folder / _NAME, log, clock)
        self._boot_id = boot_id
        self._log = log
        self._by_path: dict[str, Original] = {}
        self._is_saved = True
        if self._file is not None:
            self._load(self._file)

    @property
    def by_path(self) -> Mapping[str, Original]:
        """The originals of all files that are changed, by path."""
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
        if self._is_saved or self._file is None:
            return
        data = msgspec.json.encode(
            _File(boot_id=self._boot_id, originals=self._by_path), order="sorted"
        )
        try:
            # After a boot all of them are void: nothing has to outlive a crash of the machine.
            self._file.replace([data], is_durable=False)
        except OSError as error:
            self._log.warning(
                "%s: %s — interrupts that were moved cannot be put back after a restart",
                self._file.path,
                os_reason(error),
            )
        self._is_saved = True

    def _load(self, own: OwnFile) -> None:
        data = own.read()
        if data is None:
            return
        try:
            file = msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            own.disbelieve(f"{own.path}: {error}")
            return
        if file.boot_id != self._boot_id:
            return
        known = {name: one for name, one in file.originals.items() if could_hold(name, one.text)}
        if foreign := file.originals.keys() - known.keys():
            what = f"{len(foreign)} files that are none of ours, such as {min(foreign)!r}"
            own.disbelieve(f"{own.path}: {what}")
            return
        self._by_path.update(known)
