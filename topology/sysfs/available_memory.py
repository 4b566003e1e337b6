"""Memory as the kernel lists it at this moment, of the machine and of each NUMA node."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from .sysfs_tree import SysfsTree

_DIGITS_MAX: Final = 16
_NODE: Final = "sys/devices/system/node"
_FOLDER: Final = re.compile(r"node([0-9]{1,6})")
_GIVEN: Final = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
_KEPT: Final = ("Dirty", "Writeback")
_USED: Final = "MemUsed"


def parse_meminfo(text: str) -> Mapping[str, int]:
    """Bytes by name ("MemTotal"); lines that say no amount in kB are left out. O(characters).

    Lines of a NUMA node begin with its name ("Node 0 MemTotal: 5 kB"), those of the machine do not.
    Source: Documentation/filesystems/proc.rst, meminfo.

    >>> parse_meminfo("Node 0 MemTotal:    4 kB")
    {'MemTotal': 4096}
    """
    found: dict[str, int] = {}
    # Some dumps end in a NUL byte, as old kernels' files did.
    for line in text.rstrip("\0").splitlines():
        # Cut by words: an expression that looks for a name anywhere is quadratic in a long line.
        name, _, amount = line.partition(":")
        names, words = name.split(), amount.split()
        if not names or len(words) != 2 or words[1] != "kB":
            continue
        digits = words[0]
        if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX:
            found[names[-1]] = int(digits) * 1024
    return found


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
