"""The folders an installation goes to: PREFIX, SYSCONFDIR, and DESTDIR to stage it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HIDDEN_FOLDERS: Final = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
"""What the unit hides from the daemon: ProtectHome=yes and PrivateTmp=yes, systemd.exec(5)."""
_UNWRITABLE: Final = frozenset("\"'\\%$`")
"""What a unit file, a shebang line or make would take for more than a character of a path."""


class TargetsError(Exception):
    """A folder that nothing can be installed to. The text names the variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The folders as the node will see them, and the folder they are staged below ("/": none)."""

    prefix: Path
    sysconfdir: Path
    stage: Path

    @property
    def place(self) -> str:
        """The place of the installation in a few words: the prefix, and where it is staged."""
        staged = self._staged(self.prefix)
        return f"{staged}" if staged == self.prefix else f"{staged}, staged for {self.prefix}"

    @property
    def library(self) -> Path:
        """The folder of all versions."""
        return self._staged(self.prefix / "lib" / "pinfold")

    @property
    def programs(self) -> Path:
        """The folder of commands."""
        return self._staged(self.prefix / "bin")

    @property
    def units(self) -> Path:
        """The folder of systemd's units."""
        return self._staged(self.prefix / "lib" / "systemd" / "system")

    @property
    def examples(self) -> Path:
        """The folder of example configurations."""
        return self._staged(self.prefix / "share" / "pinfold" / "configs")

    @property
    def share(self) -> Path:
        """The folder below which man and the shells look."""
        return self._staged(self.prefix / "share")

    @property
    def config_folder_on_node(self) -> Path:
        """The folder the programs will look for their configuration in."""
        return self.sysconfdir / "pinfold"

    @property
    def config_folder(self) -> Path:
        """The folder that their configuration is written to: staged, below `DESTDIR`."""
        return self._staged(self.config_folder_on_node)

    def _staged(self, path: Path) -> Path:
        return self.stage / path.relative_to("/")


def read_targets(environment: Mapping[str, str]) -> Targets:
    """The folders that PREFIX, SYSCONFDIR and DESTDIR name. Raises `TargetsError`."""
    return Targets(
        prefix=_folder("PREFIX", environment.get("PREFIX") or "/usr/local"),
        sysconfdir=_folder("SYSCONFDIR", environment.get("SYSCONFDIR") or "/etc"),
        stage=Path(environment.get("DESTDIR") or "/").absolute(),
    )


def is_hidden_from_service(path: Path) -> bool:
    """Whether the unit hides a path from the daemon, where its links lead to included."""
    return any(
        one.is_relative_to(folder) for one in (path, path.resolve()) for folder in HIDDEN_FOLDERS
    )


def _folder(variable: str, text: str) -> Path:
    path = Path(text)
    if not path.is_absolute() or ".." in path.parts:
        raise TargetsError(
            f"{variable}: {text!r} is not a full path — write one that begins with /"
        )
    unwritable = sorted(one for one in set(text) if one in _UNWRITABLE or not one.isprintable())
    if unwritable:
        raise TargetsError(
            f"{variable}: {text!r} has {' '.join(map(repr, unwritable))}, which a unit or a program"
            " cannot name — choose another folder"
        )
    return path
