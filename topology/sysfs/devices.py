"""PCI, block and network devices, and the cpus and NUMA node near each.

The nearest folder upwards that says anything counts: a disk's place is that of its controller.
Source: Documentation/ABI/testing/sysfs-bus-pci.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..model.machine import IoDevice, NumaNodeId
from ..sets.cpuset import NO_CPUS, CpuSet, NodeSet
from .attributes import Attributes

_PCI: Final = "sys/bus/pci/devices"
_CLASSES: Final = (("block", "sys/class/block"), ("net", "sys/class/net"))
_LOCAL_FILES: Final = ("local_cpulist", "local_cpus")
_PCI_CLASSES: Final = frozenset((0x01, 0x02, 0x03, 0x05, 0x0B, 0x10, 0x12))
"""Storage, network, display, memory, processors, encryption, accelerators: what workloads use."""
_INFINIBAND: Final = 0x0C06


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLocality:
    """The place of a device; `cpus` is empty where the kernel does not say."""

    numa_node: NumaNodeId | None = None
    cpus: CpuSet = NO_CPUS


def read_devices(attributes: Attributes, online: CpuSet, node_ids: NodeSet) -> tuple[IoDevice, ...]:
    """The devices with hardware of their own, sorted by kind and path."""
    finder = LocalityFinder(attributes, online, node_ids)
    found = [
        IoDevice(
            path=path.removeprefix("sys/"),
            kind=kind,
            name=name,
            numa_node=(place := finder.locate(path)).numa_node,
            cpus=place.cpus,
        )
        for kind, name, path in (*_pci_devices(attributes), *_class_devices(attributes))
    ]
    return tuple(sorted(found, key=lambda device: (device.kind, device.path)))


class LocalityFinder:
    """Places of devices by path; folders shared by several devices are read once."""

    def __init__(self, attributes: Attributes, online: CpuSet, node_ids: NodeSet) -> None:
        self.attributes = attributes
        self._online = online
        self._node_ids = node_ids
        self._seen: dict[str, DeviceLocality | None] = {}

    def locate(self, path: str) -> DeviceLocality:
        """The place of a device by its resolved path ("sys/devices/pci0000:00/...")."""
        while path.startswith("sys/devices/"):
            if path not in self._seen:
                self._seen[path] = self._read(path)
            place = self._seen[path]
            if place is not None:
                return place
            path = path.rpartition("/")[0]
        return DeviceLocality()

    def _read(self, directory: str) -> DeviceLocality | None:
        attributes = self.attributes
        node = attributes.number(f"{directory}/numa_node")
        local = attributes.first_cpus(directory, _LOCAL_FILES)
        if node is None and local is None:
            return None
        # Firmware that knows no place: node -1, and all cpus as local ones.
        if node is not None and node >= 0 and node not in self._node_ids:
            attributes.warn(f"{directory}/numa_node", f"there is no NUMA node {node}")
            node = None
        known = NumaNodeId(node) if node is not None and node >= 0 else None
        cpus = (local or NO_CPUS) & self._online
        if known is None and cpus == self._online:
            cpus = NO_CPUS
        return DeviceLocality(numa_node=known, cpus=cpus)


def _pci_devices(attributes: Attributes) -> Iterator[tuple[str, str, str]]:
    for name in attributes.tree.names(_PCI):
        text = attributes.text(f"{_PCI}/{name}/class") or ""
        try:
            code = int(text, 16)
        except ValueError:
            continue
        if code >> 16 in _PCI_CLASSES or code >> 8 == _INFINIBAND:
            path = attributes.tree.resolve(f"{_PCI}/{name}")
            if path is not None:
                yield "pci", name, path


def _class_devices(attributes: Attributes) -> Iterator[tuple[str, str, str]]:
    for kind, directory in _CLASSES:
        for name in attributes.tree.names(directory):
            path = attributes.tree.resolve(f"{directory}/{name}")
            # Loop devices, bridges and tunnels have no place; a partition has that of its disk.
            if path is None or path.startswith("sys/devices/virtual/"):
                continue
            if attributes.text(f"{path}/partition") is None and not _is_partition(path):
                yield kind, name, path


def _is_partition(path: str) -> bool:
    """Whether the folder is inside a disk's own: .../block/sda/sda1."""
    parts = path.split("/")
    return len(parts) > 2 and parts[-3] == "block" and parts[-1].startswith(parts[-2])
