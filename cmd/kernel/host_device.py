"""The device numbers of paths on the host."""

import os
import stat

from ...nri.hints.device_hints import DeviceNumber


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
