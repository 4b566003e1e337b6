"""The values of annotations about quota, memory bandwidth and devices, and how each is read."""

import enum
import re
from typing import Final

from ...topology.sets.base_errors import quoted
from ..model.cpu_preference import QuotaUse
from ..text.suggestion import suggestion
from ..text.yaml_nodes import TextError

_PCI_ADDRESS: Final = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_RESOURCE: Final = re.compile(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


class MemoryUse(enum.Enum):
    """The way in which a container's memory lies on its memory nodes."""

    INTERLEAVE = "interleave"
    """Page by page on all nodes in turn, for the bandwidth of all of them."""


def parse_device(text: str) -> str:
    """A device by a path below /dev or /sys or a PCI address, or a resource of the kubelet.

    >>> parse_device("/dev/nvme0n1"), parse_device("nvidia.com/gpu")
    ('/dev/nvme0n1', 'nvidia.com/gpu')
    """
    word = text.strip()
    is_path = word.startswith(("/dev/", "/sys/")) and "/.." not in word
    if is_path or _PCI_ADDRESS.fullmatch(word) or _RESOURCE.fullmatch(word):
        return word
    what = f"{quoted(word)} is neither a device nor a resource"
    fix = "write '/dev/NAME', '/sys/..', an address such as '0000:3b:00.0', or 'vendor.com/device'"
    raise TextError(what, fix)


def is_resource(device: str) -> bool:
    """Whether a device is named by a resource of the kubelet."""
    return not device.startswith("/") and "/" in device


def parse_quota_use(text: str) -> QuotaUse:
    """The fate of the quota of a container that has its cpus for itself."""
    for use in QuotaUse:
        if use.value == text.strip().lower():
            return use
    fix = suggestion(text.strip(), [use.value for use in QuotaUse])
    raise TextError(f"unknown use of the quota {quoted(text.strip())}", fix)


def parse_memory_use(text: str) -> MemoryUse:
    """The way of lying on memory nodes."""
    if text.strip().lower() != MemoryUse.INTERLEAVE.value:
        raise TextError(f"unknown use of memory {quoted(text.strip())}", "write 'interleave'")
    return MemoryUse.INTERLEAVE
