"""Paths on the host: their device numbers, and small files."""

import os
import stat
from typing import Final

from ...nri.hints.device_hints import DeviceNumber

_BYTES_MAX: Final = 1 << 20


def small_file(path: str) -> bytes | None:
    """The content of a regular file of at most a MiB; None where it cannot be read so."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            content = file.read(_BYTES_MAX + 1)
    except (OSError, ValueError):
        return None
    return content if len(content) <= _BYTES_MAX else None


def _open_at_once(path: str, flags: int) -> int:
    # A pipe that nobody writes to would otherwise never open.
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def device_of(path: str) -> DeviceNumber | None:
    """The device a path is, or else the block device it is stored on; None where it has none.

    File systems without a block device of their own (overlay, tmpfs, btrfs) show major number 0.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    is_character = stat.S_ISCHR(found.st_mode)
    is_device = is_character or stat.S_ISBLK(found.st_mode)
    number = found.st_rdev if is_device else found.st_dev
    if not os.major(number):
        return None
    return DeviceNumber(os.major(number), os.minor(number), not is_character)
