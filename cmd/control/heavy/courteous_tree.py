"""A tree of files that is read in small parts, while somebody else is at work."""

from ....nri.dispatch.pacer import Pacer
from ....topology.sysfs.sysfs_tree import SysfsTree


class CourteousTree:
    """A tree that rests now and then between two looks at files."""

    def __init__(self, tree: SysfsTree, pacer: Pacer) -> None:
        self._tree = tree
        self._pacer = pacer

    @property
    def root(self) -> str:
        """The root as messages name it."""
        return self._tree.root

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none to read."""
        self._pacer.rest()
        return self._tree.read(path)

    def beginning(self, path: str) -> str | None:
        """The first page of a file, which may be all; None where there is none to read."""
        self._pacer.rest()
        return self._tree.beginning(path)

    def names(self, path: str) -> list[str]:
        """The sorted names in a directory; empty where there is none."""
        self._pacer.rest()
        return self._tree.names(path)

    def resolve(self, path: str) -> str | None:
        """The path with all links followed, still inside the tree; None where it leads nowhere."""
        self._pacer.rest()
        return self._tree.resolve(path)
