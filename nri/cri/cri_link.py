"""The link of a CRI proxy: both sockets, and the reading back. Without gRPC, which takes long."""

from dataclasses import dataclass

from ..dispatch.actuator import ReadBack
from .listen_place import ListenPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class CriLink:
    """The link of a proxy to its runtime and its kubelet."""

    place: ListenPlace
    """Where the kubelet is served."""
    socket: str
    """The runtime's own CRI socket."""
    read_back: ReadBack | None = None
    """By the runtime's ids."""
