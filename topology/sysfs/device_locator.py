"""Places of devices by device number: the folders of sysfs that tell, and what they say.

Read when asked, for one device; the devices found with the machine are in `devices`. Sources:
Documentation/ABI/testing/sysfs-bus-pci, Documentation/admin-guide/devices.rst.
"""

import re
from collections import deque
from dataclasses import dataclass
from typing import Final

from ..model.machine import NumaNodeId
from ..sets.cpuset import MAX_IDS, NO_CPUS, CpuSet
from .attributes import Attributes
from .device_names import NVIDIA_MAJOR, folder_of_name, folder_of_nvidia, folder_of_pci
from .sysfs_tree import SysfsTree

_DEVICES: Final = "sys/devices/"
_VIRTUAL: Final = "sys/devices/virtual/"
_VFIO: Final = "sys/devices/virtual/vfio"
_NVME_SUBSYSTEM: Final = "sys/devices/virtual/nvme-subsystem"
_NVME_CONTROLLER: Final = re.compile(r"nvme[0-9]+")
# Old kernels have the mask alone.
_LOCAL_FILES: Final = ("local_cpulist", "local_cpus")
_INTERRUPT: Final = re.compile(r"[0-9]{1,9}")
_UNKNOWN: Final = -1
"""How the kernel writes that it does not know a device's node."""
_MEMBERS_MAX: Final = 256
_KEPT_MAX: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFolder:
    """A folder that tells where it is, in the kernel's words: offline cpus, unknown nodes too."""

    path: str
    """As on a running system: "/sys/devices/pci0000:00/0000:00:02.0"."""
    cpus: CpuSet = NO_CPUS
    numa_node: NumaNodeId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A device and its places: several for a device made of others, none for a virtual one."""

    path: str = ""
    """The device's folder, "/sys/devices/...", empty where sysfs does not know the number."""
    places: tuple[DeviceFolder, ...] = ()


_NOWHERE: Final = Located()


class Locator:
    """Finds devices by number. A folder is read once; which device a number means, each time."""

    def __init__(self, tree: SysfsTree) -> None:
        self._tree = tree
        self._attributes = Attributes(tree)
        self._folders: dict[str, DeviceFolder | None] = {}
        self._placeless: set[str] = set()
        self._told: set[str] = set()

    def take_warnings(self) -> list[str]:
        """Warnings (`where: what`) of unreadable files since the last call, once each."""
        found, self._attributes.warnings = self._attributes.warnings, []
        news = [one for one in found if one not in self._told]
        _bound(self._told)
        self._told.update(news)
        return news

    def locate(self, major: int, minor: int, *, is_block: bool) -> Located:
        """The device and its places, in the order of their paths."""
        number = f"{'block' if is_block else 'char'}/{major}:{minor}"
        # Terminals, /dev/null and their like are most of what containers have.
        if major <= 0 or number in self._placeless:
            return _NOWHERE
        path = self._tree.resolve(f"sys/dev/{number}")
        if path is None and major == NVIDIA_MAJOR and not is_block:
            path = folder_of_nvidia(self._tree, minor)
        return self._located(path, number if not is_block else "")

    def locate_name(self, name: str) -> Located:
        """The device of a path below /dev or /sys, or of a PCI address, and its places."""
        return self._located(folder_of_name(self._tree, name), "")

    def locate_pci(self, address: str) -> Located:
        """The device of an address on the PCI bus, and its places."""
        return self._located(folder_of_pci(self._tree, address), "")

    def interrupts(self, device: str, place: str) -> tuple[int, ...]:
        """The interrupts of a device, or of the part of it that is in a place; ascending.

        Both are given by their folders, as in `Located`. The nearest folder upwards that could have
        interrupts counts: a disk is served by its controller's, and a device without any is not
        served by those of the bridge above it. They are read each time: a driver asks for them
        when its device is used.
        """
        path = (device if device.startswith(f"{place}/") else place).removeprefix("/")
        while path.startswith(_DEVICES):
            names = self._tree.names(f"{path}/msi_irqs")
            numbers = sorted(int(name) for name in names if _INTERRUPT.fullmatch(name) is not None)
            line = self._attributes.number(f"{path}/irq")
            if numbers or line is not None:
                return tuple(numbers) or ((line,) if line else ())
            path = path.rpartition("/")[0]
        return ()

    def _located(self, path: str | None, number: str) -> Located:
        if path is None or not path.startswith(_DEVICES):
            return _NOWHERE
        members = self._members(path)
        places = self._places(path, members)
        # Block devices without place are not remembered: their numbers are given out again.
        if not places and not members and number and path.startswith(_VIRTUAL):
            _bound(self._placeless)
            self._placeless.add(number)
        return Located(path=f"/{path}", places=places)

    def _places(self, path: str, members: list[str]) -> tuple[DeviceFolder, ...]:
        """The places of a device and of all it is made of, however deep."""
        found: dict[str, DeviceFolder] = {}
        seen = {path, *members}
        ahead = deque(members)
        while True:
            place = self._nearest(path)
            if place is not None:
                found[place.path] = place
            if not ahead:
                return tuple(found[one] for one in sorted(found))
            path = ahead.popleft()
            for member in self._members(path):
                if member not in seen and len(seen) < _MEMBERS_MAX:
                    seen.add(member)
                    ahead.append(member)

    def _nearest(self, path: str) -> DeviceFolder | None:
        """The nearest folder upwards that says anything: a disk is where its controller is."""
        while path.startswith(_DEVICES):
            if path not in self._folders:
                _bound(self._folders)
                self._folders[path] = self._read(path)
            place = self._folders[path]
            if place is not None:
                return place
            path = path.rpartition("/")[0]
        return None

    def _read(self, folder: str) -> DeviceFolder | None:
        node = self._attributes.number(f"{folder}/numa_node")
        if node is not None and not 0 <= node < MAX_IDS:
            if node != _UNKNOWN:
                self._attributes.warn(
                    f"{folder}/numa_node",
                    f"{node} is no NUMA node: ids are from 0 to {MAX_IDS - 1}",
                )
            node = None
        cpus = self._attributes.first_cpus(folder, _LOCAL_FILES) or NO_CPUS
        if node is None and not cpus:
            return None
        numa_node = None if node is None else NumaNodeId(node)
        return DeviceFolder(path=f"/{folder}", cpus=cpus, numa_node=numa_node)

    def _members(self, path: str) -> list[str]:
        """The devices a virtual one is made of: mapped disks, RAID, multipath, an IOMMU group."""
        if not path.startswith(_VIRTUAL):
            return []
        above, _, name = path.rpartition("/")
        if above == _VFIO:
            return self._linked(f"sys/kernel/iommu_groups/{name}/devices")
        if path.startswith(f"{_NVME_SUBSYSTEM}/"):
            subsystem = "/".join(path.split("/")[:5])
            return self._linked(subsystem, _NVME_CONTROLLER)
        # A partition has no slaves of its own, but the disk above it has.
        return self._linked(f"{path}/slaves") or self._linked(f"{above}/slaves")

    def _linked(self, folder: str, pattern: re.Pattern[str] | None = None) -> list[str]:
        names = (
            name
            for name in self._tree.names(folder)
            if pattern is None or pattern.fullmatch(name) is not None
        )
        paths = (self._tree.resolve(f"{folder}/{name}") for name in names)
        return [path for path in paths if path is not None]


def _bound(kept: dict[str, DeviceFolder | None] | set[str]) -> None:
    """Forget everything rather than grow without end, on nodes where devices come and go."""
    if len(kept) >= _KEPT_MAX:
        kept.clear()
