"""The cgroup namespace that the daemon is in, and paths of cgroups outside of it."""

from pathlib import Path
from typing import Final

from .cgroup_usage import container_folders

_UP: Final = ".."
_TOP: Final = "sys/fs/cgroup"
_IN_VAIN_MAX: Final = 2048
"""Containers looked for, more than run on a node."""


class CgroupNamespace:
    """The parts that our own cgroup namespace hides of the paths of others.

    In a pod of version 2 without privileges the daemon sees the cgroups of the host, where they are
    mounted, but paths begin at its own: "/../../podY/ID" is a container of another pod. Which
    names such steps lead over is the same for all paths of a hierarchy with as many steps.
    Source: cgroup_namespaces(7).
    """

    def __init__(self, root: Path) -> None:
        """`root`: the folder that holds sys/."""
        self._root = root
        self._by_steps: dict[tuple[str, int], str] = {}
        self._in_vain: set[tuple[str, int, str]] = set()
        """Containers that were looked for and are nowhere: an audit asks for them every time."""

    def whole(self, number: str, path: str, container_id: str) -> str:
        """A container's path from the root of its hierarchy; empty where it cannot be seen.

        `number`, `path`: as in /proc/PID/cgroup, with the container's id. O(cgroups) for the first
        path with as many steps, and once for each container that is nowhere.
        """
        parts = path.strip("/").split("/")
        if parts[0] != _UP:
            return path
        steps = next(at for at, part in enumerate(parts) if part != _UP)
        inside = parts[steps:]
        above = self._by_steps.get((number, steps))
        if above is None and (number, steps, container_id) not in self._in_vain:
            above = self._above(inside, container_id)
            if above is not None:
                self._by_steps[number, steps] = above
            else:
                if len(self._in_vain) >= _IN_VAIN_MAX:
                    self._in_vain.clear()
                self._in_vain.add((number, steps, container_id))
        return "" if above is None else "/".join((above, *inside))

    def _above(self, inside: list[str], container_id: str) -> str | None:
        """What stands above these parts of a path, from the root of the hierarchy on."""
        own = next(at for at, part in enumerate(inside) if container_id in part)
        end = "/".join(("", *inside[: own + 1]))
        for _, folder in container_folders(self._root, {container_id}):
            shown = f"/{folder.relative_to(self._root / _TOP)}"
            if shown.endswith(end):
                above = shown.removesuffix(end)
                if (self._root / _TOP / "cgroup.controllers").exists():
                    return above
                # A hierarchy of version 1 has a folder of its own.
                return above.removeprefix(f"/{shown.split('/')[1]}")
        return None
