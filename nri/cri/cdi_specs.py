"""Device nodes of CDI devices, which the kubelet names and the runtime looks up behind us.

Only their paths are read, for hints of where a container is near. Source: the Container Device
Interface specification, 1.0: files, kinds, `deviceNodes`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

FOLDERS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where a later one's device counts instead of an earlier one's of the same name."""

_FILES_MAX: Final = 128
"""In a folder; drivers write one for each claim."""
_FILE_BYTES_MAX: Final = 1 << 20
_SUFFIXES: Final = (".json", ".yaml", ".yml")


def cdi_device_paths(names: Iterable[str], folders: Sequence[Path] = FOLDERS) -> list[str]:
    """The paths on the host of all nodes of some devices, such as `vendor.com/gpu=0`.

    Devices that nobody describes, and files that cannot be read, are passed over. O(files).
    """
    wanted = dict.fromkeys(names)
    if not wanted:
        return []
    found: dict[str, list[str]] = {}
    for folder in folders:
        for spec in _specs(folder):
            kind = spec.get("kind")
            for device in _maps(spec.get("devices")):
                name = f"{kind}={device.get('name')}"
                if name in wanted:
                    found[name] = [*_nodes(device), *_nodes(spec)]
    return [path for name in wanted for path in found.get(name, ())]


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


def _nodes(owner: dict[str, Any]) -> Iterator[str]:
    edits = owner.get("containerEdits")
    nodes = cast("dict[str, Any]", edits).get("deviceNodes") if isinstance(edits, dict) else None
    for node in _maps(nodes):
        path = node.get("hostPath") or node.get("path")
        if isinstance(path, str):
            yield path


def _maps(found: object) -> Iterator[dict[str, Any]]:
    for one in cast("list[object]", found) if isinstance(found, list) else ():
        if isinstance(one, dict):
            yield cast("dict[str, Any]", one)
