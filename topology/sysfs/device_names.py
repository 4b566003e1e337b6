"""Folders of devices in sysfs by other names than their numbers.

Those of /dev, of /sys, addresses on the PCI bus, and the GPUs of NVIDIA's own driver, whose
character devices sysfs does not list. Sources: Documentation/ABI/testing/sysfs-bus-pci; NVIDIA's
driver, README, "/proc/driver/nvidia/gpus/<address>/information".
"""

import re
from typing import Final

from .sysfs_tree import SysfsTree

NVIDIA_MAJOR: Final = 195
"""Source: Documentation/admin-guide/devices.txt."""
_NVIDIA_GPUS: Final = "proc/driver/nvidia/gpus"
_NVIDIA_MINOR: Final = re.compile(r"^Device Minor:\s*([0-9]{1,3})\s*$", re.MULTILINE)
_NVIDIA_PATH: Final = re.compile(r"/dev/nvidia([0-9]{1,3})")
_PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_CLASSES_MAX: Final = 256


def folder_of_name(tree: SysfsTree, name: str) -> str | None:
    """The folder of a device by a path below /dev or /sys, or by its PCI address; None without."""
    if _PCI_ADDRESS.fullmatch(name):
        return folder_of_pci(tree, name)
    if name.startswith("/sys/"):
        return tree.resolve(name.lstrip("/"))
    nvidia = _NVIDIA_PATH.fullmatch(name)
    if nvidia is not None:
        return folder_of_nvidia(tree, int(nvidia[1]))
    if not name.startswith("/dev/"):
        return None
    last = name.rpartition("/")[2]
    for folder in ("block", *tree.names("sys/class")[:_CLASSES_MAX]):
        found = tree.resolve(f"sys/class/{folder}/{last}") if last else None
        if found is not None:
            return found
    return None


def folder_of_pci(tree: SysfsTree, address: str) -> str | None:
    """The folder of a device by its address on the PCI bus, as in `0000:3b:00.0`."""
    domain, _, rest = address.lower().partition(":")
    return tree.resolve(f"sys/bus/pci/devices/{domain[-4:].zfill(4)}:{rest}")


def folder_of_nvidia(tree: SysfsTree, minor: int) -> str | None:
    """The folder of a GPU by the minor number of its device in /dev."""
    for address in tree.names(_NVIDIA_GPUS):
        found = _NVIDIA_MINOR.search(tree.read(f"{_NVIDIA_GPUS}/{address}/information") or "")
        if found is not None and int(found[1]) == minor:
            return folder_of_pci(tree, address)
    return None
