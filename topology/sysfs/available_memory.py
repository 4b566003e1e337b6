"""Memory of each NUMA node in use and available, as the kernel counts it at this moment."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from .meminfo import parse_meminfo
from .sysfs_tree import SysfsTree

_NODE: Final = "sys/devices/system/node"
_FOLDER: Final = re.compile(r"node([0-9]{1,6})")
_GIVEN: Final = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
_KEPT: Final = ("Dirty", "Writeback")
_USED: Final = "MemUsed"


def read_available_memory(tree: SysfsTree) -> Mapping[int, int]:
    """Bytes by node id that can be had without swapping and without killing anybody.

    Free memory, file pages that need not be written first, and reclaimable kernel caches: free
    memory alone looks short on every node that has run for an hour. Nodes that say nothing are
    left out. Source: Documentation/filesystems/proc.rst, meminfo; nodeN/meminfo has the same lines.
    """
    found: dict[int, int] = {}
    for node, text in _texts(tree):
        amounts = parse_meminfo(text)
        if "MemFree" in amounts:
            given = sum(amounts.get(kind, 0) for kind in _GIVEN)
            kept = sum(amounts.get(kind, 0) for kind in _KEPT)
            found[node] = max(given - kept, amounts["MemFree"])
    return found


def read_used_memory(tree: SysfsTree) -> Mapping[int, int]:
    """Bytes by node id that are in use by whatever: all but free memory. Source: as above."""
    found: dict[int, int] = {}
    for node, text in _texts(tree):
        # One line of three dozen: to read them all takes ten times as long as to get them.
        first, last = text.find(_USED), text.rfind(_USED)
        if first < 0:
            continue
        end = text.find("\n", last)
        amounts = parse_meminfo(text[text.rfind("\n", 0, first) + 1 : end if end >= 0 else None])
        if _USED in amounts:
            found[node] = amounts[_USED]
    return found


def _texts(tree: SysfsTree) -> Iterator[tuple[int, str]]:
    for name in tree.names(_NODE):
        folder = _FOLDER.fullmatch(name)
        text = tree.read(f"{_NODE}/{name}/meminfo") if folder else None
        if folder is not None and text is not None:
            yield int(folder[1]), text
