"""Containers and their places in lines for people, the same in every command."""

import re
from collections.abc import Sequence
from typing import Final

from ...policy.model.grant import GrantKind
from ...topology.sets.cpuset import CpuSet

_DIGITS: Final = re.compile("([0-9]+)")
_PINNED: Final = {
    GrantKind.EXCLUSIVE: "exclusive",
    GrantKind.MIXED: "exclusive",
    GrantKind.ISOLATED: "isolated",
}
_COMMON: Final = {GrantKind.RESERVED: "reserved", GrantKind.PRESERVED: "as they were"}


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts numbers in names by their size.

    >>> sorted(["c10", "c2", "c", "c02"], key=natural_key)
    ['c', 'c02', 'c2', 'c10']
    """
    parts = _DIGITS.split(name)
    # Every second part is a number, and no number is turned into one: a name may be nothing else.
    key = [
        (len(part.lstrip("0")), part.lstrip("0")) if index % 2 else (0, part)
        for index, part in enumerate(parts)
    ]
    return (*key, (0, name))


def short_names(containers: Sequence[tuple[str, str, str]]) -> list[str]:
    """`pod/container` of namespaces, pods and containers; the namespace before where several are.

    >>> short_names([("default", "shop", "web")])
    ['shop/web']
    """
    has_several = len({namespace for namespace, _, _ in containers}) > 1
    return ["/".join(one if has_several else one[1:]) for one in containers]


def cpus_text(kind: GrantKind | None, cpus: str, exclusive: str, shared: str) -> str:
    """The cpus a container runs on, with their kind; `kind` is None where nothing was granted.

    >>> cpus_text(GrantKind.MIXED, "2-5", "2-3", "4-5")
    '2-3 exclusive + 4-5 shared'
    """
    if kind is None:
        return cpus
    if kind in _COMMON:
        return f"{cpus} {_COMMON[kind]}"
    parts: list[str] = []
    if kind in _PINNED:
        # Threads that are hidden are the container's own, and it does not run on them.
        used = CpuSet.parse(exclusive) & CpuSet.parse(cpus)
        parts.append(f"{used} {_PINNED[kind]}")
    if shared:
        parts.append(f"{shared} shared")
    return " + ".join(parts)


def place_text(name: str, cpus: str, mems: str, reason: str) -> str:
    """A container in a tree of pools."""
    return f"[{name}] cpus {cpus or 'any'}; memory {mems or 'any'}; {reason}"
