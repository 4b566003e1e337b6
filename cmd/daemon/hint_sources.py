"""The sources of topology hints on the machine the daemon runs on, and paths of its host."""

import os
import stat
import time
from collections.abc import Mapping
from functools import partial
from typing import Final

from ...nri.hints.combined_hints import CombinedHints
from ...nri.hints.device_hints import DeviceNumber
from ...nri.hints.hint_probe import HintProbe
from ...nri.hints.kubelet_hints import KubeletHints
from ...nri.hints.pod_resources import KUBELET_SOCKET, PodResources
from ...policy.hints.hint_text import TEST_APIS
from ...topology.sysfs.sysfs_tree import open_tree


def find_hint_sources(root: str | None, environment: Mapping[str, str]) -> CombinedHints:
    """All sources there are; without a root (see `live_root`), only annotations of tests.

    Raises `TopologyError` where the root shows no machine.
    """
    has_test_hints = bool(environment.get(TEST_APIS))
    if root is None:
        return CombinedHints(has_test_hints=has_test_hints)
    above = root.rstrip("/")
    return CombinedHints(
        HintProbe(
            open_tree(root),
            partial(_device_below, above),
            read_file=lambda path: small_file(above + path),
        ),
        KubeletHints(PodResources(time.monotonic, above + KUBELET_SOCKET)),
        has_test_hints=has_test_hints,
    )


def _device_below(above: str, path: str) -> DeviceNumber | None:
    """The runtime's paths are the host's, which a container of ours sees below another folder."""
    return device_of(above + path)


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
