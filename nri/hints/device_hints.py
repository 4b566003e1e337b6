"""A container's hints from its mounts and devices, before anybody asked whether they count."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from ...policy.annotations.annotation_values import ALL_HINTS, HintSource
from ...policy.hints.hint_filter import is_used, is_worth_a_look
from ...policy.model.container import Container
from ...policy.model.hint import Hint, HintOrigin
from ...topology.sets.cpuset import MAX_IDS, NO_NODES, NodeSet
from ...topology.sysfs.device_locator import Located, Locator
from ...topology.sysfs.sysfs_tree import SysfsTree
from .claim_metadata import claimed_devices, is_metadata, metadata_path

_LOOKS_MAX: Final = 128
"""At mounts and at devices of one container: each look reads files."""


class DeviceNumber(NamedTuple):
    """The number by which the kernel knows a device."""

    major: int
    minor: int
    is_block: bool


DeviceOf = Callable[[str], DeviceNumber | None]
"""The device a path on the host is, or else is stored on; None where nobody can tell."""

ReadFile = Callable[[str], bytes | None]
"""The content of a small file of the host; None where it cannot be read."""


class DeviceHints:
    """Topology hints of a container's mounts and devices, found in a tree of sysfs files.

    Safe for several threads; `device_of` is called by all of them at once.
    """

    def __init__(
        self, tree: SysfsTree, device_of: DeviceOf, read_file: ReadFile | None = None
    ) -> None:
        """`read_file`: reads small files of the host; None where claims tell nothing."""
        self._read_file = read_file
        self._locator = Locator(tree)
        self._lock = threading.Lock()
        self._device_of = device_of

    def hints(
        self, container: Container, sources: Collection[HintSource] = ALL_HINTS
    ) -> tuple[Hint, ...]:
        """The hints from these sources, mounts first, in the order the container lists them.

        `device_of` is called for writable mounts of some weight only, once for each path.
        """
        found: dict[Hint, None] = {}
        if HintSource.MOUNTS in sources:
            found.update(dict.fromkeys(self._of_mounts(container)))
        if HintSource.DEVICES in sources:
            found.update(dict.fromkeys(self._of_devices(container)))
            found.update(dict.fromkeys(self._of_claims(container)))
        return tuple(found)

    def near(self, device: str) -> tuple[Hint, ...]:
        """The hints of a device by a path or a PCI address; empty where there is none here."""
        with self._lock:
            located = self._locator.locate_name(device)
        return tuple(_hints_of(located, HintOrigin.NAMED, device))

    def with_interrupts(self, hints: Iterable[Hint]) -> tuple[Hint, ...]:
        """Hints with the interrupts that their devices have now."""
        with self._lock:
            return tuple(
                replace(one, interrupts=self._locator.interrupts(one.device, one.provider))
                if one.device
                else one
                for one in hints
            )

    def take_warnings(self) -> list[str]:
        """Warnings of sysfs files that could not be read since the last call; see `Locator`."""
        with self._lock:
            return self._locator.take_warnings()

    def _of_mounts(self, container: Container) -> Iterator[Hint]:
        paths = {mount.source: None for mount in container.mounts if is_worth_a_look(mount)}
        for path in islice(paths, _LOOKS_MAX):
            number = self._device_of(path)
            if number is not None:
                yield from self._hints(number, HintOrigin.MOUNT, path)

    def _of_devices(self, container: Container) -> Iterator[Hint]:
        for device in islice(filter(is_used, container.devices), _LOOKS_MAX):
            number = DeviceNumber(device.major, device.minor, device.type == "b")
            yield from self._hints(number, HintOrigin.DEVICE)

    def _of_claims(self, container: Container) -> Iterator[Hint]:
        if self._read_file is None:
            return
        for mount in islice(filter(is_metadata, container.mounts), _LOOKS_MAX):
            text = self._read_file(metadata_path(mount))
            for one in claimed_devices(text) if text is not None else ():
                if one.numa_node is not None and one.numa_node < MAX_IDS:
                    yield Hint(
                        provider=f"claim:{one.name}",
                        origin=HintOrigin.CLAIM,
                        numa_nodes=NodeSet.of(one.numa_node),
                    )
                elif one.pci_address:
                    with self._lock:
                        located = self._locator.locate_pci(one.pci_address)
                    yield from _hints_of(located, HintOrigin.CLAIM, "")

    def _hints(self, number: DeviceNumber, origin: HintOrigin, path: str = "") -> Iterator[Hint]:
        with self._lock:
            located = self._locator.locate(number.major, number.minor, is_block=number.is_block)
        yield from _hints_of(located, origin, path)


def _hints_of(located: Located, origin: HintOrigin, path: str) -> Iterator[Hint]:
    for place in located.places:
        node = place.numa_node
        yield Hint(
            provider=place.path,
            origin=origin,
            path=path,
            device=located.path,
            cpus=place.cpus,
            numa_nodes=NO_NODES if node is None else NodeSet.of(node),
        )
