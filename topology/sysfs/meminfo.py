"""Amounts of memory as the kernel lists them, of the machine and of each NUMA node."""

from collections.abc import Mapping
from typing import Final

_DIGITS_MAX: Final = 16


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
