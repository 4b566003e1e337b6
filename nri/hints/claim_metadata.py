"""Devices of dynamic resource allocation, by the metadata that drivers mount into containers.

Source: KEP-5304: a mount below /var/run/dra-device-attributes/<claim>/<request>/ with a file
metadata.json of metadata.resource.k8s.io, in which devices have attributes by qualified names.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final, cast

from msgspec import Struct

from ...policy.model.container import Mount

_FOLDER: Final = "/var/run/dra-device-attributes/"
_FILE: Final = "metadata.json"
_NUMA_NODE: Final = "numaNode"
_PCI_ADDRESS: Final = "pciBusID"
_DEVICES_MAX: Final = 128
_DEPTH_MAX: Final = 12


class ClaimedDevice(Struct, frozen=True, kw_only=True):
    """A device as its driver describes it; one of the two is known."""

    name: str
    numa_node: int | None = None
    pci_address: str = ""


def is_metadata(mount: Mount) -> bool:
    """Whether a mount holds the metadata of a claim's devices."""
    return mount.destination.startswith(_FOLDER) and mount.source.startswith("/")


def metadata_path(mount: Mount) -> str:
    """The file of a mount on the host."""
    is_file = mount.source.endswith(".json")
    return mount.source if is_file else f"{mount.source.rstrip('/')}/{_FILE}"


def claimed_devices(text: str | bytes) -> tuple[ClaimedDevice, ...]:
    """The devices in a file of metadata that say where they are. Never raises."""
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    found: list[ClaimedDevice] = []
    for one in _described(document, _DEPTH_MAX):
        found.append(one)
        if len(found) == _DEVICES_MAX:
            break
    return tuple(found)


def _described(value: object, depth: int) -> Iterator[ClaimedDevice]:
    """Devices with attributes, wherever they stand: the API is young, its fields may move."""
    if depth == 0:
        return
    if isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _described(one, depth - 1)
    if not isinstance(value, Mapping):
        return
    fields = cast("Mapping[str, object]", value)
    attributes = fields.get("attributes")
    if isinstance(attributes, Mapping):
        known = {
            key.rpartition("/")[2]: _scalar(one)
            for key, one in cast("Mapping[str, object]", attributes).items()
        }
        node, address = known.get(_NUMA_NODE), known.get(_PCI_ADDRESS)
        name = "/".join(str(fields[key]) for key in ("driver", "pool", "name") if key in fields)
        is_node = isinstance(node, int) and not isinstance(node, bool) and node >= 0
        if is_node or isinstance(address, str):
            yield ClaimedDevice(
                name=name,
                numa_node=node if is_node and isinstance(node, int) else None,
                pci_address=address if isinstance(address, str) else "",
            )
    for one in fields.values():
        yield from _described(one, depth - 1)


def _scalar(value: object) -> object:
    """A value, which the API wraps by its type: {"int": 0}, {"string": "0000:3b:00.0"}."""
    if isinstance(value, Mapping):
        inner = list(cast("Mapping[str, object]", value).values())
        return inner[0] if len(inner) == 1 else None
    return value
