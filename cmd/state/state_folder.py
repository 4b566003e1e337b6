"""The state directory of a daemon: made where it is missing, and one daemon's at a time.

Two would write over each other's state, and each would place containers on the other's cpus.
"""

import fcntl
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from ...topology.sets.base_errors import PinfoldError, os_reason
from .own_file import make_folder

LAST_SECONDS: Final = 3.0
"""For which the daemon before us may take to end: a runtime starts the next one meanwhile."""
_LOOK_SECONDS: Final = 0.05


class StateFolderError(PinfoldError):
    """A state directory that is not there and cannot be made."""


class StateFolderInUseError(StateFolderError):
    """Another daemon has the state directory."""


class StateClaim(NamedTuple):
    """The claim of a daemon on the state directory that it was given."""

    folder: Path | None = None
    """Where it may remember; None where it was given none, or another daemon has it."""
    patience_seconds: float = LAST_SECONDS
    """For which a daemon before us may still take to end."""
    is_anothers: bool = False
    """Whether another daemon is there, which then is the one that remembers and tunes."""


def claim_patiently(folder: Path | None, log: logging.Logger, *, goes_on: bool) -> StateClaim:
    """The claim of a daemon on its state directory, which is its own until the process ends.

    `goes_on`: where another one keeps it that is told, and nothing is remembered. Raises
    `StateFolderError`. A folder that cannot be written is told of later, since a full disk must
    stop nobody.
    """
    if folder is None:
        return StateClaim()
    try:
        claim_folder(folder)
    except StateFolderInUseError as error:
        if not goes_on:
            raise
        log.error("%s; nothing is remembered here", error)
        # It was waited for, and a runtime waits for a plugin's registration for five seconds.
        return StateClaim(patience_seconds=0.0, is_anothers=True)
    return StateClaim(folder)


def claim_folder(
    folder: Path,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int | None:
    """The directory, open and locked until its descriptor is closed or the process ends.

    None where it cannot be locked: a file system may have no locks, and a full or closed one must
    stop nobody. Raises `StateFolderError` and `StateFolderInUseError`.
    """
    try:
        make_folder(folder)
    except OSError as error:
        reason = os_reason(error)
        raise StateFolderError(
            f"--state-dir: {folder}: {reason} — name a folder that is there or can be made"
        ) from error
    try:
        # Of the folder itself: a file in it would need room.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        is_ours = is_free_soon(lambda: is_locked(descriptor), clock, sleep)
    except OSError:
        os.close(descriptor)
        return None
    if not is_ours:
        os.close(descriptor)
        raise StateFolderInUseError(
            f"--state-dir: {folder}: another pinfoldd keeps its state there — stop it, or name"
            " another folder"
        )
    return descriptor


def is_locked(descriptor: int) -> bool:
    """Whether an open file or folder is locked now, for its holders alone. Raises `OSError`."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_free_soon(
    is_free: Callable[[], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    seconds: float = LAST_SECONDS,
) -> bool:
    """Whether something is free before a daemon that ends must have ended; asked until it is."""
    until = clock() + seconds
    while not is_free():
        if clock() > until:
            return False
        sleep(_LOOK_SECONDS)
    return True
