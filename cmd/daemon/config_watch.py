"""Notices that configuration files are others than those in force."""

from pathlib import Path

from .config_file import ConfigFileError, find_sources

_Signature = tuple[tuple[str, int, int, int], ...]


class ConfigWatch:
    """Looks at a configuration file and its drop-ins whenever `look` is called.

    A change is told once it has lasted from one look to the next: half a file may well be a
    configuration, and not the one that is meant.
    """

    def __init__(self, path: Path | None) -> None:
        """`path`: as for `load_config`. The files of this moment count as in force."""
        self._path = path
        self._seen = self._taken = self._signature()

    def look(self) -> bool:
        """Whether there is a change that has settled, told once."""
        before, self._seen = self._seen, self._signature()
        if self._seen != before or self._seen == self._taken:
            return False
        self._taken = self._seen
        return True

    def take(self) -> None:
        """The files are about to be read: as they are now they are known."""
        self._seen = self._taken = self._signature()

    def _signature(self) -> _Signature:
        try:
            sources, _ = find_sources(self._path)
        except ConfigFileError:
            return ()
        return tuple(map(_state, sources))


def _state(path: Path) -> tuple[str, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (str(path), 0, 0, 0)
    return (str(path), found.st_ino, found.st_size, found.st_mtime_ns)
