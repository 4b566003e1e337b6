"""Typed reading of sysfs attributes; what cannot be read is noted as a warning, never raised."""

import re
from typing import Final

from ..sets.cpuset import MAX_IDS, CpuSet, IdListError
from .sysfs_tree import SysfsTree

_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_ID: Final = re.compile(r"0|[1-9][0-9]{0,5}")
_MAX_WARNINGS: Final = 100


class Attributes:
    """The attributes of one tree, and the warnings met on the way (`where: what`)."""

    def __init__(self, tree: SysfsTree) -> None:
        self.tree = tree
        self.warnings: list[str] = []
        self._parsed: dict[str, CpuSet | None] = {}

    def warn(self, where: str, what: str) -> None:
        """Note something odd or missing; a broken tree cannot fill the memory with notes."""
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(f"{where}: {what}")

    def text(self, path: str) -> str | None:
        """The stripped text of a file; None where there is no file."""
        content = self.tree.read(path)
        # Some dumps end in a NUL byte, as old kernels' files did.
        return None if content is None else content.strip(" \t\r\n\0")

    def number(self, path: str) -> int | None:
        """The whole number in a file; None where there is none."""
        text = self.text(path)
        if not text:
            return None
        if _NUMBER.fullmatch(text) is None:
            self.warn(path, f"{text[:40]!r} is not a whole number")
            return None
        return int(text)

    def cpus(self, path: str) -> CpuSet | None:
        """The cpus of a list file ("0-3,8") or a mask file ("ff,00000000"), told by its name."""
        content = self.tree.read(path)
        if content is None:
            return None
        is_list = path.endswith(("list", "cpu/online", "present", "possible", "isolated", "/cpus"))
        # Thousands of files share a few texts; parsing each once is a third of discovery.
        key = content if is_list else f"mask {content}"
        if key in self._parsed:
            return self._parsed[key]
        parsed: CpuSet | None = None
        try:
            parsed = CpuSet.parse(content) if is_list else CpuSet.parse_mask(content)
        except IdListError as error:
            self.warn(path, str(error).replace("\n", " ")[:120])
        self._parsed[key] = parsed
        return parsed

    def first_cpus(self, directory: str, names: tuple[str, ...]) -> CpuSet | None:
        """The cpus of the first of these files that can be read."""
        for name in names:
            found = self.cpus(f"{directory}/{name}")
            if found is not None:
                return found
        return None

    def numbered(self, directory: str, prefix: str) -> list[int]:
        """The numbers N of the entries named prefix + N in a directory, ascending."""
        found: list[int] = []
        size = len(prefix)
        for name in self.tree.names(directory):
            rest = name[size:]
            if name.startswith(prefix) and _ID.fullmatch(rest) is not None:
                if int(rest) < MAX_IDS:
                    found.append(int(rest))
                else:
                    self.warn(f"{directory}/{name}", f"passed over: ids are below {MAX_IDS}")
        return sorted(found)
