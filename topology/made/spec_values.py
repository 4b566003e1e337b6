"""Huge pages and devices of a machine that is described in one line."""

from collections.abc import Mapping, Sequence
from typing import Final

from ..model.machine import IoDevice, NumaNode

DEVICE_KINDS: Final = {"gpu": "pci", "nic": "net"}
"""Keys that list devices, and what discovery would call such a device."""

MAX_DEVICES: Final = 256
"""Of one key."""

_PAGE_BYTES_MIN: Final = 64 * 2**10
_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class SpecValueError(Exception):
    """A value that means nothing: what is wrong with it, and how to write it."""

    def __init__(self, what: str, fix: str) -> None:
        """Keep both parts for whoever knows the place of the value."""
        super().__init__(f"{what} — {fix}")
        self.what = what
        self.fix = fix


def parse_size(text: str) -> int | None:
    """The bytes a size like "2G", "512Mi" or "4096" stands for (K, M, G, T are powers of 1024)."""
    digits = text.rstrip("KMGTi")
    unit = text[len(digits) :]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        return None
    if unit.endswith("i") and len(unit) == 2:
        unit = unit[0]
    return int(digits) * _UNITS[unit] if unit in _UNITS else None


def parse_huge_pages(text: str) -> Mapping[int, int]:
    """Numbers of huge pages by page size in bytes: "2M=512,1G=4". Raises `SpecValueError`.

    >>> parse_huge_pages("2M=512,1G=4")
    {2097152: 512, 1073741824: 4}
    """
    found: dict[int, int] = {}
    for part in text.split(","):
        size_text, _, count = part.partition("=")
        size = parse_size(size_text)
        if not (count.isascii() and count.isdigit() and len(count) <= 9):
            raise SpecValueError(
                f"{part!r} is no number of pages", "write SIZE=NUMBER, as in 2M=512"
            )
        if size is None or size < _PAGE_BYTES_MIN or size & (size - 1):
            raise SpecValueError(
                f"{size_text!r} is no size of huge pages", "write one, as in 2M or 1G"
            )
        if size in found:
            raise SpecValueError(f"{size_text!r} is given twice", "keep one of them")
        found[size] = int(count)
    return found


def parse_device_nodes(text: str) -> tuple[int, ...]:
    """The NUMA nodes of devices in their order, one for each: "0,0,1". Raises `SpecValueError`."""
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 5 for part in parts):
        fix = "write the NUMA node of each device, as in 0,0,1,1"
        raise SpecValueError(f"{text!r} are no NUMA nodes", fix)
    if len(parts) > MAX_DEVICES:
        raise SpecValueError(f"{len(parts)} devices are too many", f"at most {MAX_DEVICES}")
    return tuple(map(int, parts))


def made_devices(
    places: Mapping[str, Sequence[int]], nodes: Sequence[NumaNode]
) -> tuple[IoDevice, ...]:
    """Devices named by kind and number, "gpu0", "gpu1", each near the cpus of its NUMA node.

    They are sorted as discovery sorts them, by kind and path.
    """
    found = [
        IoDevice(
            path=f"devices/made/{key}{number}",
            kind=DEVICE_KINDS[key],
            name=f"{key}{number}",
            numa_node=nodes[node].id,
            cpus=nodes[node].cpus,
        )
        for key, each in places.items()
        for number, node in enumerate(each)
    ]
    return tuple(sorted(found, key=lambda device: (device.kind, device.path)))
