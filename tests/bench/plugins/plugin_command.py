"""Command lines of plugins, with room for what is different in each run."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinfold.topology.sets.base_errors import PinfoldError

PINFOLD: Final = "pinfold"
FLOOR: Final = "floor"


class PluginCommandError(PinfoldError):
    """A plugin on the command line of the bench cannot be run as it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one plugin finds what it is run with."""

    socket: Path
    """The runtime's NRI socket."""
    root: Path
    """The folder with the made-up machine's sys/ and proc/."""
    scratch: Path
    """A folder of the plugin's own, with a `pinfold.yaml` that serves metrics at `port`."""
    port: int


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A plugin by the name its figures get, and the words of its command line."""

    name: str
    words: Sequence[str]

    def words_at(self, place: Place) -> list[str]:
        """The command line with the placeholders filled in, each word for itself.

        A path with a space in it stays within its word.
        """
        filled = {
            "{socket}": str(place.socket),
            "{root}": str(place.root),
            "{scratch}": str(place.scratch),
            "{port}": str(place.port),
        }
        words: list[str] = []
        for word in self.words:
            for placeholder, text in filled.items():
                word = word.replace(placeholder, text)
            words.append(word)
        return words


def parse_plugin(text: str) -> PluginCommand:
    """The plugin that `NAME=COMMAND` describes; the command is split as a shell would.

    Raises `PluginCommandError`.
    """
    name, separator, command = text.partition("=")
    name = name.strip()
    if not (separator and name and name.replace("-", "").replace("_", "").isalnum()):
        raise PluginCommandError(f"--plugin: {text!r} — write NAME=COMMAND, as in 'go=/bin/policy'")
    if name in (PINFOLD, FLOOR):
        raise PluginCommandError(f"--plugin: {name!r} is measured anyway — take another name")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise PluginCommandError(
            f"--plugin: {name}: {str(error).lower()} in {command!r}"
        ) from error
    if not words:
        raise PluginCommandError(f"--plugin: {name}: there is no command behind '='")
    if not any("{socket}" in word for word in words):
        raise PluginCommandError(
            f"--plugin: {name}: the command does not say where the runtime is"
            " — write {socket} where the path of the NRI socket belongs"
        )
    return PluginCommand(name, tuple(words))


def pinfold_command() -> PluginCommand:
    """The daemon of this checkout, with everything switched on."""
    return PluginCommand(
        PINFOLD,
        (
            *(sys.executable, "-m", "pinfold.cmd.daemon_start"),
            *("--config", "{scratch}/pinfold.yaml"),
            *("--runtime", "nri", "--nri-socket", "{socket}"),
            *("--state-dir", "{scratch}/state"),
            *("--sysfs-root", "{root}"),
        ),
    )


def floor_command() -> PluginCommand:
    """The project's wire without a policy."""
    return PluginCommand(
        FLOOR, (sys.executable, "-m", "tests.bench.plugins.floor_plugin", "{socket}")
    )
