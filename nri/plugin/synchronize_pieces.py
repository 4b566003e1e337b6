"""Pieces of a Synchronize: a long list of what runs comes in several messages."""

from typing import Final

from ..api import nri_pb2

_BYTES_MAX: Final = 128 << 20
"""All pieces of one Synchronize: some containerd sends pieces without end."""
_ENTRIES_MAX: Final = 20_000
"""Pods and containers together: a hundred times what a node runs."""
_ENTRY_BYTES: Final = 1 << 10
"""The weight of a pod or container beside its bytes: even an empty one takes memory."""
_LENGTH_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}


class SynchronizePieces:
    """Pods and containers of the pieces that came so far, until the list is complete."""

    def __init__(self) -> None:
        self.pods: list[nri_pb2.PodSandbox] = []
        self.containers: list[nri_pb2.Container] = []
        self.started: float | None = None
        """When the first piece came: the runtime's patience is for all of them together."""
        self._bytes = 0
        self._entries = 0

    def excess_of(self, payload: bytes) -> str:
        """The reason for which the list is too much with one more piece; empty where it is not.

        To be asked before that piece is parsed, which is what takes the memory. What came before is
        let go then.
        """
        entries = count_entries(payload, _ENTRIES_MAX)
        self._entries += entries
        self._bytes += len(payload) + _ENTRY_BYTES * entries
        if self._entries > _ENTRIES_MAX:
            excess = f"{_ENTRIES_MAX} pods and containers — remove stopped pods"
        elif self._bytes > _BYTES_MAX:
            excess = (
                f"{_BYTES_MAX >> 20} MiB of pods and containers"
                " — remove annotations that nobody needs, or stopped pods"
            )
        else:
            return ""
        self.pods, self.containers = [], []
        return f"Synchronize: more than {excess}"

    def add(self, payload: bytes, started: float) -> bool:
        """Take one more piece, which came at `started`; whether it is the last one.

        Raises `DecodeError`.
        """
        request = nri_pb2.SynchronizeRequest.FromString(payload)
        if self.started is None:
            self.started = started
        self.pods.extend(request.pods)
        self.containers.extend(request.containers)
        return not request.more


def count_entries(message: bytes, most: int) -> int:
    """Number of entries with a length in a message; beyond `most` none is counted. O(entries).

    An entry of two bytes on the wire takes hundreds in memory once it is parsed, so the entries are
    counted before. It ends where the message makes no sense: the parser is to complain of that.
    Source: the protobuf encoding (protobuf.dev/programming-guides/encoding).

    >>> count_entries(bytes([0x12, 0, 0x12, 1, 0x41, 0x18, 1]), 10)
    2
    """
    count = at = 0
    while at < len(message) and count <= most:
        tag, at = _varint(message, at)
        wire_type = tag & 7
        if wire_type == _LENGTH_DELIMITED:
            size, at = _varint(message, at)
            at += size
            count += 1
        elif wire_type in _FIXED_BYTES:
            at += _FIXED_BYTES[wire_type]
        elif wire_type == 0:
            _, at = _varint(message, at)
        else:
            break
    return count


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at
