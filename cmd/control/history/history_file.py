"""The file of the history: lines that are only ever added, in two parts of which the older goes.

So it is bounded whatever happens, a crash costs the line that was being written, and nothing is
written twice.
"""

import errno
import logging
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ....nri.dispatch.pacer import ALONE
from ....topology.sets.base_errors import PinfoldError
from ....topology.sets.cpuset import IdListError
from ...state.own_file import ForeignFileError, OwnFile, read_bounded_file
from .saved_candidates import candidates_by_decision, parse_candidates_line
from .saved_decision import SavedDecision

HISTORY_NAME: Final = "decisions.jsonl"
OLDER_NAME: Final = "decisions.older.jsonl"
BYTES_MAX: Final = 1 << 23
"""Of both parts together."""
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class HistoryError(PinfoldError):
    """A history cannot be read."""


class HistoryFile:
    """The file of a history in a folder of ours. One thread writes; any may read."""

    def __init__(
        self,
        folder: Path,
        log: logging.Logger,
        bytes_max: int = BYTES_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock`: seconds since 1970, for the names of what is put aside."""
        self._parts = tuple(
            OwnFile(folder / name, log, clock) for name in (HISTORY_NAME, OLDER_NAME)
        )
        self._part_bytes_max = bytes_max // 2
        self._size: int | None = None
        """Of the newer part; None where it was not looked at yet."""
        self._has_appended = False

    @property
    def is_full(self) -> bool:
        """Whether it is time for `turn`; also where there is nothing to go on from."""
        return not 0 < self._newer_size() < self._part_bytes_max

    def turn(self) -> None:
        """Begin a new part; the older one of two goes. Raises `OSError`."""
        newer, older = self._parts
        if self._newer_size():
            newer.path.replace(older.path)
        self._size = 0

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines, each a JSON text. Raises `OSError`."""
        # The last line of an earlier process may have no end.
        begin = b"" if self._has_appended else b"\n"
        data = begin + b"\n".join([*lines, b""])
        self._has_appended = True
        descriptor = os.open(self._parts[0].path, _FLAGS, 0o600)
        try:
            written = os.write(descriptor, data)
            self._size = os.fstat(descriptor).st_size
            if written < len(data):
                # Half a line is left out by who reads, and the next one begins.
                self._has_appended = False
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)

    def newest(self) -> Iterator[bytes]:
        """The lines, the newest first. O(bytes)."""
        for part in self._parts:
            yield from ALONE.among(part.lines_backwards())

    def _newer_size(self) -> int:
        if self._size is None:
            # What is not ours, or no file at all, is put aside.
            self._size = self._parts[0].size()
        return self._size


def parse_line(line: bytes) -> SavedDecision | None:
    """The decision in a line; None where it is half a line, or another version's."""
    try:
        found = msgspec.json.decode(line, type=SavedDecision)
        found.container()
        found.document()
    except (ValueError, RecursionError, IdListError, zlib.error):
        # Also a msgspec.DecodeError and broken UTF-8.
        return None
    return found


def read_history(path: Path) -> tuple[SavedDecision, ...]:
    """The decisions in a folder, or in one file, the oldest first. Raises `HistoryError`."""
    files = (path / OLDER_NAME, path / HISTORY_NAME) if os.path.isdir(path) else (path,)
    texts: list[bytes] = []
    for file in files:
        try:
            texts.append(read_bounded_file(file))
        except FileNotFoundError:
            continue
        except (OSError, ForeignFileError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            what = f"{file}: {(reason or str(error)).lower()}" if reason else str(error)
            raise HistoryError(f"{what} — name the state folder of a daemon") from error
    return parse_history(texts, path)


def parse_history(texts: Sequence[bytes], path: Path) -> tuple[SavedDecision, ...]:
    """The decisions in the parts of a history, the oldest part first. Raises `HistoryError`."""
    if not texts:
        raise HistoryError(
            f"{path}: holds no {HISTORY_NAME} — name the folder that is pinfoldd's --state-dir"
        )
    lines = [line for text in texts for line in text.splitlines()]
    known = candidates_by_decision(map(parse_candidates_line, lines))
    found = (one for one in map(parse_line, lines) if one is not None)
    return tuple(one.with_candidates(known) for one in found)
