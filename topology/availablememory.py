"""How much memory each node could still give to containers, as the kernel counts at this moment."""

import re
from collections.abc import Mapping
from typing import Final

from .sysfs import SysfsTree

_NODE: Final = "sys/devices/system/node"
_FOLDER: Final = re.compile(r"node([0-9]{1,6})")
_AMOUNT: Final = re.compile(r"([A-Za-z()]+):\s+([0-9]{1,16}) kB")
_GIVEN: Final = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
_KEPT: Final = ("Dirty", "Writeback")


def read_available_memory(tree: SysfsTree) -> Mapping[int, int]:
    """Bytes by node id that can be had without swapping and without killing anybody.

    Free memory, file pages that need not be written first, and reclaimable kernel caches: free
    memory alone looks short on every node that has run for an hour. Nodes that say nothing are
    left out. Source: Documentation/filesystems/proc.rst, meminfo; nodeN/meminfo has the same lines.
    """
    found: dict[int, int] = {}
    for name in tree.names(_NODE):
        folder = _FOLDER.fullmatch(name)
        text = tree.read(f"{_NODE}/{name}/meminfo") if folder else None
        if folder is None or text is None:
            continue
        amounts = {match[1]: int(match[2]) * 1024 for match in _AMOUNT.finditer(text)}
        if "MemFree" not in amounts:
            continue
        given = sum(amounts.get(kind, 0) for kind in _GIVEN)
        kept = sum(amounts.get(kind, 0) for kind in _KEPT)
        found[int(folder[1])] = max(given - kept, amounts["MemFree"])
    return found
