"""Edits by CDI devices, which the kubelet names and the runtime looks up behind us.

Only device nodes are read, for hints of where a container is near, and environments, for
claims of cpus. Source: the Container Device
Interface specification, 1.0: files, kinds, `deviceNodes`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

FOLDERS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where a later one's device counts instead of an earlier one's of the same name."""

_FILES_MAX: Final = 128
"""In a folder; drivers write one for each claim."""
_FILE_BYTES_MAX: Final = 1 << 20
_KINDS: Final = ("b", "c", "u")
_MAJORS: Final = 1 << 12
_MINORS: Final = 1 << 20
"""Source: Linux, `include/linux/kdev_t.h`."""
_SUFFIXES: Final = (".json", ".yaml", ".yml")


class DeviceNode(NamedTuple):
    """A device node whose number is written down, whatever is there at its path."""

    path: str
    type: str
    """b, c or u."""
    major: int
    minor: int


class CdiEdits(NamedTuple):
    """Edits of a container by its devices."""

    paths: tuple[str, ...] = ()
    """Paths of device nodes without numbers, on the host."""
    environment: tuple[str, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    """Device nodes with numbers."""


def cdi_edits(names: Iterable[str], folders: Sequence[Path] = FOLDERS) -> CdiEdits:
    """The edits that some devices make, such as `vendor.com/gpu=0`.

    Devices that nobody describes, and files that cannot be read, are passed over. O(files).
    """
    wanted = dict.fromkeys(names)
    if not wanted:
        return CdiEdits()
    found: dict[str, tuple[dict[str, Any], ...]] = {}
    for folder in folders:
        for spec in _specs(folder):
            kind = spec.get("kind")
            for device in _maps(spec.get("devices")):
                name = f"{kind}={device.get('name')}"
                if name in wanted:
                    found[name] = device, spec
    owners = [one for name in wanted for one in found.get(name, ())]
    every = [node for one in owners for node in _nodes(one)]
    return CdiEdits(
        paths=tuple(one for one in every if isinstance(one, str)),
        environment=tuple(text for one in owners for text in _environment(one)),
        nodes=tuple(one for one in every if isinstance(one, DeviceNode)),
    )


def _specs(folder: Path) -> Iterator[dict[str, Any]]:
    try:
        paths = sorted(one for one in folder.iterdir() if one.suffix in _SUFFIXES)
    except OSError:
        return
    for path in paths[:_FILES_MAX]:
        try:
            with path.open("rb") as file:
                text = file.read(_FILE_BYTES_MAX + 1)
            spec = _read(text, path.suffix) if len(text) <= _FILE_BYTES_MAX else None
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(spec, dict):
            yield cast("dict[str, Any]", spec)


def _read(text: bytes, suffix: str) -> object:
    if suffix == ".json":
        return json.loads(text)
    # Imported here: most nodes have no such files.
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _edited(owner: dict[str, Any], what: str) -> object:
    edits = owner.get("containerEdits")
    return cast("dict[str, Any]", edits).get(what) if isinstance(edits, dict) else None


def _environment(owner: dict[str, Any]) -> Iterator[str]:
    found = _edited(owner, "env")
    for one in cast("list[object]", found) if isinstance(found, list) else ():
        if isinstance(one, str):
            yield one


def _nodes(owner: dict[str, Any]) -> Iterator[str | DeviceNode]:
    for node in _maps(_edited(owner, "deviceNodes")):
        path = node.get("hostPath") or node.get("path")
        if isinstance(path, str):
            yield _numbered(path, node) or path


def _numbered(path: str, node: dict[str, Any]) -> DeviceNode | None:
    """The node by its number, which runtimes look up only where it is left out."""
    kind, major, minor = node.get("type"), node.get("major"), node.get("minor", 0)
    if kind not in _KINDS or type(major) is not int or type(minor) is not int:
        return None
    is_number = 0 < major < _MAJORS and 0 <= minor < _MINORS
    return DeviceNode(path, str(kind), major, minor) if is_number else None


def _maps(found: object) -> Iterator[dict[str, Any]]:
    for one in cast("list[object]", found) if isinstance(found, list) else ():
        if isinstance(one, dict):
            yield cast("dict[str, Any]", one)
