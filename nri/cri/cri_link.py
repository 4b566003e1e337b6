"""The link of a CRI proxy: both sockets, and the reading back. Without gRPC, which takes long."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ..dispatch.update_sender import ReadBack
from .cdi_specs import FOLDERS
from .listen_place import ListenPlace


class CriLink(Struct, frozen=True, kw_only=True):
    """The link of a proxy to its runtime and its kubelet."""

    place: ListenPlace
    """Where the kubelet is served."""
    socket: str
    """The runtime's own CRI socket."""
    read_back: ReadBack | None = None
    """By the runtime's ids."""
    cdi_folders: Sequence[Path] = FOLDERS
    """Where the runtime looks devices up."""
